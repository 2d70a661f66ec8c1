// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/node_clock.h"
#include "base/stat_row.h"
#include "daemon/stats/own_stats.h"
#include "daemon/stats/stats.h"
#include "protocol/layout.h"

namespace farcached::daemon {

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
    for (uint64_t page = 0; page < node.page_count(); page++) {
        node.visit_page(page, now, [&](const node::ItemView& item) {
            items_by_size[(item.meta.item_bytes + step - 1) / step * step]++;
        });
    }
    for (const auto& [size, items] : items_by_size) out.number(std::to_string(size), items);
}

void write_connections(StatWriter out, const ServerView& server) {
    server.each_connection([&](const ConnectionInfo& c) {
        std::string prefix = std::to_string(c.fd) + ":";
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
    if (!sample.nodes.empty()) write_links(out, sample);
    for (const auto& [name, count] : sample.close_reasons) out.number("close_" + name, count);
}

}  // namespace farcached::daemon
