// SPDX-License-Identifier: BSD-3-Clause
#include <event2/event.h>
#include <sys/resource.h>
#include <unistd.h>

#include <bit>
#include <cstdio>
#include <string>

#include "base/out_buffer.h"
#include "conf/program.h"
#include "daemon/stats/stats.h"

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
    out.number("curr_connections", s.server.curr_connections);
    out.number("total_connections", s.server.total_connections);
    if (options.maxconns_fast) out.number("rejected_connections", s.server.rejected_connections);
    out.number("connection_structures", s.server.connection_structures);
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

void write_state(StatWriter& out, const Sample& s) {
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
    write_state(out, sample);
    write_cache(out, sample);
    if (!options.own_version.empty()) {
        out.text("farcached_version", options.own_version);
        out.text("farcached_io", io_in_use(sample));
    }
    if (options.nodes) out.number("nodes_unavailable", sample.nodes_unavailable);
}

}  // namespace farcached::daemon
