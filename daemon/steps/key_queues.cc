// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/steps/key_queues.h"

#include <utility>
#include <variant>

#include "base/check.h"

namespace farcached::daemon {

// Does such a request for the key wait here, or a flush?
template <class Is>
bool KeyQueues::any_waits(std::string_view key, Is&& is) const {
    if (flush_ != nullptr) return true;
    const auto at = keys_.empty() ? keys_.end() : keys_.find(key);
    if (at == keys_.end()) return false;
    for (const SteppedRequest* one = at->second.first; one != nullptr; one = one->next)
        if (is(*one)) return true;
    return false;
}

bool KeyQueues::waits(std::string_view key, uint64_t session) const {
    return any_waits(key, [session](const SteppedRequest& one) { return one.session == session; });
}

bool KeyQueues::waits_to_change(std::string_view key, uint64_t session) const {
    return any_waits(key, [session](const SteppedRequest& one) { return one.session == session && !one.is_get(); });
}

SteppedRequest* KeyQueues::find(uint64_t number) noexcept {
    const auto at = requests_.find(number);
    return at == requests_.end() ? nullptr : at->second.get();
}

SteppedRequest& KeyQueues::add(std::unique_ptr<SteppedRequest> request) {
    SteppedRequest& added = *request;
    added.number = ++numbers_;
    requests_.emplace(added.number, std::move(request));
    return added;
}

void KeyQueues::enqueue(SteppedRequest& request) {
    if (flush_ != nullptr) return behind_flush_.push(request);
    if (std::holds_alternative<protocol::FlushOp>(request.asked.op)) {
        flush_ = &request;
        if (keys_.empty()) make_due(request);
        return;
    }
    const auto [at, is_new] = keys_.try_emplace(std::string(request.key().bytes));
    request.queue = &*at;
    at->second.push(request);
    if (is_new) make_due(request);
}

void KeyQueues::make_due(SteppedRequest& request) noexcept {
    request.next_due = nullptr;
    (first_due_ == nullptr ? first_due_ : last_due_->next_due) = &request;
    last_due_ = &request;
}

SteppedRequest* KeyQueues::take_due() noexcept {
    SteppedRequest* const due = first_due_;
    if (due != nullptr) first_due_ = due->next_due;
    return due;
}

SteppedRequest::Queue KeyQueues::remove(SteppedRequest& request) noexcept {
    const bool was_queued = request.queue != nullptr;
    const bool flushed = &request == flush_;
    if (was_queued) {
        SteppedRequest::Queue& queue = request.queue->second;
        CHECK(queue.first == &request);
        queue.pop();
        if (queue.empty())
            keys_.erase(keys_.find(request.queue->first));
        else
            make_due(*queue.first);
    }
    requests_.erase(request.number);
    if (flushed) {
        flush_ = nullptr;
        return std::exchange(behind_flush_, {});
    }
    if (was_queued && flush_ != nullptr && keys_.empty()) make_due(*flush_);
    return {};
}

KeyQueues::Requests KeyQueues::take_all() noexcept {
    keys_.clear();
    behind_flush_ = {};
    first_due_ = flush_ = nullptr;
    return std::exchange(requests_, {});
}

}  // namespace farcached::daemon
