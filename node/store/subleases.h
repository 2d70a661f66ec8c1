// SPDX-License-Identifier: BSD-3-Clause
// Subleases: the keys of a partition whose values proxies may READ on the node of --spill-to, and until when (S15).
//
// Owner: a Partition, under its lock.
//
// U1  A sublease is noted before a proxy can learn of it. It ends by itself, or when that node has killed the slot (over()).
// U2  It belongs to the key, not to the stub: it also runs on if the stub is evicted, or its value returns to memory. So a mutation
//     of the key, and a get that finds nothing, wait for its end.
// U3  After end() the key gets no sublease until the present one has ended.
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

    // False: U3, or too many keys have one.
    bool add(uint64_t key_hash, const Place& place, uint64_t until_ns, uint64_t now_ns) try {
        if (running_.size() >= keys_max) std::erase_if(running_, [&](const auto& one) { return one.second.until_ns <= now_ns; });
        if (running_.size() >= keys_max) return false;
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
    Running end(uint64_t key_hash, uint64_t now_ns) {
        const Running running = find(key_hash, now_ns);
        if (running.until_ns != 0) running_[key_hash].ends = true;
        return running;
    }
    // The slot of that place is dead.
    void over(uint64_t key_hash, const Place& place) {
        const auto found = running_.find(key_hash);
        if (found != running_.end() && found->second.place == place) running_.erase(found);
    }

  private:
    struct One : Running {
        bool ends = false;
    };
    std::unordered_map<uint64_t, One> running_;
};

}  // namespace farcached::node
