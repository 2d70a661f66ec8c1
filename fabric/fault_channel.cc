// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/fault_channel.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/check.h"

namespace farcached::fabric {

FaultChannel::FaultChannel(const FaultPlan& plan, ChannelEvents& events)
    : plan_(plan),
      events_(events),
      send_dice_(plan_, plan.seed * 4 + 1),
      drop_dice_(plan_, plan.seed * 4 + 3),
      end_dice_(plan_, ~plan.seed),
      reads_(plan_),
      input_(plan_) {}

Result<std::unique_ptr<Channel>> FaultChannel::wrap(const FaultPlan& plan, ChannelEvents& events, const Maker& make) {
    std::unique_ptr<FaultChannel> channel(new FaultChannel(plan, events));
    if (!channel->poller_.made()) return no_descriptor("fault");
    auto inner = make(*channel);
    if (const auto* problem = std::get_if<Problem>(&inner)) return *problem;
    channel->inner_ = std::get<0>(std::move(inner));
    if (!channel->poller_.add(*channel->inner_)) return no_descriptor(channel->describe());
    channel->poller_.follow(*channel->inner_);
    return channel;
}

// ---- steps ------------------------------------------------------------------------------------------

// Counts a step; true: the connection drops at it.
bool FaultChannel::last_step() { return ++steps_ == plan_.drop_at_step; }

void FaultChannel::drop() {
    silent_ = true;
    ending_ = Ending{ChannelEnd::reset, describe() + ": dropped at step " + std::to_string(steps_)};
    inner_->close();
}

// ---- calls of the owner -----------------------------------------------------------------------------

void FaultChannel::ready() {
    if (over_) return;
    poller_.clear_timer();
    input_.offered_again();
    if (!silent_ && !ending_) inner_->ready();
    if (!silent_) send_held();
    count_unsent();
    // After the end all of the input is shown, once.
    if (!silent_ && input_.show(events_, /* all= */ ending_.has_value()) && ending_) input_.clear();
    if (!silent_ && !ending_) tell_reads();
    settle();
}

void FaultChannel::flush() {
    if (over_) return;
    if (!silent_ && !out_.empty()) {
        held_out_.append(out_.data(), out_.size());
        out_.clear(0);
        if (last_step()) {
            // After a drop the sender cannot know whether its last bytes arrived.
            if (drop_dice_.chance(0.5)) send_held();
            drop();
        } else if (send_at_ns_ == 0) {
            send_at_ns_ = send_dice_.delay(plan_.delay_send);
        }
    }
    if (!silent_) send_held();
    if (!silent_) inner_->flush();  // posted reads
    settle();
}

void FaultChannel::close() {
    if (silent_) return;
    send_at_ns_ = 0;
    send_held();  // bytes flushed before close() still leave
    silent_ = true;
    ending_ = Ending{ChannelEnd::closed,
                     describe() + ": " + std::string(channel_end_help(ChannelEnd::closed))};
    inner_->close();
    poller_.set_timer(next_due(), plan_.now());
}

void FaultChannel::send_held() {
    if (ending_ || send_at_ns_ > plan_.now()) return;  // a channel that has ended sends nothing
    send_at_ns_ = 0;
    if (held_out_.empty()) return;
    inner_->out().append(held_out_);
    held_out_.clear();
    inner_->flush();
    input_.show_again();
}

void FaultChannel::count_unsent() { unsent_bytes_ = held_out_.size() + inner_->out_pending(); }

// The last step of every call: it may report the end, and after that nothing of the channel is touched.
void FaultChannel::settle() {
    count_unsent();
    if (ending_ && (silent_ || (input_.empty() && ending_->due_ns <= plan_.now()))) {
        silent_ = over_ = true;
        const Ending ending = std::move(*ending_);
        events_.ended(ending.why, ending.text);
        return;
    }
    if (ending_)
        poller_.forget(*inner_);  // its descriptor would stay readable until the delayed end
    else
        poller_.follow(*inner_);
    poller_.set_timer(next_due(), plan_.now());
}

uint64_t FaultChannel::next_due() const {
    uint64_t due = std::min(reads_.due_ns(), input_.due_ns());
    if (ending_) due = std::min(due, silent_ ? 0 : input_.empty() ? ending_->due_ns : input_.show_at_ns());
    return held_out_.empty() ? due : std::min(due, send_at_ns_);
}

// ---- events of the inner channel --------------------------------------------------------------------

void FaultChannel::connected() {
    if (silent_) return;
    if (last_step()) return drop();
    events_.connected();
}

size_t FaultChannel::received(std::string_view bytes) {
    if (silent_) return 0;
    const size_t taken = input_.take(bytes);
    if (taken == 0) return 0;
    if (!last_step()) {
        input_.delay();
        return taken;
    }
    if (drop_dice_.chance(0.5)) input_.show_some(events_, drop_dice_);
    drop();
    return taken;
}

void FaultChannel::written(size_t bytes) {
    if (silent_) return;
    if (last_step()) return drop();
    events_.written(bytes);
}

void FaultChannel::read_done(uint64_t token, ReadStatus status) { CHECK(reads_.arrive(token, status) || silent_); }

void FaultChannel::ended(ChannelEnd why, const std::string& text) {
    if (!ending_) ending_ = Ending{why, text, end_dice_.delay(plan_.delay_end)};
}

// ---- reads ------------------------------------------------------------------------------------------

bool FaultChannel::post_read(const ReadRequest& request) {
    CHECK(can_read());
    CHECK(well_formed(request.ptr));
    if (reads_.full()) return false;
    if (!silent_ && last_step()) drop();
    const bool posted = silent_ || reads_.post(request, *inner_);  // a silent channel never reports it: it has ended
    if (posted) poller_.set_timer(next_due(), plan_.now());
    return posted;
}

void FaultChannel::tell_reads() {
    const uint64_t at = plan_.now();
    while (const std::optional<HeldRead> read = reads_.take_due(at)) {
        if (last_step()) return drop();
        events_.read_done(read->request.token, read->complete(*inner_));
        if (silent_) return;
    }
}

FaultPlan fault_plan_of_process() {
    static std::atomic<uint64_t> calls{0};
    FaultPlan plan{broken::faults, {}};
    plan.seed += calls.fetch_add(1) << 32;
    return plan;
}

}  // namespace farcached::fabric
