// SPDX-License-Identifier: BSD-3-Clause
// ChangedKeys: the keys of a partition that were mutated in the last while, as bits of their hashes. ListChanges: the changes of
// the list of nodes that proxies reported. Together they decide whether an item of a key's former owner may be stored here
// (StoreOp::arrival, daemon/engine/former_owner.h).
//
// Owners: a Partition, under its lock; the Node, any thread.
//
// C1  The node stores such an item only if it misses the key and has executed no mutation of it in the time from earlier_s before
//     the first use of the new list. A key whose bit another key has set counts as mutated.
// C2  The bits cover the time from since_ on: 0 is the start of the run. Two maps take turns, each for turn_s; while a change is
//     open, nothing is forgotten.
// C3  A flush or a delete by prefix ends the changes that began before it.
// C4  A change that began before this run is not open: the former run may have executed mutations.
// C5  A change is open for the time that its first proxy wants, and never again until forget_s later.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/node_clock.h"

namespace farcached::node {

class ChangedKeys {
  public:
    static constexpr size_t bits_of_all = size_t(1) << 23;  // of a map, over all partitions
    static constexpr NodeSeconds turn_s = 60;
    static constexpr NodeSeconds earlier_s = 30;  // from a proxy's use of a list to its report

    // Before the first mutation; without it nothing is accepted. Throws std::bad_alloc.
    void record(size_t partitions) {
        const size_t words = std::max<size_t>(1, bits_of_all / 64 / partitions);
        for (Map& map : maps_) map.assign(words, 0);
    }
    // open_until: the end of the last change.
    void note(uint64_t hash, NodeSeconds now, NodeSeconds open_until) {
        if (maps_[0].empty()) return;
        if (now >= began_ + turn_s && now > open_until) [[unlikely]] turn(now);
        maps_[current_][word(hash)] |= bit(hash);
    }
    void flushed(NodeSeconds now) { flushed_ = std::max(flushed_, now); }
    // May an item of that key arrive, by a change whose list was first used then?
    bool accepts(uint64_t hash, NodeSeconds first) const {
        if (maps_[0].empty() || (flushed_ != 0 && flushed_ >= first)) return false;
        if (since_ != 0 && since_ + earlier_s > first) return false;
        return ((maps_[0][word(hash)] | maps_[1][word(hash)]) & bit(hash)) == 0;
    }

  private:
    using Map = std::vector<uint64_t>;

    // Partitions share the top bits of hashes, and buckets the low ones.
    size_t word(uint64_t hash) const { return (hash >> 14) % maps_[0].size(); }
    static uint64_t bit(uint64_t hash) { return UINT64_C(1) << (hash >> 8) % 64; }
    void turn(NodeSeconds now) {
        if (turned_) since_ = began_;
        turned_ = true;
        began_ = now;
        current_ ^= 1;
        std::ranges::fill(maps_[current_], 0);
    }

    std::array<Map, 2> maps_;
    uint32_t current_ = 0;
    bool turned_ = false;
    NodeSeconds began_ = 0;    // of the current map
    NodeSeconds since_ = 0;    // C2
    NodeSeconds flushed_ = 0;  // C3; 0: never
};

class ListChanges {
  public:
    static constexpr NodeSeconds forget_s = 600;

    // A proxy took the new list `ago_ms` ago, and asks former owners for open_s from then on.
    void told(uint64_t change, uint64_t ago_ms, NodeSeconds open_s, NodeSeconds now, uint64_t runs_ms) {
        const NodeSeconds ago_s = NodeSeconds(std::min<uint64_t>(ago_ms / 1000 + 1, now));
        const NodeSeconds first = ago_ms > runs_ms ? never : std::max(now - ago_s, NodeSeconds(1));
        std::lock_guard hold(lock_);
        One* const free = place_of(change, now);
        if (free == nullptr) return;
        const bool known = free->change == change && free->end != 0;
        free->end = std::min(known ? free->end : UINT32_MAX, (first == never ? now : now - ago_s) + open_s);
        free->first = std::min(known ? free->first : UINT32_MAX, first);
        free->change = change;
        open_until_.store(std::max(free->end, open_until_.load(std::memory_order_relaxed)), std::memory_order_relaxed);
    }
    // When the list of an open change was first used; nullopt: it is not open.
    std::optional<NodeSeconds> first_use(uint64_t change, NodeSeconds now) const {
        std::lock_guard hold(lock_);
        const auto at = std::ranges::find(ones_, change, &One::change);
        if (at == ones_.end() || at->first == never || now >= at->end) return std::nullopt;
        return at->first;
    }
    NodeSeconds open_until() const { return open_until_.load(std::memory_order_relaxed); }

  private:
    static constexpr NodeSeconds never = 0;
    struct One {
        uint64_t change = 0;
        NodeSeconds first = never, end = 0;  // end 0: unused
    };

    // The change's own place, or one that is free; nullptr: all are in use.
    One* place_of(uint64_t change, NodeSeconds now) {
        One* found = nullptr;
        for (One& one : ones_) {
            if (one.end != 0 && one.change == change) return &one;
            if (one.end == 0 || now > one.end + forget_s) found = &(one = {});
        }
        return found;
    }

    mutable std::mutex lock_;
    std::array<One, 16> ones_{};  // under it
    std::atomic<NodeSeconds> open_until_{0};
};

}  // namespace farcached::node
