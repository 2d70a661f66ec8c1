// SPDX-License-Identifier: BSD-3-Clause
#include "node/policy_queues.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/moving_rate.h"

namespace farcached::node {

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

}  // namespace farcached::node
