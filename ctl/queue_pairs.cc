// SPDX-License-Identifier: BSD-3-Clause
#include "ctl/queue_pairs.h"

#include <algorithm>

namespace farcached::ctl {

namespace {

constexpr DeviceKind kinds[] = {
    {"MT4099", "cx3", "ConnectX-3", 2048},  {"MT4103", "cx3", "ConnectX-3", 2048},  // the second: Pro
    {"MT4119", "cx5", "ConnectX-5", 2048},  {"MT4121", "cx5", "ConnectX-5", 2048},  // Ex
    {"MT4129", "cx7", "ConnectX-7", 32768},
};

// The known device with the smallest cache; nullptr: none is known.
const DeviceKind* smallest(std::span<const Machine::Device> devices) {
    const DeviceKind* found = nullptr;
    for (const Machine::Device& device : devices) {
        const auto kind = std::ranges::find(kinds, std::string_view(device.type), &DeviceKind::type);
        if (kind != std::end(kinds) && (found == nullptr || kind->contexts < found->contexts)) found = kind;
    }
    return found;
}

}  // namespace

std::span<const DeviceKind> device_kinds() { return kinds; }

std::vector<std::string> queue_pair_warnings(const Survey& survey, std::span<const Machine::Device> devices) {
    std::vector<std::string> warnings;
    const DeviceKind* kind = smallest(devices);
    if (kind == nullptr) return warnings;
    const auto judge = [&](const std::string& whose, uint64_t count, const char* things) {
        if (count > kind->contexts)
            warnings.push_back(whose + " " + std::to_string(count) + things + std::string(kind->title) +
                               " caches at most " + std::to_string(kind->contexts) + " contexts, so READs get slower");
    };
    uint64_t here = 0;
    for (const NodeFacts& node : survey.nodes) {
        if (!node.address.starts_with("verbs:")) continue;
        for (const Seen& one : node.seen) here += one.links_up;
        const uint64_t opened = node.stats.count("connections_opened"), over = node.stats.count("connections_over");
        // Those over other transports count, too: the node does not tell them apart.
        judge("node " + node.name + " has", opened - std::min(opened, over), " connections, over RDMA a queue pair each; a ");
    }
    judge("the proxies of this host have", here, " queue pairs; a ");
    return warnings;
}

}  // namespace farcached::ctl
