// SPDX-License-Identifier: BSD-3-Clause
// What a farcached in front of nodes is told: the nodes, how keys are placed on them, how they are
// read. The words, bounds and defaults are in the option table (conf/proxy_option_table.cc).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/access_tracking.h"
#include "base/placement_words.h"

namespace farcached::conf {

enum class NodeChannel : uint8_t { shm, tcp, verbs };

// One node as it was configured. What may be said of it is in the table of conf/nodes.h.
struct NodeSpec {
    std::string name;                 // unique; letters, digits and ._-
    NodeChannel channel = NodeChannel::shm;
    std::string path;                 // shm: its Unix socket
    std::string host;                 // tcp, verbs: a name or an address, without brackets
    uint16_t port = 0;                // tcp, verbs: not 0
    uint32_t weight = 1;              // 1 to limits::node_weight_max
    std::string hash_as;              // "host:port" to be hashed by; empty: the name
    std::string origin;               // where it was said, for messages: "file:12:1", "--node a=shm:/x"
};

// What a GET does that has no pointer and may not read the node's index directly.
enum class ColdGet : uint8_t {
    rpc,     // asks the node
    index,   // reads the node's published index, and asks only for what it does not find there
};

struct ProxySettings {
    std::vector<NodeSpec> nodes;             // empty: the node in the process
    Distribution distribution = Distribution::ketama;
    KeyHash hash = KeyHash::automatic;
    std::string hash_tag;                    // two characters; empty: keys are hashed whole
    bool local_read = false;                 // read the index of a node whose region is mapped
    ColdGet cold_get = ColdGet::rpc;
    AccessTracking access_tracking = AccessTracking::none;
    uint32_t report_interval_ms = 0;         // between reports of accesses, if there are any
    std::string pointer_table_path;          // a POSIX shared-memory name
    uint64_t pointer_table_entries = 0;      // a power of two
    uint32_t node_timeout_ms = 0;            // until a request to a node is given up
    bool failover = false;                   // keys of a node that is down go on along the ring
};

}  // namespace farcached::conf
