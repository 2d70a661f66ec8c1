// SPDX-License-Identifier: BSD-3-Clause
// NodePointers: the host's table of remote pointers, and which ways GETs of a node have.
//
// Owner: Nodes. Main opens the table; any thread uses it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "conf/settings.h"
#include "daemon/remote/node_set.h"
#include "daemon/stats/server_view.h"
#include "proxy/pointer_table.h"

namespace farcached::daemon {

class NodePointers {
  public:
    // Attaches to the pointer table if it is of use to the set, which may not be in use yet, and not attached yet. Returns an empty
    // string, or why the table is refused, for the log: gets are two-sided then.
    std::string open(const conf::ProxySettings& settings, const NodeSet& set);
    // nullptr: none.
    proxy::PointerTable* table() const { return shown_.load(std::memory_order_acquire); }

    // As NodeShown::ways.
    std::string ways_of(const NodeOptions& options, const OneNode& node) const;
    // A key, as the node's present process hashes it.
    struct Hashed {
        uint64_t incarnation = 0, hash = 0;
    };
    // Writes the ways of the key's gets, and its pointer, to the route.
    void find(const NodeOptions& options, const OneNode& node, const Hashed& key, Route& route) const;

  private:
    const proxy::PointerTable* table_for(const NodeOptions& options, const OneNode& node) const;

    std::unique_ptr<proxy::PointerTable> table_;
    std::atomic<proxy::PointerTable*> shown_{nullptr};
};

}  // namespace farcached::daemon
