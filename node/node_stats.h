// SPDX-License-Identifier: BSD-3-Clause
// NodeStats: a node's statistics as text: lines "name value", by group. The names are the rows of node/service_counters.h.
// Numbers of several nodes may be added by name.
// Owner: main. Threads: any may read once serving begins.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/metrics_text.h"
#include "base/node_clock.h"
#include "node/service_counters.h"

namespace farcached::node {

class Node;

//        name         help
#define NODE_STAT_GROUPS(X)                                                     \
    X(general, "default group: identity, items, memory and requests")           \
    X(leases, "leases granted and denied, and memory waiting for their ends")   \
    X(classes, "each size class with pages or counts")                          \
    X(all, "general and classes: the source of a proxy's memcached statistics") \
    X(connections, "ends of connections, by reason")

class NodeStats {
  public:
    // `node` outlives this. `name`: as in the greeting. `started`: clock reading when serving began.
    NodeStats(const Node& node, std::string name, NodeSeconds started);

    // Called before any connection is served; the counters outlive this.
    void include(const ServiceCounters& counters) { counters_.push_back(&counters); }

    // False: unknown group.
    bool append(std::string_view group, NodeSeconds now, std::string& text) const;
    // The same numbers in Prometheus format (node/node_metrics.cc).
    void append_metrics(NodeSeconds now, MetricsText& out) const;

  private:
    template <class CounterOf>
    uint64_t total(CounterOf counter_of) const;
    void append_general(NodeSeconds now, std::string& text) const;
    void append_leases(NodeSeconds now, std::string& text) const;
    void append_classes(NodeSeconds now, std::string& text) const;
    void append_all(NodeSeconds now, std::string& text) const;
    void append_connections(NodeSeconds now, std::string& text) const;

    const Node& node_;
    const std::string name_;
    const NodeSeconds started_;
    std::vector<const ServiceCounters*> counters_;
};

}  // namespace farcached::node
