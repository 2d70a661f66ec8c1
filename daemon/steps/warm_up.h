// SPDX-License-Identifier: BSD-3-Clause
// WarmUp: moves items from the memcached that warm_from names to the nodes, as clients ask for them. While it runs, requests for
// keys take these steps, each only if the one before it has not answered:
//
//     get       read here -> take the key's mark -> get from the source -> store here, if the mark is the same -> reply
//     set                                                  delete at the source -> set here -> reply
//     other mutations   mark -> get -> store, as a get;    delete at the source -> execute here -> reply
//     flush_all, delete_prefix                             flush_all at the source -> execute here -> reply
//
// Owner: a Worker; its thread alone.
//
// U1  Before a mutation is executed here, its key is absent at the source, so no later get of any farcached finds the old value
//     there (S7). A get that found it earlier stores it only if no mutation of the key was executed since (node/keys/marks.h).
// U2  If the source does not confirm that in time, the mutation is not executed, and its answer is unavailable.
// The requests of a key take their steps as in SteppedRequests.
#pragma once

#include <algorithm>
#include <cstdint>

#include "daemon/steps/source_link.h"
#include "daemon/steps/stepped_requests.h"

namespace farcached::daemon {

class WarmUp final : public SteppedRequests, private SourceLink::Sink {
  public:
    // All outlive this.
    WarmUp(WarmSource& source, Waits& waits, ReplyPool& replies, Context& context);

    bool must_wait(std::string_view key, uint64_t) const override { return queues().busy(key); }
    bool takes_gets(std::string_view) const override { return true; }
    // Sends the commands for the source.
    void end_tick() override {
        gets_.end_tick();
        changes_.end_tick();
    }
    uint64_t timer_at_ns() const override { return std::min(gets_.timer_at_ns(), changes_.timer_at_ns()); }
    void timer_due() override {
        gets_.timer_due();
        changes_.timer_due();
    }
    void stop() override;

  private:
    static Step step(void (WarmUp::*then)(Request&, ReplySlot&)) { return static_cast<Step>(then); }

    void begin(Request& request) override;
    void get_first(Request& request);
    void first_answered(Request& request, ReplySlot& slot);
    void take_mark(Request& request);
    void mark_answered(Request& request, ReplySlot& slot);
    void marked(Request& request, const protocol::StoreReply& reply);
    void go_on(Request& request);
    void fetch(Request& request);
    void source_answered(uint64_t number, bool ok, const protocol::SourceReply& reply) noexcept override;
    void fetched(Request& request, bool ok, const protocol::SourceReply& reply);
    void fill_answered(Request& request, ReplySlot& slot);
    void filled(Request& request, const protocol::StoreReply& reply);
    void change_source(Request& request);
    void execute(Request& request);

    bool get_here(Request& request, const protocol::GetOp& op, bool misses_answer);
    void execute_here(Request& request);

    SourceLink gets_, changes_;
};

}  // namespace farcached::daemon
