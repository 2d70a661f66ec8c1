// SPDX-License-Identifier: BSD-3-Clause
#include "bench/rnic/figures.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "bench/rnic/rpc_costs.h"

namespace farcached::bench {

namespace {

constexpr uint32_t many_queue_pairs = 16384;  // the most of Figure 3
constexpr double at_peak = 0.99;              // a rate that counts as the peak

struct FigureName {
    RnicFigure figure;
    int number;  // 0: none
    const char* name;
};
constexpr FigureName names[] = {
    {RnicFigure::three, 3, "Figure 3"}, {RnicFigure::four, 4, "Figure 4"},         {RnicFigure::five, 5, "Figure 5"},
    {RnicFigure::six, 6, "Figure 6"},   {RnicFigure::abstract, 0, "abstract"}, {RnicFigure::jakiro, 0, "jakiro"},
};

const FigureName& name_of(RnicFigure figure) {
    return *std::find_if(std::begin(names), std::end(names), [&](const FigureName& one) { return one.figure == figure; });
}

constexpr const char* only_drawn = "the paper's text has no number; it is only drawn";

// ---- Ma et al. ----------------------------------------------------------------------------------------

class Figures {
  public:
    explicit Figures(uint64_t seed) : seed_(seed) {}

    void three();
    void four();
    void five();
    void six();
    void abstract_throughput();
    void abstract_latency();
    FigurePoints take() { return std::move(points_); }

  private:
    void add(RnicFigure figure, std::string series, double x, const char* unit, Number paper, Number ours,
             bool fitted = false, const char* note = "") {
        points_.push_back({figure, std::move(series), x, unit, paper, ours, fitted, note});
    }
    RnicWorkload workload(uint32_t queue_pairs) const {
        RnicWorkload one = paper_workload(queue_pairs);
        one.seed = seed_;
        return one;
    }
    double rate(uint32_t queue_pairs, uint32_t window) const {
        const Prefetching prefetching{window == 0 ? PrefetchKind::none : PrefetchKind::scheduled, window};
        return simulate_rnic(paper_device(), workload(queue_pairs), prefetching).mops;
    }
    double rate_of_regions(uint32_t regions, PrefetchKind kind) const;
    double latency_us(uint32_t queue_pairs, PrefetchKind kind) const;

    const uint64_t seed_;
    FigurePoints points_;
};

// ConnectX-5 as a device without prefetching; its rates to its own peak, which the paper calls close to that of prefetching.
void Figures::three() {
    constexpr uint32_t steps[] = {256, 512, 1024, 2048, 4096, 8192, 16384};
    std::vector<double> rates;
    for (const uint32_t queue_pairs : steps) rates.push_back(rate(queue_pairs, 0));
    const double own_peak = *std::max_element(rates.begin(), rates.end());
    double knee = 0;
    for (size_t i = 0; i < rates.size(); i++) {
        const uint32_t queue_pairs = steps[i];
        const double share = rates[i] / own_peak;
        if (share >= at_peak) knee = queue_pairs;
        const bool last = queue_pairs == many_queue_pairs, stated = queue_pairs == 2048 || last;
        add(RnicFigure::three, "ConnectX-5", queue_pairs, "of the peak", stated ? Number(last ? 0.5 : 1) : Number(), share,
            stated && !last, stated ? "" : only_drawn);
        add(RnicFigure::three, "prefetching", queue_pairs, "of the peak", last ? Number(1) : Number(),
            rate(queue_pairs, paper_window) / paper_device().pipeline_mops, false, last ? "" : only_drawn);
    }
    add(RnicFigure::three, "ConnectX-5, most queue pairs at the peak", 0, "queue pairs", 2048, knee, true,
        "decides the cache's entries");
}

void Figures::four() {
    double knee = 0;
    for (uint32_t window = 0; window <= 10; window++) {
        const double mops = rate(many_queue_pairs, window);
        if (knee == 0 && mops >= at_peak * paper_device().pipeline_mops) knee = window;
        Number paper;
        if (window == 0) paper = 35;
        if (window >= paper_window) paper = 70;
        add(RnicFigure::four, "scheduled", window, "Mop/s", paper, mops, window == 0,
            window == 0 ? "decides the fetch units" : paper.has_value() ? "" : only_drawn);
    }
    add(RnicFigure::four, "scheduled, least window at the peak", 0, "queue pairs", paper_window, knee, true, "decides the chunk");
}

// MPT and MTT of 256 entries. The paper does not say how many queue pairs there were; these fit into the cache of contexts.
double Figures::rate_of_regions(uint32_t regions, PrefetchKind kind) const {
    RnicDevice device = paper_device();
    device.cache_entries[size_t(Resource::mpt)] = device.cache_entries[size_t(Resource::mtt)] = 256;
    RnicWorkload one = workload(256);
    one.regions = regions;
    one.warmup_chunks = 2 * regions;
    return simulate_rnic(device, one, {kind, paper_window}).mops;
}

void Figures::five() {
    for (const uint32_t regions : {64u, 128u, 256u, 512u, 1024u, 2048u, 4096u}) {
        const bool more = regions > 256;
        add(RnicFigure::five, "csrna", regions, "Mop/s", more ? 40 : 70, rate_of_regions(regions, PrefetchKind::csrna));
        add(RnicFigure::five, "scheduled", regions, "Mop/s", 70, rate_of_regions(regions, PrefetchKind::scheduled));
    }
}

// One WRITE at a time, over the queue pairs in turn.
double Figures::latency_us(uint32_t queue_pairs, PrefetchKind kind) const {
    RnicDevice device = paper_device();
    device.cache_entries[size_t(Resource::qpc)] = 100;
    RnicWorkload one = workload(queue_pairs);
    one.active = one.post_messages = 1;
    // "At least several hundreds of nanoseconds" to make the work queue element. The prefetch hides in it, so that it is
    // not shorter than a fetch.
    one.prepare_ns = device.pcie_round_trip_ns;
    one.warmup_chunks = 2 * queue_pairs;
    one.chunks = 2 * queue_pairs;
    return simulate_rnic(device, one, {kind, paper_window}).latency_ns / 1000;
}

void Figures::six() {
    for (const uint32_t queue_pairs : {4u, 8u, 16u, 32u, 64u, 128u, 256u}) {
        const bool fits = queue_pairs <= 64;
        add(RnicFigure::six, "none", queue_pairs, "us", fits ? 2.4 : 2.9, latency_us(queue_pairs, PrefetchKind::none));
        add(RnicFigure::six, "software", queue_pairs, "us", fits ? Number(2.4) : Number(),
            latency_us(queue_pairs, PrefetchKind::software), false, fits ? "" : only_drawn);
    }
}

void Figures::abstract_throughput() {
    add(RnicFigure::abstract, "throughput with prefetching to without", many_queue_pairs, "ratio", 2.25,
        rate(many_queue_pairs, paper_window) / rate(many_queue_pairs, 0), false, "the paper has +125 %");
}

void Figures::abstract_latency() {
    const double without = latency_us(256, PrefetchKind::none), with = latency_us(256, PrefetchKind::software);
    add(RnicFigure::abstract, "latency with software prefetching to without", 256, "%", -17.9, 100 * (with / without - 1));
}

// ---- Jakiro -------------------------------------------------------------------------------------------

constexpr uint32_t header_bytes = 4;  // status and length, before a reply's value
constexpr uint32_t key_bytes = 16;
constexpr double extra_round_trips = 0.005;  // of 2.005 round trips, from the paper

double jakiro_mops(RpcMode mode, uint32_t value_bytes, uint32_t fetch_bytes) {
    return jakiro_costs.mops(
        rpc_operations(mode, {header_bytes + key_bytes, header_bytes + value_bytes, fetch_bytes, extra_round_trips}));
}

void add_jakiro(FigurePoints& points) {
    const auto add = [&](std::string series, double x, const char* unit, Number paper, Number ours, bool fitted = false,
                         const char* note = "") {
        points.push_back({RnicFigure::jakiro, std::move(series), x, unit, paper, ours, fitted, note});
    };
    const double rfp = jakiro_mops(RpcMode::rfp, 32, 36), write = jakiro_mops(RpcMode::write, 32, 36);
    add("Table II, in-bound operations", 32, "MOPS", 11.26, jakiro_costs.in_bound_mops, true);
    add("Table II, out-bound operations", 32, "MOPS", 2.11, jakiro_costs.out_bound_mops, true);
    add("Figure 4, rfp, values of 32 bytes", 32, "MOPS", 5.5, rfp);
    add("Figure 4, write, values of 32 bytes", 32, "MOPS", 2.1, write);
    add("Figure 4, rfp to write", 32, "ratio", 2.58, rfp / write, false, "158 % more");
    constexpr const char* by_cpu = "the paper's RDMA-Memcached is limited by its CPU, not by the device";
    add("Figure 4, send, RDMA-Memcached", 32, "MOPS", 1.3, Number(), false, by_cpu);
    add("round trips of rfp", 32, "count", 2.005, 2 + extra_round_trips, true, "taken from the paper");
    constexpr const char* busy =
        "all clients wait all the time here; in the paper 9 % of their time is outside of requests (5.78 us * 5.5 MOPS of 35)";
    add("Figure 5, mean latency of rfp, 35 clients", 35, "us", 5.78, 35 / rfp, false, busy);
    add("Figure 5, mean latency of write, 28 clients", 28, "us", 12.06, 28 / write, false, busy);
    add("Figure 5, mean latency of send, 21 clients", 21, "us", 14.76, Number(), false, by_cpu);
    add("Figure 6, rfp, 5 % GET", 5, "MOPS", 5.5, jakiro_mops(RpcMode::rfp, 32, 36));
    add("Figure 6, write, 5 % GET", 5, "MOPS", 2.1, jakiro_mops(RpcMode::write, 32, 36));
    add("Figure 6, rfp to RDMA-Memcached, 95 % PUT", 95, "ratio", 14, Number(), false, by_cpu);
    for (const uint32_t bytes : {64u, 128u, 256u, 512u})
        add(form("Figure 7, rfp, values of %u bytes to 32", bytes), bytes, "ratio", 0.68,
            jakiro_mops(RpcMode::rfp, bytes, 36) / rfp);
    add("Figure 7, write, 12 threads, values of 512 bytes", 512, "MOPS", 2.1, jakiro_mops(RpcMode::write, 512, 36));
    add("Figure 7, rfp, values of 1024 bytes", 1024, "MOPS", 3.1, jakiro_mops(RpcMode::rfp, 1024, 36));
    for (const uint32_t bytes : {32u, 64u, 128u})
        add(form("Figure 8, rfp, 132 bytes fetched, values of %u", bytes), bytes, "MOPS", 5.5,
            jakiro_mops(RpcMode::rfp, bytes, 132));
    add("Figure 9, rfp, Zipf 0.99", 32, "MOPS", 5.5, rfp);
    add("Figure 9, write, Zipf 0.99", 32, "MOPS", 2.1, write);
    add("Figure 9, send, Zipf 0.99, 95 % GET", 32, "MOPS", 2.1, jakiro_mops(RpcMode::send, 32, 36));
    add("Figure 10, rfp, trace, 512 bytes fetched", 43, "MOPS", 5.4, jakiro_mops(RpcMode::rfp, 43, 512));
}

bool has(std::span<const RnicFigure> figures, RnicFigure one) {
    return std::find(figures.begin(), figures.end(), one) != figures.end();
}

std::string shown_deviation(const FigurePoint& point) {
    const Number deviation = deviation_of(point);
    return deviation.has_value() ? form("%+.1f %%", 100 * *deviation) : "-";
}

}  // namespace

RnicDevice paper_device() {
    RnicDevice device;
    device.link_gbps = 100;
    device.pcie_gbps = 128;
    device.pcie_round_trip_ns = 500;
    device.pipeline_mops = 70;
    device.chunk = 20;       // 20 / 70 Mop/s * 7 = 4 * 500 ns: the knee of Figure 4 by the paper's own condition
    device.fetch_units = 5;  // nearest to 35 Mop/s at window 0
    device.cache_entries = {2048, 2048, 2048, 2048};  // the knee of Figure 3
    return device;
}

RnicWorkload paper_workload(uint32_t queue_pairs) {
    RnicWorkload workload;
    workload.queue_pairs = queue_pairs;
    workload.message_bytes = 64;
    workload.post_messages = 1'000'000'000;  // never done: "continuously"
    workload.warmup_chunks = std::max(2 * queue_pairs, 512u);
    workload.chunks = 8192;
    return workload;
}

FigurePoints rnic_points(std::span<const RnicFigure> figures, uint64_t seed) {
    Figures model(seed);
    if (has(figures, RnicFigure::three)) model.three();
    if (has(figures, RnicFigure::four)) model.four();
    if (has(figures, RnicFigure::five)) model.five();
    if (has(figures, RnicFigure::six)) model.six();
    const bool all = has(figures, RnicFigure::abstract);
    if (all || has(figures, RnicFigure::three) || has(figures, RnicFigure::four)) model.abstract_throughput();
    if (all || has(figures, RnicFigure::six)) model.abstract_latency();
    FigurePoints points = model.take();
    if (has(figures, RnicFigure::jakiro)) add_jakiro(points);
    return points;
}

Number deviation_of(const FigurePoint& point) {
    if (!point.paper.has_value() || !point.ours.has_value()) return {};
    return *point.ours / *point.paper - 1;
}

std::string figures_json(const FigurePoints& points) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    const auto rounded = [](const Number& number) -> nlohmann::ordered_json {
        if (!number.has_value()) return nullptr;
        return std::round(*number * 1e4) / 1e4;
    };
    for (const FigurePoint& point : points) {
        nlohmann::ordered_json object;
        const FigureName& name = name_of(point.figure);
        if (name.number != 0) object["figure"] = name.number;
        if (name.number == 0) object["figure"] = name.name;
        object["series"] = point.series;
        object["x"] = point.x;
        object["unit"] = point.unit;
        object["paper"] = rounded(point.paper);
        object["ours"] = rounded(point.ours);
        object["fitted"] = point.fitted;
        if (*point.note != '\0') object["note"] = point.note;
        list.push_back(object);
    }
    return list.dump(1) + "\n";
}

std::string figures_text(const FigurePoints& points) {
    std::string text;
    text += form("%-9s %-48s %6s  %-11s %8s %8s %9s\n", "", "series", "x", "unit", "paper", "ours", "deviation");
    for (const FigurePoint& point : points) {
        text += form("%-9s %-48s %6g  %-11s %8s %8s %9s", name_of(point.figure).name, point.series.c_str(), point.x, point.unit,
                     shown(point.paper, "%.4g").c_str(), shown(point.ours, "%.3f").c_str(), shown_deviation(point).c_str());
        if (point.fitted) text += " fitted";
        if (*point.note != '\0') text += std::string(" (") + point.note + ")";
        text += "\n";
    }
    return text;
}

}  // namespace farcached::bench
