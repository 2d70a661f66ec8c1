// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/steps/key_passes.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/node_clock.h"
#include "daemon/engine/links.h"
#include "protocol/key_list.h"
#include "protocol/op.h"

namespace farcached::daemon {

namespace {

// A pass at rest: up to 50 MB of values a second. A node gives up to 5,000 keys a second (KeyPass, K4).
constexpr uint64_t round_ns = 5'000'000'000;  // the first pause after a round in which a node did not reply
constexpr uint32_t doublings_max = 4;         // of that pause
constexpr uint64_t settle_ns = 1'000'000'000, portion_ns = 20'000'000, ns_per_byte = 20;

}  // namespace

struct KeyPasses::Record {
    KeyPasses* passes;
    uint64_t change;
};

void KeyPasses::end_tick() {
    Links& links = context_.router.links();
    if (links.number() != 0) return;
    const bool changed = links.last_change() != change_;
    if (!changed && !links.copy_search().take_wanted_pass()) [[likely]] return;
    if (!changed) {
        missed_ = true;
        rounds_ = 0;
        if (is_at_rest()) portion_at_ns_ = boottime_ns() + settle_ns;
        return show_left();
    }
    change_ = links.last_change();
    rounds_ = 0;
    place_ = 0;
    begun_ = missed_ = false;
    portion_at_ns_ = settled_at_ns_ = boottime_ns() + settle_ns;
    show_left();
}

void KeyPasses::timer_due() {
    if (portion_at_ns_ > boottime_ns()) return;
    ask_portion();
    show_left();
}

// For statistics. The node of the last portion is one that is left until its keys are completed.
void KeyPasses::show_left() {
    Links& links = context_.router.links();
    const size_t nodes = links.peers().has_copies() ? links.peers().all().size() : 0;
    const size_t left = nodes - std::min(place_, nodes);
    links.copy_search().note(change_, nodes == 0 || is_at_rest() ? 0 : uint32_t(std::max<size_t>(left, 1)));
}

void KeyPasses::stop() {
    stopped_ = true;
    portion_at_ns_ = UINT64_MAX;
}

void KeyPasses::ask_portion() {
    using What = protocol::CopiesOp::What;
    portion_at_ns_ = UINT64_MAX;
    Links& links = context_.router.links();
    if (asked_ || keys_left_ != 0 || !links.peers().has_copies()) return;
    if (place_ >= links.peers().all().size()) {
        if (!std::exchange(missed_, false)) return;
        place_ = 0;
        portion_at_ns_ = boottime_ns() + (round_ns << std::min(rounds_++, doublings_max));
        return;
    }
    const auto answered = [](ReplySlot& slot, const ReplyTarget&) {
        const Record record = slot.record<Record>();
        record.passes->portion_answered(slot, record.change);
    };
    const Ticket ticket = replies_.open_own(/* session= */ 0, Record{this, change_}, answered);
    asked_ = true;
    try {
        links.ask(protocol::CopiesOp{begun_ ? What::next_keys : What::begin_pass}, place_, ticket);
    } catch (const std::bad_alloc&) {
        replies_.unavailable(ticket);
    }
}

void KeyPasses::portion_answered(const ReplySlot& slot, uint64_t change) {
    asked_ = false;
    if (stopped_) return;
    std::string_view text = slot.available() ? slot.value() : std::string_view();
    const bool goes_on = !text.empty() && text[0] != 0;
    if (!text.empty()) text.remove_prefix(1);
    if (change == change_) {
        missed_ = missed_ || !slot.available();
        begun_ = goes_on;
        if (!goes_on) place_++;
    }
    keys_left_ = 1;
    portion_bytes_ = 0;
    protocol::each_key(text, [this](std::string_view key) {
        keys_left_++;
        context_.counters.replica_searched.add(1);
        complete_(key);
    });
    key_completed();  // the one that stands for this loop
}

void KeyPasses::key_completed() {
    if (--keys_left_ != 0 || stopped_) return;
    portion_at_ns_ = std::max(boottime_ns() + portion_ns + portion_bytes_ * ns_per_byte, settled_at_ns_);
}

}  // namespace farcached::daemon
