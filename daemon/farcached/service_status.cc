// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/farcached/service_status.h"

#include <cmath>

namespace farcached::daemon {

namespace {

constexpr std::chrono::milliseconds shortest_measure{500};

std::string nodes_words(const NodesView& nodes) {
    uint32_t up = 0, drained = 0;
    std::string down;
    const std::vector<NodeShown> all = nodes.all();
    for (const NodeShown& node : all) {
        if (node.state == NodeState::up) up++;
        if (node.state == NodeState::drained) drained++;
        if (node.state != NodeState::down || !down.empty()) continue;
        down = node.name + " is down";
        if (!node.down_reason.empty()) down += ": " + node.down_reason;
    }
    std::string words = std::to_string(up) + "/" + std::to_string(all.size()) + " nodes up";
    if (!down.empty()) words += " (" + down + ")";
    if (drained != 0) words += ", " + std::to_string(drained) + " drained";
    return words + ", ";
}

}  // namespace

void ServiceStatus::measure() {
    const auto now = std::chrono::steady_clock::now();
    if (now - since_ < shortest_measure) return;
    uint64_t requests = 0;
    for (uint32_t i = 0; i < server_.worker_count(); i++)
        requests += server_.worker_counters(i).requests.get();
    const double seconds = std::chrono::duration<double>(now - since_).count();
    if (since_ != std::chrono::steady_clock::time_point())
        per_second_ = uint64_t(std::llround(double(requests - requests_) / seconds));
    requests_ = requests;
    since_ = now;
}

std::string ServiceStatus::text() {
    measure();
    const uint64_t clients = server_.clients();
    std::string words = nodes_ == nullptr ? "" : nodes_words(*nodes_);
    words += std::to_string(clients) + (clients == 1 ? " client, " : " clients, ");
    return words + std::to_string(per_second_) + " requests/s";
}

}  // namespace farcached::daemon
