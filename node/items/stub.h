// SPDX-License-Identifier: BSD-3-Clause
// Stub: the value of an item whose bytes are in a tier (node/store/tiers.h). Key, client flags, cas, expiry and history stay in
// memory, in an ordinary item whose value is a Stub. So flushes, deletes, expiry and eviction act on it as on any item (S15).
//
// Owner: none; pure functions. The caller has the lock of the partition that owns the slot.
//
// T1  A reader without the lock never takes a stub for a value: the header's exptime is in the past (layout::stub_exptime).
// T2  A stub is never leased, pinned or read by its node's peers.
// T3  A stub whose place its tier has dropped is a dead item (Items::dead()).
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "base/check.h"
#include "node/disk/place.h"
#include "node/items/stored_item.h"

namespace farcached::node {

struct Stub {
    Place place;
    uint32_t value_len;  // bytes
    uint32_t reserved = 0;

    std::string_view bytes() const { return {reinterpret_cast<const char*>(this), sizeof *this}; }
};
static_assert(std::is_trivially_copyable_v<Stub> && std::has_unique_object_representations_v<Stub>);

inline Stub stub_from(std::string_view value) {
    Stub stub;
    CHECK(value.size() == sizeof stub);
    std::memcpy(&stub, value.data(), sizeof stub);
    return stub;
}

// Only if is_stub().
inline Stub stub_of(Arena& arena, Ref ref) { return stub_from(value_of(arena, ref)); }

}  // namespace farcached::node
