// SPDX-License-Identifier: BSD-3-Clause
// Survey: what all the daemons that farctl was pointed to tell at one time, sorted into proxies and nodes.
//
// A node may be seen through several proxies and directly: it is one row, by its name. What nobody could be asked is a
// Failure among the others; the rest is told all the same.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ctl/server.h"
#include "ctl/stats.h"

namespace farcached::ctl {

// How one proxy sees a node.
struct Seen {
    std::string socket;       // the proxy's
    std::string state;        // "up", "down", "drained"
    std::string down_reason;
    uint64_t links = 0, links_up = 0;
};

struct NodeFacts {
    std::string name;         // embedded_name: the memory of a farcached without nodes
    std::string address;      // as its proxies have it; else the socket where it was asked
    std::string incarnation;
    std::vector<Seen> seen;
    uint64_t hits_unseen = 0; // gets that proxies answered without asking it
    Stats stats;              // its own general ones; empty: they could not be had

    // "up", "down", "drained"; "mixed": proxies differ.
    std::string state() const;
    uint64_t gets() const { return stats.count("cmd_get") + unseen(); }
    uint64_t hits() const { return stats.count("get_hits") + unseen(); }

  private:
    // Proxies tell a node of some of them, late; those that were asked here know of their own.
    uint64_t unseen() const;
};

struct ProxyFacts {
    std::string socket;
    Stats general, proxy;
};

constexpr std::string_view embedded_name = "(embedded)";  // no node's name has brackets

struct Survey {
    std::vector<NodeFacts> nodes;
    std::vector<ProxyFacts> proxies;
    std::vector<Failure> failures;
};

Survey take_survey(std::vector<Server>& servers);

// Of an answer to `stats nodes`, the rows of each node without their prefix, in the order of the answer.
std::vector<std::pair<std::string, Stats>> split_by_node(const Stats& rows);

// A node's own statistics, from itself or through whichever proxy knows it. `group`: empty: general.
Or<Stats> stats_of_node(std::vector<Server>& servers, const std::string& node, const std::string& group);

}  // namespace farcached::ctl
