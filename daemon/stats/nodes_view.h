// SPDX-License-Identifier: BSD-3-Clause
// NodesView: the interface of statistics and operator commands to the nodes behind this process. The server has one if nodes
// are configured (ServerView::nodes()).
//
// Every call is safe from any thread and blocks on short locks only. Reloads change the set of nodes: all() returns a
// consistent one.
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
    up,       // at least one worker's connection is up
    down,
    drained,  // by the operator: gets no requests for keys
};
constexpr std::string_view node_state_name(NodeState state) {
    constexpr std::string_view names[] = {"up", "down", "drained"};
    return names[size_t(state)];
}

struct NodeShown {
    uint32_t number = 0;        // unique in this process; without a reload from 0 in configured order
    std::string name;
    std::string address;        // "shm:/run/a.sock", "tcp:[::1]:11300"
    uint32_t weight = 1;
    NodeState state = NodeState::down;
    uint64_t incarnation = 0;   // of the last greeting; 0: none
    uint32_t protocol_version = 0;  // agreed on in that greeting
    uint32_t links = 0;         // one for each worker
    uint32_t links_up = 0;
    std::string down_reason;    // reason of the last connection loss; empty: none
};

struct Route {
    enum class Pointer : uint8_t {
        unused,   // gets of this node's keys do not use remote pointers
        none,     // no usable one in the table
        expired,  // its lease is over
        valid,
    };
    static constexpr size_t walk_shown = 9;  // the walk ends here without failover, or once the node in use is found
    proxy::PlacementOptions placement;
    std::string hashed;                 // the part of the key that is hashed
    uint32_t place = 0;                 // the key's hash, or the random draw
    std::optional<uint32_t> point;      // point on the ring of `place`; none: no ring, or one node
    bool failover = false;
    std::vector<NodeShown> walk;        // nodes in fail-over order; the first is the key's own
    // Of the node in use, if any:
    std::optional<size_t> asked;        // in `walk`
    std::string ways;                   // ways of gets, as in `stats latency`
    Pointer pointer = Pointer::unused;
    bool pointer_shared = false;        // valid, and obtained by another process of this host
    uint64_t lease_left_ns = 0;         // of a valid one
    fabric::RemotePtr target;           // of a valid one
};

// The error for operator commands about items or their memory, which are in the nodes.
constexpr std::string_view items_in_nodes = "CLIENT_ERROR items are in the nodes: ask them";

class NodesView {
  public:
    virtual ~NodesView() = default;

    // In configured order.
    virtual std::vector<NodeShown> all() const = 0;
    // Visits the counters of each worker's connection to node `number`, and of its reads through the node's mapped index. Then
    // the sums of closed connections. An unknown number has no visits.
    using LinkVisit = FunctionRef<void(const proxy::LinkCounters&, const proxy::LocalGetCounters&)>;
    virtual void each_link(uint32_t number, LinkVisit visit) const = 0;
    // The same for removed nodes.
    virtual void each_past_link(LinkVisit visit) const = 0;
    // nullptr: no table, and no one-sided reads by pointers.
    virtual proxy::PointerTable* pointer_table() const = 0;

    virtual Route route(std::string_view key) const = 0;

    // False: unknown name. A drained node gets no requests for keys: they are answered as for a down node. It still reports
    // statistics, and is flushed with the others.
    virtual bool drain(std::string_view name, bool on) = 0;
};

}  // namespace farcached::daemon
