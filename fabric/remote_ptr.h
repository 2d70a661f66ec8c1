// SPDX-License-Identifier: BSD-3-Clause
// RemotePtr: where one generation of an item lies in the memory of one run of a node. A plain value; holding
// one gives no right to believe what is read there: that takes a lease (LeasedPtr) and validation (S4).
//
// R1  It names the node by incarnation: after a restart every old pointer names nobody (S9).
// R2  It names the item by generation: what is read at the place must carry it in its guard, live.
// R3  It comes from outside (a node's reply, shared memory). Whoever got it asks well_formed() when it
//     arrives and inside() before each read (S10).
#pragma once

#include <cstdint>
#include <type_traits>

#include "protocol/layout.h"

namespace farcached::fabric {

struct RemotePtr {
    uint64_t incarnation = 0;  // the node's; random, never used twice
    uint64_t offset = 0;       // bytes from the region's start to the item; a multiple of a stride
    uint64_t generation = 0;   // of the item's guard
    uint32_t region = 0;       // which of the node's regions; 0 the first
    uint32_t length = 0;       // bytes of the item, header and all: what a READ fetches

    constexpr bool operator==(const RemotePtr&) const = default;
};
static_assert(sizeof(RemotePtr) == 32);
static_assert(std::is_trivially_copyable_v<RemotePtr>);
static_assert(std::has_unique_object_representations_v<RemotePtr>, "no byte of it is padding");

// A pointer and until when it may be used (S3). The lease is this host's: already shortened for clock rates.
struct LeasedPtr {
    RemotePtr ptr;
    uint64_t valid_until_ns = 0;  // on CLOCK_BOOTTIME; not valid at that nanosecond itself

    constexpr bool operator==(const LeasedPtr&) const = default;
};
static_assert(sizeof(LeasedPtr) == 40);
static_assert(std::is_trivially_copyable_v<LeasedPtr>);

// A node has one region and one more for each time that it grew; 2^48 bytes is what an address space holds.
constexpr uint32_t remote_region_max = UINT32_C(0xffff);
constexpr uint64_t remote_offset_max = (UINT64_C(1) << 48) - 1;

// Could any node have given this out?
constexpr bool well_formed(const RemotePtr& p) {
    if (p.region > remote_region_max) return false;
    if (p.offset > remote_offset_max) return false;
    if (p.offset % layout::stride_bytes != 0) return false;
    if (p.length <= layout::item_bytes(0, 0)) return false;  // a key has at least one byte
    return p.generation <= layout::generation_max;
}

// Does all of it lie within a region of that many bytes?
constexpr bool inside(const RemotePtr& p, uint64_t region_bytes) {
    if (p.length > region_bytes) return false;
    return p.offset <= region_bytes - p.length;
}

}  // namespace farcached::fabric
