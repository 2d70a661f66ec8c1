// SPDX-License-Identifier: BSD-3-Clause
#include "bench/capacity/fleet.h"

#include <algorithm>
#include <cmath>

#include "bench/rnic/nic.h"
#include "conf/check_settings.h"
#include "fabric/verbs/verbs_device.h"
#include "fabric/verbs/verbs_greeting.h"
#include "node/memory/arena.h"
#include "protocol/frame_layout.h"
#include "protocol/layout.h"

namespace farcached::bench {

namespace {

constexpr uint64_t small_page_bytes = 4096;  // buffers of connections never lie in huge pages
constexpr uint32_t packet_bytes = RnicDevice().packet_bytes;
constexpr uint32_t stream_messages = 6000;
constexpr uint32_t prefill_max = 150'000;

uint64_t whole(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

// ---- what the program takes ---------------------------------------------------------------------------

// Buffers of SENDs and receives with a word for atomics, and the container. They share no page.
uint64_t connection_bytes() {
    const fabric::VerbsConfig config;
    const uint64_t buffers = uint64_t(config.sends + config.receives) * config.message_bytes + sizeof(uint64_t);
    const uint64_t slots = 2 * uint64_t(config.slots) * config.slot_bytes;  // a node's and a proxy's
    return whole(buffers, small_page_bytes) + whole(fabric::verbs_container_bytes, small_page_bytes) + slots;
}

// The node's region (node/store/node.cc): pages, their entries, and the buckets that their slots may need.
uint64_t region_bytes(uint64_t memory_bytes) {
    constexpr uint64_t buckets = layout::page_slots_max / 4, overflow = buckets / 4;
    constexpr uint64_t beside_page = sizeof(layout::PageEntry) + (buckets + overflow) * sizeof(layout::Bucket);
    return memory_bytes / layout::page_bytes * (layout::page_bytes + beside_page);
}

uint32_t links_per_node(const Fleet& fleet) { return fleet.links_per_node == 0 ? fleet.workers : fleet.links_per_node; }

uint32_t read_bytes(const Fleet& fleet) { return uint32_t(sizeof(layout::ItemHeader)) + fleet.key_bytes + fleet.value_bytes; }

// Of a frame with one request.
struct FrameBytes {
    uint32_t request, reply;
};
FrameBytes get_bytes(const Fleet& fleet) {
    const uint32_t head = sizeof(protocol::FrameHeader);
    return {head + uint32_t(sizeof(protocol::RequestHeader)) + fleet.key_bytes,
            head + uint32_t(sizeof(protocol::ReplyHeader) + sizeof(protocol::MetaRecord)) + fleet.value_bytes};
}
FrameBytes set_bytes(const Fleet& fleet) {
    const uint32_t head = sizeof(protocol::FrameHeader);
    return {head + uint32_t(sizeof(protocol::RequestHeader) + sizeof(protocol::StoreRecord)) + fleet.key_bytes + fleet.value_bytes,
            head + uint32_t(sizeof(protocol::ReplyHeader) + sizeof(protocol::StoredRecord))};
}

// The share of the most popular of n keys.
double share_of_first(uint64_t n, double skew) {
    constexpr uint64_t exact = 1000;
    double sum = 0;
    for (uint64_t rank = 1; rank <= std::min(n, exact); rank++) sum += std::pow(double(rank), -skew);
    if (n > exact) {
        const double from = exact + 0.5, to = double(n) + 0.5, exponent = 1 - skew;
        const bool is_log = std::abs(exponent) < 1e-9;
        sum += is_log ? std::log(to / from) : (std::pow(to, exponent) - std::pow(from, exponent)) / exponent;
    }
    return 1 / sum;
}

// ---- streams through devices --------------------------------------------------------------------------

struct Stream {
    double mops = 0;
    PerResource<double> hits{};
    const char* limit = "";
};

class Streams {
  public:
    Streams(const Fleet& fleet, const FleetCounts& counts, const DeviceValues& values)
        : fleet_(fleet), counts_(counts), values_(values) {}

    // At a node: READs of items by others.
    Stream node_reads() const {
        RnicWorkload load = stream(counts_.node_queue_pairs, read_bytes(fleet_));
        load.needed = {true, false, true, true};
        load.regions = 1;
        load.items = counts_.items;
        load.skew = fleet_.skew;
        load.items_per_page = counts_.items_per_page;
        return run(load, DeviceFigure::in_bound_mops);
    }
    // Messages in buffers of their connections, at either end. By SEND each takes a posted receive.
    Stream messages_in(uint32_t queue_pairs, uint32_t bytes, bool receives) const {
        RnicWorkload load = of_buffers(queue_pairs, bytes);
        load.needed[size_t(Resource::wqe)] = receives;
        return run(load, DeviceFigure::in_bound_mops);
    }
    Stream messages_out(uint32_t queue_pairs, uint32_t bytes) const {
        return run(of_buffers(queue_pairs, bytes), DeviceFigure::out_bound_mops);
    }
    // At a proxy: its own READs, which land in one region of each worker.
    Stream reads_out() const {
        RnicWorkload load = stream(counts_.proxy_queue_pairs, 0);
        load.regions = fleet_.workers;
        load.pages = uint32_t(fleet_.workers * conf::reckoned::pools_bytes / 2 / small_page_bytes);
        return run(load, DeviceFigure::out_bound_mops);
    }

  private:
    RnicWorkload stream(uint32_t queue_pairs, uint32_t bytes) const {
        RnicWorkload load;
        load.stream = true;
        load.order = RingOrder::random;
        load.queue_pairs = queue_pairs;
        load.message_bytes = bytes;
        load.chunks = stream_messages;
        load.warmup_chunks = stream_messages / 4;
        load.seed = fleet_.seed;
        return load;
    }
    RnicWorkload of_buffers(uint32_t queue_pairs, uint32_t bytes) const {
        const fabric::VerbsConfig config;
        RnicWorkload load = stream(queue_pairs, bytes);
        load.pages = queue_pairs * (config.sends + config.receives);  // no two buffers share a page
        return load;
    }
    double value(DeviceFigure one) const { return values_[size_t(one)]; }
    Stream run(RnicWorkload load, DeviceFigure rate) const {
        RnicDevice device;
        device.link_gbps = 1e6;  // the link is a separate station
        device.pcie_gbps = value(DeviceFigure::pcie_gbps);
        device.pcie_round_trip_ns = value(DeviceFigure::pcie_round_trip_ns);
        device.pipeline_mops = value(rate);
        device.chunk = 1;
        device.fetch_units = uint32_t(value(DeviceFigure::fetches));
        device.cache_entries = {uint32_t(value(DeviceFigure::qpc_entries)), 0, uint32_t(value(DeviceFigure::mpt_entries)),
                                uint32_t(value(DeviceFigure::mtt_entries))};
        const uint32_t entries = *std::max_element(device.cache_entries.begin(), device.cache_entries.end());
        load.prefill = std::min(3 * entries, prefill_max);
        const RnicResult result = simulate_rnic(device, load, {});
        const char* limit = "cache misses";
        if (result.pipeline_share > 0.98) limit = "rate of operations";
        if (result.pcie_share > 0.98) limit = "PCIe bandwidth";
        return {result.mops, result.hit_ratios, limit};
    }

    const Fleet& fleet_;
    const FleetCounts& counts_;
    const DeviceValues& values_;
};

// ---- a mode of RPC ------------------------------------------------------------------------------------

double misses(const PerResource<double>& hits) {
    double sum = 0;
    for (const Resource kind : {Resource::qpc, Resource::mpt, Resource::mtt}) sum += 1 - hits[size_t(kind)];
    return sum;
}

// Streams that all modes have, and their times in an idle fleet.
struct Common {
    Stream node_reads, reads_out;
    double post_us, pass_us, bus_us, wire_us;  // doorbell and work queue element; both devices; a posted write; one way
    double get_us;
};

class Mode {
  public:
    Mode(RpcMode mode, const Fleet& fleet, const FleetCounts& counts, const DeviceValues& values, const Common& common)
        : mode_(mode), fleet_(fleet), counts_(counts), values_(values), common_(common),
          two_sided_(1 - fleet.get_share * fleet.one_sided_share) {}

    ModeResult assess();

  private:
    // Adds what a request of the fleet costs the busiest of `peers`.
    void add(std::string name, double share, double us) {
        if (us * share > 0) result_.stations.push_back({std::move(name), 1 / (us * share)});
    }
    void add_node(double reads, const RpcOperations& rpc);
    void add_proxy(double reads, const RpcOperations& rpc);
    void add_links(double reads, const RpcOperations& rpc);
    double set_us(const Stream& in, const Stream& out, const Stream& back) const;

    const RpcMode mode_;
    const Fleet& fleet_;
    const FleetCounts& counts_;
    const DeviceValues& values_;
    const Common& common_;
    const double two_sided_;
    ModeResult result_;
};

// Means over GETs and SETs that are two-sided.
RpcOperations mean_operations(RpcMode mode, const Fleet& fleet, double two_sided) {
    const double gets = fleet.get_share * (1 - fleet.one_sided_share) / two_sided;
    const FrameBytes get = get_bytes(fleet), set = set_bytes(fleet);
    const RpcOperations of_get = rpc_operations(mode, {get.request, get.reply, fleet.fetch_bytes, 0});
    const RpcOperations of_set = rpc_operations(mode, {set.request, set.reply, fleet.fetch_bytes, 0});
    const auto mean = [&](double RpcOperations::*field) { return gets * of_get.*field + (1 - gets) * of_set.*field; };
    return {mean(&RpcOperations::in_bound), mean(&RpcOperations::out_bound), mean(&RpcOperations::bytes_in),
            mean(&RpcOperations::bytes_out)};
}

void Mode::add_node(double reads, const RpcOperations& rpc) {
    const Streams streams(fleet_, counts_, values_);
    const Stream in = streams.messages_in(counts_.node_queue_pairs, uint32_t(rpc.bytes_in), mode_ == RpcMode::send);
    const Stream out = streams.messages_out(counts_.node_queue_pairs, uint32_t(rpc.bytes_out));
    const double share = counts_.busiest_share;
    const bool mostly_reads = reads / common_.node_reads.mops > two_sided_ * rpc.in_bound / in.mops;
    add(std::string("busiest node's device, in-bound: ") + (mostly_reads ? common_.node_reads.limit : in.limit), share,
        reads / common_.node_reads.mops + two_sided_ * rpc.in_bound / in.mops);
    add(std::string("busiest node's device, out-bound: ") + out.limit, share, two_sided_ * rpc.out_bound / out.mops);
    add("busiest node's CPU", share, two_sided_ * fleet_.node_cpu_us / fleet_.node_threads);
    const Stream back = streams.messages_in(counts_.proxy_queue_pairs, uint32_t(rpc.bytes_out), mode_ == RpcMode::send);
    result_.set_us = set_us(in, out, back);
}

void Mode::add_proxy(double reads, const RpcOperations& rpc) {
    const double share = 1.0 / fleet_.proxies;
    add(std::string("proxy's device, out-bound: ") + common_.reads_out.limit, share,
        (reads + two_sided_ * rpc.in_bound) / common_.reads_out.mops);
    add("proxy's CPU", share, fleet_.proxy_cpu_us / fleet_.workers);
}

void Mode::add_links(double reads, const RpcOperations& rpc) {
    const double us_per_byte = 8 / values_[size_t(DeviceFigure::link_gbps)] / 1000;
    const double out = reads * (read_bytes(fleet_) + packet_bytes) +
                       two_sided_ * (rpc.bytes_out + packet_bytes * std::max(1.0, rpc.in_bound - 1));
    const double in = reads * packet_bytes + two_sided_ * (rpc.bytes_in + packet_bytes * rpc.in_bound);
    add("busiest node's link", counts_.busiest_share, std::max(in, out) * us_per_byte);
    add("proxy's link to nodes", 1.0 / fleet_.proxies, std::max(in, out) * us_per_byte);
}

// A request's way to the node, its execution, and the reply's way back, or the READ that fetches it.
double Mode::set_us(const Stream& in, const Stream& out, const Stream& back) const {
    const double round_us = values_[size_t(DeviceFigure::pcie_round_trip_ns)] / 1000;
    const double there = common_.post_us + round_us * (misses(common_.reads_out.hits) + misses(in.hits)) + common_.pass_us +
                         common_.wire_us + common_.bus_us;
    const double executed = there + fleet_.proxy_cpu_us + fleet_.node_cpu_us;
    if (mode_ == RpcMode::rfp) return executed + common_.get_us - fleet_.proxy_cpu_us;
    return executed + common_.post_us + round_us * (misses(out.hits) + misses(back.hits)) + common_.pass_us + common_.wire_us +
           common_.bus_us;
}

ModeResult Mode::assess() {
    result_.mode = mode_;
    const double reads = fleet_.get_share * fleet_.one_sided_share;
    const RpcOperations rpc = mean_operations(mode_, fleet_, std::max(two_sided_, 1e-9));
    add_node(reads, rpc);
    add_proxy(reads, rpc);
    add_links(reads, rpc);
    std::stable_sort(result_.stations.begin(), result_.stations.end(),
                     [](const Station& a, const Station& b) { return a.mops < b.mops; });
    result_.mops = result_.stations.front().mops;
    return std::move(result_);
}

Common common_of(const Fleet& fleet, const FleetCounts& counts, const DeviceValues& values) {
    const auto value = [&](DeviceFigure one) { return values[size_t(one)]; };
    const Streams streams(fleet, counts, values);
    Common found{streams.node_reads(), streams.reads_out(), 0, 0, 0, 0, 0};
    const double round_us = value(DeviceFigure::pcie_round_trip_ns) / 1000;
    found.bus_us = round_us / 2;
    found.post_us = found.bus_us + round_us;
    found.pass_us = 1 / value(DeviceFigure::out_bound_mops) + 1 / value(DeviceFigure::in_bound_mops);
    found.wire_us = value(DeviceFigure::wire_ns) / 1000;
    const double bytes_us = (read_bytes(fleet) + packet_bytes) * 8 / value(DeviceFigure::link_gbps) / 1000;
    found.get_us = fleet.proxy_cpu_us + found.post_us + round_us * (misses(found.reads_out.hits) + misses(found.node_reads.hits)) +
                   found.pass_us + 2 * found.wire_us + round_us + bytes_us + found.bus_us;
    return found;
}

bool more_is_slower(size_t figure) {
    return figure == size_t(DeviceFigure::pcie_round_trip_ns) || figure == size_t(DeviceFigure::wire_ns);
}

}  // namespace

FleetCounts count_fleet(const Fleet& fleet) {
    FleetCounts counts;
    counts.node_queue_pairs = fleet.proxies * links_per_node(fleet);
    counts.proxy_queue_pairs = fleet.nodes * links_per_node(fleet);
    const uint64_t region = region_bytes(fleet.memory_bytes);
    const uint64_t links = counts.node_queue_pairs * connection_bytes() + conf::reckoned::fetch_pool_bytes;
    counts.node_locked_bytes = region + links;
    counts.proxy_locked_bytes = fleet.workers * conf::reckoned::pools_bytes + counts.proxy_queue_pairs * connection_bytes();
    counts.node_translations = (region + fleet.page_bytes - 1) / fleet.page_bytes + links / small_page_bytes;
    counts.node_regions = 4 * counts.node_queue_pairs + 2;  // buffers, container, both kinds of slots
    const node::SizeClasses classes(uint32_t(conf::reckoned::chunk_bytes_of_nodes), 1.25);
    const uint64_t item = read_bytes(fleet);
    const uint8_t size_class = classes.of(item);
    const bool large = size_class == layout::large_class;
    const uint64_t slot = large ? whole(item, layout::page_bytes) : classes.slot_bytes(size_class);
    const uint64_t pages = fleet.memory_bytes / layout::page_bytes;
    counts.items = large ? fleet.memory_bytes / slot : pages * classes.slots(size_class);
    counts.items = std::max<uint64_t>(counts.items, 1);
    counts.items_per_page = uint32_t(std::max<uint64_t>(1, fleet.page_bytes / slot));
    const double first = fleet.nodes == 1 ? 1 : share_of_first(counts.items * fleet.nodes, fleet.skew);
    counts.busiest_share = first + (1 - first) / fleet.nodes;
    return counts;
}

DeviceValues values_of(const DeviceFile& device, Assumption assumption) {
    DeviceValues values{};
    for (size_t i = 0; i < device_figures; i++) {
        const SourcedFigure& figure = device.figures[i];
        const bool low = (assumption == Assumption::worst) != more_is_slower(i);
        values[i] = assumption == Assumption::value ? figure.value : low ? figure.low : figure.high;
    }
    return values;
}

FleetResult assess(const Fleet& fleet, const DeviceValues& device) {
    FleetResult result;
    result.counts = count_fleet(fleet);
    const Common common = common_of(fleet, result.counts, device);
    result.node_hits = common.node_reads.hits;
    result.proxy_hits = common.reads_out.hits;
    result.get_us = common.get_us;
    for (const RpcMode mode : {RpcMode::send, RpcMode::write, RpcMode::rfp})
        result.modes[size_t(mode)] = Mode(mode, fleet, result.counts, device, common).assess();
    return result;
}

}  // namespace farcached::bench
