// SPDX-License-Identifier: BSD-3-Clause
// NodeNumbers: the nodes' statistics, parsed from their texts by the tables that wrote them (node/service/node_stats.h), and
// added up. Pure. The texts are untrusted: a line with an unknown name, or without a number, is ignored (S10).
//
// The nodes' answers (`told`, everywhere) are the value of a StatsReply; daemon/engine/links.h has its format.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "node/store/node.h"

namespace farcached::daemon {

// Visits each node of `told`, with its text unless it did not answer.
void each_told(std::string_view told,
               FunctionRef<void(std::string_view node, std::optional<std::string_view> text)> visit);
// Visits each line of a node's text. Neither name nor value has a byte that could end a line or a word for a client.
void each_line(std::string_view text, FunctionRef<void(std::string_view name, std::string_view value)> visit);

struct NodeNumbers {
    std::string name;
    uint64_t incarnation = 0;       // 0: missing
    node::Stats stats;              // classes: 64 of them
    node::ClassStats all_classes;   // counters of classes, summed over them
};

// Of each node that answered. From the group `all`; `general` leaves classes empty, `leases` all but leases.
std::vector<NodeNumbers> read_numbers(std::string_view told);

// The value of a name of node::lease_rows; none for other names.
std::optional<uint64_t> lease_number(const node::Stats& stats, std::string_view name);

// Sums over nodes; ages are the highest. False: its size classes differ from those of `sum`, and were omitted.
bool add_numbers(node::Stats& sum, node::ClassStats& all_classes, const NodeNumbers& one);

// ---- resets: counters of `now` minus those of `earlier`, gauges as they are ---------------------------------
void subtract(node::Stats& now, const node::Stats& earlier);
void subtract(node::ClassStats& now, const node::ClassStats& earlier);
// Adds the counters of classes.
void add_counters(node::ClassStats& sum, const node::ClassStats& one);

}  // namespace farcached::daemon
