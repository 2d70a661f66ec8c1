// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/stats/stats_sample.h"

#include <algorithm>

#include "process/log.h"

namespace farcached::daemon {

namespace {

void add_worker(Sample& sample, const WorkerCounters& counters) {
#define X(name, help) sample.workers.name += counters.name.get();
    WORKER_COUNTERS(X)
#undef X
    for (size_t i = 0; i < sample.classes.size(); i++) {
        ClassTotals& to = sample.classes[i];
        const ClassCounters& from = counters.classes[i];
#define X(name, help) to.name += from.name.get();
        CLASS_COUNTERS(X)
#undef X
    }
}

void add_local(LocalTotals& to, const proxy::LocalGetCounters& from) {
#define X(name, help) to.name += from.name.get();
    LOCAL_GET_COUNTERS(X)
#undef X
}

// A single counter never falls, but the terms of a sum may be read in any order: the result stops at 0.
void less(uint64_t& now, uint64_t earlier) { now -= std::min(now, earlier); }

template <class Cells, class Visit>
void each_array(LinkTotals& to, const Cells& from, Visit visit) {
    for (size_t i = 0; i < to.lease_denied_by.size(); i++) visit(to.lease_denied_by[i], from.lease_denied_by[i]);
    for (size_t i = 0; i < to.downs.size(); i++) visit(to.downs[i], from.downs[i]);
    for (size_t i = 0; i < to.channel_ends.size(); i++) visit(to.channel_ends[i], from.channel_ends[i]);
    for (size_t i = 0; i < to.frame_errors.size(); i++) visit(to.frame_errors[i], from.frame_errors[i]);
}

void add_link(LinkTotals& to, const proxy::LinkCounters& from) {
#define X(name, help) to.name += from.name.get();
    LINK_COUNTERS(X)
    LINK_GAUGES(X)
#undef X
#define X(name, help) to.name += from.channel.name.get();
    CHANNEL_COUNTERS(X)
#undef X
    each_array(to, from, [](uint64_t& sum, const Counter& counter) { sum += counter.get(); });
}

void subtract_link(LinkTotals& now, const LinkTotals& earlier) {
#define X(name, help) less(now.name, earlier.name);
    LINK_COUNTERS(X)
    CHANNEL_COUNTERS(X)
#undef X
    each_array(now, earlier, less);
}

void subtract_local(LocalTotals& now, const LocalTotals& earlier) {
#define X(name, help) less(now.name, earlier.name);
    LOCAL_GET_COUNTERS(X)
#undef X
}

void add_nodes_counters(Sample& sample, const NodesView& nodes) {
    const auto adding_to = [&](NodeTotals& totals) {
        return [&](const proxy::LinkCounters& link, const proxy::LocalGetCounters& local) {
            add_link(totals.link, link);
            add_local(totals.local, local);
            add_local(sample.local, local);
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
    subtract_link(now.link, earlier.link);
    subtract_local(now.local, earlier.local);
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

void ClassTotals::add(const ClassTotals& other) {
#define X(name, help) name += other.name;
    CLASS_COUNTERS(X)
#undef X
}

ClassTotals Sample::all_classes() const {
    ClassTotals sum;
    for (const ClassTotals& one : classes) sum.add(one);
    return sum;
}

LinkTotals Sample::all_links() const {
    LinkTotals sum = past_nodes.link;
    for (const NodeTotals& one : nodes) {
#define X(name, help) sum.name += one.link.name;
        LINK_COUNTERS(X)
        LINK_GAUGES(X)
        CHANNEL_COUNTERS(X)
#undef X
        each_array(sum, one.link, [](uint64_t& to, uint64_t from) { to += from; });
    }
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
        if (const auto* local = server.local_counters(worker)) add_local(sample.local, *local);
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
#define X(name, help) less(sample.workers.name, earlier.workers.name);
    WORKER_COUNTERS(X)
#undef X
    for (size_t i = 0; i < sample.classes.size(); i++) {
#define X(name, help) less(sample.classes[i].name, earlier.classes[i].name);
        CLASS_COUNTERS(X)
#undef X
    }
    subtract_local(sample.local, earlier.local);
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
