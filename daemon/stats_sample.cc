// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/stats_sample.h"

#include <algorithm>

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

// A counter read twice while its owner adds to it never falls, but sums of several may be read in any order.
void less(uint64_t& now, uint64_t earlier) { now -= std::min(now, earlier); }

// What of a class counts; the rest of ClassStats are gauges.
constexpr uint64_t node::ClassStats::* class_counters[] = {
    &node::ClassStats::evicted,          &node::ClassStats::evicted_nonzero,
    &node::ClassStats::evicted_unfetched, &node::ClassStats::evicted_active,
    &node::ClassStats::out_of_memory,    &node::ClassStats::reclaimed,
    &node::ClassStats::expired_unfetched, &node::ClassStats::crawler_reclaimed,
    &node::ClassStats::crawler_checked,  &node::ClassStats::kept,
};

void subtract_node(node::Stats& now, const node::Stats& earlier) {
    less(now.items_total, earlier.items_total);
    less(now.pages_moved, earlier.pages_moved);
    less(now.flushes, earlier.flushes);
    less(now.overflow_evictions, earlier.overflow_evictions);
    size_t classes = std::min(now.classes.size(), earlier.classes.size());
    for (size_t i = 0; i < classes; i++)
        for (uint64_t node::ClassStats::* counter : class_counters)
            less(now.classes[i].*counter, earlier.classes[i].*counter);
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

uint64_t Sample::node_sum(uint64_t node::ClassStats::* counter) const {
    uint64_t sum = 0;
    for (const node::ClassStats& one : node.classes) sum += one.*counter;
    return sum;
}

Sample take_sample(const node::Node& node, const ServerView& server, const WatchHub& watch,
                   const Crawler& crawler) {
    Sample sample;
    sample.now = server.now();
    sample.started_unix = server.started_unix();
    sample.workers_running = server.worker_count();
    for (uint32_t worker = 0; worker < sample.workers_running; worker++) {
        add_worker(sample, server.worker_counters(worker));
        add_local(sample.local, server.local_counters(worker));
    }
    sample.server = server.numbers();
    sample.node = node.stats(sample.now);
    sample.watch = watch.numbers();
    sample.crawler_passes = crawler.passes();
    sample.crawler_running = crawler.running();
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
#define X(name, help) less(sample.local.name, earlier.local.name);
    LOCAL_GET_COUNTERS(X)
#undef X
    subtract_server(sample.server, earlier.server);
    subtract_node(sample.node, earlier.node);
    subtract_watch(sample.watch, earlier.watch);
    less(sample.crawler_passes, earlier.crawler_passes);
    size_t reasons = std::min(sample.close_reasons.size(), earlier.close_reasons.size());
    for (size_t i = 0; i < reasons; i++)
        less(sample.close_reasons[i].second, earlier.close_reasons[i].second);
}

}  // namespace farcached::daemon
