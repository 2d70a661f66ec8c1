// SPDX-License-Identifier: BSD-3-Clause
// Arc: selects the keys, among those read one-sided, that are worth reporting to their node. It uses the lists of the
// Adaptive Replacement Cache (Megiddo and Modha, FAST '03) to classify keys; it caches nothing.
//
//              first access                        second access
//     new key -------------> t1 ---------------------------------------> t2 <--+ again
//                            | the oldest       a ghost is accessed:     |  +--+
//                            v                  target moves             v the oldest
//                            b1 ------------------------> t2 <---------- b2
//                            +--> forgotten             forgotten <------+
//
// A scan passes through t1 and leaves t2 alone. The target is the share of the capacity that t1 should have; it grows
// when b1's ghosts are accessed and shrinks when b2's are.
//
// Owner: the AccessNotes of one connection, on its thread. No clock; memory is allocated at the start only.
// A1  |t1| + |b1| <= capacity; |t1| + |t2| <= capacity; all four <= 2 capacity; target <= capacity.
// A2  The cost of an access or of forget() does not grow with the capacity if hashes are as good as random. They are
//     keyed by the node, so clients cannot choose them.
// A3  A ghost has a hash and no accesses; its unreported accesses were dropped.
// A4  Every access leaves once: through pick() or tell(), or in the dropped count that a call returns.
// A5  An item picked 8 times in a row rests for 8 picks. Otherwise a few hot items, which the node already knows, would
//     fill every report. A longer rest would let the leases of hot items end and make them victims at the node.
//     Accesses during the rest are reported with the next pick. An item whose lease would end while it rests is urgent:
//     the next pick takes it. A key that left t1 and t2, or whose item moved, starts over; a new generation in the same
//     place does not.
// A6  Of several generations in one place, the latest is reported.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/function_ref.h"
#include "protocol/frame_layout.h"

namespace farcached::proxy {

class Arc {
  public:
    static constexpr uint32_t capacity_max = UINT32_C(1) << 24;
    static constexpr uint32_t picks_in_a_row_max = 8;  // and as many picks of rest

    // Named as in the paper. t1: accessed once lately; t2: at least twice; b1, b2: their ghosts.
    enum class List : uint8_t { t1, t2, b1, b2 };

    explicit Arc(uint32_t capacity);  // keys without ghosts: 1 to capacity_max
    Arc(const Arc&) = delete;
    Arc& operator=(const Arc&) = delete;

    // Records item.count accesses (at least 1) as one step of the lists. Returns the number of accesses dropped, of any
    // item.
    uint64_t access(const protocol::ItemAccess& item);
    // Removes the key: its item changed or moved. No ghost is left, since a ghost would mean that t1 or t2 was too
    // short. Returns the number of accesses dropped.
    uint64_t forget(uint64_t key_hash);

    // Visits the most recently used items of t1 and t2, alternating, that have accesses and do not rest, up to
    // items_max. If one list runs out, the other fills the rest. Visited items then have no accesses left. Returns the
    // number of items. again: continues the pick before, as if that had been larger. urgent: true for an item that must
    // not rest now (A5).
    using Visit = FunctionRef<void(const protocol::ItemAccess&)>;
    using Urgent = FunctionRef<bool(const protocol::ItemAccess&)>;
    uint32_t pick(uint32_t items_max, Visit visit, bool again, Urgent urgent);
    uint32_t pick(uint32_t items_max, Visit visit, bool again = false) {
        return pick(items_max, visit, again, [](const protocol::ItemAccess&) { return false; });
    }
    // Takes the accesses of the key's item, if it has any. The lists do not change.
    std::optional<protocol::ItemAccess> tell(uint64_t key_hash);
    // A picked item was not delivered: its accesses are counted again, on top of newer ones, and this pick does not
    // count for its row. Returns the number of accesses dropped, because the item moved or left the lists.
    uint64_t take_back(const protocol::ItemAccess& item);
    // Forgets everything, the target too. Returns the number of accesses dropped.
    uint64_t drop_all();

    uint32_t capacity() const { return capacity_; }
    uint32_t target() const { return target_; }
    uint32_t size(List list) const { return ends_[size_t(list)].size; }
    // Number of items that have accesses to report.
    uint32_t untold() const { return untold_; }

    // For tests: walks a list from the most recently used key on; checks all invariants; counts the entries visited.
    void each(List list, FunctionRef<void(uint64_t)> visit) const;
    void check() const;
    uint64_t steps() const { return steps_; }

  private:
    static constexpr uint32_t none = UINT32_MAX;

    struct Entry {
        protocol::ItemAccess item;  // a ghost: the hash, and a count of 0
        uint32_t newer = none;
        uint32_t older = none;
        uint32_t chain = none;   // the next in the same bucket or in the free list
        uint32_t picked_at = 0;  // picks_ at that time; it wraps: after 2^32 picks an item may rest, or not, once by mistake
        uint8_t in_a_row = 0;    // as of that pick
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
    uint64_t count(Entry& entry, const protocol::ItemAccess& item);
    bool rests(const Entry& entry) const;
    uint32_t next_to_tell(uint32_t at, Urgent urgent);
    void check_list(List list) const;

    uint32_t capacity_;
    uint32_t target_ = 0;
    uint32_t untold_ = 0;
    uint32_t picks_ = 0;
    uint64_t steps_ = 0;
    std::array<Ends, 4> ends_;
    uint32_t free_ = none;
    uint32_t shift_;               // shift of a mixed hash that yields the bucket number
    std::vector<uint32_t> heads_;  // of buckets
    std::vector<Entry> entries_;   // room for 2 capacity is reserved; memory is touched as needed
};

}  // namespace farcached::proxy
