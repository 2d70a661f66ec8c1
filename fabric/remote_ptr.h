// SPDX-License-Identifier: BSD-3-Clause
// RemotePtr: a slot in the memory of one run of a node, and the oldest generation that a reader accepts there. A plain
// value; any thread. It gives no right to use the bytes: that takes a lease (LeasedPtr) and validation (S4).
//
// R1  It names the node by incarnation: after a restart no node matches an old pointer (S9).
// R2  A slot under a lease stays with its key (S1). Its generations only grow; each one not older than the pointer's is of
//     that key.
// R3  It comes from outside (a node's reply, shared memory). The receiver checks well_formed() on arrival and inside()
//     before each read (S10).
// R4  `length` is the length of the READ. By then the slot may hold a shorter or longer item; the copy has its lengths.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "protocol/layout.h"

namespace farcached::fabric {

struct RemotePtr {
    uint64_t incarnation = 0;  // the node's; random, never used twice
    uint64_t offset = 0;       // bytes from the region's start to the item; a multiple of a stride
    uint64_t generation = 0;   // the oldest accepted
    uint32_t region = 0;       // of the node's regions; 0 the first
    uint32_t length = 0;       // bytes to READ

    constexpr bool operator==(const RemotePtr&) const = default;
};
static_assert(sizeof(RemotePtr) == 32);
static_assert(std::is_trivially_copyable_v<RemotePtr>);
static_assert(std::has_unique_object_representations_v<RemotePtr>, "no byte of it is padding");

// Bytes to READ of a slot with an item of item_bytes. Reads a small slot whole, so that the item may grow in it.
constexpr uint32_t whole_slot_bytes_max = 1024;
constexpr uint32_t read_length(uint32_t item_bytes, uint32_t capacity_bytes) {
    return capacity_bytes <= whole_slot_bytes_max ? capacity_bytes : item_bytes;
}

constexpr bool same_place(const RemotePtr& a, const RemotePtr& b) {
    return a.incarnation == b.incarnation && a.region == b.region && a.offset == b.offset;
}

// A pointer and the end of its lease (S3). The lease is in this host's time: already shortened for clock rates.
struct LeasedPtr {
    RemotePtr ptr;
    uint64_t valid_until_ns = 0;  // on CLOCK_BOOTTIME, exclusive

    constexpr bool operator==(const LeasedPtr&) const = default;
};
static_assert(sizeof(LeasedPtr) == 40);
static_assert(std::is_trivially_copyable_v<LeasedPtr>);

// Merges two leased pointers to one key. In one place the slot belongs to the key until the later end (S1), and an item
// may grow back to its longer size. Of two places the later generation's is right.
constexpr LeasedPtr merged(const LeasedPtr& held, const LeasedPtr& told) {
    if (!same_place(held.ptr, told.ptr)) return held.ptr.generation > told.ptr.generation ? held : told;
    LeasedPtr both = held;
    both.ptr.generation = std::max(held.ptr.generation, told.ptr.generation);
    both.ptr.length = std::max(held.ptr.length, told.ptr.length);
    both.valid_until_ns = std::max(held.valid_until_ns, told.valid_until_ns);
    return both;
}

// A node has one region, and one more for each growth; 2^48 bytes is the size of an address space.
constexpr uint32_t remote_region_max = UINT32_C(0xffff);
constexpr uint64_t remote_offset_max = (UINT64_C(1) << 48) - 1;

// Could any node have issued this pointer?
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
