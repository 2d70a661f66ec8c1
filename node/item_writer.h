// SPDX-License-Identifier: BSD-3-Clause
// ItemWriter: writes the bytes of a partition's items, such that a reader without the lock never takes a mixture for an item.
//
// A slot visible to readers changes in this order: its guard becomes dead; a release fence; check and bytes by relaxed words; a
// release store of a live guard with a new generation. So a reader that copied a word of the new item sees another guard when
// it rereads it. A reader with a remote pointer compares the check, which is keyed by the generation.
//
// Owner: Items. Threads: any; every call needs the partition's lock.
//
// W1  The item is complete, with its check, in private memory before the first word of a published slot changes; the guard there
//     is dead while words change (S1). Of items larger than a page, only headers are written in place. Their bytes go directly
//     into a free run of pages or a dead run of the key; its guard is dead until all bytes are there.
// W2  Generations only increase and are never reused; the low bits are the partition's number.
#pragma once

#include <cstdint>

#include "base/broken.h"
#include "node/arena.h"
#include "node/stored_item.h"
#include "protocol/layout.h"

namespace farcached::node {

// Tests stop a replacement before and after the old guard's flip.
struct TestHook {
    void (*call)(void*) = nullptr;
    void* argument = nullptr;
};

class ItemWriter {
  public:
    ItemWriter() = default;
    ItemWriter(const ItemWriter&) = delete;  // a copy would give a generation twice (W2)
    ItemWriter& operator=(const ItemWriter&) = delete;
    // checked: readers may rely on the items' checks (S5). arena_offset: of the arena in the region.
    void attach(Arena& arena, uint64_t arena_offset, uint64_t secret, bool checked, uint64_t first_generation);

    // Writes all of the item except a live guard, which bring_to_life() stores. Returns the item's generation.
    uint64_t write(Ref ref, const NewItem& item);
    void bring_to_life(Ref ref, uint64_t generation);
    // From here on, readers do not find the item in the slot (S7).
    void flip_to_dead(Ref ref);
    // Before other code writes into the slot.
    void begin_write(Ref ref);
    // The S1_RECEIVE switch: receives the value into the live slot, as no correct build does.
    void receive_live(Ref ref, const NewItem& item);
    // Items written from now on have this generation or a later one.
    uint64_t next_generation() const { return generation_ + layout::partitions_max; }
    // Between two steps of a replacement.
    void halfway() const {
        if (test_hook.call != nullptr) test_hook.call(test_hook.argument);
        broken::hold_up(broken::faults.replacing);
    }

    TestHook test_hook;

  private:
    void compose(Ref ref, const layout::ItemHeader& header, const NewItem& item, uint64_t generation);
    void write_header(Ref ref, const layout::ItemHeader& header, uint64_t generation);
    void write_run(Ref ref, const layout::ItemHeader& header, const NewItem& item, uint64_t generation);
    void finish_received(Ref ref, const layout::ItemHeader& header, const NewItem& item, uint64_t generation);
    uint64_t check_seed(Ref ref, uint64_t generation) const;
    uint64_t check_of(Ref ref, uint64_t bytes, uint64_t generation) const;

    Arena* arena_ = nullptr;
    uint64_t arena_offset_ = 0;
    uint64_t secret_ = 0;
    bool checked_ = true;
    uint64_t generation_ = 0;
};

}  // namespace farcached::node
