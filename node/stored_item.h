// SPDX-License-Identifier: BSD-3-Clause
// The item in a slot, as its header and descriptor describe it; and NewItem, the content of an item to store.
//
// Owner: none; the functions only read. Threads: the caller has the lock of the partition that owns the slot's page.
//
// I1  The slot is live or dead: its header, key and value are complete. A dead slot keeps them until it is written or freed.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/node_clock.h"
#include "node/arena.h"
#include "protocol/op.h"
#include "protocol/layout.h"

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

inline uint64_t bytes_of(Arena& arena, Ref ref) {
    const layout::ItemHeader& header = arena.header(ref);
    return layout::item_bytes(header.key_len, header.value_len);
}

inline uint64_t generation_of(Arena& arena, Ref ref) { return layout::Guard{arena.header(ref).guard}.generation(); }

inline uint8_t size_class_of(Arena& arena, Ref ref) { return arena.page(page_of(ref)).size_class; }

inline bool expired(Arena& arena, Ref ref, NodeSeconds now) { return has_expired(arena.descriptor(ref).exptime, now); }

// node/held_slots.h
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

}  // namespace farcached::node
