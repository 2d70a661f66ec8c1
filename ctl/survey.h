// SPDX-License-Identifier: BSD-3-Clause
// Survey: the state of all daemons given to farctl at one time, sorted into proxies and nodes.
//
// Owner: main; one thread. A node seen through several proxies and directly is one row, by its name. A daemon that does
// not answer adds a Failure; the others are reported all the same.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ctl/server.h"

namespace farcached::ctl {

// A proxy's view of a node.
struct Seen {
    std::string socket;       // the proxy's
    std::string state;        // "up", "down", "drained"
    std::string down_reason;
    uint64_t links = 0, links_up = 0;
    uint64_t protocol_version = 0;  // 0: it never greeted
};

struct NodeFacts {
    std::string name;         // embedded_name: the memory of a farcached without nodes
    std::string address;      // from its proxies, or else its own socket
    std::string incarnation;
    std::string zone;         // that it registered; empty: none
    std::string key;          // of its first proxy: "proxy key a", with the state while no connection is up
    std::vector<Seen> seen;
    uint64_t hits_unseen = 0; // gets that proxies answered without a request to it
    Stats stats;              // its general statistics; empty: unavailable

    // "up", "down", "drained"; "mixed": the proxies differ.
    std::string state() const;
    uint64_t gets() const { return stats.count("cmd_get") + unseen(); }
    uint64_t hits() const { return stats.count("get_hits") + unseen(); }

  private:
    // Proxies report some of these to the node later; the surveyed proxies know their own.
    uint64_t unseen() const;
};

struct ProxyFacts {
    std::string socket;
    Stats general, proxy;
    Stats discovery = {};  // of --discover; empty: no source is configured, or an old farcached
};

constexpr std::string_view embedded_name = "(embedded)";  // no node's name has brackets

struct Survey {
    std::vector<NodeFacts> nodes;
    std::vector<ProxyFacts> proxies;
    std::vector<Failure> failures;
};

Survey take_survey(std::vector<Server>& servers);

// Splits an answer to `stats nodes` by node, in order, without the prefixes.
std::vector<std::pair<std::string, Stats>> split_by_node(const Stats& rows);

// The names of the nodes that a daemon knows: its own, or those behind it.
Or<std::vector<std::string>> names_of_nodes(Server& server);

// A node's own statistics, directly or through a proxy. `group`: empty: general.
Or<Stats> stats_of_node(std::vector<Server>& servers, const std::string& node, const std::string& group);

}  // namespace farcached::ctl
