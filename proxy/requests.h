// SPDX-License-Identifier: BSD-3-Clause
// Requests: the requests of one link to its node, from ask() or get() to the answer. It chooses the way of each: one-sided
// where a remote pointer or the index allows it, two-sided otherwise.
//
// Owner: a NodeLink, which reports when a connection is up (open()), takes no more (end_asking()) and is gone
// (fail_all()). Its thread.
//
// K1  Every accepted request is answered exactly once, from within the link's ready(), flush(), tick() or stop(), and
//     never from within ask() or get() (E1, G1). The READ of a spilled item answers from within the other link's calls.
// K2  No request is sent twice, except that a GET whose one-sided read proved nothing is sent two-sided, once. A
//     mutation with an unknown outcome fails.
// K3  Requests of one session (AskOptions::session) take effect in the order of their acceptance, as long as the node
//     executes frames in order. A request that could overtake another of its session and key is refused (ordered) or
//     goes two-sided (KeyOrder). Requests of different sessions are concurrent and never delay one another.
// K4  The requests under way are bounded in number, bytes and frames; at the bound, ask() returns busy. So a slow node
//     bounds its own memory and delays no request to other nodes.
// K6  A request is answered within its deadline or fails. Each answer to the oldest frame gives the requests behind it
//     more time (AskOptions::patience_ns), so that a large batch can complete. A node that answers out of order, or not
//     at all, extends no deadline.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/out_buffer.h"
#include "fabric/buffer_pool.h"
#include "fabric/channel.h"
#include "protocol/handshake.h"
#include "proxy/access_notes.h"
#include "proxy/ask.h"
#include "proxy/exchange.h"
#include "proxy/key_order.h"
#include "proxy/link_counters.h"
#include "proxy/link_frames.h"
#include "proxy/node_clock_estimate.h"
#include "proxy/onesided_gets.h"
#include "proxy/pointer_table.h"
#include "proxy/reads.h"

namespace farcached::proxy {

// Refusals: the requests that were refused for the moment since the last retry, and whether another retry may succeed.
//
// Owner: a Requests; its thread. Refused requests are the caller's; this knows only the reasons.
class Refusals {
  public:
    explicit Refusals(LinkCounters& counters) : counters_(counters) {}

    // The bound of requests under way is reached (K4).
    AskResult busy() {
        counters_.node_busy.add(1);
        was_busy_ = true;
        return AskResult::busy;
    }
    // An earlier request of the session comes first (K3).
    AskResult ordered() {
        counters_.node_ordered.add(1);
        was_ordered_ = true;
        return AskResult::ordered;
    }
    // True once per refusal. gone: the connection. has_room: returns whether one more request may be under way. answered: a
    // request.
    template <class HasRoom>
    bool retry_pays(bool gone, HasRoom&& has_room, bool answered) {
        if (!was_busy_ && !was_ordered_) return false;
        const bool pays = gone || (was_busy_ && has_room()) || (was_ordered_ && answered);
        if (pays) was_busy_ = was_ordered_ = false;
        return pays;
    }

  private:
    LinkCounters& counters_;
    bool was_busy_ = false, was_ordered_ = false;
};

class Requests {
  public:
    struct Config {
        Exchanges::Limits under_way;
        uint32_t reads_max = 1024;                     // one-sided reads under way
        uint64_t large_bytes_max = UINT64_C(8) << 20;  // of values in pieces; plus two of the largest
        uint64_t unsent_bytes_max = UINT64_C(1) << 20;  // accepted by the channel and not by the transport
        bool probe_index = false;                      // without a pointer, READ the index
        bool count_reads = false;                      // READs count at the node if the channel can; others are reported
    };
    // All outlive this. nullptr: no remote pointers; no one-sided reads; no values that the node READs.
    struct Parts {
        PointerTable* table;
        fabric::BufferPool* landing;
        fabric::BufferPool* lending;
        NodeClockEstimate& clock;
        LinkCounters& counters;
        AccessNotes& notes;
        ReadEvents& events;
    };
    Requests(const Config& config, const Parts& parts);
    Requests(const Requests&) = delete;
    Requests& operator=(const Requests&) = delete;

    // ---- for the worker
    // Is there room for at least one more request?
    bool can_ask() const;
    // Two-sided. Keys and values are borrowed until the call returns, except a value that follows, which options.value
    // owns. A key's hash need not be set. Times are this process's NodeSeconds. Changes nothing when it throws
    // std::bad_alloc, like get().
    template <class Op>
    AskResult ask(const Op& op, const AskOptions& options, ReplySink& sink);
    // One-sided if options.one_sided is set and a pointer (with op.lease) or the index (with probe_index) allows it;
    // otherwise two-sided.
    AskResult get(const protocol::GetOp& op, const AskOptions& options, ReplySink& sink, uint64_t now_ns);
    // Only while the link is up: must the options own the value of this store?
    bool value_follows(const protocol::StoreOp& op) const;
    // Prefetches the pointer table's entry of this key, for a get() that follows soon.
    void expect(std::string_view key) const;
    // True: this session has no mutation of the key under way, so it may read mapped memory at once. The hash is under
    // the node's seed.
    bool read_in_order(uint64_t key_hash, uint64_t session) const { return !order_.changing({session, key_hash}); }
    // The current deadline of a request, sent or not (K6).
    uint64_t deadline_ns(const AskOptions& options) const {
        return put_off(options.deadline_ns, options.patience_ns, progress_ns_);
    }
    // Detaches the sink: its requests continue, and their answers are discarded.
    void forget_sink(const ReplySink& sink);
    uint32_t under_way() const { return exchanges_.live() + reads_.live(); }
    // For the link to the home of a spilled item (proxy/spilled_gets.h): READs the item at this node. `home` gets the answer,
    // or a failure if the READ proves nothing. Nothing: impossible now.
    std::optional<Elsewhere> read_for_home(const protocol::GetOp& op, const AskOptions& options, ReplySink& home,
                                           const ForHome& way);
    uint64_t bytes_under_way() const;
    // Only READs are under way, which a device answers without waking a process.
    bool only_reads() const { return reads_.live() != reads_.live_elsewhere() && exchanges_.live() == 0; }
    // Only READs of other links are.
    bool only_elsewhere() const { return under_way() != 0 && under_way() == reads_.live_elsewhere(); }

    // ---- for the link: the connection
    // The node's welcome made it usable; requests are accepted from now on.
    void open(const protocol::Welcome& welcome, fabric::Channel& channel);
    // No further requests. broken: nor READs for those under way.
    void end_asking(bool broken);
    // The connection is gone, and its channel destroyed: all requests under way fail.
    void fail_all(AskFailure why);
    // True once: ask() or get() returned busy or ordered, and a retry may succeed now, or the connection is gone.
    // answered: sinks were called.
    bool retry_pays(bool answered) {
        return refusals_.retry_pays(!frames_.has_value(), [this] { return can_ask(); }, answered);
    }

    // ---- for the link: its ticks. Those that return bool called sinks, or have more to send.
    // Frames without requests, such as pings; they leave with the next send(). Only while open.
    OutBuffer& small() { return frames_->small(); }
    bool anything_to_send() const { return frames_.has_value() && frames_->anything_to_send(); }
    bool exchanges_under_way() const { return exchanges_.live() != 0; }
    // Ends this tick's frame and appends all frames to `out`. Returns the number of frames of requests.
    uint32_t send(OutBuffer& out, uint64_t now_ns);
    // Appends more of the values that follow. False: added nothing.
    bool feed_values(fabric::Channel& channel);
    // Replies, chunks and unlent values.
    protocol::FrameError take(const protocol::Frame& frame, uint64_t now_ns);
    void read_done(uint64_t token, fabric::ReadStatus status) { reads_.completed(token, status); }
    bool anything_read() const { return reads_.anything_completed(); }
    // True once: a read of another link has ended, so that a sink was called or the node is to be asked.
    bool take_elsewhere_ended() { return reads_.take_elsewhere_ended(); }
    // After anything_read(), with a clock reading from after it (G3).
    void judge_reads(uint64_t now_ns);
    // Sends the GETs whose READs proved nothing to the node.
    bool ask_fallbacks();
    // Fails requests past their deadline.
    bool expire(uint64_t now_ns);
    uint64_t next_deadline_ns() const { return std::min(exchanges_.next_deadline_ns(), reads_.next_deadline_ns()); }
    // Adds a tick's uses of pointers to the table's counts.
    void count_accesses() { pointers_.count_accesses(); }
    PointerGets& pointers() { return pointers_; }

  private:
    template <class Op>
    AskResult ask(const Op& op, uint64_t key_hash, const AskOptions& options, ReplySink& sink);
    template <class Op>
    AskResult write(const Op& op, uint64_t key_hash, const AskOptions& options, ReplySink& sink);
    bool reads_possible() const { return one_sided_ && channel_->can_read(); }
    bool pointers_possible() const { return pointers_.enabled() && reads_possible(); }

    const Config config_;
    fabric::BufferPool* lending_;
    NodeClockEstimate& clock_;
    LinkCounters& counters_;
    AccessNotes& notes_;
    KeyOrder order_;
    Exchanges exchanges_;
    Reads reads_;
    PointerGets pointers_;
    IndexGets index_;
    Refusals refusals_;

    // Of the connection, from open() to fail_all().
    bool accepting_ = false;
    bool one_sided_ = false;  // S18
    uint32_t version_ = 0;
    uint64_t hash_seed_ = 0;
    uint64_t progress_ns_ = 0;            // the node last answered from its oldest frame (K6)
    fabric::Channel* channel_ = nullptr;  // nullptr: broken
    std::optional<FramesOut> frames_;
    std::optional<RepliesIn> replies_;
};

}  // namespace farcached::proxy
