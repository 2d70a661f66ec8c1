// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/stats/stats_sample.h"

#include <algorithm>
#include <charconv>

#include "base/check.h"
#include "node/service/node_stats.h"
#include "process/log.h"

namespace farcached::daemon {

namespace {

constexpr size_t classes_max = 64;

bool parse(std::string_view text, int base, uint64_t& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
    return error == std::errc() && end == text.data() + text.size();
}

bool is_word(std::string_view text) {
    const auto graphic = [](char c) { return c > ' ' && c < 0x7f; };
    return !text.empty() && std::all_of(text.begin(), text.end(), graphic);
}

template <class Visit>
void each_stat(Visit visit) {
    std::ranges::for_each(node::node_rows, visit);
    std::ranges::for_each(node::lease_rows, visit);
}

template <class Visit>
void each_class_stat(Visit visit) {
    std::ranges::for_each(node::class_sum_rows, visit);
    std::ranges::for_each(node::class_rows, visit);
}

void take_line(NodeNumbers& node, std::string_view name, std::string_view value) {
    uint64_t number = 0;
    if (name == "incarnation" && parse(value, 16, number)) node.incarnation = number;
    if (!parse(value, 10, number)) return;
    if (name == "uptime") node.uptime_s = number;
    if (name == "cmd_get") node.gets_asked = number;
    if (name == "get_hits") node.hits_asked = number;
    const size_t colon = name.find(':');
    uint64_t id = 0;
    if (colon == name.npos) {
        each_stat([&](const auto& row) {
            if (row.name == name) row.of(node.stats) = number;
        });
        for (const node::ClassRow& row : node::class_sum_rows)
            if (row.name == name) row.of(node.all_classes) = number;
    } else if (parse(name.substr(0, colon), 10, id) && id != 0 && id < classes_max) {
        each_class_stat([&](const node::ClassRow& row) {
            if (row.name == name.substr(colon + 1)) row.of(node.stats.classes[id]) = number;
        });
    }
}

// True: one node could have the classes of both. Classes in both have equal slot sizes, and sizes grow with the number.
bool same_classes(const std::vector<node::ClassStats>& a, const std::vector<node::ClassStats>& b) {
    uint64_t below = 0;
    for (size_t i = 0; i < std::min(a.size(), b.size()); i++) {
        const uint64_t larger = std::max(a[i].slot_bytes, b[i].slot_bytes);
        const uint64_t smaller = std::min(a[i].slot_bytes, b[i].slot_bytes);
        if (larger == 0) continue;  // unused, or the class of large items
        if (smaller != 0 && smaller != larger) return false;
        if (larger <= below) return false;
        below = larger;
    }
    return true;
}

void add_class(node::ClassStats& to, const node::ClassStats& from) {
    const uint64_t slot_bytes = std::max(to.slot_bytes, from.slot_bytes);
    const uint64_t age_oldest_s = std::max(to.age_oldest_s, from.age_oldest_s);
    const uint64_t evicted_age_s = std::max(to.evicted_age_s, from.evicted_age_s);
    each_class_stat([&](const node::ClassRow& row) { row.of(to) += row.of(from); });
    to.slot_bytes = slot_bytes;
    to.age_oldest_s = age_oldest_s;
    to.evicted_age_s = evicted_age_s;
}

}  // namespace

void each_told(std::string_view told,
               FunctionRef<void(std::string_view node, std::optional<std::string_view> text)> visit) {
    while (!told.empty()) {
        const size_t blank = told.find(' ');
        const size_t end = told.find('\n');
        CHECK(blank < end);
        CHECK(end != told.npos);
        const std::string_view node = told.substr(0, blank);
        const std::string_view size = told.substr(blank + 1, end - blank - 1);
        told.remove_prefix(end + 1);
        if (size == "-") {
            visit(node, std::nullopt);
            continue;
        }
        uint64_t bytes = 0;
        CHECK(parse(size, 10, bytes));
        CHECK(bytes <= told.size());
        visit(node, told.substr(0, size_t(bytes)));
        told.remove_prefix(size_t(bytes));
    }
}

void each_line(std::string_view text, FunctionRef<void(std::string_view name, std::string_view value)> visit) {
    while (!text.empty()) {
        const std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(line.size() + 1, text.size()));
        const size_t blank = line.find(' ');
        if (blank == line.npos) continue;
        const std::string_view name = line.substr(0, blank), value = line.substr(blank + 1);
        if (is_word(name) && is_word(value)) visit(name, value);
    }
}

std::vector<NodeNumbers> read_numbers(std::string_view told) {
    std::vector<NodeNumbers> nodes;
    each_told(told, [&](std::string_view name, std::optional<std::string_view> text) {
        if (!text.has_value()) return;
        NodeNumbers& node = nodes.emplace_back();
        node.name = name;
        node.stats.classes.resize(classes_max);
        each_line(*text, [&](std::string_view line, std::string_view value) { take_line(node, line, value); });
    });
    return nodes;
}

std::optional<uint64_t> lease_number(const node::Stats& s, std::string_view name) {
    for (const auto& row : node::lease_rows)
        if (row.name == name) return row.of(s);
    return std::nullopt;
}

bool add_numbers(node::Stats& sum, node::ClassStats& all_classes, const NodeNumbers& one) {
    each_stat([&](const auto& row) { row.of(sum) += row.of(one.stats); });
    add_counters(all_classes, one.all_classes);
    sum.classes.resize(std::max(sum.classes.size(), one.stats.classes.size()));
    if (!same_classes(sum.classes, one.stats.classes)) return false;
    for (size_t i = 0; i < one.stats.classes.size(); i++) add_class(sum.classes[i], one.stats.classes[i]);
    return true;
}

void subtract(node::Stats& now, const node::Stats& earlier) {
    each_stat([&](const auto& row) {
        if (row.kind == StatKind::counter) less(row.of(now), row.of(earlier));
    });
    const size_t classes = std::min(now.classes.size(), earlier.classes.size());
    for (size_t i = 0; i < classes; i++) subtract(now.classes[i], earlier.classes[i]);
}

void subtract(node::ClassStats& now, const node::ClassStats& earlier) {
    for (const node::ClassRow& row : node::class_sum_rows) less(row.of(now), row.of(earlier));
}

void add_counters(node::ClassStats& sum, const node::ClassStats& one) {
    for (const node::ClassRow& row : node::class_sum_rows) row.of(sum) += row.of(one);
}

namespace {

void add_worker(Sample& sample, const WorkerCounters& counters) {
    add_cells<WorkerCells>(sample.workers, counters);
    for (size_t i = 0; i < sample.classes.size(); i++) add_cells(sample.classes[i], counters.classes[i]);
}

void add_link(LinkTotals& to, const auto& from) {
    add_cells<proxy::LinkCells>(to, from);
    add_cells(to.channel, from.channel);
    each_reason(to, from, [](uint64_t& sum, const auto& cell) { sum += number_in(cell); });
}

void add_nodes_counters(Sample& sample, const NodesView& nodes) {
    const auto adding_to = [&](NodeTotals& totals) {
        return [&](const proxy::LinkCounters& link, const proxy::LocalGetCounters& local) {
            add_link(totals.link, link);
            add_cells(totals.local, local);
            add_cells(sample.local, local);
        };
    };
    for (NodeShown& shown : nodes.all()) {
        NodeTotals& totals = sample.nodes.emplace_back();
        totals.shown = std::move(shown);
        nodes.each_link(totals.shown.number, adding_to(totals));
    }
    nodes.each_past_link(adding_to(sample.past_nodes));
    sample.replica_search_left = nodes.replica_search_left();
}

void subtract_totals(NodeTotals& now, const NodeTotals& earlier) {
    subtract_cells<proxy::LinkCells>(now.link, earlier.link);
    subtract_cells(now.link.channel, earlier.link.channel);
    each_reason(now.link, earlier.link, less);
    subtract_cells(now.local, earlier.local);
}

// The counters of a node removed since are in the past sums; so are the earlier ones of a node that was removed and returned.
void subtract_nodes(Sample& sample, const Sample& earlier) {
    subtract_totals(sample.past_nodes, earlier.past_nodes);
    for (const NodeTotals& before : earlier.nodes) {
        const auto same = std::find_if(sample.nodes.begin(), sample.nodes.end(), [&](const NodeTotals& now) {
            return now.shown.number == before.shown.number;
        });
        NodeTotals left = before;
        if (same != sample.nodes.end()) {
            subtract_totals(left, *same);
            subtract_totals(*same, before);
        }
        subtract_totals(sample.past_nodes, left);
    }
}

constexpr uint64_t ServerNumbers::*server_counters[] = {
    &ServerNumbers::total_connections, &ServerNumbers::rejected_connections, &ServerNumbers::listen_disabled_num,
    &ServerNumbers::time_in_listen_disabled_us};
constexpr uint64_t WatchNumbers::*watch_counters[] = {&WatchNumbers::dropped, &WatchNumbers::written, &WatchNumbers::skipped,
                                                      &WatchNumbers::sent};

}  // namespace

ClassTotals Sample::all_classes() const {
    ClassTotals sum;
    for (const ClassTotals& one : classes) add_cells(sum, one);
    return sum;
}

LinkTotals Sample::all_links() const {
    LinkTotals sum = past_nodes.link;
    for (const NodeTotals& one : nodes) add_link(sum, one.link);
    return sum;
}

Sample take_sample(const Embedded* embedded, const ServerView& server, const WatchHub& watch) {
    Sample sample;
    sample.now = server.now();
    sample.started_unix = server.started_unix();
    sample.workers_running = server.worker_count();
    sample.workers_on_ring = server.workers_on_ring();
    for (uint32_t worker = 0; worker < sample.workers_running; worker++) {
        add_worker(sample, server.worker_counters(worker));
        if (const auto* local = server.local_counters(worker)) add_cells(sample.local, *local);
        if (const LatencyCounters* latency = server.latency_counters(worker)) sample.latency.add(*latency);
    }
    sample.server = server.numbers();
    sample.watch = watch.numbers();
    sample.log_lines_lost = process::log_lines_lost();
    if (const NodesView* nodes = server.nodes()) {
        add_nodes_counters(sample, *nodes);
    } else {
        sample.node = embedded->node.stats(sample.now);
        if (const node::DiskStore* disk = embedded->node.config().disk) sample.disk = disk->statistics();
        for (const node::ClassStats& one : sample.node.classes) add_counters(sample.node_classes, one);
        sample.crawler_passes = embedded->crawler.passes();
        sample.crawler_running = embedded->crawler.running();
    }
    server.each_close_reason([&](std::string_view name, uint64_t count) {
        sample.close_reasons.emplace_back(name, count);
    });
    return sample;
}

void subtract(Sample& sample, const Sample& earlier) {
    subtract_cells(sample.workers, earlier.workers);
    for (size_t i = 0; i < sample.classes.size(); i++) subtract_cells(sample.classes[i], earlier.classes[i]);
    subtract_cells(sample.local, earlier.local);
    sample.latency.subtract(earlier.latency);
    subtract_nodes(sample, earlier);
    for (const auto counter : server_counters) less(sample.server.*counter, earlier.server.*counter);
    subtract(sample.node, earlier.node);
    subtract(sample.node_classes, earlier.node_classes);
    if (sample.disk.has_value() && earlier.disk.has_value())
        for (const auto& row : node::DiskStatistics::rows())
            if (row.kind == StatKind::counter) less(row.of(*sample.disk), row.of(*earlier.disk));
    for (const auto counter : watch_counters) less(sample.watch.*counter, earlier.watch.*counter);
    sample.log_lines_lost -= std::min(sample.log_lines_lost, earlier.log_lines_lost);
    less(sample.crawler_passes, earlier.crawler_passes);
    size_t reasons = std::min(sample.close_reasons.size(), earlier.close_reasons.size());
    for (size_t i = 0; i < reasons; i++)
        less(sample.close_reasons[i].second, earlier.close_reasons[i].second);
}

void add_nodes(Sample& sample, const std::vector<NodeNumbers>& nodes) {
    for (const NodeNumbers& one : nodes)
        if (!add_numbers(sample.node, sample.node_classes, one)) sample.nodes_left_out++;
    sample.nodes_unavailable = sample.nodes.size() - std::min(sample.nodes.size(), nodes.size());
}

}  // namespace farcached::daemon
