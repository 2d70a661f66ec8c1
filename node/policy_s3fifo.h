// SPDX-License-Identifier: BSD-3-Clause
// `s3fifo`: three queues (Yang and others, SOSP 2023), with leases by popularity as in pdla: our own candidate.
// node/policy.h describes the functions, the owner and the threads.
//
// A new item enters the small queue, a tenth of the items; an item recently evicted from there enters the main queue.
// An access raises the item's frequency, up to three. At the tail of the small queue, items with a frequency above one move to
// the main queue; others are evicted. At the tail of the main queue, an item with a frequency returns to the head and loses one
// of it.
//
// F1  An item whose lease runs is in use. From the tail of the small queue it moves to the main queue; from there to the head.
// F2  Descriptor::queue is frequency << 1 | in the main queue.
#pragma once

#include <vector>

#include "node/ghosts.h"
#include "node/item_list.h"

namespace farcached::node {

class S3Fifo {
  public:
    static constexpr bool remembers = true;
    static constexpr uint64_t small_share = 10;  // 1 / small_share of the items are in the small queue
    static constexpr uint32_t frequency_max = 3;
    static constexpr size_t ghosts_min = 64;

    explicit S3Fifo(uint64_t private_seed) {
        for (Class& each : classes_) each.ghosts = Ghosts(private_seed);
    }

    void inserted(const Moment& at, uint8_t size_class, Ref ref, uint64_t hash);
    void replaced(const Moment& at, uint8_t size_class, Ref ref, bool touched);
    void accessed(const Moment& at, uint8_t size_class, Ref ref, uint32_t times);
    void removed(const Moment& at, uint8_t size_class, Ref ref);
    void evicted(const Moment& at, uint8_t size_class, Ref ref, uint64_t hash);
    Ref victim(const Moment& at, uint8_t size_class, const Candidates& candidates);
    Ref next_to_go(uint8_t size_class) const;
    bool walk(const Moment& at, uint8_t size_class, uint32_t depth, FunctionRef<bool(Ref)> stop);
    uint64_t kept(uint8_t size_class) const { return classes_[size_class].kept; }
    uint64_t length(uint8_t size_class, uint32_t queue) const {
        return queue < 2 ? classes_[size_class].lists[queue].count : 0;
    }

  private:
    enum List : uint8_t { in_small, in_main };
    struct Class {
        ItemList lists[2];
        uint64_t kept = 0;
        Ghosts ghosts;

        List next() const;  // the list whose tail is checked
    };
    static uint32_t frequency(const Descriptor& item) { return item.queue >> 1; }
    static List list_of(const Descriptor& item) { return List(item.queue & 1); }
    static void put(const Moment& at, Class& of, Ref ref, List list, uint32_t frequency);
    static void take(const Moment& at, Class& of, Ref ref);

    std::vector<Class> classes_ = std::vector<Class>(class_numbers);
};

}  // namespace farcached::node
