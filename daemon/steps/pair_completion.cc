// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/steps/pair_completion.h"

#include <new>
#include <utility>

#include "base/node_clock.h"
#include "base/random_word.h"
#include "daemon/engine/links.h"
#include "protocol/op.h"

namespace farcached::daemon {

struct PairCompletion::Record {
    PairCompletion* completion;
    uint64_t number;  // of a try, as of MissingCopies; 0: of a pass
};

PairCompletion::PairCompletion(ReplyPool& replies, Context& context,
                               std::function<void(const protocol::GetOp& op, Ticket ticket)> submit)
    : replies_(replies),
      context_(context),
      submit_(std::move(submit)),
      passes_(replies, context, [this](std::string_view key) { complete(key, /* number= */ 0); }),
      missing_(random_word()) {}

void PairCompletion::complete(std::string_view key, uint64_t number) {
    protocol::GetOp op;
    op.key = {key, 0};
    op.peek = true;
    const Ticket ticket = replies_.open_own(/* session= */ 0, Record{this, number}, &PairCompletion::completed);
    try {
        submit_(op, ticket);
    } catch (const std::bad_alloc&) {
        replies_.unavailable(ticket);
    }
}

void PairCompletion::completed(ReplySlot& slot, const ReplyTarget&) {
    const auto [completion, number] = slot.record<Record>();
    if (number == 0) return completion->passes_.key_completed();
    completion->missing_.done(number, slot.available(), boottime_ns());
    completion->show_missing();
}

// Without memory or room for the key, a pass completes it (N2).
void PairCompletion::later(std::string_view key,
                           bool (MissingCopies::*note)(std::string_view key, uint64_t now_ns)) noexcept {
    if (stopped_) return;
    try {
        if ((missing_.*note)(key, boottime_ns())) return show_missing();
    } catch (const std::bad_alloc&) {
    }
    context_.router.links().copy_search().want_pass();
}

void PairCompletion::timer_due() {
    passes_.timer_due();
    try {
        for (const MissingCopies::Try& one : missing_.take_due(boottime_ns())) complete(one.key, one.number);
    } catch (const std::bad_alloc&) {
        missing_.clear();
        show_missing();
        context_.router.links().copy_search().want_pass();
    }
}

void PairCompletion::show_missing() noexcept { context_.counters.replica_missing.set(missing_.size()); }

void PairCompletion::stop() {
    stopped_ = true;
    missing_.clear();
    passes_.stop();
}

}  // namespace farcached::daemon
