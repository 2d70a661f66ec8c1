// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/stats/stats.h"

#include <event2/event.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "base/node_clock.h"
#include "base/out_buffer.h"
#include "base/stat_row.h"
#include "conf/program.h"
#include "daemon/stats/dump.h"
#include "daemon/stats/own_stats.h"
#include "node/service/node_stats.h"
#include "node/store/pages.h"
#include "protocol/layout.h"
#include "proxy/onesided_share.h"

namespace farcached::daemon {

namespace {

void write_process(StatWriter& out, const Sample& s) {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    out.number("pid", uint64_t(getpid()));
    // Starts at 2, as memcached's: scripts divide by it.
    out.number("uptime", s.now);
    out.number("time", uint64_t(s.started_unix + s.now));
    out.text("version", conf::memcached_version);
    out.text("libevent", event_get_version());
    out.number("pointer_size", 8 * sizeof(void*));
    out.time("rusage_user", usage.ru_utime.tv_sec, usage.ru_utime.tv_usec);
    out.time("rusage_system", usage.ru_stime.tv_sec, usage.ru_stime.tv_usec);
}

void write_server(StatWriter& out, const Sample& s, const GeneralOptions& options) {
    out.number("max_connections", options.max_connections);
    out.number("curr_connections", s.server.curr_connections + s.server.udp_sockets);
    out.number("total_connections", s.server.total_connections + s.server.udp_sockets);
    if (options.maxconns_fast) out.number("rejected_connections", s.server.rejected_connections);
    out.number("connection_structures", s.server.connection_structures + s.server.udp_sockets);
    out.number("response_obj_oom", s.workers.response_oom);
    out.number("response_obj_count", s.server.response_count);
    out.number("response_obj_bytes", s.server.response_bytes);
    out.number("read_buf_count", s.server.read_buf_count);
    out.number("read_buf_bytes", s.server.read_buf_bytes);
    out.number("read_buf_bytes_free", s.server.read_buf_bytes_free);
    out.number("read_buf_oom", s.workers.read_oom);
    out.number("reserved_fds", s.server.reserved_fds);
}

void write_commands(StatWriter& out, const Sample& s, const GeneralOptions& options) {
    const WorkerTotals& w = s.workers;
    ClassTotals c = s.all_classes();
    out.number("cmd_get", w.get_cmds);
    out.number("cmd_set", c.cmd_set);
    out.number("cmd_flush", w.cmd_flush);
    out.number("cmd_touch", w.cmd_touch);
    out.number("cmd_meta", w.cmd_meta);
    out.number("get_hits", c.get_hits);
    out.number("get_misses", w.get_misses);
    out.number("get_expired", w.get_expired);
    out.number("get_flushed", w.get_flushed);
    if (s.disk.has_value()) {
        out.number("get_extstore", w.get_extstore);
        out.number("get_aborted_extstore", 0);
        out.number("get_oom_extstore", w.get_oom_extstore);
        out.number("recache_from_extstore", s.node.tiers.recached);
        out.number("miss_from_extstore", w.miss_from_extstore);
        out.number("badcrc_from_extstore", s.disk->records_bad);
    }
    out.number("delete_misses", w.delete_misses);
    out.number("delete_hits", c.delete_hits);
    out.number("incr_misses", w.incr_misses);
    out.number("incr_hits", c.incr_hits);
    out.number("decr_misses", w.decr_misses);
    out.number("decr_hits", c.decr_hits);
    out.number("cas_misses", w.cas_misses);
    out.number("cas_hits", c.cas_hits);
    out.number("cas_badval", c.cas_badval);
    out.number("touch_hits", c.touch_hits);
    out.number("touch_misses", w.touch_misses);
    out.number("store_too_large", w.store_too_large);
    out.number("store_no_memory", w.store_no_memory);
    out.number("auth_cmds", w.auth_cmds);
    out.number("auth_errors", w.auth_errors);
    if (options.idle_timeout) out.number("idle_kicks", w.idle_kicks);
    out.number("bytes_read", w.bytes_read);
    out.number("bytes_written", w.bytes_written);
}

// memcached's names and order; those behind it are ours. No segment is compacted.
void write_disk(StatWriter& out, const node::DiskStatistics& disk) {
    out.text("extstore_memory_pressure", "0.00");
    for (const std::string_view name :
         {"compact_lost", "compact_rescues", "compact_resc_cold", "compact_resc_old", "compact_skipped"})
        out.number("extstore_" + std::string(name), 0);
    for (const auto& row : node::DiskStatistics::rows()) out.number(row.name, row.of(disk));
}

void write_tls(StatWriter& out, const Sample& s, const GeneralOptions& options) {
    if (options.tls_sessions) out.number("ssl_new_sessions", s.workers.ssl_new_sessions);
    out.number("ssl_handshake_errors", s.workers.ssl_handshake_errors);
    out.number("ssl_proto_errors", s.workers.ssl_proto_errors);
    out.number("time_since_server_cert_refresh", s.server.tls->age_s);
}

void write_state(StatWriter& out, const Sample& s, const GeneralOptions& options) {
    out.number("limit_maxbytes", s.node.memory_limit_bytes);
    out.number("accepting_conns", s.server.accepting_conns ? 1 : 0);
    out.number("listen_disabled_num", s.server.listen_disabled_num);
    out.number("time_in_listen_disabled_us", s.server.time_in_listen_disabled_us);
    out.number("threads", s.workers_running);
    out.number("conn_yields", s.workers.conn_yields);
    // The number of buckets rounded down to a power of two: the index grows bucket by bucket.
    uint64_t buckets = s.node.index_buckets;
    out.number("hash_power_level", buckets == 0 ? 0 : uint64_t(std::bit_width(buckets) - 1));
    out.number("hash_bytes", s.node.index_bytes);
    out.number("hash_is_expanding", 0);
    out.number("slab_reassign_rescues", 0);
    out.number("slab_reassign_chunk_rescues", 0);
    out.number("slab_reassign_inline_reclaim", 0);
    out.number("slab_reassign_busy_items", 0);
    out.number("slab_reassign_busy_deletes", 0);
    out.number("slab_reassign_busy_nomem", 0);
    out.text("slab_reassign_last_busy_status", "none");
    out.number("slab_reassign_running", 0);
    out.number("slabs_moved", s.node.pages_moved);
    out.number("lru_crawler_running", s.crawler_running ? 1 : 0);
    out.number("lru_crawler_starts", s.crawler_passes);
    out.number("lru_maintainer_juggles", 0);
    out.number("malloc_fails", 0);
    out.number("log_worker_dropped", s.watch.dropped);
    out.number("log_worker_written", s.watch.written);
    out.number("log_watcher_skipped", s.watch.skipped);
    out.number("log_watcher_sent", s.watch.sent);
    out.number("log_watchers", s.watch.watchers);
    if (s.disk.has_value()) write_disk(out, *s.disk);
    if (s.server.tls.has_value()) write_tls(out, s, options);
    out.number("unexpected_napi_ids", 0);
    out.number("round_robin_fallback", 0);
}

// The interface of clients' sockets: libevent, uring or both.
std::string_view io_in_use(const Sample& s) {
    if (s.workers_on_ring == 0) return "libevent";
    return s.workers_on_ring == s.workers_running ? "uring" : "uring,libevent";
}

void write_cache(StatWriter& out, const Sample& s) {
    out.number("bytes", s.node.bytes);
    out.number("curr_items", s.node.items);
    out.number("total_items", s.node.items_total);
    uint64_t limit = s.node.pages_limit, used = s.node.pages_used;
    out.number("slab_global_page_pool", limit > used ? limit - used : 0);
    out.number("expired_unfetched", s.node_classes.expired_unfetched);
    out.number("evicted_unfetched", s.node_classes.evicted_unfetched);
    out.number("evicted_active", s.node_classes.evicted_active);
    out.number("evictions", s.node_classes.evicted);
    out.number("reclaimed", s.node_classes.reclaimed);
    out.number("crawler_reclaimed", s.node_classes.crawler_reclaimed);
    out.number("crawler_items_checked", s.node_classes.crawler_checked);
    out.number("lrutail_reflocked", 0);
    out.number("moves_to_cold", 0);
    out.number("moves_to_warm", 0);
    out.number("moves_within_lru", s.node_classes.kept);
    out.number("direct_reclaims", 0);
    out.number("lru_bumps_dropped", 0);
}

}  // namespace

void StatWriter::shown(std::string_view name, std::string text) {
    if (text.empty()) return;
    for (char& c : text)
        if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = '?';
    emit_(name, text);
}

void StatWriter::number(std::string_view name, uint64_t value) {
    char digits[20];
    emit_(name, std::string_view(digits, size_t(write_number(digits, value) - digits)));
}

void StatWriter::time(std::string_view name, int64_t seconds, int64_t microseconds) {
    char text[48];
    int size = std::snprintf(text, sizeof text, "%lld.%06lld", static_cast<long long>(seconds),
                             static_cast<long long>(microseconds));
    emit_(name, std::string_view(text, size_t(size)));
}

void StatWriter::of_class(std::string_view prefix, uint64_t id, std::string_view name,
                          uint64_t value) {
    std::string full(prefix);
    full.append(std::to_string(id)).append(":").append(name);
    number(full, value);
}

void write_general(StatWriter out, const Sample& sample, const GeneralOptions& options) {
    write_process(out, sample);
    write_server(out, sample, options);
    write_commands(out, sample, options);
    write_state(out, sample, options);
    write_cache(out, sample);
    if (!options.own_version.empty()) {
        out.text("farcached_version", options.own_version);
        out.text("farcached_io", io_in_use(sample));
    }
    if (options.nodes) out.number("nodes_unavailable", sample.nodes_unavailable);
}

void write_segments(StatWriter out, const node::DiskStore* disk) {
    if (disk == nullptr) return;
    disk->each_segment([&](uint32_t place, uint64_t number, uint64_t bytes) {
        out.of_class("", place, "version", number);
        out.of_class("", place, "bytes", bytes);
        out.of_class("", place, "bucket", 0);
        out.of_class("", place, "free_bucket", 0);
    });
}

// ---- items, connections, latencies --------------------------------------------------------------------------------

namespace {

using node::ClassStats;

// All items of a class are one list here. memcached's tools read it as the cold one, which evicts at its end.
void write_items_of(StatWriter& out, uint64_t id, const ClassStats& c, const ClassTotals& requests,
                    bool temporary_lru) {
    auto put = [&](std::string_view name, uint64_t value) { out.of_class("items:", id, name, value); };
    put("number", c.slots_used);
    put("number_hot", 0);
    put("number_warm", 0);
    put("number_cold", c.slots_used);
    if (temporary_lru) put("number_temp", 0);
    put("age_hot", 0);
    put("age_warm", 0);
    put("age", c.age_oldest_s);
    put("mem_requested", c.bytes_requested);
    put("evicted", c.evicted);
    put("evicted_nonzero", c.evicted_nonzero);
    put("evicted_time", c.evicted_age_s);
    put("outofmemory", c.out_of_memory);
    put("tailrepairs", 0);
    put("reclaimed", c.reclaimed);
    put("expired_unfetched", c.expired_unfetched);
    put("evicted_unfetched", c.evicted_unfetched);
    put("evicted_active", c.evicted_active);
    put("crawler_reclaimed", c.crawler_reclaimed);
    put("crawler_items_checked", c.crawler_checked);
    put("lrutail_reflocked", 0);
    put("moves_to_cold", 0);
    put("moves_to_warm", 0);
    put("moves_within_lru", c.kept);
    put("direct_reclaims", 0);
    put("hits_to_hot", 0);
    put("hits_to_warm", 0);
    put("hits_to_cold", requests.get_hits);
    put("hits_to_temp", 0);
}

// A large item has a run of whole pages: they are shown as its chunks.
struct Chunks {
    uint64_t bytes, per_page, total, used;
};

Chunks chunks_of(const ClassStats& c) {
    if (c.slot_bytes == 0) return {layout::page_bytes, 1, c.pages, c.pages};
    return {c.slot_bytes, layout::page_bytes / c.slot_bytes, c.slots_total, c.slots_used};
}

void write_slabs_of(StatWriter& out, uint64_t id, const ClassStats& c, const ClassTotals& requests) {
    auto put = [&](std::string_view name, uint64_t value) { out.of_class("", id, name, value); };
    Chunks chunks = chunks_of(c);
    put("chunk_size", chunks.bytes);
    put("chunks_per_page", chunks.per_page);
    put("total_pages", c.pages);
    put("total_chunks", chunks.total);
    put("used_chunks", chunks.used);
    put("free_chunks", chunks.total > chunks.used ? chunks.total - chunks.used : 0);
    put("free_chunks_end", 0);
    put("get_hits", requests.get_hits);
    put("cmd_set", requests.cmd_set);
    put("delete_hits", requests.delete_hits);
    put("incr_hits", requests.incr_hits);
    put("decr_hits", requests.decr_hits);
    put("cas_hits", requests.cas_hits);
    put("cas_badval", requests.cas_badval);
    put("touch_hits", requests.touch_hits);
}

// The nodes missing from a reply by class; usually none.
void write_incomplete(StatWriter& out, const Sample& sample) {
    if (sample.nodes_unavailable != 0) out.number("nodes_unavailable", sample.nodes_unavailable);
    if (sample.nodes_left_out != 0) out.number("nodes_left_out", sample.nodes_left_out);
}

}  // namespace

void write_items(StatWriter out, const Sample& sample, bool temporary_lru) {
    for (size_t id = 1; id < sample.node.classes.size(); id++) {
        const ClassStats& c = sample.node.classes[id];
        if (c.slots_used != 0) write_items_of(out, id, c, sample.classes[id & 63], temporary_lru);
    }
    write_incomplete(out, sample);
}

void write_slabs(StatWriter out, const Sample& sample) {
    uint64_t active = 0;
    for (size_t id = 1; id < sample.node.classes.size(); id++) {
        const ClassStats& c = sample.node.classes[id];
        if (c.pages == 0) continue;
        write_slabs_of(out, id, c, sample.classes[id & 63]);
        active++;
    }
    out.number("active_slabs", active);
    out.number("total_malloced", sample.node.pages_used * layout::page_bytes);
    write_incomplete(out, sample);
}

void write_sizes(StatWriter out, node::Node& node, NodeSeconds now) {
    constexpr uint32_t step = 32;
    std::map<uint32_t, uint64_t> items_by_size;
    for (uint64_t page = 0; page < node.pages().count(); page++) {
        node.pages().visit(page, now, [&](const node::ItemView& item) {
            items_by_size[(item.meta.item_bytes + step - 1) / step * step]++;
        });
    }
    for (const auto& [size, items] : items_by_size) out.number(std::to_string(size), items);
}

void write_connections(StatWriter out, const ServerView& server) {
    server.each_connection([&](const ConnectionInfo& c) {
        std::string prefix = std::to_string(c.fd) + ":";
        if (c.udp) out.text(prefix + "UDP", "UDP");
        out.text(prefix + "addr", c.addr);
        if (!c.listen_addr.empty()) out.text(prefix + "listen_addr", c.listen_addr);
        out.text(prefix + "state", c.state);
        out.number(prefix + "secs_since_last_cmd", c.idle_s);
    });
}

void write_latency(StatWriter out, const LatencyTotals& latency, bool nodes) {
    latency.each(nodes, [&](std::string_view verb, std::string_view way, const LatencyTotals::One& one) {
        out.numbers(latency_rows, one, std::string(verb) + "_" + std::string(way) + ":");
    });
}

// Sorted by the time of their ends.
void write_slow(StatWriter out, const ServerView& server) {
    std::vector<SlowRequest> all;
    server.each_slow([&](const SlowRequest& one) { all.push_back(one); });
    std::stable_sort(all.begin(), all.end(),
                     [](const SlowRequest& a, const SlowRequest& b) { return a.ended_ns < b.ended_ns; });
    const uint64_t now_ns = boottime_ns();
    for (size_t i = 0; i < all.size(); i++) {
        const uint64_t ago_ms = (std::max(now_ns, all[i].ended_ns) - all[i].ended_ns) / 1'000'000;
        out.text("slow:" + std::to_string(i), "ago_ms=" + std::to_string(ago_ms) + " " + all[i].line());
    }
}

void write_proxy(StatWriter out, const Sample& sample) {
    out.numbers(LocalTotals::rows(), sample.local);
    for (const SampleRow& row : own_rows) {
        out.number(row.name, row.of(sample));
        if (const std::string_view old_name = old_name_of(row.name); !old_name.empty()) out.number(old_name, row.of(sample));
    }
    for (const auto& row : WorkerTotals::rows())
        if (row.name.starts_with("ring_")) out.number(row.name, row.of(sample.workers));
    if (const auto expires = sample.server.peer_certificate_expires) out.number("peer_certificate_expires", uint64_t(*expires));
    if (!sample.nodes.empty()) write_links(out, sample);
    for (const auto& [name, count] : sample.close_reasons) out.number("close_" + name, count);
}

// ---- of nodes: nodes, leases, pointers, route, and their part of proxy -------------------------------

namespace {

void write_counters(StatWriter& out, const std::string& prefix, const LinkTotals& link) {
    out.numbers(proxy::LinkCells<uint64_t>::rows(), link, prefix);
    out.numbers(fabric::ChannelCells<uint64_t>::rows(), link.channel, prefix);
    proxy::each_pointer_denial(link, [&](std::string_view name, std::string_view, uint64_t count) {
        out.number(prefix + "lease_" + std::string(name), count);
    });
}

void write_node(StatWriter& out, const NodeShown& shown, const NodeTotals& totals) {
    const std::string prefix = shown.name + ":";
    for (const auto& row : node_shown_rows) out.shown(prefix + std::string(row.name), row.of(shown));
    out.number(prefix + "get_local", totals.local.local_hits);
    write_counters(out, prefix, totals.link);
}

// The share of one-sided GETs, and the reasons of the others (proxy/onesided_share.h).
void write_onesided(StatWriter& out, const LinkTotals& links) {
    char share[16];
    std::snprintf(share, sizeof share, "%.3f", proxy::onesided_share(links));
    out.text("get_onesided_share", share);
    const auto write = [&](std::string_view name, std::string_view, uint64_t count) {
        out.number("get_reason_" + std::string(name), count);
    };
    proxy::each_onesided_reason(links, write);
    proxy::each_pointer_denial(links, write);
}

}  // namespace

void write_nodes(StatWriter out, const Sample& sample) {
    for (const NodeTotals& node : sample.nodes) write_node(out, node.shown, node);
}

void write_links(StatWriter& out, const Sample& sample) {
    const LinkTotals links = sample.all_links();
    write_counters(out, "", links);
    write_onesided(out, links);
    proxy::each_end(links, [&](std::string_view name, std::string_view, uint64_t count) { out.number(name, count); });
    out.numbers(nodes_own_rows, sample);
}

void write_leases(StatWriter out, const Sample& sample, const std::vector<NodeNumbers>& nodes,
                  std::string_view told) {
    const node::Stats& s = sample.node;
    out.numbers(node::lease_rows, s);
    out.number("nodes_unavailable", sample.nodes_unavailable);
    auto node = nodes.begin();
    each_told(told, [&](std::string_view node_name, std::optional<std::string_view> text) {
        if (!text.has_value()) return;
        const std::string prefix = std::string(node_name) + ":";
        const node::Stats& numbers = (node++)->stats;
        each_line(*text, [&](std::string_view name, std::string_view value) {
            const std::string full = prefix + std::string(name);
            if (const std::optional<uint64_t> number = lease_number(numbers, name))
                out.number(full, *number);
            else
                out.text(full, value);
        });
    });
}

void write_pointers(StatWriter out, const proxy::PointerTable::Occupancy& s) {
    out.numbers(pointer_rows, s);
    constexpr auto bounds = proxy::PointerTable::lease_left_bounds_s;
    uint64_t within = 0;
    for (size_t i = 0; i < bounds.size(); i++) {
        within += s.lease_left[i];
        out.number("lease_left_le_" + std::to_string(bounds[i] * 1000), within);
    }
}

// `stats route KEY`: a key's route as text.

namespace {

std::string_view pointer_word(Route::Pointer pointer) {
    constexpr std::string_view words[] = {"unused", "none", "expired", "valid"};
    return words[size_t(pointer)];
}

std::string why_own(const Route& route) {
    if (route.walk.size() == 1) return "it is the only node";
    if (route.point.has_value()) return "its point is the first on the ring that is not before the key's hash";
    return "the key's hash modulo " + std::to_string(route.walk.size()) + " nodes";
}

std::string why_of(const Route& route) {
    const bool by_chance = route.placement.distribution == Distribution::random;
    if (route.asked == 0) return by_chance ? "random distribution: a node is drawn for each request" : why_own(route);
    const NodeShown& own = route.walk.front();
    const std::string reason = own.name + " is " + std::string(node_state_name(own.state));
    if (route.asked.has_value())
        return reason + ", and " + route.walk[*route.asked].name + " is the next on the ring that is up";
    const auto copy = std::ranges::find(route.walk, route.copy, &NodeShown::name);
    if (copy != route.walk.end() && copy->state == NodeState::up)
        return reason + ", and " + route.copy + " has the copy: gets read it, and changes fail";
    if (!route.failover) return reason + ", and failover is off: its keys are unavailable";
    return "no node is up";
}

void show_node(const NodeShown& node, RouteShown& r) {
    r.node = node.name;
    r.address = node.address;
    r.zone = node.zone;
    r.weight = std::to_string(node.weight);
    r.state = node_state_name(node.state);
    r.drained = node.state == NodeState::drained ? "yes" : "no";
    r.links_up = std::to_string(node.links_up) + " of " + std::to_string(node.links);
    r.down_reason = node.down_reason;
}

RoutePointerShown pointer_of(const Route& route) {
    RoutePointerShown p;
    if (!route.asked.has_value()) return p;
    p.state = pointer_word(route.pointer);
    if (route.pointer != Route::Pointer::valid) return p;
    p.lease_left_ms = std::to_string(route.lease_left_ns / 1'000'000);
    p.from = route.pointer_shared ? "another process" : "this process";
    p.incarnation = hex_text(route.target.incarnation);
    p.region = std::to_string(route.target.region);
    p.offset = std::to_string(route.target.offset);
    p.bytes = std::to_string(route.target.length);
    p.generation = std::to_string(route.target.generation);
    return p;
}

RouteShown shown_of(std::string_view key, const Route& route) {
    RouteShown r;
    r.key = uri_encoded(key);
    if (route.hashed != key) r.hashed = uri_encoded(route.hashed);
    r.distribution = name_of(route.placement.distribution);
    if (route.placement.distribution != Distribution::random) r.hash = name_of(route.placement.hash);
    if (route.walk.size() > 1) r.place = hex_text(route.place, 8);
    if (route.point.has_value()) r.point = hex_text(*route.point, 8);
    show_node(route.walk.front(), r);
    r.copy = route.copy;
    r.failover = route.failover ? "on" : "off";
    r.asked = route.asked.has_value() ? route.walk[*route.asked].name : "none";
    r.why = why_of(route);
    if (route.asked.has_value()) r.ways = route.ways;
    return r;
}

RouteShown embedded(std::string_view key) {
    RouteShown r;
    r.key = uri_encoded(key);
    r.node = r.asked = "(embedded)";
    r.state = "up";
    r.why = "no nodes are configured: items are in this process";
    r.ways = "local";
    return r;
}

}  // namespace

void write_route(StatWriter out, std::string_view key, const Route* route) {
    const RouteShown r = route == nullptr ? embedded(key) : shown_of(key, *route);
    RoutePointerShown pointer;
    if (route == nullptr)
        pointer.state = pointer_word(Route::Pointer::unused);
    else
        pointer = pointer_of(*route);
    for (const auto& row : route_rows) out.shown(row.name, row.of(r));
    for (const auto& row : route_pointer_rows) out.shown(row.name, row.of(pointer));
    if (route == nullptr) return;
    for (size_t i = 1; i < std::min(route->walk.size(), Route::walk_shown); i++)
        out.text("next_" + std::to_string(i),
                 route->walk[i].name + " " + std::string(node_state_name(route->walk[i].state)));
}

}  // namespace farcached::daemon
