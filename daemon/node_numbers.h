// SPDX-License-Identifier: BSD-3-Clause
// NodeNumbers: what nodes told of themselves, read back from their texts by the tables those were written from
// (node/service_counters.h), and added up. Pure; the texts are the nodes', so a line that says nothing known, or no
// number, is left out (S10).
//
// What nodes told (`told`, everywhere) is the value of a Backend's StatsReply: daemon/backend.h draws it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "node/node.h"

namespace farcached::daemon {

// Each node of `told`, with its text unless it did not answer.
void each_told(std::string_view told,
               FunctionRef<void(std::string_view node, std::optional<std::string_view> text)> visit);
// Each line of a node's text. Neither name nor value has a byte that could end a line or a word of a client's.
void each_line(std::string_view text, FunctionRef<void(std::string_view name, std::string_view value)> visit);

struct NodeNumbers {
    std::string name;
    uint64_t incarnation = 0;       // 0: not told
    node::Stats stats;              // classes: 64 of them
    node::ClassStats all_classes;   // what is counted of classes, summed over them
};

// Of each node that answered. From the group `all`; `general` leaves classes empty, `leases` all but leases.
std::vector<NodeNumbers> read_numbers(std::string_view told);

// What is shown under a name of LEASE_STATS; nothing for another name.
std::optional<uint64_t> lease_number(const node::Stats& stats, std::string_view name);

// Sums over nodes; ages are the highest. False: its size classes are not those that `sum` has so far, and they were
// left out.
bool add_numbers(node::Stats& sum, node::ClassStats& all_classes, const NodeNumbers& one);

// ---- what a reset means: counters of `now` less those of `earlier`, gauges as they are ----------------------
void subtract(node::Stats& now, const node::Stats& earlier);
void subtract(node::ClassStats& now, const node::ClassStats& earlier);
// What of all classes is counted.
void add_counters(node::ClassStats& sum, const node::ClassStats& one);

}  // namespace farcached::daemon
