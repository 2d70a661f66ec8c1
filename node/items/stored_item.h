// SPDX-License-Identifier: BSD-3-Clause
// The item in a slot, as its header and descriptor describe it; and NewItem, the content of an item to store.
//
// Owner: none; the functions only read. Threads: the caller has the lock of the partition that owns the slot's page.
//
// I1  The slot is live or dead: its header, key and value are complete. A dead slot keeps them until it is written or freed.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/broken.h"
#include "base/node_clock.h"
#include "node/memory/arena.h"
#include "node/memory/memory_file.h"
#include "protocol/layout.h"
#include "protocol/op.h"

namespace farcached::node {

// The content of a new item. The value is the two parts, concatenated.
struct NewItem {
    protocol::Key key;
    std::string_view value, value_tail;
    uint32_t flags = 0;
    NodeSeconds exptime = never_expires;
    uint64_t cas = 0;
    uint16_t format = layout::format_plain;
    uint8_t descriptor_flags = 0;
    bool counts_as_new = true;  // in items_total; false where memcached changes the item in place
    uint64_t generation = 0;    // of an item of the former run, below all of this one; 0: the next
    bool moves_no_other = false;  // every other item keeps its place in the index
    bool same_item = false;     // keeps the history of the replaced item; otherwise that item counts as touched

    uint64_t bytes() const {
        return layout::item_bytes(key.bytes.size(), value.size() + value_tail.size());
    }
};

inline std::string_view key_of(Arena& arena, Ref ref) {
    const layout::ItemHeader& header = arena.header(ref);
    return {reinterpret_cast<const char*>(&header + 1), header.key_len};
}

inline std::string_view value_of(Arena& arena, Ref ref) {
    const layout::ItemHeader& header = arena.header(ref);
    return {reinterpret_cast<const char*>(&header + 1) + header.key_len, header.value_len};
}

// The value is elsewhere (node/items/stub.h); value_of() is its place.
inline bool is_stub(Arena& arena, Ref ref) { return (arena.header(ref).format & layout::format_stub) != 0; }
// Of another node (protocol/spilled.h).
inline bool is_foreign(Arena& arena, Ref ref) { return (arena.header(ref).format & layout::format_spilled) != 0; }

inline uint64_t bytes_of(Arena& arena, Ref ref) {
    const layout::ItemHeader& header = arena.header(ref);
    return layout::item_bytes(header.key_len, header.value_len);
}

inline uint64_t generation_of(Arena& arena, Ref ref) { return layout::Guard{arena.header(ref).guard}.generation(); }

inline uint8_t size_class_of(Arena& arena, Ref ref) { return arena.page(page_of(ref)).size_class; }

inline bool expired(Arena& arena, Ref ref, NodeSeconds now) { return has_expired(arena.descriptor(ref).exptime, now); }

// node/store/slots.h
inline bool held(Arena& arena, Ref ref) { return arena.descriptor(ref).held != 0; }

// Whether `item` has the value that the slot holds, without a copy.
inline bool same_value(Arena& arena, Ref ref, const NewItem& item) {
    const std::string_view value = value_of(arena, ref);
    return item.value_tail.empty() && item.value.data() == value.data() && item.value.size() == value.size();
}

// The item unchanged, to be written again. Its value is not copied.
inline NewItem copy_of(Arena& arena, Ref ref, const protocol::Key& key) {
    const layout::ItemHeader& header = arena.header(ref);
    const Descriptor& descriptor = arena.descriptor(ref);
    NewItem item;
    item.key = key;
    item.value = value_of(arena, ref);
    item.flags = header.flags;
    item.exptime = descriptor.exptime;
    item.cas = header.cas;
    item.format = header.format;
    item.descriptor_flags = descriptor.flags;
    return item;
}

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
    // Items and their generations are to outlive the process (node/memory/memory_file.h).
    void keep(uint64_t* generation_ceiling);

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
    Ceiling ceiling_;
};

}  // namespace farcached::node
