// SPDX-License-Identifier: BSD-3-Clause
// farbench capacity: device files and their errors, the counts beside those of the program, properties of the model, advice.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "bench/capacity/capacity.h"
#include "bench/capacity/device_file.h"
#include "bench/capacity/fleet.h"
#include "conf/check_settings.h"
#include "ctl/queue_pairs.h"
#include "node/store/node.h"
#include "t/lib/tap.h"

namespace farcached::bench {

namespace {

DeviceFile known(std::string_view name) {
    DeviceFile device;
    const std::string wrong = read_device_file(std::string(name), known_device_text(name), device);
    tap::is(wrong, "", "the file of " + std::string(name));
    return device;
}

Fleet small_fleet() {
    Fleet fleet;
    fleet.proxies = 10;
    fleet.workers = 4;
    fleet.nodes = 5;
    fleet.memory_bytes = UINT64_C(1) << 30;
    return fleet;
}

// ---- device files -------------------------------------------------------------------------------------

void check_known_devices() {
    for (const std::string_view name : known_devices()) {
        const DeviceFile device = known(name);
        bool all = !device.title.empty();
        for (const SourcedFigure& figure : device.figures) {
            all &= !figure.source.empty() && figure.low <= figure.value && figure.value <= figure.high;
            all &= figure.assumed == (figure.low < figure.high);
        }
        tap::ok(all, "each figure has a source, and a range if it is assumed");
    }
    tap::ok(known_device_text("cx4") == nullptr, "cx4 is unknown");
    for (const ctl::DeviceKind& kind : ctl::device_kinds())
        tap::is(double(kind.contexts), known(kind.name).at(DeviceFigure::qpc_entries).high,
                std::string(kind.title) + " has the contexts that farctl doctor and status warn above");
}

// The file of cx5 with one part replaced.
std::string error_with(const std::string& part, const std::string& by) {
    std::string text = known_device_text("cx5");
    const size_t at = text.find(part);
    tap::ok(at != text.npos, "the file has: " + part.substr(0, part.find('\n')));
    text.replace(at, part.size(), by);
    DeviceFile device;
    return read_device_file("a.toml", text, device);
}

void check_device_errors() {
    tap::is(error_with("[wire_ns]\nvalue = 300", "[wire_ns]\nvalue = \"x\""), "a.toml:8:1: wire_ns: no number as value", "a text");
    tap::is(error_with("source = \"Ma, section IV\"", "source = \"\""),
            "a.toml:4:1: link_gbps: no source; give where the figure is from, or why it is assumed", "no source");
    tap::is(error_with("low = 100\n", ""), "a.toml:8:1: wire_ns: an assumed figure needs low and high", "no range");
    tap::is(error_with("value = 100\n", "value = 100\nlow = 5\n"),
            "a.toml:4:1: link_gbps: low and high are only for assumed = true", "a range of what is known");
    tap::is(error_with("low = 100\n", "low = 400\n"), "a.toml:8:1: wire_ns: the value is not between low and high", "an odd range");
    tap::is(error_with("value = 100\n", "value = 0\n"), "a.toml:4:1: link_gbps: too small", "no bandwidth");
    tap::is(error_with("value = 100\n", "worth = 100\n"),
            "a.toml:4:1: link_gbps: unknown key worth; known are value, source, assumed, low and high", "another word");
    tap::is(error_with("[wire_ns]", "[wires]"), "a.toml:8:1: unknown key wires", "another figure");
    tap::is(error_with("title = ", "link = 5\ntitle = "), "a.toml:2:8: unknown key link", "another key");
    DeviceFile device;
    tap::is(read_device_file("a.toml", "title = \"x\"\n", device),
            "a.toml: no table [link_gbps]; farbench capacity --print-device cx5 prints an example", "an empty file");
    tap::ok(read_device_file("a.toml", "title = x\n", device).starts_with("a.toml:1:9: "), "no TOML");
}

// ---- counts -------------------------------------------------------------------------------------------

void check_counts() {
    Fleet fleet = small_fleet();
    const FleetCounts counts = count_fleet(fleet);
    tap::is(counts.node_queue_pairs, 40u, "a node has a queue pair for each worker");
    tap::is(counts.proxy_queue_pairs, 20u, "a proxy one for each worker and node");
    constexpr uint64_t link_bytes = (528 + 64) * 1024;  // buffers and container; slots
    tap::is(counts.proxy_locked_bytes, 4 * conf::reckoned::pools_bytes + 20 * link_bytes, "a proxy locks pools and links");
    node::Config config;
    config.memory_bytes = fleet.memory_bytes;
    config.grows = false;
    const uint64_t region = node::Node(config).view().region_bytes;
    const double reckoned = double(counts.node_locked_bytes - conf::reckoned::fetch_pool_bytes - 40 * link_bytes);
    tap::ok(std::abs(reckoned / double(region) - 1) < 0.01, "a node locks its region, and buffers");
    tap::is(counts.items, (UINT64_C(1) << 30) / 65536 * (65536 / 160), "items are those of the slots");
    fleet.page_bytes = UINT64_C(2) << 20;
    tap::ok(count_fleet(fleet).node_translations < counts.node_translations / 20, "huge pages have few translations");
    fleet.links_per_node = 1;
    tap::is(count_fleet(fleet).node_queue_pairs, 10u, "a shared link is one queue pair");
    tap::ok(counts.busiest_share > 0.2 && counts.busiest_share < 0.3, "the busiest node has the most popular key beside its part");
    fleet.skew = 0;
    tap::ok(std::abs(count_fleet(fleet).busiest_share - 0.2) < 1e-3, "without skew all nodes are alike");
    fleet.value_bytes = 200'000;
    tap::is(count_fleet(fleet).items, (UINT64_C(1) << 30) / (4 * 65536), "large items take pages");
}

// ---- the model ----------------------------------------------------------------------------------------

bool ordered(const ModeResult& mode) {
    const auto slower = [](const Station& a, const Station& b) { return a.mops < b.mops; };
    return std::is_sorted(mode.stations.begin(), mode.stations.end(), slower) && mode.mops == mode.stations.front().mops;
}

void check_model() {
    const DeviceFile device = known("cx5");
    Fleet fleet = small_fleet();
    const AssessedFleet first = assess_range(fleet, device), again = assess_range(fleet, device);
    bool sane = true, same = true;
    for (size_t i = 0; i < first.value.modes.size(); i++) {
        const double value = first.value.modes[i].mops;
        sane &= ordered(first.value.modes[i]) && first.worst.modes[i].mops <= value && value <= first.best.modes[i].mops;
        same &= value == again.value.modes[i].mops;
    }
    tap::ok(sane, "the slowest station limits; the value lies within its range");
    tap::ok(same, "the same numbers again");
    double before = 0;
    bool rising = true;
    for (const AssessedFleet& one : sweep_proxies(fleet, device)) {
        rising &= one.value.modes[0].mops >= before;
        before = one.value.modes[0].mops;
    }
    tap::ok(rising, "proxies that do not fill the caches add throughput");
    fleet.proxies = 2000;
    fleet.proxy_cpu_us = 0.1;
    fleet.skew = 0;
    const FleetResult many = assess(fleet, values_of(device, Assumption::value));
    tap::ok(many.node_hits[size_t(Resource::qpc)] < 0.4, "8000 queue pairs do not fit into a cache of 2048 contexts");
    tap::ok(many.modes[0].bottleneck().starts_with("busiest node's device, in-bound"), "they limit the node's device");
    fleet.links_per_node = 1;
    const FleetResult shared = assess(fleet, values_of(device, Assumption::value));
    tap::ok(shared.node_hits[size_t(Resource::qpc)] > 0.99, "links that are shared fit");
    tap::ok(shared.modes[0].mops > many.modes[0].mops, "and raise the limit");
    fleet.page_bytes = UINT64_C(2) << 20;
    const FleetResult huge = assess(fleet, values_of(device, Assumption::value));
    tap::ok(huge.node_hits[size_t(Resource::mtt)] > 0.99 && shared.node_hits[size_t(Resource::mtt)] < 0.1, "so do huge pages");
    tap::ok(huge.get_us < shared.get_us && shared.get_us < many.get_us, "each shortens a GET");
}

void check_modes() {
    Fleet fleet = small_fleet();
    fleet.get_share = 0;
    fleet.proxy_cpu_us = fleet.node_cpu_us = 0.01;
    fleet.proxies = 1000;
    const FleetResult result = assess(fleet, values_of(known("cx3"), Assumption::value));
    const double rfp = result.modes[size_t(RpcMode::rfp)].mops, write = result.modes[size_t(RpcMode::write)].mops;
    tap::ok(rfp > 1.5 * write, "rfp has the higher limit where replies are out-bound operations of the node");
    tap::ok(result.modes[size_t(RpcMode::write)].bottleneck().find("out-bound") != std::string::npos, "which limit write");
    fleet.one_sided_share = fleet.get_share = 1;
    for (const ModeResult& mode : assess(fleet, values_of(known("cx3"), Assumption::value)).modes)
        tap::ok(mode.mops > rfp, "one-sided GETs alone are faster");
}

bool has(const std::vector<std::string>& sentences, const std::string& words) {
    return std::any_of(sentences.begin(), sentences.end(), [&](const std::string& one) { return one.find(words) != one.npos; });
}

void check_advice() {
    const DeviceFile device = known("cx5");
    Fleet fleet = small_fleet();
    const auto sentences = [&](const DeviceFile& of) {
        return advice(fleet, of, assess(fleet, values_of(of, Assumption::value)), RpcMode::send);
    };
    const std::vector<std::string> little = sentences(device);
    tap::ok(has(little, "Use huge pages") && has(little, "proxies' CPU limits"), "huge pages, and more CPU");
    fleet.proxies = 1000;
    const std::vector<std::string> many = sentences(device);
    tap::ok(has(many, "beyond its cache of 2048 contexts") && has(many, "With 2 workers (-t 2)") && has(many, "shared one link"),
            "fewer workers, or shared links");
    tap::ok(has(many, "Set --conn-limit of farnode to 4000"), "and a limit to raise");
    fleet.get_share = 0.5;
    fleet.proxy_cpu_us = fleet.node_cpu_us = 0.01;
    tap::ok(has(sentences(known("cx3")), "RPC by rfp instead of send"), "another way of RPC");
}

// ---- the command --------------------------------------------------------------------------------------

std::string error_of(std::vector<std::string> words) {
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    CapacityOptions options;
    return read_capacity_options(arguments, options);
}

void check_options() {
    tap::is(error_of({}), "", "no options");
    tap::is(error_of({"--memory", "512m", "--pages", "2m", "--mix", "1:1", "--rpc", "rfp,send"}), "", "many");
    tap::is(error_of({"--memory", "64"}), "--memory 64 is no size, as in 512m or 64g", "a size without unit");
    tap::is(error_of({"--memory", "512g"}), "--memory 512g is too large", "more than a node has");
    tap::is(error_of({"--memory", "1k"}), "--memory 1k is too small", "less");
    tap::is(error_of({"--mix", "95"}), "--mix 95 is not GET:SET, as in 95:5", "a mix of one");
    tap::is(error_of({"--mix", "0:0"}), "--mix 0:0 is not GET:SET, as in 95:5", "a mix of none");
    tap::is(error_of({"--pages", "1g"}), "--pages 1g is neither 4k nor 2m", "other pages");
    tap::is(error_of({"--rpc", "tcp"}), "--rpc tcp has a word other than send, write, rfp", "another way");
    tap::is(error_of({"--one-sided-share", "1.5"}), "--one-sided-share 1.5 is too large", "a share beyond all");
}

}  // namespace

}  // namespace farcached::bench

int main() {
    using namespace farcached::bench;
    check_known_devices();
    check_device_errors();
    check_counts();
    check_model();
    check_modes();
    check_advice();
    check_options();
    return tap::done();
}
