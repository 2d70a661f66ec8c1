// SPDX-License-Identifier: BSD-3-Clause
// ProxySettings: the settings of a farcached with nodes: the nodes, key distribution, and reads. Texts, bounds and defaults are
// in the option table (conf/proxy_option_table.cc).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/placement_words.h"
#include "conf/access_tracking.h"

namespace farcached::conf {

enum class NodeChannel : uint8_t { shm, tcp, verbs };

// One node as configured. conf/nodes.h has the table of its keys.
struct NodeSpec {
    std::string name;                 // unique; letters, digits and ._-
    NodeChannel channel = NodeChannel::shm;
    std::string path;                 // shm: its Unix socket
    std::string host;                 // tcp, verbs: a name or an address, without brackets
    uint16_t port = 0;                // tcp, verbs: not 0
    uint32_t weight = 1;              // 1 to limits::node_weight_max
    std::string hash_as;              // "host:port" for hashing; empty: the name
    std::string origin;               // place in the configuration, for messages: "file:12:1", "--node a=shm:/x"
};

// How a GET without a remote pointer finds its item.
enum class PointerMiss : uint8_t {
    rpc,     // by RPC
    index,   // reads the node's published index, and uses RPC only on a miss there
};

struct ProxySettings {
    std::vector<NodeSpec> nodes;             // empty: the node in this process
    Distribution distribution = Distribution::ketama;
    KeyHash hash = KeyHash::automatic;
    std::string hash_tag;                    // two characters; empty: keys are hashed whole
    bool shm_group = false;                  // also accept nodes over shm of this process's group
    bool local_read = false;                 // read the index of a node whose region is mapped
    PointerMiss pointer_miss = PointerMiss::rpc;
    AccessTracking access_tracking = AccessTracking::automatic;
    uint32_t report_interval_ms = 0;         // between reports of accesses, if reports are sent
    uint32_t report_items = 0;               // keys classified for reports
    std::string pointer_table_path;          // a POSIX shared-memory name
    uint64_t pointer_table_entries = 0;      // a power of two
    uint32_t node_timeout_ms = 0;            // timeout of a request to a node
    bool failover = false;                   // keys of a node that is down move along the ring
};

}  // namespace farcached::conf
