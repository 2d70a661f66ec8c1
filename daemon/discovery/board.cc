// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/discovery/board.h"

#include "base/node_clock.h"
#include "daemon/discovery/answers.h"

namespace farcached::daemon {

namespace {

constexpr uint64_t ns_per_s = 1'000'000'000;

}  // namespace

void SourceBoard::answered(std::vector<FoundNode> nodes, std::optional<uint64_t> revision, std::optional<uint64_t> epoch,
                           bool is_new, std::shared_ptr<const conf::FormerLists> former) {
    bool back = false;
    {
        std::lock_guard hold(lock_);
        const bool first = latest_ == nullptr;
        const bool differs = first || is_new || !same_nodes(latest_->nodes, nodes);
        if (differs) {
            const uint64_t next = first ? 1 : latest_->revision + 1;
            epoch_ = epoch.has_value() ? std::make_shared<std::atomic<uint64_t>>(*epoch) : nullptr;
            latest_ = std::make_shared<const Found>(Found{std::move(nodes), revision.value_or(next), epoch_, std::move(former)});
            changes_ += first ? 0 : 1;
        } else if (epoch_ != nullptr) {
            epoch_->store(epoch.value_or(0), std::memory_order_release);
        }
        back = !up_ && failures_ != 0;
        up_ = true;
        answers_++;
        answered_ns_ = boottime_ns();
        if (!differs && !back) return;
        if (back && logs_) lines_.say(process::Level::notice, source_ + " answers again");
        if (!differs) return;
    }
    changed_();
}

void SourceBoard::set_epoch(uint64_t epoch) {
    std::lock_guard hold(lock_);
    if (epoch_ != nullptr) epoch_->store(epoch, std::memory_order_release);
}

void SourceBoard::failed(const std::string& why) {
    std::lock_guard hold(lock_);
    up_ = false;
    failures_++;
    last_error_ = why;
    if (!logs_) return;
    lines_.say(process::Level::warning,
               source_ + ": " + why +
                   (latest_ == nullptr ? "; there is no list of nodes yet; retrying" :
                                         "; the last list of nodes stays in use; retrying"));
}

std::shared_ptr<const Found> SourceBoard::latest() const {
    std::lock_guard hold(lock_);
    return latest_;
}

SourceState SourceBoard::state() const {
    std::lock_guard hold(lock_);
    SourceState state{.source = source_, .up = up_, .last_error = last_error_, .changes = changes_, .answers = answers_,
                      .failures = failures_};
    if (answered_ns_ != 0) state.answer_age_s = (boottime_ns() - answered_ns_) / ns_per_s;
    if (latest_ != nullptr) {
        state.nodes = latest_->nodes.size();
        state.revision = latest_->revision;
    }
    return state;
}

}  // namespace farcached::daemon
