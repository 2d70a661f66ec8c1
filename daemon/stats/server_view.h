// SPDX-License-Identifier: BSD-3-Clause
// ServerView: the interface of the admin commands to the server and its workers. The server implements it
// (daemon/farcached/server.h), AdminImpl reads it (daemon/farcached/admin.h), tests fake it.
//
// V1  Every call is safe from any worker thread and blocks on short locks only.
// V2  Counters start with the process and never fall; gauges are marked. AdminImpl implements `stats reset`, not the server.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/function_ref.h"
#include "base/node_clock.h"
#include "daemon/stats/hot_keys.h"
#include "daemon/stats/latency.h"
#include "daemon/stats/nodes_view.h"
#include "daemon/stats/worker_counters.h"
#include "proxy/local_get.h"

namespace farcached::daemon {

struct ServerNumbers {
    // counters
    uint64_t total_connections = 0;            // accepted, without listeners
    uint64_t rejected_connections = 0;         // over the limit (maxconns_fast)
    uint64_t listen_disabled_num = 0;          // times accepting was suspended
    uint64_t time_in_listen_disabled_us = 0;
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
    bool accepting_conns = true;
};

// One line group of `stats conns`. The views are valid during the visit.
struct ConnectionInfo {
    int fd = -1;
    std::string_view addr;          // "tcp:127.0.0.1:40950", "tcp6:[::1]:40950", "unix:/path"
    std::string_view listen_addr;   // empty for listeners
    std::string_view state;         // memcached's words: conn_listening, conn_read, conn_parse_cmd, ...
    uint64_t idle_s = 0;            // since the last command
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
