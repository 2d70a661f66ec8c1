// SPDX-License-Identifier: BSD-3-Clause
// The model of an RDMA network interface: its caches are LRU, and equal arguments give equal results. Prefetching early enough
// leaves no bubbles in the pipeline. More cache is not slower. The papers' points, and the costs of RPC.
#include <algorithm>
#include <cmath>
#include <list>
#include <string>
#include <vector>

#include "bench/data.h"
#include "bench/rnic/figures.h"
#include "bench/rnic/nic.h"
#include "bench/rnic/rnic.h"
#include "bench/rnic/rpc_costs.h"
#include "t/lib/tap.h"

namespace farcached::bench {

namespace {

constexpr uint32_t endless = 1'000'000'000;
constexpr uint32_t cache_sizes[] = {4, 8, 16, 32, 64, 128, 256, 1024};

// ---- caches -------------------------------------------------------------------------------------------

void check_caches() {
    uint64_t other = 0, lost = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        Random random(seed);
        const uint32_t entries = 1 + uint32_t(random.below(30));
        ResourceCache cache(entries), larger(entries + 1 + uint32_t(random.below(30)));
        std::list<uint64_t> plain;  // newest first
        for (int i = 0; i < 2000; i++) {
            const uint64_t key = random.below(60);
            const auto at = std::find(plain.begin(), plain.end(), key);
            const bool hit = cache.look(key), also = larger.look(key);
            other += hit != (at != plain.end());
            lost += hit && !also;
            cache.insert(key);
            larger.insert(key);
            if (at != plain.end()) plain.erase(at);
            plain.push_front(key);
            if (plain.size() > entries) plain.pop_back();
        }
        other += cache.size() != plain.size();
    }
    tap::is(other, 0u, "a cache is a plain LRU");
    tap::is(lost, 0u, "a larger one has what a smaller one has");
    ResourceCache no_cache(0);
    no_cache.insert(1);
    tap::ok(!no_cache.look(1), "one without entries has none");
}

// ---- the device ---------------------------------------------------------------------------------------

struct Case {
    RnicDevice device;
    RnicWorkload workload;
    Prefetching prefetching;
};

Case any_case(Random& random) {
    Case one;
    one.workload.queue_pairs = 8 + uint32_t(random.below(200));
    one.workload.post_messages = random.below(2) == 0 ? endless : 1 + uint32_t(random.below(60));
    one.workload.regions = random.below(2) == 0 ? 0 : 8 + uint32_t(random.below(200));
    one.workload.order = RingOrder(random.below(2));
    one.workload.active = random.below(2) == 0 ? 0 : 1 + uint32_t(random.below(one.workload.queue_pairs));
    one.workload.seed = random.next();
    one.workload.warmup_chunks = 500;
    one.workload.chunks = 1500;
    one.device.chunk = 1 + uint32_t(random.below(25));
    one.device.fetch_units = 1 + uint32_t(random.below(8));
    one.prefetching = {PrefetchKind(random.below(4)), uint32_t(random.below(12))};
    return one;
}

double rate_with(Case one, uint32_t entries) {
    one.device.cache_entries.fill(entries);
    return simulate_rnic(one.device, one.workload, one.prefetching).mops;
}

bool same(const RnicResult& a, const RnicResult& b) {
    return a.mops == b.mops && a.latency_ns == b.latency_ns && a.pipeline_share == b.pipeline_share &&
           a.pcie_share == b.pcie_share && a.hit_ratios == b.hit_ratios;
}

void check_seeds() {
    Random random(1);
    uint32_t differing = 0, seeds_alike = 0;
    for (int i = 0; i < 50; i++) {
        Case one = any_case(random);
        one.device.cache_entries.fill(32);
        one.workload.order = RingOrder::random;
        one.workload.active = one.workload.queue_pairs / 2;
        one.workload.post_messages = 5;
        const RnicResult first = simulate_rnic(one.device, one.workload, one.prefetching);
        differing += !same(first, simulate_rnic(one.device, one.workload, one.prefetching));
        one.workload.seed++;
        seeds_alike += same(first, simulate_rnic(one.device, one.workload, one.prefetching));
    }
    tap::is(differing, 0u, "the same seed gives the same result");
    tap::ok(seeds_alike < 10, "another seed gives another one");
}

// The paper's condition for its window: chunk / rate * window >= kinds * delay. PCIe has room to spare here, so that the delay is
// its round trip, and there are enough fetch units for the payload, which is not prefetched.
void check_bubbles() {
    Random random(2);
    uint32_t bubbles = 0, without = 0;
    for (int i = 0; i < 200; i++) {
        RnicDevice device;
        device.pcie_gbps = 1e6;
        device.pcie_round_trip_ns = 100 + double(random.below(1000));
        device.chunk = 1 + uint32_t(random.below(40));
        const double chunk_ns = device.chunk * 1000 / device.pipeline_mops;
        device.fetch_units = 2 + uint32_t(device.pcie_round_trip_ns / chunk_ns);
        RnicWorkload workload = paper_workload(1);
        const uint32_t window = uint32_t(std::ceil(resource_kinds * device.pcie_round_trip_ns / chunk_ns));
        workload.queue_pairs = 4 * (window + device.fetch_units) + uint32_t(random.below(500));
        device.cache_entries.fill(2 * (window + device.fetch_units));
        workload.warmup_chunks = 500;
        workload.chunks = 2000;
        workload.seed = random.next();
        bubbles += simulate_rnic(device, workload, {PrefetchKind::scheduled, window}).pipeline_share < 0.999;
        without += simulate_rnic(device, workload, {}).pipeline_share < 0.999;
    }
    tap::is(bubbles, 0u, "no bubbles if chunk / rate * window >= kinds * delay");
    tap::is(without, 200u, "bubbles without prefetching");
}

// With one operation at a time, or with one fetch unit and endless work, the order of accesses is fixed. Then a larger cache
// hits whenever a smaller one does.
void check_more_cache_in_order() {
    Random random(3);
    uint32_t slower = 0;
    for (int i = 0; i < 100; i++) {
        Case one = any_case(random);
        one.workload.order = i % 4 == 0 ? RingOrder::random : RingOrder::cyclic;
        one.workload.active = i % 2 == 0 ? 1 : 0;
        if (i % 2 == 1) {
            one.device.fetch_units = 1;
            one.workload.post_messages = endless;
            one.prefetching.kind = PrefetchKind::none;
        } else {
            one.prefetching.kind = i % 8 == 0 ? PrefetchKind::software : PrefetchKind::none;
        }
        double before = 0;
        for (const uint32_t entries : cache_sizes) {
            const double rate = rate_with(one, entries);
            slower += rate < before;
            before = rate;
        }
    }
    tap::is(slower, 0u, "more cache is never slower where the order of accesses is fixed");
    slower = 0;
    for (const PrefetchKind kind : {PrefetchKind::none, PrefetchKind::csrna, PrefetchKind::scheduled}) {
        double before = 0;
        for (uint32_t entries = 64; entries <= 1024; entries *= 2) {
            Case one{paper_device(), paper_workload(500), {kind, paper_window}};
            const double rate = rate_with(one, entries);
            slower += rate < before * 0.9999;  // a chunk more or less in the time that is counted
            before = rate;
        }
    }
    tap::is(slower, 0u, "nor with the paper's workload");
}

// Elsewhere more cache changes the order of queue pairs at the pipeline. A single case may lose by that (Graham's anomalies of
// schedules); of 25,000 cases 1 % did, by 7 % at most. The mean does not.
void check_more_cache_in_any_order() {
    Random random(4);
    constexpr int cases = 100;
    double worst = 0;
    std::vector<double> means(std::size(cache_sizes));
    for (int i = 0; i < cases; i++) {
        const Case one = any_case(random);
        double before = 0;
        for (size_t size = 0; size < means.size(); size++) {
            const double rate = rate_with(one, cache_sizes[size]);
            means[size] += rate / cases;
            worst = std::max(worst, before == 0 ? 0 : 1 - rate / before);
            before = rate;
        }
    }
    tap::ok(std::is_sorted(means.begin(), means.end()), "over all orders, more cache is not slower in the mean");
    tap::ok(worst < 0.1, "and no case loses a tenth");
}

void check_prefetchers() {
    Case one{paper_device(), paper_workload(4096), {}};
    const RnicResult none = simulate_rnic(one.device, one.workload, {PrefetchKind::none, 0});
    const RnicResult contexts = simulate_rnic(one.device, one.workload, {PrefetchKind::csrna, paper_window});
    const RnicResult chain = simulate_rnic(one.device, one.workload, {PrefetchKind::scheduled, 2 * paper_window});
    tap::ok(none.hit_ratios == PerResource<double>{0, 0, 0, 0}, "without prefetching, twice the cache in turn never hits");
    tap::ok(contexts.hit_ratios[0] > 0.99 && contexts.hit_ratios[1] == 0 && contexts.hit_ratios[2] == 0,
            "csrna prefetches contexts");
    tap::ok(*std::min_element(chain.hit_ratios.begin(), chain.hit_ratios.end()) > 0.99, "scheduled prefetches the chain");
    one.workload.active = one.workload.post_messages = 1;
    one.workload.prepare_ns = 500;
    one.workload.chunks = 4096;
    const RnicResult light = simulate_rnic(one.device, one.workload, {PrefetchKind::software, 1});
    const RnicResult closed = simulate_rnic(one.device, one.workload, {PrefetchKind::software, 0});
    tap::ok(light.latency_ns < closed.latency_ns - 400, "software prefetches while fewer than the window work, and hides a fetch");
    one.device.cache_entries.fill(4);
    one.workload = paper_workload(4096);
    const RnicResult wide = simulate_rnic(one.device, one.workload, {PrefetchKind::scheduled, 100});
    tap::ok(wide.mops < chain.mops * 0.9, "a window beyond the cache replaces entries before their use");
}

// ---- workers --------------------------------------------------------------------------------------------

RnicResult ring(RingOrder order, RnicWorkload workload, uint32_t contexts) {
    RnicDevice device = paper_device();
    device.chunk = workload.post_messages;
    device.fetch_units = 100;
    device.cache_entries[size_t(Resource::qpc)] = contexts;
    workload.order = order;
    workload.regions = 1;
    workload.warmup_chunks = 5000;
    workload.chunks = 10'000;
    return simulate_rnic(device, workload, {});
}

double contexts_hit(RingOrder order, const RnicWorkload& workload, uint32_t contexts) {
    return ring(order, workload, contexts).hit_ratios[size_t(Resource::qpc)];
}

bool near(double a, double b) { return std::abs(a - b) < 0.05; }

void check_orders() {
    RnicWorkload one;
    one.queue_pairs = 512;
    one.workers = 1;
    tap::is(contexts_hit(RingOrder::cyclic, one, 256), 0.0, "a worker that rings in turn never hits half of a cache");
    tap::ok(near(contexts_hit(RingOrder::alternating, one, 256), 0.5), "in alternating direction it hits as much as fits");
    tap::ok(same(ring(RingOrder::alternating, one, 256), ring(RingOrder::recent, one, 256)), "the last one first is the same");
    // Of a random permutation after another one, c + (1 - c) ln(1 - c) are within reach of a cache for the share c.
    tap::ok(near(contexts_hit(RingOrder::random, one, 256), 0.5 + 0.5 * std::log(0.5)), "in random order it hits less");
    one.touched = 16;
    tap::ok(near(contexts_hit(RingOrder::cyclic, one, 256), contexts_hit(RingOrder::recent, one, 256)),
            "the order decides nothing if a tick rings few of them");
    one.touched = 0;
    one.workers = 8;
    tap::is(contexts_hit(RingOrder::alternating, one, 256), 0.0, "nor if the queue pairs of others come in between");
    tap::is(contexts_hit(RingOrder::cyclic, one, 512), 1.0, "nor if all contexts fit");
    const double single = ring(RingOrder::cyclic, one, 256).mops;
    one.post_messages = 4;
    tap::ok(ring(RingOrder::cyclic, one, 256).mops > 1.3 * single, "a doorbell of four messages fetches a context for all of them");
}

void check_ticks() {
    RnicWorkload one;
    one.queue_pairs = 64;
    one.workers = 4;
    one.prepare_ns = 1000;
    const double busy = ring(RingOrder::cyclic, one, 64).mops;
    tap::ok(busy > 2.5 && busy < 4, "workers ring one queue pair after the other");
    one.between_ns = 16'000;
    tap::ok(near(ring(RingOrder::cyclic, one, 64).mops * 2 / busy, 1.05), "and rest between ticks");
}

// ---- the papers ---------------------------------------------------------------------------------------

void check_fit() {
    const RnicDevice fitted = paper_device();
    const double needed = resource_kinds * fitted.pcie_round_trip_ns, one = 1000 / fitted.pipeline_mops;
    tap::ok(fitted.chunk * one * paper_window >= needed && (fitted.chunk - 1) * one * paper_window < needed,
            "the chunk is the least that the paper's condition allows at its window");
    double best = 0;
    uint32_t units = 0;
    for (uint32_t n = 1; n <= 16; n++) {
        RnicDevice device = fitted;
        device.fetch_units = n;
        const double rate = simulate_rnic(device, paper_workload(16384), {}).mops;
        if (units == 0 || std::abs(rate - 35) < std::abs(best - 35)) {
            best = rate;
            units = n;
        }
    }
    tap::is(units, fitted.fetch_units, "the fetch units are those nearest to 35 Mop/s");
}

void check_points() {
    const RnicFigure all[] = {RnicFigure::three, RnicFigure::four, RnicFigure::five, RnicFigure::six};
    const FigurePoints points = rnic_points(all, 1);
    std::vector<std::string> off;
    double before = 0;
    bool rising = true;
    uint32_t stated = 0;
    for (const FigurePoint& point : points) {
        if (point.figure == RnicFigure::four && *point.unit == 'M') {
            rising &= *point.ours >= before - 0.001;
            before = *point.ours;
        }
        const Number deviation = deviation_of(point);
        if (!deviation.has_value()) continue;
        stated++;
        if (std::abs(*deviation) > 0.1) off.push_back(point.series + form(" at %g", point.x));
    }
    tap::ok(stated > 30, "there are points");
    tap::is(off.empty() ? "" : off[0], "", "each is within 10 % of the paper's text");
    tap::ok(rising, "the rate rises with the window");
    tap::is(figures_json(points), figures_json(rnic_points(all, 2)), "cyclic order needs no chance");
}

void check_rpc_costs() {
    const RpcCosts costs{10, 2, 8};
    const auto mops = [&](RpcMode mode, uint32_t reply, uint32_t fetch) {
        return costs.mops(rpc_operations(mode, {20, reply, fetch, 0}));
    };
    tap::is(mops(RpcMode::rfp, 32, 36), 5.0, "rfp: two in-bound operations");
    tap::is(mops(RpcMode::write, 32, 36), 2.0, "write: an out-bound one");
    tap::is(mops(RpcMode::send, 32, 36), 2.0, "send: likewise");
    tap::ok(std::abs(mops(RpcMode::rfp, 64, 36) - 10 / 3.0) < 1e-9, "a long reply takes a second READ");
    tap::is(mops(RpcMode::rfp, 1000, 1000), 1.0, "bytes limit long replies");
    tap::is(mops(RpcMode::rfp, 10, 1000), 1.0, "so do bytes that are fetched in vain");
}

// ---- the command --------------------------------------------------------------------------------------

std::string error_of(std::vector<std::string> words) {
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    RnicOptions options;
    return read_rnic_options(arguments, options);
}

void check_options() {
    tap::is(error_of({}), "", "no options");
    tap::is(error_of({"--figures", "3,jakiro", "--cache-entries", "1,2,3,4", "--order", "random"}), "", "several");
    tap::is(error_of({"--figures", "7"}), "--figures 7 has a word that is not 3, 4, 5, 6, abstract or jakiro", "an unknown figure");
    tap::is(error_of({"--cache-entries", "1,2"}), "--cache-entries 1,2 is neither one number nor four: of QPC, WQE, MPT and MTT",
            "two caches");
    tap::is(error_of({"--prefetch", "x"}), "--prefetch x is not none, csrna, scheduled or software", "an unknown prefetcher");
    tap::is(error_of({"--queue-pairs", "4", "--active", "5"}), "--active is more than --queue-pairs", "more active than there are");
    tap::is(error_of({"--queue-pairs", "4", "--workers", "5"}), "--workers is more than --queue-pairs", "more workers than that");
    tap::is(error_of({"--order", "recent"}), "--order alternating and recent need --workers", "an order of workers without any");
    tap::is(error_of({"--order", "alternating", "--workers", "2"}), "", "and with some");
}

}  // namespace

}  // namespace farcached::bench

int main() {
    using namespace farcached::bench;
    check_caches();
    check_seeds();
    check_bubbles();
    check_more_cache_in_order();
    check_more_cache_in_any_order();
    check_prefetchers();
    check_orders();
    check_ticks();
    check_fit();
    check_points();
    check_rpc_costs();
    check_options();
    return tap::done();
}
