// SPDX-License-Identifier: BSD-3-Clause
// MissingCopies: keys whose item has no copy, because two mutations overlapped or a node did not reply, and when to look again.
//
// Owner: a PairCompletion; its thread alone.
//
// A try is under way from take_due() to done(). Two processes that look at the same moment spoil each other's hold, so the delay
// before a try is a random one. It grows with each try. A key is given up when it had no copy for longer than a hold whose process
// has died (Replicas::hold_s).
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
    static constexpr size_t keys_max = 1024, under_way_max = 64;
    static constexpr uint64_t first_delay_ns = 10'000'000, delay_ns_max = 5'000'000'000, give_up_ns = 800'000'000'000;
    struct Try {
        uint64_t number;
        std::string key;
    };

    explicit MissingCopies(uint64_t seed) : chance_(seed | 1) {}

    // The key has lost its copy now, or again. False: there is no room. Throws std::bad_alloc.
    bool lost(std::string_view key, uint64_t now_ns) {
        if (keys_.size() >= keys_max && !keys_.contains(std::string(key))) return false;
        const auto [at, is_new] = keys_.try_emplace(std::string(key));
        at->second.lost_ns = now_ns;
        if (is_new) wait(at->second, now_ns);
        return true;
    }
    // The key was found without a copy. Returns and throws as lost().
    bool found(std::string_view key, uint64_t now_ns) { return keys_.contains(std::string(key)) || lost(key, now_ns); }
    // Begins the next tries. Throws std::bad_alloc: clear() must follow.
    std::vector<Try> take_due(uint64_t now_ns) {
        std::vector<Try> due;
        if (now_ns < next_ns()) return due;
        due.reserve(under_way_max);
        next_ns_ = UINT64_MAX;
        for (auto& [key, one] : keys_) {
            if (one.at_ns <= now_ns && under_way_.size() < under_way_max) {
                under_way_.emplace(++last_, key);
                due.push_back({last_, key});
                one.at_ns = UINT64_MAX;
                one.began_ns = now_ns;
            }
            next_ns_ = std::min(next_ns_, one.at_ns);
        }
        return due;
    }
    // has_copy: the key has one now, or needs none.
    void done(uint64_t number, bool has_copy, uint64_t now_ns) noexcept {
        const auto ended = under_way_.find(number);
        if (ended == under_way_.end()) return;  // cleared
        const auto at = keys_.find(ended->second);
        under_way_.erase(ended);
        Wait& one = at->second;
        const bool lost_since = one.lost_ns > one.began_ns;
        if (!lost_since && (has_copy || now_ns - one.lost_ns > give_up_ns)) {
            keys_.erase(at);
        } else {
            one.tries++;
            wait(one, now_ns);
        }
    }
    // Keys without a copy.
    size_t size() const { return keys_.size(); }
    // When the next try is due, on boottime_ns(); UINT64_MAX: none before the end of another one.
    uint64_t next_ns() const { return under_way_.size() < under_way_max ? next_ns_ : UINT64_MAX; }
    void clear() {
        keys_.clear();
        under_way_.clear();
        next_ns_ = UINT64_MAX;
    }

  private:
    struct Wait {
        uint32_t tries = 0;
        uint64_t lost_ns = 0, began_ns = 0;
        uint64_t at_ns = UINT64_MAX;  // UINT64_MAX: a try is under way
    };

    // Each delay is four times as long as the one before, give or take half of it.
    void wait(Wait& one, uint64_t now_ns) noexcept {
        chance_ ^= chance_ << 13;
        chance_ ^= chance_ >> 7;
        chance_ ^= chance_ << 17;
        constexpr uint32_t shift_max = 16;
        const uint64_t delay_ns = std::min(first_delay_ns << std::min(2 * one.tries, shift_max), delay_ns_max);
        one.at_ns = now_ns + delay_ns / 2 + chance_ % delay_ns;
        next_ns_ = std::min(next_ns_, one.at_ns);
    }

    std::unordered_map<std::string, Wait> keys_;
    std::unordered_map<uint64_t, std::string> under_way_;  // by the number of the try
    uint64_t last_ = 0;
    uint64_t next_ns_ = UINT64_MAX;
    uint64_t chance_;
};

}  // namespace farcached::daemon
