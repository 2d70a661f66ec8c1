// SPDX-License-Identifier: BSD-3-Clause
// Replicas: keeps each item on two nodes of the list (`replicas = 2`). The primary is the key's node; it orders the mutations, and
// assigns cas. The next node on the ring has the copy. Requests take these steps:
//
//     mutation   hold at the copy's node, which removes the copy -> execute at the primary -> store the copy, which ends the hold
//     get        the primary, or the copy if the primary has no connection
//     get, if only the copy is in this process's zone: copy -> on a miss the primary
//     get, for warm_up_s after a change of the list: primary -> on a miss its mark -> copy -> store at the primary, if the mark is
//                still the same
//
// Owner: a Worker; its thread alone. A request's steps use the nodes of one list; if a newer one comes, it begins again.
//
// C1  A copy is never older than the item at the primary (node/keys/holds.h). So the next node may serve it at any time that its
//     serving right runs, and is the new primary at once when the list loses the former one.
// C2  Without a connection to the copy's node no mutation is executed. That node leaves the list when its registration ends.
// C3  A mutation of unknown outcome leaves its hold, which ends by itself after hold_s. Until then the key has no copy. No primary
//     executes a mutation later than that: this process sends none with an old hold, a stopped node loses its registration, and an
//     ended connection keeps no bytes for so long. A completion (C5) executes none: its hold is short.
// C4  Where the nodes of a key change, the mutation waits until all of both lists have deleted what they do not keep (Fences, F7).
//     A node refuses requests of an older list for these keys (node/service/list_epoch.h). They begin again.
// C5  After a change of the list, one worker completes the pairs of all keys that nodes list (PairCompletion). Of a key with one
//     item the worker stores the other, with a hold or a mark as above.
// C6  A flush first closes all nodes for copies, and opens them after its replies. In between no node gets what another one has.
// C7  Two mutations may overlap, or a node may not reply: then no copy is stored. The worker completes it later, as in C5. It looks
//     again until the key has a copy, or every hold from before has ended (MissingCopies).
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "daemon/steps/pair_completion.h"
#include "daemon/steps/stepped_requests.h"

namespace farcached::daemon {

class Replicas final : public SteppedRequests {
  public:
    static constexpr uint32_t hold_s = 600, completion_hold_s = 10;

    // Both outlive this.
    Replicas(ReplyPool& replies, Context& context);

    bool must_wait(std::string_view key, uint64_t session) const override { return queues().waits(key, session); }
    bool takes_gets(std::string_view key) const override;
    void end_tick() override { completion_.end_tick(); }
    uint64_t timer_at_ns() const override { return std::min(again_at_ns_, completion_.due_ns()); }
    void timer_due() override;
    void stop() override;

  private:
    static Step step(void (Replicas::*then)(Request&, ReplySlot&)) { return static_cast<Step>(then); }

    bool goes_ahead(const Request& request) const override;
    void begin(Request& request) override;
    void begin_mutation(Request& request);
    void take_hold(Request& request);
    void begin_flush(Request& request);
    void closed(Request& request, ReplySlot& slot);
    void flushed(Request& request, ReplySlot& slot);
    void ask_all(Request& request, protocol::CopiesOp::What what, Step then);
    bool list_is_same(const Request& request) const;
    void begin_again(Request& request);
    bool again_later(Request& request, const ReplySlot& slot);
    template <class Op>
    void ask_copy(Request& request, const Op& op, Step then);

    void begin_get(Request& request);
    void near_answered(Request& request, ReplySlot& slot);
    void first_answered(Request& request, ReplySlot& slot);
    void mark_answered(Request& request, ReplySlot& slot);
    void copy_answered(Request& request, ReplySlot& slot);
    void fill_answered(Request& request, ReplySlot& slot);
    void give_up_refill(Request& request);

    void held(Request& request, ReplySlot& slot);
    void execute(Request& request);
    void executed(Request& request, ReplySlot& slot);
    void look(Request& request);
    void looked(Request& request, ReplySlot& slot);
    void copy(Request& request, const SteppedRequest::Item& item);
    void copied(Request& request, ReplySlot& slot);
    void release(Request& request);
    void end_hold(Request& request);
    void done(Request&, ReplySlot&) {}
    void lose_copy(Request& request);

    void second_looked(Request& request, ReplySlot& slot);
    void fail_to_complete(Request& request);

    PairCompletion completion_;
    std::vector<uint64_t> waiting_;  // numbers of requests that begin again
    uint64_t again_at_ns_ = UINT64_MAX;
};

}  // namespace farcached::daemon
