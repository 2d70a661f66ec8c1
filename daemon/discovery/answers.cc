// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/discovery/answers.h"

#include <arpa/inet.h>

#include <algorithm>
#include <numeric>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "conf/addresses.h"

namespace farcached::daemon {

namespace {

FoundNode node_at(std::string host, uint16_t port, uint32_t weight, const NodeTraits& traits) {
    FoundNode found;
    found.node.name = conf::host_and_port(host, port);
    found.node.channel = traits.channel;
    found.node.host = std::move(host);
    found.node.port = port;
    found.node.weight = weight;
    found.node.origin = traits.origin;
    return found;
}

// Of the nodes with one name, the first stays.
void sort_by_name(std::vector<FoundNode>& nodes) {
    std::ranges::stable_sort(nodes, {}, [](const FoundNode& one) -> const std::string& { return one.node.name; });
    const auto same_name = [](const FoundNode& a, const FoundNode& b) { return a.node.name == b.node.name; };
    nodes.erase(std::unique(nodes.begin(), nodes.end(), same_name), nodes.end());
}

}  // namespace

std::vector<FoundNode> nodes_of_addresses(const std::vector<std::string>& addresses, uint16_t port, const NodeTraits& traits) {
    std::vector<FoundNode> nodes;
    for (const std::string& address : addresses) nodes.push_back(node_at(address, port, 1, traits));
    sort_by_name(nodes);
    return nodes;
}

std::vector<FoundNode> nodes_of_services(std::vector<ServiceRecord> records, const NodeTraits& traits) {
    for (ServiceRecord& one : records) one.target = conf::host_name_of(one.target);
    std::erase_if(records, [](const ServiceRecord& one) { return one.target.empty() || one.port == 0; });
    if (records.empty()) return {};
    const uint16_t priority = std::ranges::min(records, {}, &ServiceRecord::priority).priority;
    std::erase_if(records, [&](const ServiceRecord& one) { return one.priority != priority; });
    uint32_t divisor = 0;
    for (ServiceRecord& one : records) {
        one.weight = std::max<uint16_t>(one.weight, 1);
        divisor = std::gcd(divisor, uint32_t(one.weight));
    }
    // Of a target that is listed twice, the greater weight stays.
    std::ranges::sort(records, [](const ServiceRecord& a, const ServiceRecord& b) {
        return std::tie(a.target, a.port, b.weight) < std::tie(b.target, b.port, a.weight);
    });
    std::vector<FoundNode> nodes;
    for (ServiceRecord& one : records) nodes.push_back(node_at(std::move(one.target), one.port, one.weight / divisor, traits));
    for (FoundNode& one : nodes) one.node.origin += ", node " + one.node.name;
    sort_by_name(nodes);
    return nodes;
}

namespace {

void sort_addresses(std::vector<std::string>& addresses) {
    const auto order = [](const std::string& one) { return std::pair(one.find(':') != one.npos, std::string_view(one)); };
    std::ranges::sort(addresses, {}, order);
    addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
}

}  // namespace

std::vector<std::string> hosts_of(const std::vector<FoundNode>& nodes) {
    std::vector<std::string> hosts;
    for (const FoundNode& one : nodes) {
        in_addr address;
        if (inet_pton(AF_INET, one.node.host.c_str(), &address) != 1) hosts.push_back(one.node.host);
    }
    std::ranges::sort(hosts);
    hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
    return hosts;
}

std::string set_addresses(std::vector<FoundNode>& nodes, const std::vector<std::string>& hosts,
                          std::vector<std::vector<std::string>> addresses) {
    CHECK(hosts.size() == addresses.size());
    for (size_t i = 0; i < hosts.size(); i++) {
        if (addresses[i].empty()) return hosts[i];
        sort_addresses(addresses[i]);
    }
    for (FoundNode& one : nodes) {
        const auto at = std::ranges::lower_bound(hosts, one.node.host);
        if (at != hosts.end() && *at == one.node.host) one.node.addresses = addresses[size_t(at - hosts.begin())];
    }
    return {};
}

bool same_nodes(const std::vector<FoundNode>& a, const std::vector<FoundNode>& b) {
    const auto same = [](const FoundNode& one, const FoundNode& other) {
        return one.node.name == other.node.name && one.node.weight == other.node.weight &&
               conf::address_of(one.node) == conf::address_of(other.node) && one.zone == other.zone &&
               one.incarnation == other.incarnation && one.version == other.version;
    };
    return std::ranges::equal(a, b, same);
}

uint32_t pause_after_answer(std::optional<uint32_t> ttl_s) {
    if (!ttl_s.has_value() || *ttl_s > INT32_MAX) return pause_s_min;
    return std::clamp(*ttl_s, pause_s_min, pause_s_max);
}

std::optional<uint32_t> smaller_ttl(std::optional<uint32_t> a, std::optional<uint32_t> b) {
    return a.has_value() && b.has_value() ? std::min(*a, *b) : a.has_value() ? a : b;
}

uint32_t pause_after_failures(uint32_t failures) {
    uint32_t pause = pause_s_min;
    for (uint32_t i = 1; i < failures && pause < retry_s_max; i++) pause *= 2;
    return std::min(pause, retry_s_max);
}

}  // namespace farcached::daemon
