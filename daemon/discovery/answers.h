// SPDX-License-Identifier: BSD-3-Clause
// Makes lists of nodes of answers from DNS, and chooses the time of the next look-up. Pure; any thread.
//
// N1  Answers with the same records in another order make the same list.
// N2  A node's name is its address, or its target, with the port. It is the same in every process, and so is the place of keys.
//     The addresses of a target do not place keys.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "conf/settings.h"
#include "daemon/discovery/source.h"

namespace farcached::daemon {

struct ServiceRecord {
    std::string target;  // without a final dot
    uint16_t priority = 0, weight = 0, port = 0;
};

// The part of the nodes that records do not have.
struct NodeTraits {
    conf::NodeChannel channel = conf::NodeChannel::tcp;
    std::string origin;
};

std::vector<FoundNode> nodes_of_addresses(const std::vector<std::string>& addresses, uint16_t port, const NodeTraits& traits);
// Only the records with the lowest priority whose target is a host's name; it is in lower case then. Weights are divided by their
// greatest common divisor: the same weight for all becomes 1. 0 counts as 1.
std::vector<FoundNode> nodes_of_services(std::vector<ServiceRecord> records, const NodeTraits& traits);

// The names of hosts whose addresses are to be found, each once. A literal address is none.
std::vector<std::string> hosts_of(const std::vector<FoundNode>& nodes);
// Gives the nodes on these hosts their addresses: IPv4 first, sorted, each once. Returns the first host without an address; empty:
// none. addresses: of each host, in their order.
std::string set_addresses(std::vector<FoundNode>& nodes, const std::vector<std::string>& hosts,
                          std::vector<std::vector<std::string>> addresses);

// Whether two sorted lists place and reach all nodes alike.
bool same_nodes(const std::vector<FoundNode>& a, const std::vector<FoundNode>& b);

// Seconds between two look-ups.
constexpr uint32_t pause_s_min = 1, pause_s_max = 60;
constexpr uint32_t retry_s_max = 16;  // after failures
// ttl_s: the smallest of an answer; nullopt: it had none. Above 2^31 it counts as 0 (RFC 2181).
uint32_t pause_after_answer(std::optional<uint32_t> ttl_s);
// Of two answers; nullopt: it had none.
std::optional<uint32_t> smaller_ttl(std::optional<uint32_t> a, std::optional<uint32_t> b);
// failures: in a row; at least 1.
uint32_t pause_after_failures(uint32_t failures);

}  // namespace farcached::daemon
