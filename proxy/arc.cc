// SPDX-License-Identifier: BSD-3-Clause
#include "proxy/arc.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"

namespace farcached::proxy {

using protocol::ItemAccess;

namespace {

constexpr uint64_t golden = UINT64_C(0x9e3779b97f4a7c15);

bool ghost(Arc::List list) { return list == Arc::List::b1 || list == Arc::List::b2; }

}  // namespace

Arc::Arc(uint32_t capacity) : capacity_(capacity) {
    CHECK(capacity > 0);
    CHECK(capacity <= capacity_max);
    const uint32_t buckets = std::bit_ceil(2 * capacity);
    shift_ = 64 - uint32_t(std::countr_zero(buckets));
    heads_.assign(buckets, none);
    entries_.reserve(2 * size_t(capacity));
}

// ---- entries, by hash -------------------------------------------------------------------------------

// Mixes the hash, since others use its ends, and all keys of a partition may share them.
uint32_t& Arc::bucket(uint64_t key_hash) { return heads_[key_hash * golden >> shift_]; }

uint32_t Arc::find(uint64_t key_hash) {
    uint32_t at = bucket(key_hash);
    for (; at != none && entries_[at].item.hash != key_hash; at = entries_[at].chain) steps_++;
    return at;
}

uint32_t Arc::add(uint64_t key_hash) {
    uint32_t at = free_;
    if (at != none) {
        free_ = entries_[at].chain;
        entries_[at] = Entry();
    } else {
        CHECK(entries_.size() < entries_.capacity());
        at = uint32_t(entries_.size());
        entries_.emplace_back();
    }
    Entry& entry = entries_[at];
    entry.item = {key_hash};
    entry.chain = std::exchange(bucket(key_hash), at);
    link(at, List::t1);
    return at;
}

void Arc::remove(uint32_t at) {
    CHECK(entries_[at].item.count == 0);
    unlink(at);
    uint32_t* from = &bucket(entries_[at].item.hash);
    for (; *from != at; from = &entries_[*from].chain) steps_++;
    *from = entries_[at].chain;
    entries_[at].chain = free_;
    free_ = at;
}

// ---- lists ------------------------------------------------------------------------------------------

void Arc::link(uint32_t at, List list) {
    Ends& to = ends(list);
    Entry& entry = entries_[at];
    entry.list = list;
    entry.newer = none;
    entry.older = to.newest;
    (to.newest == none ? to.oldest : entries_[to.newest].newer) = at;
    to.newest = at;
    to.size++;
}

void Arc::unlink(uint32_t at) {
    const Entry& entry = entries_[at];
    Ends& from = ends(entry.list);
    (entry.newer == none ? from.newest : entries_[entry.newer].older) = entry.older;
    (entry.older == none ? from.oldest : entries_[entry.older].newer) = entry.newer;
    from.size--;
    steps_++;
}

void Arc::move(uint32_t at, List list) {
    unlink(at);
    link(at, list);
}

void Arc::remove_oldest(List list) {
    CHECK(ends(list).oldest != none);
    remove(ends(list).oldest);
}

// ---- the algorithm ----------------------------------------------------------------------------------

uint64_t Arc::access(const ItemAccess& item) {
    CHECK(item.count > 0);
    uint64_t dropped = 0;
    uint32_t at = find(item.hash);
    if (at == none) {
        dropped = make_room();
        at = add(item.hash);
    } else if (const List from = entries_[at].list; !ghost(from)) {
        move(at, List::t2);
    } else {
        aim(from);
        dropped = demote(from == List::b2);
        move(at, List::t2);
    }
    dropped += count(entries_[at], item);
    CHECK(size(List::t1) + size(List::b1) <= capacity_);
    CHECK(size(List::t1) + size(List::t2) <= capacity_);
    CHECK(size(List::t2) + size(List::b2) <= 2 * capacity_ - size(List::t1) - size(List::b1));
    CHECK(target_ <= capacity_);
    return dropped;
}

// A ghost of this list was accessed, so the list was too short. Moves the target by 1, or by the ratio of the other
// list's ghosts to its own, rounded down.
void Arc::aim(List ghosts) {
    const uint32_t b1 = size(List::b1), b2 = size(List::b2);
    if (ghosts == List::b1)
        target_ = std::min(capacity_, target_ + std::max(1u, b2 / b1));
    else
        target_ -= std::min(target_, std::max(1u, b1 / b2));
}

// Makes room for an unknown key.
uint64_t Arc::make_room() {
    const uint32_t l1 = size(List::t1) + size(List::b1);
    const uint32_t l2 = size(List::t2) + size(List::b2);
    if (l1 == capacity_ && size(List::b1) == 0) {
        const uint64_t dropped = drop_count(entries_[ends(List::t1).oldest]);
        remove_oldest(List::t1);
        return dropped;
    }
    if (l1 == capacity_)
        remove_oldest(List::b1);
    else if (l1 + l2 == 2 * capacity_)
        remove_oldest(List::b2);
    return demote(/* for_b2= */ false);
}

// Makes the oldest of t1 or t2 a ghost, unless there is room. The published algorithm never has room while there are
// ghosts; forget() can make some.
uint64_t Arc::demote(bool for_b2) {
    const uint32_t t1 = size(List::t1);
    if (t1 + size(List::t2) < capacity_) return 0;
    const bool from_t1 = t1 > 0 && (t1 > target_ || (for_b2 && t1 == target_));
    const uint32_t at = ends(from_t1 ? List::t1 : List::t2).oldest;
    CHECK(at != none);
    Entry& entry = entries_[at];
    const uint64_t dropped = drop_count(entry);
    entry.in_a_row = 0;
    move(at, from_t1 ? List::b1 : List::b2);
    return dropped;
}

uint64_t Arc::forget(uint64_t key_hash) {
    const uint32_t at = find(key_hash);
    if (at == none) return 0;
    const uint64_t dropped = drop_count(entries_[at]);
    remove(at);
    return dropped;
}

std::optional<protocol::ItemAccess> Arc::tell(uint64_t key_hash) {
    const uint32_t at = find(key_hash);
    if (at == none || entries_[at].item.count == 0) return std::nullopt;
    const protocol::ItemAccess item = entries_[at].item;
    drop_count(entries_[at]);
    return item;
}

uint64_t Arc::drop_all() {
    uint64_t dropped = 0;
    for (Entry& entry : entries_) dropped += drop_count(entry);
    CHECK(untold_ == 0);
    entries_.clear();
    std::fill(heads_.begin(), heads_.end(), none);
    ends_.fill(Ends());
    free_ = none;
    target_ = 0;
    return dropped;
}

// ---- counts and picks --------------------------------------------------------------------------------

uint64_t Arc::drop_count(Entry& entry) {
    if (entry.item.count == 0) return 0;
    untold_--;
    return std::exchange(entry.item.count, 0);
}

uint64_t Arc::count(Entry& entry, const ItemAccess& item) {
    uint64_t dropped = 0;
    if (!protocol::same_place(entry.item, item)) {
        dropped = drop_count(entry);  // accesses to the slot that the key left
        entry.item = item;
        entry.item.count = 0;
        entry.in_a_row = 0;
    }
    if (entry.item.count == 0) untold_++;
    return dropped + protocol::merge(entry.item, item);
}

// Does the item rest in the current pick?
bool Arc::rests(const Entry& entry) const {
    return entry.in_a_row == picks_in_a_row_max && picks_ - entry.picked_at <= picks_in_a_row_max;
}

uint32_t Arc::next_to_tell(uint32_t at, Urgent urgent) {
    for (; at != none; at = entries_[at].older) {
        steps_++;
        const Entry& entry = entries_[at];
        if (entry.item.count != 0 && (!rests(entry) || urgent(entry.item))) break;
    }
    return at;
}

uint32_t Arc::pick(uint32_t items_max, Visit visit, bool again, Urgent urgent) {
    if (!again) picks_++;
    uint32_t picked = 0;
    uint32_t at = ends(List::t2).newest;
    uint32_t other = ends(List::t1).newest;
    for (; picked < items_max && untold_ != 0; picked++) {
        at = next_to_tell(at, urgent);
        if (at == none) {
            at = next_to_tell(std::exchange(other, none), urgent);
            if (at == none) break;
        }
        Entry& entry = entries_[at];
        visit(entry.item);
        const uint32_t since = picks_ - entry.picked_at;
        const bool rested = rests(entry);  // an urgent item; it rests on
        if (!rested && (since != 0 || entry.in_a_row == 0)) entry.in_a_row = since <= 1 ? uint8_t(entry.in_a_row + 1) : 1;
        entry.picked_at = picks_;
        drop_count(entry);
        at = std::exchange(other, entry.older);
    }
    return picked;
}

uint64_t Arc::take_back(const ItemAccess& item) {
    const uint32_t at = find(item.hash);
    if (at == none) return item.count;
    Entry& entry = entries_[at];
    if (ghost(entry.list) || !protocol::same_place(entry.item, item)) return item.count;
    if (entry.in_a_row != 0) entry.in_a_row--;
    return count(entry, item);
}

// ---- tests ------------------------------------------------------------------------------------------

void Arc::each(List list, FunctionRef<void(uint64_t)> visit) const {
    for (uint32_t at = ends_[size_t(list)].newest; at != none; at = entries_[at].older)
        visit(entries_[at].item.hash);
}

void Arc::check_list(List list) const {
    const Ends& of = ends_[size_t(list)];
    uint32_t newer = none, size = 0;
    for (uint32_t at = of.newest; at != none; newer = at, at = entries_[at].older, size++) {
        CHECK(size < of.size);
        CHECK(entries_[at].list == list);
        CHECK(entries_[at].newer == newer);
        CHECK(!ghost(list) || entries_[at].item.count == 0);  // A3
    }
    CHECK(newer == of.oldest);
    CHECK(size == of.size);
}

void Arc::check() const {
    for (const List list : {List::t1, List::t2, List::b1, List::b2}) check_list(list);
    const uint32_t t1 = size(List::t1), t2 = size(List::t2), b1 = size(List::b1), b2 = size(List::b2);
    CHECK(t1 + b1 <= capacity_);
    CHECK(t1 + t2 <= capacity_);
    CHECK(t1 + t2 + b1 + b2 <= 2 * capacity_);
    CHECK(target_ <= capacity_);
    uint32_t chained = 0, untold = 0, free = 0;
    for (size_t number = 0; number < heads_.size(); number++)
        for (uint32_t at = heads_[number]; at != none; at = entries_[at].chain) {
            CHECK(entries_[at].item.hash * golden >> shift_ == number);
            chained++;
            untold += entries_[at].item.count != 0;
        }
    for (uint32_t at = free_; at != none; at = entries_[at].chain) free++;
    CHECK(chained == t1 + t2 + b1 + b2);
    CHECK(chained + free == entries_.size());
    CHECK(entries_.size() <= 2 * size_t(capacity_));
    CHECK(untold == untold_);
}

}  // namespace farcached::proxy
