// SPDX-License-Identifier: BSD-3-Clause
#include "node/policy/policy.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <exception>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/counters.h"

namespace farcached::node {

// ---- ghosts ----------------------------------------------------------------------------------------------

namespace {

constexpr size_t ring_min = 64;

}  // namespace

// The slot of that tag, or slots_.size().
size_t Ghosts::find(uint32_t tag) const {
    if (slots_.empty()) return 0;
    for (size_t slot = home(tag); slots_[slot] != 0; slot = (slot + 1) & (slots_.size() - 1))
        if (ring_[slots_[slot] - 1].tag == tag) return slot;
    return slots_.size();
}

// Closes the gap, so that a search can end at the first empty slot.
void Ghosts::erase(size_t slot) {
    const size_t mask = slots_.size() - 1;
    ring_[slots_[slot] - 1].touches = 0;
    size_t gap = slot;
    for (size_t at = (slot + 1) & mask; slots_[at] != 0; at = (at + 1) & mask) {
        const size_t from = home(ring_[slots_[at] - 1].tag);
        if (((at - from) & mask) < ((at - gap) & mask)) continue;  // the gap is before its home slot
        slots_[gap] = slots_[at];
        gap = at;
    }
    slots_[gap] = 0;
}

void Ghosts::drop_oldest() {
    const Ghost& oldest = ring_[first_];
    if (oldest.touches != 0) erase(find(oldest.tag));
    first_ = (first_ + 1) & (ring_.size() - 1);
    size_--;
}

// False: no memory; nothing changed.
bool Ghosts::grow() noexcept {
    std::vector<Ghost> ring;
    std::vector<uint32_t> slots;
    try {
        ring.resize(ring_.empty() ? ring_min : 2 * ring_.size());
        slots.resize(2 * ring.size());
    } catch (const std::bad_alloc&) {
        return false;
    }
    for (size_t i = 0; i < size_; i++) ring[i] = ring_[(first_ + i) & (ring_.size() - 1)];
    ring_.swap(ring);
    slots_.swap(slots);
    first_ = 0;
    shift_ = 64 - uint32_t(std::countr_zero(slots_.size()));
    for (size_t i = 0; i < size_; i++) {
        if (ring_[i].touches == 0) continue;
        size_t slot = home(ring_[i].tag);
        while (slots_[slot] != 0) slot = (slot + 1) & (slots_.size() - 1);
        slots_[slot] = uint32_t(i) + 1;
    }
    return true;
}

void Ghosts::add(uint64_t hash, uint32_t touches, size_t limit) noexcept {
    CHECK(touches > 0);
    CHECK(limit > 0);
    (void)take(hash);
    while (size_ >= limit) drop_oldest();
    if (size_ == ring_.size() && !grow()) {
        if (size_ == 0) return;
        drop_oldest();
    }
    const uint32_t tag = tag_of(hash);
    const size_t place = (first_ + size_++) & (ring_.size() - 1);
    ring_[place] = {tag, touches};
    size_t slot = home(tag);
    while (slots_[slot] != 0) slot = (slot + 1) & (slots_.size() - 1);
    slots_[slot] = uint32_t(place) + 1;
}

uint32_t Ghosts::take(uint64_t hash) noexcept {
    const size_t slot = find(tag_of(hash));
    if (slot == slots_.size()) return 0;
    const uint32_t touches = ring_[slots_[slot] - 1].touches;
    erase(slot);
    return touches;
}

// ---- recently evicted ------------------------------------------------------------------------------------

// For a limit that the table does not serve. True: there is another table, or still the old one.
bool RecentlyEvicted::fit(size_t limit) noexcept {
    CHECK(limit > 0);
    if (pause_ != 0) {
        pause_--;
        return !buckets_.empty();
    }
    const size_t wanted = (limit + ways - 1) / ways;
    try {
        memory_ = std::make_unique<Mapping>(Mapping::Kind::private_memory, wanted * sizeof(Bucket), /* huge_pages= */ false);
    } catch (const std::exception&) {  // std::bad_alloc, std::system_error
        pause_ = pause;
        return !buckets_.empty();
    }
    buckets_ = {reinterpret_cast<Bucket*>(memory_->data()), wanted};
    limit_min_ = (limit + 3) / 4;
    limit_span_ = limit + limit / 8 - limit_min_;
    counts_[0] = counts_[1] = 0;
    return true;
}

// Older entries move up.
RecentlyEvicted::From RecentlyEvicted::take(Bucket& bucket, uint32_t at) noexcept {
    const uint32_t from = entry(bucket, at) & 1, newer_bits = at * entry_bits;
    const uint64_t newer = bucket & ((UINT64_C(1) << newer_bits) - 1), older = uint64_t(bucket) >> newer_bits >> entry_bits;
    bucket = Bucket(older << newer_bits | newer);
    counts_[from]--;
    return From(from);
}

// ---- policy lists ----------------------------------------------------------------------------------------

Ref ClockLru::victim(const Moment& at, uint8_t size_class, const Candidates& candidates) {
    ItemList& list = lists_[size_class];
    for (uint32_t chance = 0; chance < chances_max; chance++) {
        Ref ref = list.tail;
        if (ref == nil) return nil;
        Descriptor& item = at.items[ref];
        (void)candidates.was_read(ref);  // marks it if it was read
        if ((item.flags & item_referenced) == 0)
            if (candidates.may_go(ref)) return ref;
        if (list.count == 1) return candidates.may_go(ref) ? ref : nil;
        item.flags &= uint8_t(~item_referenced);
        list.unlink(at.items, ref);
        list.push_head(at.items, ref);
        list.kept++;
    }
    return list.last_that_may(at.items, candidates);
}

Ref StrictLru::victim(const Moment& at, uint8_t size_class, const Candidates& candidates) {
    ItemList& list = lists_[size_class];
    for (uint32_t chance = 0; chance < chances_max && list.tail != nil; chance++) {
        const Ref ref = list.tail;
        if (!candidates.may_go(ref)) {
            list.unlink(at.items, ref);
            list.push_head(at.items, ref);
            continue;
        }
        if (!candidates.was_read(ref)) return ref;
        list.kept++;  // was_read() moved it to the head
    }
    return list.last_that_may(at.items, candidates);
}

// ---- policy queues ---------------------------------------------------------------------------------------

namespace {

uint32_t touches_of(const Descriptor& item) { return UINT32_C(1) + item.access_count; }

void add_touches(Descriptor& item, uint32_t touches) {
    item.access_count = uint16_t(std::min<uint64_t>(uint64_t(item.access_count) + touches, UINT16_MAX));
}

}  // namespace

void Pdla::put(const Moment& at, PdlaClass& of, Ref ref) {
    of.queues.put(at.items, ref, popularity_queue(touches_of(at.items[ref])));
    demote_tails(at, of);
}

void Pdla::inserted(const Moment& at, uint8_t size_class, Ref ref, uint64_t hash) {
    PdlaClass& of = classes_[size_class];
    add_touches(at.items[ref], of.ghosts.take(hash));
    put(at, of, ref);
}

void Pdla::replaced(const Moment& at, uint8_t size_class, Ref ref, bool) { put(at, classes_[size_class], ref); }

void Pdla::accessed(const Moment& at, uint8_t size_class, Ref ref, uint32_t) {
    PdlaClass& of = classes_[size_class];
    of.queues.take(at.items, ref);
    put(at, of, ref);
}

void Pdla::evicted(const Moment& at, uint8_t size_class, Ref ref, uint64_t hash) {
    PdlaClass& of = classes_[size_class];
    of.ghosts.add(hash, touches_of(at.items[ref]), std::max(ghosts_min, size_t(of.queues.count()) / items_per_ghost));
    removed(at, size_class, ref);
}

void PdlaClass::count_update(NodeSeconds now) {
    if (now > second) {
        per_second = moving_rate(per_second, double(updates), double(now - second), Pdla::smooth_s);
        updates = 0;
        second = now;
    }
    updates++;
}

// Whether its life has ended, on a clock of whole seconds.
bool PdlaClass::is_over(const Moment& at, const Descriptor& item) const {
    if (per_second < Pdla::per_second_min) return false;
    const double life_s = std::ceil(double(Pdla::lives * queues.count()) / per_second);
    return double(seconds_since(item.last_access, at.now)) > std::max(life_s, Pdla::life_s_min);
}

void Pdla::demote_tails(const Moment& at, PdlaClass& of) {
    of.count_update(at.now);
    for (uint32_t queue = 1; queue < popularity_queues; queue++) {
        if (of.looked[queue] == at.now) continue;
        const Ref tail = of.queues.lists[queue].tail;
        if (tail == nil) continue;
        Descriptor& item = at.items[tail];
        if (!of.is_over(at, item)) {
            of.looked[queue] = at.now;
            continue;
        }
        of.queues.take(at.items, tail);
        if (lease_runs(item, at.now)) {
            of.queues.put(at.items, tail, queue);
            continue;
        }
        const uint32_t below = std::max(queue, queues_down) - queues_down;
        const uint32_t left = std::clamp(touches_of(item) >> queues_down, UINT32_C(1), (UINT32_C(2) << below) - 1);
        CHECK(popularity_queue(left) == below);
        item.access_count = uint16_t(left - 1);
        of.queues.put(at.items, tail, below);
    }
}

void PdlaPaper::inserted(const Moment& at, uint8_t size_class, Ref ref, uint64_t) {
    classes_[size_class].queues.put(at.items, ref, 0);
}

// `ref` is in no queue; Descriptor::queue holds its last one.
void PdlaPaper::hit(const Moment& at, QueueSet& queues, Ref ref) {
    const uint32_t queue = at.items[ref].queue;
    queues.put(at.items, ref, popularity_queue(touches_of(at.items[ref])) > queue ? queue + 1 : queue);
    for (uint32_t above = 1; above < popularity_queues; above++) {
        const Ref tail = queues.lists[above].tail;
        if (tail == nil || tail == ref || lease_runs(at.items[tail], at.now)) continue;
        queues.take(at.items, tail);
        queues.put(at.items, tail, above - 1);
    }
}

void PdlaPaper::replaced(const Moment& at, uint8_t size_class, Ref ref, bool touched) {
    QueueSet& queues = classes_[size_class].queues;
    if (touched) return hit(at, queues, ref);
    queues.put(at.items, ref, at.items[ref].queue);
}

void PdlaPaper::accessed(const Moment& at, uint8_t size_class, Ref ref, uint32_t) {
    QueueSet& queues = classes_[size_class].queues;
    queues.take(at.items, ref);
    hit(at, queues, ref);
}

Ref PdlaPaper::victim(const Moment& at, uint8_t size_class, const Candidates& candidates) {
    QueueSet& queues = classes_[size_class].queues;
    if (const Ref ref = queues.victim(at.items, candidates); ref != nil) return ref;
    for (const ItemList& list : queues.lists)
        if (const Ref ref = list.last_that_may(at.items, candidates); ref != nil) return ref;
    return nil;
}

void Mq::put(const Moment& at, MqClass& of, Ref ref, uint32_t queue) {
    of.queues.put(at.items, ref, queue);
    at.items[ref].lease_end = of.time + uint32_t(std::max(life_min, lives * of.queues.count()));
}

void Mq::inserted(const Moment& at, uint8_t size_class, Ref ref, uint64_t hash) {
    MqClass& of = classes_[size_class];
    Descriptor& item = at.items[ref];
    add_touches(item, of.ghosts.take(hash));
    put(at, of, ref, popularity_queue(touches_of(item)));
    demote_tails(at, of);
}

void Mq::replaced(const Moment& at, uint8_t size_class, Ref ref, bool touched) {
    MqClass& of = classes_[size_class];
    const Descriptor& item = at.items[ref];
    put(at, of, ref, touched ? popularity_queue(touches_of(item)) : item.queue);
    if (touched) demote_tails(at, of);
}

void Mq::accessed(const Moment& at, uint8_t size_class, Ref ref, uint32_t) {
    MqClass& of = classes_[size_class];
    of.queues.take(at.items, ref);
    put(at, of, ref, popularity_queue(touches_of(at.items[ref])));
    demote_tails(at, of);
}

void Mq::demote_tails(const Moment& at, MqClass& of) {
    of.time++;
    for (uint32_t queue = 1; queue < popularity_queues; queue++) {
        const Ref tail = of.queues.lists[queue].tail;
        if (tail == nil) continue;
        if (int32_t(of.time - at.items[tail].lease_end) <= 0) continue;
        of.queues.take(at.items, tail);
        put(at, of, tail, queue - 1);
    }
}

void Mq::evicted(const Moment& at, uint8_t size_class, Ref ref, uint64_t hash) {
    MqClass& of = classes_[size_class];
    const size_t limit = std::max(ghosts_min, ghosts_per_item * size_t(of.queues.count()));
    of.ghosts.add(hash, touches_of(at.items[ref]), limit);
    removed(at, size_class, ref);
}

// ---- policy s3fifo ---------------------------------------------------------------------------------------

bool S3Fifo::Class::main_is_next() const {
    if (small.count == 0 || main.count == 0) return small.count == 0;
    return small.count * parts < share_parts * items();
}

// One remembered item returned: the queue that it left was too short.
void S3Fifo::Class::adapt(RecentlyEvicted::From returned) {
    using From = RecentlyEvicted::From;
    const double from_small = double(evicted.count(From::small)) + 1, from_main = double(evicted.count(From::main)) + 1;
    const double one = step / double(std::max<uint64_t>(1, items()));
    share += returned == From::small ? one * std::max(1.0, from_main / from_small) : -one * std::max(1.0, from_small / from_main);
    share = std::clamp(share, share_min, share_max);
    share_parts = uint64_t(share * parts);
}

// The oldest of the newest items lose their mark while they are too many: at most two, so that they also shrink with the class.
void S3Fifo::put_newest(const Moment& at, Class& of, Ref ref, uint32_t has) {
    mark(at.items[ref], in_newest, has);
    of.small.push_head(at.items, ref);
    if (of.newest++ == 0) of.last_newest = ref;
    const uint64_t room = of.items() + newest_share;
    for (int moves = 0; moves < 2 && of.newest * newest_share > room; moves++) {
        Descriptor& oldest = at.items[of.last_newest];
        const uint32_t before = frequency(oldest);
        mark(oldest, in_small, before - (before != 0 ? 1 : 0));
        of.last_newest = oldest.prev;
        of.newest--;
    }
}

void S3Fifo::put_main(const Moment& at, Class& of, Ref ref, uint32_t has) {
    mark(at.items[ref], in_main, has);
    of.main.push_head(at.items, ref);
}

void S3Fifo::take(const Moment& at, Class& of, Ref ref) {
    const Descriptor& item = at.items[ref];
    const List list = list_of(item);
    if (list == in_newest) {
        if (of.last_newest == ref) of.last_newest = item.prev;
        of.newest--;
    }
    (list == in_main ? of.main : of.small).unlink(at.items, ref);
}

void S3Fifo::inserted(const Moment& at, uint8_t size_class, Ref ref, uint64_t hash) {
    Class& of = classes_[size_class];
    const RecentlyEvicted::From from = of.evicted.take(hash);
    if (from == RecentlyEvicted::From::unknown) return put_newest(at, of, ref, 0);
    of.adapt(from);
    put_main(at, of, ref, 0);
}

void S3Fifo::replaced(const Moment& at, uint8_t size_class, Ref ref, bool touched) {
    Class& of = classes_[size_class];
    const Descriptor& item = at.items[ref];
    const uint32_t has = frequency(item);
    switch (list_of(item)) {
        case in_newest: return put_newest(at, of, ref, touched && has != 0 ? has - 1 : has);
        case in_small: return put_newest(at, of, ref, std::min(has + 1, frequency_max));  // it loses that one again
        case in_main: return put_main(at, of, ref, touched ? std::min(has + 1, frequency_max) : has);
    }
}

void S3Fifo::accessed(const Moment& at, uint8_t, Ref ref, uint32_t times) {
    Descriptor& item = at.items[ref];
    mark(item, list_of(item), std::min(frequency(item) + std::min(times, frequency_max), frequency_max));
}

void S3Fifo::removed(const Moment& at, uint8_t size_class, Ref ref) { take(at, classes_[size_class], ref); }

void S3Fifo::evicted(const Moment& at, uint8_t size_class, Ref ref, uint64_t hash) {
    using From = RecentlyEvicted::From;
    Class& of = classes_[size_class];
    const From from = list_of(at.items[ref]) == in_main ? From::main : From::small;
    of.evicted.add(hash, from, std::max(remembered_min, size_t(of.items())));
    take(at, of, ref);
}

Ref S3Fifo::victim(const Moment& at, uint8_t size_class, const Candidates& candidates) {
    Class& of = classes_[size_class];
    for (uint32_t chance = 0; chance < chances_max; chance++) {
        const Ref ref = of.next().tail;
        if (ref == nil) return nil;
        (void)candidates.was_read(ref);  // raises its frequency if it was read
        const Descriptor& item = at.items[ref];
        const List list = list_of(item);
        const uint32_t has = frequency(item);
        if (!stays(item) && candidates.may_go(ref)) return ref;
        take(at, of, ref);
        put_main(at, of, ref, list == in_main && has != 0 ? has - 1 : 0);
        of.kept++;
    }
    for (const ItemList* list : {&of.next(), &std::as_const(of.small), &std::as_const(of.main)})
        if (const Ref ref = list->last_that_may(at.items, candidates); ref != nil) return ref;
    return nil;
}

Ref S3Fifo::next_to_go(uint8_t size_class) const { return classes_[size_class].next().tail; }

bool S3Fifo::walk(const Moment& at, uint8_t size_class, uint32_t depth, FunctionRef<bool(Ref)> stop) {
    const Class& of = classes_[size_class];
    const bool main_first = of.main_is_next();
    const ItemList &first = main_first ? of.main : of.small, &second = main_first ? of.small : of.main;
    return first.walk(at.items, std::max<uint32_t>(1, depth / 2), stop) ||
           second.walk(at.items, std::max<uint32_t>(1, depth / 4), stop);
}

uint64_t S3Fifo::length(uint8_t size_class, uint32_t queue) const {
    const Class& of = classes_[size_class];
    switch (queue) {
        case in_newest: return of.newest;
        case in_small: return of.small.count - of.newest;
        case in_main: return of.main.count;
        default: return 0;
    }
}

}  // namespace farcached::node
