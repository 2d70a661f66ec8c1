// SPDX-License-Identifier: BSD-3-Clause
// Place: where the value of a stub is (node/items/stub.h): a record of a DiskStore, or of a PeerStore. A plain value; any thread.
#pragma once

#include <cstdint>
#include <type_traits>

namespace farcached::node {

// All zeros: nowhere; it is never alive.
struct Place {
    uint64_t segment;  // of the disk; or a record's number on another node, with at_peer set
    uint32_t offset;   // in the segment; or the tag of this run's PeerStore
    uint32_t bytes;    // of the record
    bool operator==(const Place&) const = default;
};
static_assert(sizeof(Place) == 16);
static_assert(std::is_trivially_copyable_v<Place>);

constexpr uint64_t at_peer = UINT64_C(1) << 63;  // no segment of a disk has so large a number
constexpr bool is_at_peer(const Place& place) { return (place.segment & at_peer) != 0; }

}  // namespace farcached::node
