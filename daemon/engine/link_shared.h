// SPDX-License-Identifier: BSD-3-Clause
// LinkShared: what the links of one worker share: clock reading, buffers for READs, the list for flush(), the way to one another
// and to the other workers.
//
// Owner: Links; it outlives the links. The worker's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/node_clock.h"
#include "daemon/engine/courier.h"
#include "daemon/engine/mailroom.h"
#include "daemon/engine/readiness.h"
#include "daemon/engine/reply_queue.h"
#include "daemon/remote/nodes.h"
#include "fabric/buffer_pool.h"

namespace farcached::daemon {

constexpr size_t landing_bytes = size_t(4) << 20;  // for one-sided reads of a worker
constexpr size_t lending_bytes = size_t(4) << 20;  // for large values that nodes READ from a worker

// ReplySlot::failure() of a request that a node refused because it knows a newer list of nodes.
constexpr std::string_view list_is_old = "the node knows a newer list of nodes";

class LinkPeer;
class OwnLink;

class LinkShared {
  public:
    // All outlive this. worker: its number.
    LinkShared(Nodes& its_nodes, Mailroom& room, uint32_t worker, Waits& its_waits, ReplyPool& its_pool)
        : nodes(its_nodes),
          number(worker),
          waits(its_waits),
          pool(its_pool),
          courier(room, worker),
          landing(landing_bytes),
          lending(lending_bytes) {}

    // One reading for all work until clock_is_old().
    uint64_t now() {
        if (now_is_old_) {
            now_ns_ = boottime_ns();
            now_is_old_ = false;
            pool.answers_at(now_ns_);
        }
        return now_ns_;
    }
    void clock_is_old() { now_is_old_ = true; }
    // The number of a session of this worker at the owner of a link, distinct over all workers. The low bits differ, too,
    // because links count by them.
    uint64_t session_at_owner(uint64_t session) const {
        constexpr uint32_t session_bits = 48;
        constexpr uint64_t stride = 97;
        const uint64_t low = (session + (number + 1) * stride) & ((UINT64_C(1) << session_bits) - 1);
        return uint64_t(number + 1) << session_bits | low;
    }

    Nodes& nodes;
    const uint32_t number;  // the worker's
    Waits& waits;
    ReplyPool& pool;
    Courier courier;
    fabric::BufferPool landing, lending;
    std::vector<LinkPeer*> touched;  // to be flushed at the end of the tick; there is room for all
    uint32_t mapped = 0;             // connections with mapped memory
    bool moving = false;             // a node with a connection is `moving`, or deletes items of keys that moved away (Fences, F7)
    bool links_changed = false;      // one went up or down since the last Fencer::attend()
    std::vector<OwnLink*> own_links;  // all of this worker

  private:
    uint64_t now_ns_ = 0;
    bool now_is_old_ = true;
};

}  // namespace farcached::daemon
