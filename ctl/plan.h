// SPDX-License-Identifier: BSD-3-Clause
// `farctl route --plan`: how many of the keys in use would move if the node list were that of another configuration. The
// configuration's parser and the placement are farcached's own.
//
// The sample: each node names the keys of whole pages, drawn in a random order, until it has a thousand, or a millisecond of
// processor time has passed. The daemon then routes each of them; a key that it routes elsewhere is an old copy, which no client
// reads, and is left out. A key moves if its node under the new list has another name. A node's share of moving keys times its
// items is the estimate.
// Owner: main; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ctl/server.h"
#include "ctl/show.h"
#include "proxy/placement.h"

namespace farcached::ctl {

// The node list of a configuration.
struct NodePlan {
    std::vector<std::string> names;                 // empty: the node in farcached itself
    std::vector<std::string> addresses;             // of each, as in farctl status
    std::shared_ptr<const proxy::Placement> where;  // null without nodes
    std::string node_of(const std::string& key) const;
};
Or<NodePlan> plan_of_file(const std::string& path);

// A node's items, and its sampled keys that move.
struct PlannedNode {
    std::string name;
    uint64_t items = 0;                          // all, also those not sampled
    uint64_t sampled = 0;                        // keys looked at
    bool has_all_pages = false;                  // the keys are from all of its pages
    std::map<std::string, uint64_t> moving;      // of these, by the node that they move to
    uint64_t moves() const;
    double estimate(uint64_t sampled_keys) const; // of all items
};

// Of one farcached: asks it for keys in use, and for the route of each.
struct PlanResult {
    std::vector<PlannedNode> nodes;
    std::vector<std::string> silent;             // nodes that named no keys because they did not answer
    std::vector<std::string> moved_addresses;    // nodes whose address differs: "a: tcp:x, now tcp:y"
};
Or<PlanResult> make_plan(Server& server, const NodePlan& plan);

std::string plan_text(const PlanResult& result, Look look = {});
Json json_of(const PlanResult& result);

}  // namespace farcached::ctl
