// SPDX-License-Identifier: BSD-3-Clause
// Connection: what the mechanisms of a node's connection know of it: what all connections share, and what the greeting agreed.
//
// Owner: a NodeService (service.h), which writes it in attach(), in stop(), and the epochs by later frames. Its Greeting
// (greeting.h) writes what was agreed. The other mechanisms read it, all in the connection's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

#include "base/counters.h"
#include "base/node_clock.h"
#include "fabric/buffer_pool.h"
#include "fabric/channel.h"
#include "node/service/authentication.h"
#include "node/service/key_pass.h"
#include "node/service/list_epoch.h"
#include "node/service/node_stats.h"
#include "node/service/ousting.h"
#include "node/service/proxy_book.h"
#include "node/service/report_quota.h"
#include "node/service/service_counters.h"
#include "node/service/serving_right.h"
#include "node/store/flush_schedule.h"
#include "node/store/node.h"
#include "protocol/frame.h"
#include "protocol/handshake.h"

namespace farcached::node {

// FetchPool: registered memory for values that a node READs from its proxies' memory. All threads of the node share one.

constexpr size_t fetch_pool_bytes = size_t(16) << 20;  // of large values that are READ from proxies at a time

class AwayValues;  // node/service/away_values.h

class FetchPool {
  public:
    // bytes: as in BufferPool.
    explicit FetchPool(size_t bytes) : buffers_(bytes) {}

    // Any thread. As in BufferPool.
    uint64_t* lend(size_t bytes) {
        std::lock_guard hold(lock_);
        return buffers_.lend(bytes);
    }
    void give_back(const uint64_t* buffer) {
        std::lock_guard hold(lock_);
        buffers_.give_back(buffer);
    }

    char* data() const { return buffers_.data(); }
    size_t size() const { return buffers_.size(); }

  private:
    std::mutex lock_;
    fabric::BufferPool buffers_;
};

// The facts in the greeting that the Node does not have.
struct NodeFacts {
    std::string name;           // protocol::is_name()
    int64_t started_unix = 0;   // Unix time at clock reading 0
    uint32_t frame_bytes_max = protocol::frame_bytes_default;
    uint32_t credits = protocol::credits_default;
    Adjustable<uint32_t> connections_max = 1024;  // changed by a reload
};

// Per connection.
struct ServiceLimits {
    size_t out_bytes_mark = 256 * 1024;        // below it, one more request is executed, or one more piece sent
    uint64_t outgoing_bytes_max = 4 << 20;     // values and texts waiting to be sent in pieces; below it, one more begins
    // The same two while more than half of the budget is in use (service.h, N3).
    size_t out_bytes_mark_tight = 32 * 1024;
    uint64_t outgoing_bytes_max_tight = 128 * 1024;
    uint64_t incoming_bytes_max = 64 << 20;    // values received in pieces; a single one may be larger
    uint32_t incoming_values_max = 4096;       // of them, refused ones included
    uint32_t free_bytes = 2 * 1024;            // uncounted bytes: of a half frame, and of unsent replies, each (service.h, N3)
    uint32_t silence_s = 120;                  // maximum silence of a proxy: four of its pings
    Adjustable<double> report_share = report_share_default;  // changed by a reload
    Adjustable<uint32_t> greeting_ms = 10'000;  // time from accept to greeting; memory taken before the
                                                // greeting is held for up to this time; changed by a reload
};

// Shared by all connections of a node; outlives them. The parts from report_quotas on have locks or atomics of their own. The rest
// does not change, except for what is Adjustable.
struct ServiceShared {
    Node& node;
    FlushSchedule& flushes;
    const NodeStats& stats;
    const NodeFacts& facts;
    NodeReading (*clock)();
    ServiceLimits limits = {};
    FetchPool* fetches = nullptr;  // nullptr: no value is READ from a proxy
    uint64_t (*steady_ns)() = boottime_ns;  // monotonic; measures reports
    ReportQuotas report_quotas = {};
    Seats seats{};
    PeerBudget budget{UINT64_C(256) << 20};  // of bytes held by connections
    KeyRing keys{};  // of proxies
    ServingRight right{};
    ListEpoch list{};
    ProxyBook proxies{};
    KeyPass key_pass{};
};

struct Connection {
    ServiceShared& shared;
    ServiceCounters& counters;
    PeerBudget::Account& account;
    Seats::Seat& seat;
    AwayValues* away = nullptr;         // of the thread; nullptr: the node has no tier
    fabric::Channel* channel = nullptr;
    protocol::RegionAccess access = protocol::RegionAccess::none;
    protocol::FrameLimits limits = {};  // as agreed
    bool stopping = false;              // no new request is executed
    uint64_t epoch = 0;                 // of the proxy's list of nodes, by its last frame (ListEpoch)
    uint64_t named_epoch = 0;           // the newest one that the node has named to it; 0: none
    bool has_requested = false;         // a frame of requests has come, before which the proxy names its epoch
    bool keeps_copies = false;          // the proxy knows another node with each item

    protocol::AuthRole role = protocol::AuthRole::none;  // of the key that the proxy proved; none: no proxy authenticates

    // Does the proxy's key allow it?
    bool may(const protocol::RequestOp& op) const { return role == protocol::AuthRole::none || allows(role, op); }
    // May it report accesses, and have the node's memory?
    bool may_report() const { return role != protocol::AuthRole::operating; }
    uint64_t now_ms() const { return shared.steady_ns() / 1'000'000; }
    // A proxy that cannot read one-sided gets no lease, which would only keep memory.
    bool reads_one_sided() const { return access != protocol::RegionAccess::none; }
    // The clock reading, with the rest of the serving right, as the agreed version transmits it.
    NodeReading told(NodeReading now) const { return told(now, limits.version); }
    NodeReading told(NodeReading now, uint32_t version) const {
        if (version < protocol::version_with_now_us) now.us.reset();
        if (version >= protocol::version_with_right && shared.right.is_limited())
            now.right_ms = may_have_old_list(version) ? 0 : shared.right.left_ms(shared.steady_ns());
        return now;
    }
    // Before its first request a proxy may have any list.
    bool may_have_old_list(uint32_t version) const {
        if (shared.list.is_old(epoch)) return true;
        return !has_requested && version >= protocol::version_with_epoch && shared.list.newest() != 0;
    }
    // The proxy finds the newer list sooner if it knows that there is one.
    void name_newest_epoch() {
        const uint64_t newest = shared.list.newest();
        if (limits.version < protocol::version_with_newest_epoch || newest == named_epoch) return;
        protocol::append_epoch(channel->out(), newest);
        named_epoch = newest;
    }
    // Was this node chosen for the key by an older list than that of others?
    bool has_old_list() const { return shared.list.is_old(epoch) && !broken::s17_take_old_epoch; }
    bool chosen_by_old_list(std::string_view key, bool reads) const { return shared.list.moved_away(epoch, key, reads); }
    // The same for a flush: by an older list it does not go to all nodes.
    bool chosen_by_old_list(const protocol::FlushOp& op) const { return op.kept.empty() && has_old_list(); }
    // Does the node execute requests?
    bool has_right() const { return !shared.right.is_limited() || shared.right.serves(shared.steady_ns()); }
};

}  // namespace farcached::node
