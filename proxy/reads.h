// SPDX-License-Identifier: BSD-3-Clause
// Reads: GETs that are answered by one-sided READs, from the first READ posted to the answer, whether a remote pointer
// or the index leads the way (PointerGets, IndexGets: they say what is READ, and what it is worth).
//
// Owner: a NodeLink.
//
//            open()+post()        all completed       settle()
//   free ----------------> posted -------------> landed --------------> free    (answered, or given up before)
//                             ^                   |  |                    ^
//                             +--- post() again --+  +---> two_sided -----+     (asked of the node, once)
//
// G1  Every read tells its sink exactly once, or hands it to the exchange that asks the node instead.
// G2  A landing buffer goes back to the pool when all its READs have completed, or after the channel was destroyed; not
//     when whoever waited gave up (S12).
// G3  What was READ is judged by a clock read after its completion, one reading for all that completed in a turn (S4).
// G9  Every READ that was posted is counted once more, as completed or as failed with its reason, when it is over.

#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <variant>
#include <vector>

#include "base/function_ref.h"
#include "base/limits.h"
#include "fabric/channel.h"
#include "fabric/index_probe.h"
#include "fabric/pointer_read.h"
#include "proxy/ask.h"
#include "proxy/far_clock.h"
#include "proxy/key_order.h"
#include "fabric/buffer_pool.h"
#include "proxy/link_counters.h"

namespace farcached::proxy {

// By a pointer, and by which entry of the table.
struct ByPointer {
    fabric::LeasedPtr leased;
    uint64_t entry = 0;
};

struct Read {
    protocol::GetOp op;  // its key is the read's own, its hash under the node's seed
    AskOptions options;
    std::variant<ByPointer, fabric::IndexProbe> way;
    uint64_t* landing = nullptr;
    fabric::ReadStatus status = fabric::ReadStatus::done;  // of the worst of its READs
    bool refused = false;  // the channel took some READs of this round and then no more
    bool counted = false;  // at the node, by the channel: it is not to be told

  private:
    friend class Reads;
    enum class State : uint8_t { free, posted, landed, two_sided } state_ = State::free;
    uint32_t number_ = 0;
    uint32_t under_way_ = 0;  // READs
    size_t landing_bytes_ = 0;
    ReplySink* sink_ = nullptr;  // nullptr: was told
    bool ordered_ = false;       // counted in the order of keys, and awaited: somebody waits for it
    uint32_t place_ = 0;         // among those, if so
    std::array<char, limits::key_bytes_max> key_;
};

// Who wants to hear of one-sided reads that were of no use; from within the link's calls.
class ReadEvents {
  public:
    virtual ~ReadEvents() = default;
    // Of the key's. why: a literal, as the counters read_invalid_* end, or "tokens" or "transport".
    virtual void read_failed(std::string_view key, bool by_index, std::string_view why) = 0;
};

class Reads {
  public:
    // A GET whose READs told nothing, to be asked of the node.
    struct Fallback {
        const protocol::GetOp& op;
        const AskOptions& options;
        ReplySink& sink;
    };

    // All references outlive this. pool: nullptr turns one-sided reads off.
    Reads(fabric::BufferPool* pool, KeyOrder& order, const FarClock& clock, LinkCounters& counters, ReadEvents& events,
          uint32_t reads_max, bool count_reads)
        : pool_(pool),
          order_(order),
          clock_(clock),
          counters_(counters),
          events_(events),
          reads_max_(reads_max),
          count_reads_(count_reads) {}
    Reads(const Reads&) = delete;
    Reads& operator=(const Reads&) = delete;

    bool enabled() const { return pool_ != nullptr; }
    uint32_t live() const { return live_; }
    // Does anybody wait for a read of that key? KeyOrder, which is asked first, takes two keys for one now and then.
    bool awaited(uint64_t key_hash) const;

    // For who leads the way. A read with room for so many bytes; nullptr: there is none (read_unposted). At least one
    // post() follows, or cancel().
    Read* open(const protocol::GetOp& op, const AskOptions& options, ReplySink& sink, size_t bytes);
    // Nothing of it is under way: as if it had not been opened.
    void cancel(Read& read);
    // One READ of this round; false: the channel takes no more (read_unposted).
    bool post(fabric::Channel& channel, Read& read, const fabric::RemotePtr& ptr, uint64_t* to);
    // The same, of the item itself: counted at its node, if that is how it learns of reads.
    bool post_item(fabric::Channel& channel, Read& read, const fabric::RemotePtr& ptr, uint64_t* to);
    // A landing buffer of so many bytes, when nothing is under way.
    bool make_room(Read& read, size_t bytes);
    // Of what landed, one of these two, or post().
    void answer(Read& read, const fabric::PointerRead& found, uint64_t item_bytes);
    void ask_node(Read& read);
    // Why it was of no use: counted, and told.
    void failed(const Read& read, fabric::Outcome outcome);
    void failed_transport(const Read& read);

    void completed(uint64_t token, fabric::ReadStatus status);
    bool anything_completed() const { return !landed_.empty(); }
    // Calls for each that landed and that somebody still waits for.
    void settle(FunctionRef<void(Read&)> judge);

    // Hands out, oldest first, what is to be asked of the node, as long as `ask` accepts.
    void ask_two_sided(FunctionRef<bool(const Fallback&)> ask);
    // The node is not to be asked any more.
    void fail_unasked(const Failed& why);
    bool anything_to_ask() const { return !two_sided_.empty(); }

    // Fails those whose deadline has passed.
    void expire(uint64_t now_ns, uint64_t progress_ns);
    uint64_t next_deadline_ns() const { return next_deadline_ns_; }
    // The channel was destroyed: all buffers come back, all who wait are told.
    void fail_all(const Failed& why);
    void forget_sink(const ReplySink& sink);

  private:
    Read& free_slot();
    bool post(fabric::Channel& channel, Read& read, const fabric::ReadRequest& request);
    void close(Read& read);
    void count_completion(fabric::ReadStatus status);
    void release_landing(Read& read);
    void release_order(Read& read);
    void fail(Read& read, const Failed& why);
    void count(const Read& read, Cell& cell, std::string_view why);

    fabric::BufferPool* pool_;
    KeyOrder& order_;
    const FarClock& clock_;
    LinkCounters& counters_;
    ReadEvents& events_;
    uint32_t reads_max_;
    bool count_reads_;

    std::deque<Read> reads_;  // grows up to reads_max_; addresses stay
    std::vector<uint32_t> free_;
    std::vector<uint32_t> landed_;
    std::vector<uint32_t> settling_;
    std::deque<uint32_t> two_sided_;
    struct Awaited {
        uint64_t key_hash = 0;
        uint32_t number = 0;
    };
    std::vector<Awaited> awaited_;
    uint32_t live_ = 0;
    uint64_t next_deadline_ns_ = UINT64_MAX;
};

}  // namespace farcached::proxy
