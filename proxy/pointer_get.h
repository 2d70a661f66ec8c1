// SPDX-License-Identifier: BSD-3-Clause
// PointerGets: GETs answered by one-sided reads through remote pointers, and the pointers themselves: taken from
// replies, kept in the table that processes share, dropped when they fail.
//
// Owner: a NodeLink.
//
//            begin()            completed()           settle()
//   free ------------> posted --------------> landed ------------------> free    (answered, or given up before)
//                                                |  invalid                ^
//                                                +-------> two_sided ------+     (asked of the node, once)
//
// G1  Every read tells its sink exactly once, or hands it to the exchange that asks the node instead.
// G2  A landing buffer goes back to the pool when its read has completed, or after the channel was destroyed; not when
//     whoever waited gave up (S12).
// G3  A pointer is used only if it names the incarnation that was welcomed and lies in a region of it (S9).
// G4  What was read is used only if the one validating function says so, by a clock read after the completion (S4).
// G5  A lease counts from the first sending of the frame that earned it (S3).
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "base/limits.h"
#include "fabric/channel.h"
#include "fabric/pointer_read.h"
#include "protocol/handshake.h"
#include "proxy/ask.h"
#include "proxy/far_clock.h"
#include "proxy/key_order.h"
#include "proxy/landing.h"
#include "proxy/link_counters.h"
#include "proxy/pointer_table.h"
#include "proxy/unseen.h"

namespace farcached::proxy {

class PointerGets {
  public:
    // A GET whose read told nothing, to be asked of the node. Its key is in the slot.
    struct Fallback {
        const protocol::GetOp& op;
        const AskOptions& options;
        ReplySink& sink;
    };

    // All outlive this.
    struct Parts {
        PointerTable* table;  // nullptr, or no pool, turns one-sided reads off
        LandingPool* pool;
        KeyOrder& order;
        const FarClock& clock;
        LinkCounters& counters;
        UnseenAccesses& unseen;
    };
    PointerGets(const Parts& parts, uint32_t reads_max, bool verify_check);
    PointerGets(const PointerGets&) = delete;
    PointerGets& operator=(const PointerGets&) = delete;

    bool enabled() const { return table_ != nullptr && pool_ != nullptr; }
    uint32_t live() const { return live_; }
    // Does anybody wait for a read of that key? KeyOrder, which is asked first, takes two keys for one now and then.
    bool awaited(uint64_t key_hash) const;

    // A new connection; of the welcome only what pointers need is kept.
    void greeted(const protocol::Welcome& welcome);

    // Posts a read if the key has a pointer that may be used. op.key.hash is under the node's seed.
    bool begin(fabric::Channel& channel, const protocol::GetOp& op, const AskOptions& options,
               ReplySink& sink, uint64_t now_ns);
    void completed(uint64_t token, fabric::ReadStatus status);
    bool anything_completed() const { return !landed_.empty(); }
    // Judges and answers what completed before `now_ns`, a clock read after that (once per batch).
    void settle(uint64_t now_ns);

    // Hands out, oldest first, what is to be asked of the node, as long as `ask` accepts.
    void ask_two_sided(FunctionRef<bool(const Fallback&)> ask);
    // The node is not to be asked any more.
    void fail_unasked(const Failed& why);
    bool anything_to_ask() const { return !two_sided_.empty(); }

    // Fails those whose deadline has passed.
    void expire(uint64_t now_ns);
    uint64_t next_deadline_ns() const { return next_deadline_ns_; }
    // The channel was destroyed: all buffers come back, all who wait are told.
    void fail_all(const Failed& why);
    void forget_sink(const ReplySink& sink);

    // A reply brought a pointer to the item of that key; frame_sent_ns: of the frame that earned it.
    struct Earned {
        uint64_t key_hash = 0;
        uint32_t key_len = 0;
        uint32_t value_len = 0;
        uint64_t frame_sent_ns = 0;
        uint64_t received_ns = 0;
    };
    void keep(const protocol::Grant& grant, const Earned& earned);
    // After a mutation whose reply brought none.
    void forget(uint64_t key_hash);

    // Tells the table of a tick's uses.
    void count_accesses();

  private:
    struct Read {
        enum class State : uint8_t { free, posted, landed, two_sided } state = State::free;
        fabric::ReadStatus status = fabric::ReadStatus::done;
        uint32_t number = 0;
        ReplySink* sink = nullptr;  // nullptr: was told
        AskOptions options;
        protocol::GetOp op;  // op.key.bytes are in `key`
        std::array<char, limits::key_bytes_max> key;
        fabric::LeasedPtr leased;
        uint64_t entry = 0;  // of the table
        bool ordered = false;  // counted in order_, and in awaited_: somebody waits for it
        uint32_t place = 0;    // in awaited_, if so
        uint64_t* landing = nullptr;
    };

    bool usable(const fabric::RemotePtr& ptr) const;
    const protocol::RegionFact* region(uint32_t id) const;
    Read& open(const protocol::GetOp& op, const AskOptions& options, ReplySink& sink);
    void close(Read& read);
    void release_landing(Read& read);
    void release_order(Read& read);
    void settle(Read& read, uint64_t now_ns);
    void answer(Read& read, const fabric::PointerRead& judged);
    void count_invalid(fabric::Outcome outcome);
    void note_access(const Read& read);
    void fail(Read& read, const Failed& why);

    PointerTable* table_;
    LandingPool* pool_;
    KeyOrder& order_;
    const FarClock& clock_;
    LinkCounters& counters_;
    UnseenAccesses& unseen_;
    uint32_t reads_max_;
    bool verify_check_;

    uint64_t incarnation_ = 0;
    uint64_t check_secret_ = 0;
    std::vector<protocol::RegionFact> regions_;

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

    struct Uses {
        uint64_t entry = 0;
        uint64_t count = 0;
    };
    std::array<Uses, 64> uses_{};  // by entry
    bool any_uses_ = false;
};

}  // namespace farcached::proxy
