// SPDX-License-Identifier: BSD-3-Clause
// KeyPasses: finds the keys whose pair of items may be incomplete after a change of the list of nodes (Replicas, C5). One worker
// asks one node after the other for its keys, a portion at a time (node/service/key_pass.h). It asks for the next portion when
// all keys of the last one are completed, after a pause that grows with their bytes. The pause leaves room for clients'
// requests.
//
// Owner: a PairCompletion; its thread alone.
// P1  One portion at most is under way: asked_, then keys_left_ != 0, then portion_at_ns_.
// P2  A change begins all passes again. The answer to a portion from before it moves no place, but its keys are completed.
// P3  If a node did not reply, or a worker lost track of keys (CopySearch), another round over all nodes follows, until each has
//     replied. The pauses in between grow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

#include "daemon/engine/engine.h"
#include "daemon/engine/reply_queue.h"

namespace farcached::daemon {

class KeyPasses {
  public:
    // replies, context: outlive this. complete: completes the key's pair, then calls key_completed() once, perhaps before it
    // returns.
    KeyPasses(ReplyPool& replies, const Context& context, std::function<void(std::string_view key)> complete)
        : replies_(replies), context_(context), complete_(std::move(complete)) {}

    // Begins passes after a change.
    void end_tick();
    // When timer_due() is to run, on boottime_ns(); UINT64_MAX: never.
    uint64_t due_ns() const { return portion_at_ns_; }
    void timer_due();
    void stop();

    void key_completed();
    // A value of that size was copied.
    void count_copied(size_t bytes) { portion_bytes_ += bytes; }

  private:
    struct Record;

    bool is_at_rest() const { return portion_at_ns_ == UINT64_MAX && !asked_ && keys_left_ == 0; }
    void show_left();
    void ask_portion();
    void portion_answered(const ReplySlot& slot, uint64_t change);

    ReplyPool& replies_;
    const Context& context_;
    const std::function<void(std::string_view)> complete_;

    uint64_t change_ = 0;          // Links::last_change() of the last passes
    size_t place_ = 0;             // of the node whose pass is under way, or begins next
    bool begun_ = false;
    bool missed_ = false;          // another round follows (P3)
    uint32_t rounds_ = 0;
    uint32_t keys_left_ = 0;       // of the portion
    uint64_t portion_bytes_ = 0;
    uint64_t portion_at_ns_ = UINT64_MAX;
    uint64_t settled_at_ns_ = 0;   // no pass for a change begins earlier (node/service/key_pass.h, K2)
    bool asked_ = false;           // this asked for a portion
    bool stopped_ = false;
};

}  // namespace farcached::daemon
