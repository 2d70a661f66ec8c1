// SPDX-License-Identifier: BSD-3-Clause
// MissingCopies: keys whose item has no copy, because two mutations overlapped or a node did not reply, and when to look again.
//
// Owner: Replicas; its thread alone.
//
// Two processes that look at the same moment spoil each other's hold, so the delay is a random one. It grows with each try. All
// tries together last longer than a hold whose process has died (Replicas::hold_s).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace farcached::daemon {

class MissingCopies {
  public:
    static constexpr size_t keys_max = 1024;
    static constexpr uint32_t tries_max = 10;
    static constexpr uint64_t first_delay_ns = 10'000'000;
    struct Key {
        std::string key;
        uint32_t tries;  // before this one
    };

    explicit MissingCopies(uint64_t seed) : chance_(seed | 1) {}

    // tries: so many were in vain. False: there is no room. A key that waits already keeps its time. Throws std::bad_alloc.
    bool add(std::string_view key, uint32_t tries, uint64_t now_ns) {
        if (tries >= tries_max) return true;
        if (keys_.size() >= keys_max) return false;
        const uint64_t at_ns = now_ns + delay_ns(tries);
        if (keys_.try_emplace(std::string(key), Wait{tries, at_ns}).second) next_ns_ = std::min(next_ns_, at_ns);
        return true;
    }
    // On boottime_ns(); UINT64_MAX: none waits.
    uint64_t next_ns() const { return next_ns_; }
    // Removes those whose time has come. Throws std::bad_alloc: all stay.
    std::vector<Key> take_due(uint64_t now_ns) {
        std::vector<Key> due;
        if (now_ns < next_ns_) return due;
        due.reserve(keys_.size());
        next_ns_ = UINT64_MAX;
        for (auto at = keys_.begin(); at != keys_.end();) {
            const auto one = at++;
            if (one->second.at_ns > now_ns) {
                next_ns_ = std::min(next_ns_, one->second.at_ns);
            } else {
                auto taken = keys_.extract(one);
                due.push_back({std::move(taken.key()), taken.mapped().tries});
            }
        }
        return due;
    }
    void clear() {
        keys_.clear();
        next_ns_ = UINT64_MAX;
    }

  private:
    struct Wait {
        uint32_t tries;
        uint64_t at_ns;
    };

    // Each four times as long as the one before, give or take half of it.
    uint64_t delay_ns(uint32_t tries) {
        chance_ ^= chance_ << 13;
        chance_ ^= chance_ >> 7;
        chance_ ^= chance_ << 17;
        const uint64_t delay = first_delay_ns << (2 * tries);
        return delay / 2 + chance_ % delay;
    }

    std::unordered_map<std::string, Wait> keys_;
    uint64_t next_ns_ = UINT64_MAX;
    uint64_t chance_;
};

}  // namespace farcached::daemon
