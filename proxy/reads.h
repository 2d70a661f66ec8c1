// SPDX-License-Identifier: BSD-3-Clause
// Reads: GETs answered by one-sided READs, from the first READ posted to the answer. PointerGets and IndexGets choose
// the READs and validate their results.
//
// Owner: a Requests, in the link's thread.
//
//            open()+post()        all completed       settle()
//   free ----------------> posted -------------> landed --------------> free    (answered, or given up before)
//    |                        ^                   |  |                    ^
//    |                        +--- post() again --+  +---> two_sided -----+     (asked of the node, once)
//    |                                                         ^          |
//    +--open_elsewhere()--> elsewhere --end_elsewhere()--------+----------+     (through another link: proxy/spilled_gets.h)
//
// G1  Every read calls its sink exactly once, or passes it to the exchange that asks the node instead.
// G2  A landing buffer returns to the pool when all its READs have completed, or after the channel was destroyed. A
//     timeout of the request does not return it (S12).
// G3  A READ is validated by a clock read after its completion; READs that complete together share one clock reading
//     (S4).
// G9  Every posted READ is counted again at its end, as completed or as failed with its reason.
// G11 A read that is elsewhere has a read in the Reads of another link, whose end ends it. If this link ends first, it
//     abandons that one.

#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "base/function_ref.h"
#include "base/limits.h"
#include "fabric/buffer_pool.h"
#include "fabric/channel.h"
#include "fabric/index_probe.h"
#include "fabric/validate.h"
#include "proxy/ask.h"
#include "proxy/awaited_reads.h"
#include "proxy/key_order.h"
#include "proxy/link_counters.h"
#include "proxy/node_clock_estimate.h"

namespace farcached::proxy {

// By a pointer, with the number of its table entry.
struct ByPointer {
    fabric::LeasedPtr leased;
    uint64_t entry = 0;
};

class Reads;
class Requests;

// By a pointer into this node's memory, for the link to the item's home (protocol/spilled.h): that link's counters.
struct ForHome {
    fabric::LeasedPtr leased;
    LinkCounters* home = nullptr;
};

// By a pointer into another node's memory: the read of the link to that node.
struct Elsewhere {
    Reads* reads = nullptr;  // lives until that read has ended
    uint32_t number = 0;
    fabric::RemotePtr ptr;
};

struct Read {
    protocol::GetOp op;  // the read owns its key; its hash is under the node's seed
    AskOptions options;
    std::variant<ByPointer, fabric::IndexProbe, ForHome, Elsewhere> way;
    uint64_t* landing = nullptr;
    fabric::ReadStatus status = fabric::ReadStatus::done;  // the worst of its READs
    bool refused = false;  // the channel took only some READs of this round
    bool counted = false;  // at the node, by the channel, so not reported

    uint32_t number() const { return number_; }  // in its Reads

  private:
    friend class Reads;
    enum class State : uint8_t { free, posted, landed, elsewhere, two_sided } state_ = State::free;
    uint32_t number_ = 0;
    uint32_t under_way_ = 0;  // READs
    size_t landing_bytes_ = 0;
    ReplySink* sink_ = nullptr;  // nullptr: the sink was called
    AwaitedReads::Place awaited_;
    std::array<char, limits::key_bytes_max> key_;
};

// Receives failed one-sided reads, from within the link's calls.
class ReadEvents {
  public:
    virtual ~ReadEvents() = default;
    // key: the key read. why: a literal, the end of a counter's name read_invalid_*, or "tokens" or "transport".
    virtual void read_failed(std::string_view key, bool by_index, std::string_view why) = 0;
    // Of this worker's link to that run of a node, if it is up; the worker flushes that link before it sleeps. nullptr: none.
    virtual Requests* find_node(uint64_t) { return nullptr; }
    // From within another link's calls: a read there has ended. The worker flushes this link before it sleeps.
    virtual void elsewhere_ended() noexcept {}
};

class Reads {
  public:
    // A GET whose READs proved nothing, to be sent to the node.
    struct Fallback {
        const protocol::GetOp& op;
        const AskOptions& options;
        ReplySink& sink;
    };

    // All references outlive this. pool: nullptr disables one-sided reads.
    Reads(fabric::BufferPool* pool, KeyOrder& order, const NodeClockEstimate& clock, LinkCounters& counters, ReadEvents& events,
          uint32_t reads_max, bool count_reads)
        : pool_(pool),
          clock_(clock),
          counters_(counters),
          events_(events),
          reads_max_(reads_max),
          count_reads_(count_reads),
          awaited_(order) {}
    Reads(const Reads&) = delete;
    Reads& operator=(const Reads&) = delete;

    bool enabled() const { return pool_ != nullptr; }
    uint32_t live() const { return live_; }
    // Of these, through another link.
    uint32_t live_elsewhere() const { return elsewhere_; }
    const AwaitedReads& awaited() const { return awaited_; }

    // For PointerGets and IndexGets. Opens a read with a buffer of `bytes`; nullptr: no room (read_unposted). At least
    // one post() follows, or cancel().
    Read* open(const protocol::GetOp& op, const AskOptions& options, ReplySink& sink, size_t bytes);
    // Undoes open(); nothing of the read is under way.
    void cancel(Read& read);
    // Posts one READ of this round; false: the channel takes no more (read_unposted).
    bool post(fabric::Channel& channel, Read& read, const fabric::RemotePtr& ptr, uint64_t* to);
    // Posts the READ of the item itself; the node's counters count it if access tracking uses them.
    bool post_item(fabric::Channel& channel, Read& read, const fabric::RemotePtr& ptr, uint64_t* to);
    // Replaces the landing buffer by one of `bytes`, while no READ is under way.
    bool make_room(Read& read, size_t bytes);
    // After the READs landed, the caller calls answer(), ask_node() or post().
    void answer(Read& read, const fabric::PointerRead& found, uint64_t item_bytes);
    void ask_node(Read& read);

    // For SpilledGets. The ticket of the next open_elsewhere(), which cannot fail; nothing: no room (read_unposted).
    std::optional<Ticket> next_elsewhere();
    void open_elsewhere(const protocol::GetOp& op, const AskOptions& options, ReplySink& sink, const Elsewhere& at);
    const Read& elsewhere(Ticket ticket) const;
    // The other link's read has ended. answer: passed to the sink; nullptr: this node is asked.
    void end_elsewhere(Ticket ticket, Answer* answer);
    // True once after any such end.
    bool take_elsewhere_ended() { return std::exchange(elsewhere_ended_, false); }
    // On the other link's side: the landed read proved nothing, so its home is asked by the home's link.
    void leave_to_home(Read& read);

    void completed(uint64_t token, fabric::ReadStatus status);
    bool anything_completed() const { return !landed_.empty(); }
    // Calls `judge` for each landed read whose sink still waits.
    void settle(FunctionRef<void(Read&)> judge);

    // Passes the GETs for the node to `ask`, oldest first, as long as it accepts.
    void ask_two_sided(FunctionRef<bool(const Fallback&)> ask);
    // The node takes no more requests: fails the GETs that wait for it.
    void fail_unasked(const Failed& why);
    bool anything_to_ask() const { return !two_sided_.empty(); }

    // Fails reads past their deadline.
    bool expire(uint64_t now_ns, uint64_t progress_ns);
    uint64_t next_deadline_ns() const { return next_deadline_ns_; }
    // The channel was destroyed: returns all buffers and fails all reads.
    void fail_all(const Failed& why);
    void forget_sink(const ReplySink& sink);

  private:
    void have_free_slot();
    Read& free_slot();
    Read& begin(const protocol::GetOp& op, const AskOptions& options, ReplySink& sink);
    void enter(Read& read, Read::State next);
    void abandon(uint32_t number);
    bool post(fabric::Channel& channel, Read& read, const fabric::ReadRequest& request);
    void close(Read& read);
    void count_completion(fabric::ReadStatus status);
    void release_landing(Read& read);
    void fail(Read& read, const Failed& why);

    fabric::BufferPool* pool_;
    const NodeClockEstimate& clock_;
    LinkCounters& counters_;
    ReadEvents& events_;
    uint32_t reads_max_;
    bool count_reads_;

    std::deque<Read> reads_;  // grows up to reads_max_; addresses stay valid
    std::vector<uint32_t> free_;
    std::vector<uint32_t> landed_;
    std::vector<uint32_t> settling_;
    std::deque<uint32_t> two_sided_;
    AwaitedReads awaited_;
    uint32_t live_ = 0;
    uint32_t elsewhere_ = 0;  // of these
    bool elsewhere_ended_ = false;
    uint64_t next_deadline_ns_ = UINT64_MAX;
};

}  // namespace farcached::proxy
