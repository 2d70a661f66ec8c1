// SPDX-License-Identifier: BSD-3-Clause
// Items: the life of a partition's items, from put() to kill(): their place in the index, their slot, their counters.
//
// Owner: a Partition, under its lock. It reports each birth and death to the eviction order, leases, hidden items and draining
// pages. It finds no room for an item: Room does.
//
// I1  An item is in the index, in its class's list of the policy and in a live slot, or in none of them.
// I2  A guard flips to dead before its slot leaves the index or is replaced there, and before the new item's guard is live. So
//     that is before the caller can acknowledge (S1, S7). No two generations of a key live at once.
// I3  put() writes an item in place, or into a free slot, or into a dead slot of its key (S1, node/items/stored_item.h).
// I4  A slot whose item died is dead (node/store/leases.h, L3), parted while it is held (node/store/slots.h, H1), or free.
// I5  A hidden item is not found, leased, renewed, moved or copied: it can only be killed.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/hash.h"
#include "fabric/region.h"
#include "node/items/index.h"
#include "node/items/stored_item.h"
#include "node/memory/arena.h"
#include "node/policy/item_list.h"
#include "node/store/cas_uniques.h"
#include "node/store/draining.h"
#include "node/store/eviction_order.h"
#include "node/store/hidden_items.h"
#include "node/store/item_counts.h"
#include "node/store/leases.h"
#include "node/store/node.h"
#include "node/store/slots.h"
#include "node/store/tiers.h"

namespace farcached::node {

// The parts that Items calls; they outlive it.
struct PartsOfItems {
    Arena* arena_ = nullptr;
    Slots* slots_ = nullptr;
    EvictionOrder* order_ = nullptr;
    HiddenItems* hidden_ = nullptr;
    Leases* leases_ = nullptr;
    Draining* draining_ = nullptr;
    Tiers tiers_;  // without any there are no stubs
};

class Items : private PartsOfItems {
  public:
    void attach(fabric::Region& region, const Config& config, uint16_t number, uint32_t partition_count,
                const PartsOfItems& parts);
    // Items, generations and cas uniques are to outlive the process: the ceilings are in its notes.
    void keep(uint64_t* generation_ceiling, uint64_t* cas_ceiling);

    struct Found {
        Index::Place place;  // slot null: miss
        protocol::Miss why = protocol::Miss::absent;
    };
    // Finds a live, unexpired, unflushed item; removes a dead one.
    Found find(const protocol::Key& key, NodeSeconds now);
    void expect(uint64_t items) { index_.expect(items); }
    Index::Place locate(const protocol::Key& key) const { return index_.find(key.hash, key.bytes); }
    // The index slot that refers to a live item (I1).
    Index::Place place_of(Ref ref) const { return place_of(ref, hash_of(ref)); }
    uint64_t indexed() const { return index_.items(); }
    bool chain_full(uint64_t hash) const { return index_.chain_full(hash); }
    bool hidden(Ref ref) const { return hidden_->hides(ref); }
    // A stub whose value its tier has dropped.
    bool lost(Ref ref) const { return tiers_.any() && is_lost_stub(ref); }
    // Hidden, expired or lost.
    bool dead(Ref ref, NodeSeconds now) const { return hidden(ref) || expired(*arena_, ref, now) || lost(ref); }
    protocol::ItemMeta meta(Ref ref) const;
    CasUniques& uniques() { return uniques_; }
    ItemCounts& counts() { return counts_; }
    const ItemCounts& counts() const { return counts_; }

    // Whether put() may write the item over the one in that slot.
    bool fits_in_place(Ref ref, const NewItem& item, NodeSeconds now) const;
    // Writes and publishes `item` in `ref`, which came from Room, LeaseZone, an upload, or fits_in_place(); replaces `old` if that
    // exists.
    void put(Ref ref, const NewItem& item, NodeSeconds now, Index::Place old);
    // Writes the true expiry time into the header if it differs (S13). A stub's stays in the past.
    void true_exptime(Index::Place at, NodeSeconds now);
    // Marks a hidden item whose key moved away (HiddenItems, F3). False: it has no value here, or tokens.
    bool keep_moved(Ref ref, NodeSeconds now);
    // Unpublishes and frees an item. why: not evicted.
    void kill(Ref ref, uint64_t* place, Gone why, NodeSeconds now) {
        CHECK(why != Gone::evicted);
        end_life(ref, place, why, /* key_hash= */ 0, now);
    }
    // The same for an eviction. key_hash: of the item's key.
    void evict(const Index::Place& at, uint64_t key_hash, NodeSeconds now) {
        end_life(at.ref, at.slot, Gone::evicted, key_hash, now);
    }
    // Removes an item for its memory. An expired or flushed one is reclaimed: it leaves no ghost and no watcher event.
    void evict_or_reclaim(Ref ref, NodeSeconds now);
    // Frees the dead slots whose leases have ended; returns their number.
    uint32_t reclaim_dead(NodeSeconds now) {
        return leases_->reclaim(now, [this](Ref ref) { part(ref); });
    }
    // Of a slot without an item and without a holder.
    void free_slot(Ref ref);

    ItemWriter& writer() { return writer_; }
    void observe(Observer* observer) { observer_ = observer; }
    void add_stats(Stats& sum) const;

  private:
    layout::Slot slot_word(Ref ref, uint64_t hash) const;
    void describe(Ref ref, const NewItem& item, NodeSeconds now);
    void write_over(Ref ref, const NewItem& item, NodeSeconds now);
    void replace(Ref ref, uint64_t generation, bool revived, layout::Slot word, Index::Place old, NodeSeconds now);
    void evict_of_chain(uint64_t hash, NodeSeconds now);
    void end_life(Ref ref, uint64_t* place, Gone why, uint64_t key_hash, NodeSeconds now);
    bool is_lost_stub(Ref ref) const;
    uint64_t hash_of(Ref ref) const { return hash_key(key_of(*arena_, ref), hash_seed_); }
    Index::Place place_of(Ref ref, uint64_t key_hash) const;
    void part(Ref ref);
    void forget_value(Ref ref);

    Observer* observer_ = nullptr;
    Index index_;
    ItemWriter writer_;
    uint64_t hash_seed_ = 0;
    CasUniques uniques_;
    ItemCounts counts_;
};

}  // namespace farcached::node
