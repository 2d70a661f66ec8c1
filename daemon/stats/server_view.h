// SPDX-License-Identifier: BSD-3-Clause
// ServerView: the interface of the admin commands to the server and its workers. The server implements it
// (daemon/farcached/server.h), AdminImpl reads it (daemon/farcached/admin.h), tests fake it.
//
// Owner: as of the Server. Threads: any.
//
// V1  Every call is safe from any thread and blocks on short locks only.
// V2  Counters start with the process and never fall; gauges are marked. AdminImpl implements `stats reset`, not the server.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "base/node_clock.h"
#include "daemon/stats/fence_shown.h"
#include "daemon/stats/hot_keys.h"
#include "daemon/stats/latency.h"
#include "daemon/stats/worker_counters.h"
#include "fabric/remote_ptr.h"
#include "proxy/link_counters.h"
#include "proxy/local_get.h"
#include "proxy/placement.h"
#include "proxy/pointer_table.h"

namespace farcached::daemon {

// NodesView: the interface of statistics and operator commands to the nodes behind this process. The server has one if nodes
// are configured (ServerView::nodes()).
//
// Every call is safe from any thread and blocks on short locks only. Reloads change the set of nodes: all() returns a
// consistent one.
enum class NodeState : uint8_t {
    up,       // at least one worker's connection is up
    down,
    drained,  // by the operator: gets no requests for keys
    fenced,   // connected, but not in use: its keys are at other nodes until its old items are dead (daemon/remote/fence.h)
};
constexpr std::string_view node_state_name(NodeState state) {
    constexpr std::string_view names[] = {"up", "down", "drained", "fenced"};
    return names[size_t(state)];
}

struct NodeShown {
    uint32_t number = 0;        // unique in this process; without a reload from 0 in configured order
    std::string name;
    std::string address;        // "shm:/run/a.sock", "tcp:[::1]:11300"
    uint32_t weight = 1;
    std::string zone;  // empty: none
    NodeState state = NodeState::down;
    uint64_t incarnation = 0;   // of the last greeting; 0: none
    uint32_t protocol_version = 0;  // agreed on in that greeting
    std::string key;                // role and name of the key that this process proves to it, and whether it has; empty: none
    uint32_t links = 0;         // one for each worker
    uint32_t links_up = 0;
    std::optional<uint32_t> links_shm;  // of these, over its socket (conf::NodeSocket); nullopt: it has none here
    std::string rpc;            // ways of requests over RDMA, with the number of links if they differ: "send 1, rfp 3"
    std::string down_reason;    // reason of the last connection loss; empty: none
    FenceShown fence;
    std::string ways;           // ways that its GETs can have, as in `stats latency`: "one_sided, two_sided"
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
    std::string copy;                   // the node that has the copy; empty: no copies
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
    // Nodes whose keys the search for missing copies has still to look at; 0: it has found all, or there are no copies. It counts
    // from the moment at which a change of the list shows in all().
    virtual uint32_t replica_search_left() const { return 0; }

    virtual Route route(std::string_view key) const = 0;

    // False: unknown name. A drained node gets no requests for keys: they are answered as for a down node. It still reports
    // statistics, and is flushed with the others.
    virtual bool drain(std::string_view name, bool on) = 0;
};

// The certificate in use (-Z).
struct TlsNumbers {
    uint64_t age_s = 0;        // since it was loaded
    int64_t expires_unix = 0;
};

struct ServerNumbers {
    // counters
    uint64_t total_connections = 0;            // accepted, without listeners
    uint64_t rejected_connections = 0;         // over the limit (maxconns_fast)
    uint64_t listen_disabled_num = 0;          // times accepting was suspended
    uint64_t time_in_listen_disabled_us = 0;
    uint64_t udp_dropped = 0;                  // datagrams that did not fit into the kernel's buffers
    // gauges
    uint64_t curr_connections = 0;             // clients and watchers, without listeners
    uint64_t connections_max = 0;              // limit (-c)
    uint64_t connection_structures = 0;        // sessions and listeners in memory
    uint64_t response_count = 0;               // sessions with a reply under way
    uint64_t response_bytes = 0;               // held by them
    uint64_t read_buf_count = 0;
    uint64_t read_buf_bytes = 0;               // of all clients' buffers, input and output
    uint64_t read_buf_bytes_max = 0;           // their limit
    uint64_t read_buf_bytes_free = 0;          // kept for reuse
    uint64_t reserved_fds = 0;                 // descriptors not for clients
    uint64_t udp_sockets = 0;                  // memcached counts them as connections
    uint64_t udp_in_flight = 0;                // datagrams that are being served
    bool accepting_conns = true;
    std::optional<TlsNumbers> tls;             // none: clients are plain
    std::optional<int64_t> peer_certificate_expires;  // Unix time; none: links to nodes are plain
};

// One line group of `stats conns`. The views are valid during the visit.
struct ConnectionInfo {
    int fd = -1;
    std::string_view addr;          // "tcp:127.0.0.1:40950", "tcp6:[::1]:40950", "unix:/path"
    std::string_view listen_addr;   // empty for listeners
    std::string_view state;         // memcached's words: conn_listening, conn_read, conn_parse_cmd, ...
    uint64_t idle_s = 0;            // since the last command
    bool udp = false;               // a socket of UDP
};

class ServerView {
  public:
    virtual ~ServerView() = default;

    virtual NodeSeconds now() const = 0;
    virtual int64_t started_unix() const = 0;   // Unix time at which the node's clock read 0

    virtual uint32_t worker_count() const = 0;
    virtual const WorkerCounters& worker_counters(uint32_t worker) const = 0;
    // nullptr: without an embedded node.
    virtual const proxy::LocalGetCounters* local_counters(uint32_t worker) const = 0;
    // nullptr: no measurements.
    virtual const LatencyCounters* latency_counters([[maybe_unused]] uint32_t worker) const { return nullptr; }
    // Of all workers, each worker's in the order of their ends.
    virtual void each_slow([[maybe_unused]] FunctionRef<void(const SlowRequest&)> visit) const {}
    // The sampling rate of keys, one in so many; 0: off. Then one worker's samples.
    virtual uint32_t hot_keys_one_in() const { return 0; }
    virtual HotKeys* hot_keys([[maybe_unused]] uint32_t worker) { return nullptr; }
    // The number of workers with io_uring sockets (daemon/session/ring_io.cc); the others use libevent.
    virtual uint32_t workers_on_ring() const { return 0; }
    virtual ServerNumbers numbers() const = 0;
    virtual void each_connection(FunctionRef<void(const ConnectionInfo&)> visit) const = 0;
    // One visit per reason of session ends, zero or not.
    virtual void each_close_reason(
        FunctionRef<void(std::string_view name, uint64_t count)> visit) const = 0;

    // The nodes behind this process; nullptr: items are in the one embedded node.
    virtual NodesView* nodes() const { return nullptr; }

    virtual void shut_down(bool graceful) = 0;  // returns before it is done
    virtual void reload() {}                    // the same
};

}  // namespace farcached::daemon
