// SPDX-License-Identifier: BSD-3-Clause
#include "node/keys/prefix_counts.h"

#include <algorithm>
#include <new>
#include <utility>

namespace farcached::node {

void PrefixCounts::when_asked(std::function<void()> told) {
    std::lock_guard hold(told_lock_);
    told_ = std::move(told);
}

void PrefixCounts::tell() {
    std::lock_guard hold(told_lock_);
    if (told_) told_();
}

void PrefixCounts::deleted(std::string prefix, uint64_t order) noexcept {
    std::lock_guard hold(lock_);
    auto at = std::ranges::find(deletes_, prefix, &Delete::prefix);
    if (at == deletes_.end()) at = std::ranges::min_element(deletes_, {}, &Delete::order);
    *at = Delete{std::move(prefix), order, false, {}};
}

void PrefixCounts::swept(uint64_t order, FunctionRef<std::optional<uint64_t>(std::string_view prefix)> removed) {
    std::lock_guard hold(lock_);
    for (Delete& one : deletes_) {
        if (one.order == 0 || one.order > order || one.complete) continue;
        one.items = removed(one.prefix);
        one.complete = true;
    }
}

PrefixCount PrefixCounts::of_delete(std::string_view prefix) const {
    using State = PrefixCount::State;
    std::lock_guard hold(lock_);
    const auto at = std::ranges::find(deletes_, prefix, &Delete::prefix);
    if (at == deletes_.end() || at->order == 0) return {};
    if (!at->complete) return running(State::running, Walk::sweep, at->order);
    return {State::complete, at->items, at->order};
}

PrefixCount PrefixCounts::count(std::string_view token, std::string_view prefix) {
    using State = PrefixCount::State;
    std::string own_token(token), own_prefix(prefix);
    std::unique_lock hold(lock_);
    const bool runs = !counting_.empty() && !counted_.has_value();
    if (token_ == token && counting_ == prefix && !runs) return {State::complete, counted_};
    if (runs) return running(token_ == token ? State::running : State::busy, Walk::count, 0);
    token_ = std::move(own_token);
    counting_ = std::move(own_prefix);
    counted_.reset();
    progress_[size_t(Walk::count)] = {};
    const PrefixCount begun = running(State::running, Walk::count, 0);
    hold.unlock();
    tell();
    return begun;
}

std::string PrefixCounts::to_count() const {
    std::lock_guard hold(lock_);
    try {
        return counted_.has_value() ? std::string() : counting_;
    } catch (const std::bad_alloc&) {
        return {};
    }
}

void PrefixCounts::counted(uint64_t items) {
    std::lock_guard hold(lock_);
    counted_ = items;
}

void PrefixCounts::walked(Walk walk, uint64_t pages_done, uint64_t pages) {
    std::lock_guard hold(lock_);
    Progress& progress = progress_[size_t(walk)];
    pages_walked_ += pages_done > progress.pages_done ? pages_done - progress.pages_done : pages_done;
    progress = {pages_done, pages};
}

PrefixCount PrefixCounts::running(PrefixCount::State state, Walk walk, uint64_t order) const {
    const Progress& progress = progress_[size_t(walk)];
    return {state, {}, order, progress.pages_done, progress.pages, pages_walked_};
}

}  // namespace farcached::node
