// SPDX-License-Identifier: BSD-3-Clause
// Tiers: where the values of evicted items go: the memory of another node (node/peer/), else the disk (node/disk/), else nowhere.
//
// Owner: none; two borrowed pointers, as a value. What they point to outlives the node. Threads: any.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "node/disk/disk_store.h"
#include "node/disk/place.h"
#include "node/peer/peer_store.h"

namespace farcached::node {

struct Tiers {
    PeerStore* peer = nullptr;  // nullptr: none, as below
    DiskStore* disk = nullptr;

    bool any() const { return peer != nullptr || disk != nullptr; }
    // Of key and value together; 0: nothing can be put anywhere now.
    uint64_t record_bytes_max() const {
        return std::max(peer != nullptr ? peer->record_bytes_max() : 0, disk != nullptr ? disk->record_bytes_max() : 0);
    }
    // Waits for neither. nullopt: dropped and counted. What another node spilled here does not travel on.
    std::optional<Place> put(const LeavingValue& leaving, uint64_t tag) const {
        if (peer != nullptr && !leaving.foreign)
            if (const std::optional<Place> place = peer->put(leaving)) return place;
        return disk != nullptr ? disk->put(leaving.key, leaving.value, tag) : std::nullopt;
    }
    bool alive(const Place& place) const {
        if (is_at_peer(place)) return peer != nullptr && peer->alive(place);
        return disk != nullptr && disk->alive(place);
    }
    // The value is not needed any more; once for each place.
    void forget(const Place& place) const {
        if (is_at_peer(place)) return peer != nullptr ? peer->forget(place) : void();
        if (disk != nullptr) disk->forget(place);
    }
    // After a restart: an item has that place. False: it is not alive.
    bool adopt(const Place& place) const { return !is_at_peer(place) && disk != nullptr && disk->adopt(place); }
};

}  // namespace farcached::node
