// SPDX-License-Identifier: BSD-3-Clause
// NodesView: what statistics and the operator's commands need to know of the nodes behind this process, and may ask
// of them. The server has one where nodes are configured (ServerView::nodes()).
//
// Every call is safe from any thread and blocks on nothing but short locks. Nodes come and go by a reload: who wants all
// of one moment asks for all().
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "fabric/remote_ptr.h"
#include "proxy/link_counters.h"
#include "proxy/local_get.h"
#include "proxy/placement.h"
#include "proxy/pointer_table.h"

namespace farcached::daemon {

enum class NodeState : uint8_t {
    up,       // some worker's connection is
    down,
    drained,  // by the operator: asked for no key
};
constexpr std::string_view node_state_name(NodeState state) {
    constexpr std::string_view names[] = {"up", "down", "drained"};
    return names[size_t(state)];
}

struct NodeShown {
    uint32_t number = 0;        // no other node of this process has or had it; without a reload from 0 in their order
    std::string name;
    std::string address;        // "shm:/run/a.sock", "tcp:[::1]:11300"
    uint32_t weight = 1;
    NodeState state = NodeState::down;
    uint64_t incarnation = 0;   // of the last greeting; 0: it never greeted
    uint32_t links = 0;         // one for each worker
    uint32_t links_up = 0;
    std::string down_reason;    // why a connection to it went down last; empty: none did
};

// Where a key goes at this moment.
struct Route {
    enum class Pointer : uint8_t {
        unused,   // gets of this node's keys do not go by remote pointers
        none,     // none in the table, or one that is of no more use
        expired,  // its lease is over
        valid,
    };
    static constexpr size_t walk_shown = 9;  // more are not looked at once one is found that is asked
    proxy::PlacementOptions placement;
    std::string hashed;                 // the part of the key that is hashed
    uint32_t place = 0;                 // of the key: its hash, or what was drawn
    std::optional<uint32_t> point;      // on the ring, which that belongs to; none: there is no ring, or one node
    bool failover = false;
    std::vector<NodeShown> walk;        // the nodes in the order in which they are tried; the first is the key's own
    // Of the node that is asked, if one is:
    std::optional<size_t> asked;        // in `walk`
    std::string ways;                   // on which gets are answered, as in `stats latency`
    Pointer pointer = Pointer::unused;
    bool pointer_shared = false;        // valid, and another process of this host got it
    uint64_t lease_left_ns = 0;         // of a valid one
    fabric::RemotePtr target;           // of a valid one
};

// What the operator hears who would look at the items of this process, or change the memory for them.
constexpr std::string_view items_in_nodes = "CLIENT_ERROR items are in the nodes: ask them";

class NodesView {
  public:
    virtual ~NodesView() = default;

    // In the order in which they are configured.
    virtual std::vector<NodeShown> all() const = 0;
    // Each worker's counters of its connections to the node of that number, and of its reads by the node's mapped
    // index: that which is, and the sum of those that are over. Of a node that is not there: none.
    using LinkVisit = FunctionRef<void(const proxy::LinkCounters&, const proxy::LocalGetCounters&)>;
    virtual void each_link(uint32_t number, LinkVisit visit) const = 0;
    // The same of nodes that are no longer configured.
    virtual void each_past_link(LinkVisit visit) const = 0;
    // nullptr: there is none, and no one-sided read by pointers.
    virtual proxy::PointerTable* pointer_table() const = 0;

    virtual Route route(std::string_view key) const = 0;

    // False: there is no node of that name. A drained node is asked for no key: they are answered as a node's that
    // is down. It still tells of itself, and is flushed with the others.
    virtual bool drain(std::string_view name, bool on) = 0;
};

}  // namespace farcached::daemon
