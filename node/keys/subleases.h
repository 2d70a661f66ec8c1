// SPDX-License-Identifier: BSD-3-Clause
// Subleases: the keys of a partition whose values proxies may READ on the node of --spill-to, and until when (S15).
//
// Owner: a Partition, under its lock.
//
// U1  A sublease is noted before a proxy can learn of it. It ends by itself, or when that node has killed the slot (over()).
// U2  It belongs to the key, not to the stub: it also runs on if the stub is evicted, or its value returns to memory. So a mutation
//     of the key, and a get that finds nothing, wait for its end.
// U3  After end() the key gets no sublease until the present one has ended.
// U4  Between end() and change_over() no key of the partition gets one: no mutation is executed beside a new sublease.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <unordered_map>

#include "node/disk/place.h"

namespace farcached::node {

class Subleases {
  public:
    static constexpr size_t keys_max = 4096;

    struct Running {
        uint64_t until_ns = 0;  // CLOCK_BOOTTIME; 0: none runs
        Place place{};
    };

    // False: U3 or U4, or too many keys have one.
    bool add(uint64_t key_hash, const Place& place, uint64_t until_ns, uint64_t now_ns) try {
        if (changes_ != 0) return false;
        if (!running_.contains(key_hash) && !has_room(now_ns)) return false;
        One& one = running_[key_hash];
        const bool runs = one.until_ns > now_ns;
        if (runs && (one.ends || one.place != place)) return false;
        one = {{runs && one.until_ns > until_ns ? one.until_ns : until_ns, place}, false};
        return true;
    } catch (const std::bad_alloc&) {
        return false;
    }
    // Of the key.
    Running find(uint64_t key_hash, uint64_t now_ns) const {
        if (running_.empty()) return {};
        const auto found = running_.find(key_hash);
        return found == running_.end() || found->second.until_ns <= now_ns ? Running{} : Running(found->second);
    }
    // Before a mutation of the key. If none runs, a change begins.
    Running end(uint64_t key_hash, uint64_t now_ns) {
        const Running running = find(key_hash, now_ns);
        if (running.until_ns != 0)
            running_[key_hash].ends = true;
        else
            changes_++;
        return running;
    }
    void change_over() { changes_--; }
    // The slot of that place is dead.
    void over(uint64_t key_hash, const Place& place) {
        const auto found = running_.find(key_hash);
        if (found != running_.end() && found->second.place == place) running_.erase(found);
    }

  private:
    static constexpr uint64_t sweep_ns_min = 10'000'000;  // between searches for room

    bool has_room(uint64_t now_ns) {
        if (running_.size() >= keys_max && now_ns >= swept_ns_ + sweep_ns_min) {
            swept_ns_ = now_ns;
            std::erase_if(running_, [&](const auto& one) { return one.second.until_ns <= now_ns; });
        }
        return running_.size() < keys_max;
    }

    struct One : Running {
        bool ends = false;
    };
    std::unordered_map<uint64_t, One> running_;
    uint64_t swept_ns_ = 0;
    uint32_t changes_ = 0;
};

}  // namespace farcached::node
