// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/stats/hot_keys.h"

#include <new>

namespace farcached::daemon {

HotKeys::HotKeys(uint32_t one_in, uint64_t seed) : one_in_(one_in), chance_(uint32_t(seed ^ seed >> 32) | 1) {
    if (one_in_ != 0) left_ = 1 + chance_ % (2 * uint64_t(one_in_) - 1);
}

void HotKeys::change(uint32_t one_in) {
    if (one_in == one_in_) return;
    one_in_ = one_in;
    left_ = one_in == 0 ? UINT64_MAX : 1 + chance_ % (2 * uint64_t(one_in) - 1);
    reset();
}

// Not inlined: the path of unsampled requests stays short.
[[gnu::noinline]] void HotKeys::sample(Way way, std::string_view key) {
    chance_ ^= chance_ << 13;
    chance_ ^= chance_ >> 17;
    chance_ ^= chance_ << 5;
    left_ = 1 + chance_ % (2 * uint64_t(one_in_) - 1);  // one_in_ on average
    const std::unique_lock hold(lock_, std::try_to_lock);
    if (!hold.owns_lock()) return missed_.add(1);
    std::unique_ptr<SpaceSaving>& keys = ways_[size_t(way)];
    if (keys == nullptr) keys.reset(new (std::nothrow) SpaceSaving());
    if (keys == nullptr) return missed_.add(1);
    keys->add(key);
}

HotKeys::Copy HotKeys::copy() const {
    Copy copied;
    for (auto& way : copied.ways) way = std::make_unique<SpaceSaving>();  // allocated before the lock is taken
    const std::lock_guard hold(lock_);
    for (size_t i = 0; i < ways_.size(); i++) {
        if (ways_[i] != nullptr)
            *copied.ways[i] = *ways_[i];
        else
            copied.ways[i].reset();
    }
    copied.missed = missed_.get() - missed_before_;
    return copied;
}

void HotKeys::reset() {
    const std::lock_guard hold(lock_);
    for (auto& way : ways_) way.reset();
    missed_before_ = missed_.get();
}

}  // namespace farcached::daemon
