// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/stats/stats_sample.h"

#include <algorithm>

#include "process/log.h"

namespace farcached::daemon {

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

void subtract_server(ServerNumbers& now, const ServerNumbers& earlier) {
    less(now.total_connections, earlier.total_connections);
    less(now.rejected_connections, earlier.rejected_connections);
    less(now.listen_disabled_num, earlier.listen_disabled_num);
    less(now.time_in_listen_disabled_us, earlier.time_in_listen_disabled_us);
}

void subtract_watch(WatchNumbers& now, const WatchNumbers& earlier) {
    less(now.dropped, earlier.dropped);
    less(now.written, earlier.written);
    less(now.skipped, earlier.skipped);
    less(now.sent, earlier.sent);
}

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
    subtract_server(sample.server, earlier.server);
    subtract(sample.node, earlier.node);
    subtract(sample.node_classes, earlier.node_classes);
    subtract_watch(sample.watch, earlier.watch);
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
