// SPDX-License-Identifier: BSD-3-Clause
// NodeSet: the nodes of this process at one moment, with their weights, options and placement of keys.
//
// Owner: shared by Nodes and the workers. Threads: any; it does not change once it is in use (Nodes, D1).
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/shared_epoch.h"
#include "conf/settings.h"
#include "daemon/remote/former_places.h"
#include "daemon/remote/moved_keys.h"
#include "daemon/remote/one_node.h"
#include "fabric/verbs/verbs_channel.h"
#include "proxy/node_link.h"
#include "proxy/placement.h"

namespace farcached::daemon {

inline bool same_key(const std::shared_ptr<const protocol::AuthKey>& a, const std::shared_ptr<const protocol::AuthKey>& b) {
    return a == nullptr || b == nullptr ? a == b : a->same(*b);
}

struct NodeOptions {
    uint64_t timeout_ns = 1'000'000'000;  // request timeout
    bool failover = false;
    bool copies = false;                  // each item is on two nodes
    std::vector<std::string> copy_prefixes = {};  // only with these; empty: with all keys
    bool reads_both = false;              // both nodes serve very hot keys
    uint64_t refill_ns = 0;               // a miss asks the other node for so long after a change of the list
    uint32_t failover_ttl_s = 0;          // the longest time to live of a diverted item; 0: as the client wishes
    bool local_read = true;
    bool probe_index = false;
    bool count_reads = false;             // where node and channel support it
    fabric::RpcWish rpc;                  // over RDMA
    uint32_t links_per_node = 0;          // shared by the workers; 0: one for each; never over shm
    uint64_t report_interval_ns = 0;      // of accesses that nodes did not see; 0: sent with requests
    bool report_mapped = false;           // also of nodes with mapped memory; else with requests
    uint32_t report_items = 0;            // keys that are classified for reports
    std::shared_ptr<const protocol::AuthKey> key = nullptr;  // proved to nodes; nullptr: no authentication

    bool keeps_copy(std::string_view of_key) const {
        if (!copies || copy_prefixes.empty()) return copies;
        return std::ranges::any_of(copy_prefixes, [of_key](const std::string& prefix) { return of_key.starts_with(prefix); });
    }
    // Of a node over this channel.
    uint32_t links(conf::NodeChannel channel) const { return channel == conf::NodeChannel::shm ? 0 : links_per_node; }
    // True: existing connections over this channel suit both.
    bool same_links(const NodeOptions& other, conf::NodeChannel channel) const {
        return timeout_ns == other.timeout_ns && local_read == other.local_read && probe_index == other.probe_index &&
               count_reads == other.count_reads && (channel != conf::NodeChannel::verbs || rpc == other.rpc) &&
               links(channel) == other.links(channel) && report_interval_ns == other.report_interval_ns &&
               report_mapped == other.report_mapped && report_items == other.report_items && same_key(key, other.key);
    }
};
// The configuration at one moment. Nodes are numbered from 0, as in the placement; those without keys come last.
struct NodeSet {
    struct Member {
        std::shared_ptr<OneNode> one;
        uint32_t weight = 1;    // 0: no keys
        std::string zone = {};  // empty: none
        bool near = false;      // its zone is this process's
        SharedSocket socket = nullptr;
        SharedFound found = nullptr;
        uint64_t renewal = 0;   // Fences::renewal(); connections stay while it is the same (D5)
    };
    NodeOptions options;
    std::vector<Member> members;
    std::vector<ListChange> changes;  // the last ones, newest first; empty: items move nowhere
    std::shared_ptr<const conf::FormerLists> former_lists;  // of the changes
    bool has_near = false;  // one of them is
    std::shared_ptr<const proxy::Placement> placement;
    std::vector<FormerPlaces> former;  // of the set before, and of those whose deletes had not ended then (F7)
    SharedEpoch epoch;
    uint64_t since = 0;  // the first epoch
    uint64_t lists_before = 0;  // as in FormerLists
};

}  // namespace farcached::daemon
