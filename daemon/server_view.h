// SPDX-License-Identifier: BSD-3-Clause
// ServerView: what the admin commands need to know of the server and its workers, and may ask of it.
// The server implements it (daemon/server.h), AdminImpl reads it (daemon/admin.h), tests fake it.
//
// V1  Every call is safe from any worker thread and blocks on nothing but short locks.
// V2  Numbers are counted from the start of the process and never fall back, but those said to be gauges;
//     `stats reset` is the admin's business, not the server's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/function_ref.h"
#include "base/node_clock.h"
#include "daemon/hot_keys.h"
#include "daemon/latency.h"
#include "daemon/nodes_view.h"
#include "daemon/worker_counters.h"
#include "proxy/local_get.h"

namespace farcached::daemon {

struct ServerNumbers {
    // counters
    uint64_t total_connections = 0;            // accepted, the listeners not counted
    uint64_t rejected_connections = 0;         // over the limit (maxconns_fast)
    uint64_t listen_disabled_num = 0;          // times accepting was suspended
    uint64_t time_in_listen_disabled_us = 0;
    // gauges
    uint64_t curr_connections = 0;             // clients, watchers among them; the listeners not counted
    uint64_t connections_max = 0;              // clients that there may be (-c)
    uint64_t connection_structures = 0;        // sessions and listeners in memory
    uint64_t response_count = 0;               // sessions with a reply under way
    uint64_t response_bytes = 0;               // held by them
    uint64_t read_buf_count = 0;
    uint64_t read_buf_bytes = 0;
    uint64_t read_buf_bytes_free = 0;          // kept for reuse
    uint64_t reserved_fds = 0;                 // descriptors that are not clients'
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
    virtual const proxy::LocalGetCounters& local_counters(uint32_t worker) const = 0;
    // nullptr: nobody measures.
    virtual const LatencyCounters* latency_counters([[maybe_unused]] uint32_t worker) const { return nullptr; }
    // Of all workers, each worker's in the order in which they ended.
    virtual void each_slow([[maybe_unused]] FunctionRef<void(const SlowRequest&)> visit) const {}
    // How often a worker samples keys, one in so many; 0: never. Then, of one worker.
    virtual uint32_t hot_keys_one_in() const { return 0; }
    virtual HotKeys* hot_keys([[maybe_unused]] uint32_t worker) { return nullptr; }
    // Whose sockets are served by io_uring (daemon/ring_io.h); those of the others by libevent.
    virtual uint32_t workers_on_ring() const { return 0; }
    virtual ServerNumbers numbers() const = 0;
    virtual void each_connection(FunctionRef<void(const ConnectionInfo&)> visit) const = 0;
    // Why sessions ended, by name: one visit per row of the table, zero or not.
    virtual void each_close_reason(
        FunctionRef<void(std::string_view name, uint64_t count)> visit) const = 0;

    // The nodes behind this process; nullptr: items are in the one embedded node.
    virtual NodesView* nodes() const { return nullptr; }

    virtual void shut_down(bool graceful) = 0;  // asks; returns before it is done
    virtual void reload() {}                    // likewise
};

}  // namespace farcached::daemon
