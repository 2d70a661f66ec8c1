// SPDX-License-Identifier: BSD-3-Clause
// PairCompletion: decides when a key's pair of items is completed (Replicas, C5 and C7). KeyPasses finds the keys after a change of
// the list, MissingCopies has those that lost their copy. For each key it submits a get of this process itself; the steps of that
// request store what is missing.
//
// Owner: Replicas; its thread alone.
// N1  A get that it submitted is answered once: available if the key has both items now, or needs none.
// N2  A key without room in MissingCopies is found by a pass: no lost copy is forgotten.
// N3  After stop() it submits nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "daemon/engine/engine.h"
#include "daemon/engine/reply_queue.h"
#include "daemon/steps/key_passes.h"
#include "daemon/steps/missing_copies.h"

namespace farcached::daemon {

class PairCompletion {
  public:
    // replies, context: outlive this. submit: as SteppedRequests::submit_own(); throws std::bad_alloc.
    PairCompletion(ReplyPool& replies, Context& context, std::function<void(const protocol::GetOp& op, Ticket ticket)> submit);
    PairCompletion(const PairCompletion&) = delete;
    PairCompletion& operator=(const PairCompletion&) = delete;

    void end_tick() { passes_.end_tick(); }
    // When timer_due() is to run, on boottime_ns(); UINT64_MAX: never.
    uint64_t due_ns() const { return std::min(passes_.due_ns(), missing_.next_ns()); }
    void timer_due();
    void stop();

    // A mutation left the key without a copy, or with one of unknown age.
    void lost(std::string_view key) noexcept { later(key, &MissingCopies::lost); }
    // A completion found that the key still has none.
    void failed(std::string_view key) noexcept { later(key, &MissingCopies::found); }
    // A completion copied a value of that size.
    void count_copied(size_t bytes) { passes_.count_copied(bytes); }

  private:
    struct Record;

    void complete(std::string_view key, uint64_t number);
    void later(std::string_view key, bool (MissingCopies::*note)(std::string_view key, uint64_t now_ns)) noexcept;
    void show_missing() noexcept;
    static void completed(ReplySlot& slot, const ReplyTarget&);

    ReplyPool& replies_;
    Context& context_;
    const std::function<void(const protocol::GetOp&, Ticket)> submit_;
    KeyPasses passes_;       // C5
    MissingCopies missing_;  // C7
    bool stopped_ = false;
};

}  // namespace farcached::daemon
