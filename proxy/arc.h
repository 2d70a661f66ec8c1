// SPDX-License-Identifier: BSD-3-Clause
// Arc: of the keys that are read one-sided, those worth telling their node of. The lists of the Adaptive Replacement
// Cache (Megiddo and Modha, FAST '03), which are a cache of nothing here: they classify.
//
//              first access                        second access
//     new key -------------> t1 ---------------------------------------> t2 <--+ again
//                            | the oldest       a ghost is accessed:     |  +--+
//                            v                  target moves             v the oldest
//                            b1 ------------------------> t2 <---------- b2
//                            +--> forgotten             forgotten <------+
//
// A scan passes through t1 and leaves t2 alone; the target says how many of the capacity t1 should have, and moves to
// whichever list's ghosts are accessed again.
//
// Owner: whoever counts accesses for one connection. No clock, no memory but that of the start.
// A1  |t1| + |b1| <= capacity; |t1| + |t2| <= capacity; all four <= 2 capacity; target <= capacity.
// A2  An access, and forgetting a key, takes a number of steps that does not grow with the capacity, as long as hashes
//     are as good as random: they are keyed by the node, so that no client can choose them.
// A3  A ghost has a hash and nothing else: it has nothing to tell, and what it had not told was dropped.
// A4  Every access is told in one pick(), or returned as dropped by the call that dropped it, once.
// A5  What was picked 8 times in a row rests for 8 picks. Else few items that are always hot would take a report's room
//     for ever, of which the node has known for long; and resting longer, as long as they stay hot, would let their
//     leases end and make them victims there. What they were accessed meanwhile is told when they are picked again.
//     An item that left t1 and t2, or that has another generation, begins anew.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/function_ref.h"
#include "protocol/frame_layout.h"

namespace farcached::proxy {

class Arc {
  public:
    static constexpr uint32_t capacity_max = UINT32_C(1) << 24;
    static constexpr uint32_t picks_in_a_row_max = 8;  // and as many to rest

    // By the names they have in the paper: t1: accessed once lately, t2: at least twice; b1, b2: their ghosts.
    enum class List : uint8_t { t1, t2, b1, b2 };

    explicit Arc(uint32_t capacity);  // 1 to capacity_max keys that are no ghosts
    Arc(const Arc&) = delete;
    Arc& operator=(const Arc&) = delete;

    // The item was accessed, item.count times (at least 1), which is one step of the lists. Returns how many accesses,
    // of whichever item, are dropped for it.
    uint64_t access(const protocol::AccessRecord& item);
    // What was known of the key's item is no longer true: it is removed, and leaves no ghost, which would say that t1 or
    // t2 was too short. Returns how many accesses are dropped.
    uint64_t forget(uint64_t key_hash);

    // The most recently used of t1 and of t2 that have accesses to tell and do not rest, in turns, until there are
    // items_max or no more: what one list lacks the other fills. From then on they have none to tell. Returns how many.
    // again: more of the pick before, as if that had been larger.
    uint32_t pick(uint32_t items_max, FunctionRef<void(const protocol::AccessRecord&)> visit, bool again = false);
    // What a pick() told of did not arrive: it is told again, together with what came since, and the pick does not count
    // among those in a row. Returns how many accesses are dropped, because the item is not what it was, or no longer there.
    uint64_t take_back(const protocol::AccessRecord& item);
    // Everything is forgotten, the target too. Returns how many accesses are dropped.
    uint64_t drop_all();

    uint32_t capacity() const { return capacity_; }
    uint32_t target() const { return target_; }
    uint32_t size(List list) const { return ends_[size_t(list)].size; }
    // Items that have accesses to tell.
    uint32_t untold() const { return untold_; }

    // For tests: a list from the most recently used on, by key hash; everything that must hold; entries looked at so far.
    void each(List list, FunctionRef<void(uint64_t)> visit) const;
    void check() const;
    uint64_t steps() const { return steps_; }

  private:
    static constexpr uint32_t none = UINT32_MAX;

    struct Entry {
        protocol::AccessRecord item;  // of a ghost: the hash, and a count of 0
        uint32_t newer = none;
        uint32_t older = none;
        uint32_t chain = none;   // the next of the same bucket, or the next free one
        uint32_t picked_at = 0;  // by picks_, modulo 2^32: one mistaken in 4 billion picks rests, or does not, once
        uint8_t in_a_row = 0;    // up to that pick
        List list = List::t1;
    };
    struct Ends {
        uint32_t newest = none;
        uint32_t oldest = none;
        uint32_t size = 0;
    };

    Ends& ends(List list) { return ends_[size_t(list)]; }
    uint32_t& bucket(uint64_t key_hash);
    uint32_t find(uint64_t key_hash);
    uint32_t add(uint64_t key_hash);
    void link(uint32_t at, List list);
    void unlink(uint32_t at);
    void move(uint32_t at, List list);
    void remove(uint32_t at);
    void remove_oldest(List list);
    uint64_t make_room();
    uint64_t demote(bool for_b2);
    void aim(List ghosts);
    uint64_t drop_count(Entry& entry);
    uint64_t count(Entry& entry, const protocol::AccessRecord& item);
    bool rests(const Entry& entry) const;
    uint32_t next_to_tell(uint32_t at);
    void check_list(List list) const;

    uint32_t capacity_;
    uint32_t target_ = 0;
    uint32_t untold_ = 0;
    uint32_t picks_ = 0;
    uint64_t steps_ = 0;
    std::array<Ends, 4> ends_;
    uint32_t free_ = none;
    uint32_t shift_;               // of the bucket's number in a mixed hash
    std::vector<uint32_t> heads_;  // of buckets
    std::vector<Entry> entries_;   // up to 2 capacity, for which there is room: memory is touched as it is needed
};

}  // namespace farcached::proxy
