// SPDX-License-Identifier: BSD-3-Clause
// HiddenItems: the items of a partition that a flush or a delete by prefix hides, and the word that shows this to readers.
//
// Owner: a Partition, under its lock.
//
// F1  An item is hidden if its generation is below the floor of the last flush, or if HiddenPrefixes hides it.
// F2  Readers without the lock see both through one word of the partition's entry, the published floor: older items use the
//     locked path, where hides() decides. It decreases only when all items hidden by a delete by prefix are dead (S11).
// F3  For a while the node keeps items whose keys moved to other nodes, for gets of moved items alone (GetOp::moved_since).
//     Items::keep_moved() marks one (item_moved). From then on it is hidden whatever its generation, and no reader without the lock
//     takes it: the expiry time in its header has passed. So it needs its entry of HiddenPrefixes no longer.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "base/node_clock.h"
#include "node/items/stored_item.h"
#include "node/memory/arena.h"
#include "node/store/node.h"
#include "protocol/layout.h"
#include "protocol/owned_keys.h"

namespace farcached::node {

// A delete by prefix, or of the items that KeptKeys do not keep. Items stored before its first step are gone after the last
// (PrefixDeletes).
struct PartialFlush {
    // Keys that moved to other nodes: at that epoch of the list of nodes (protocol::EpochRecord; 0: unknown). Their items can be
    // got by SharedKeys::get_moved() for a while.
    struct Move {
        uint64_t epoch = 0;
        NodeSeconds until = 0;
    };
    static constexpr uint32_t moved_kept_s = 600;

    std::string prefix;                              // 1 to key_bytes_max bytes; empty with `kept`
    std::shared_ptr<const protocol::KeptKeys> kept;  // nullptr: by prefix
    Move move = {};                                  // with `kept`
    std::vector<uint64_t> floors = {};               // by partition
    uint32_t partition = 0;                          // the current one
    std::vector<uint32_t> pages = {};                // of that partition, still to visit

    bool has(std::string_view key) const { return kept != nullptr ? !kept->keeps(key) : key.starts_with(prefix); }
};

// HiddenPrefixes: the prefixes of deletes by prefix whose items are not swept yet. Owner: HiddenItems, under the partition's lock.
//
// H1  An item is hidden if its key begins with a prefix and its generation is below that prefix's floor.
// H2  A lookup costs one hash for each distinct prefix length, however many prefixes exist.
// H3  So are items whose keys have moved away (Moved): those that KeptKeys do not keep, and whose generation is below their floor.
class HiddenPrefixes {
  public:
    static constexpr size_t prefixes_max = 1024;  // waiting to be swept
    static constexpr size_t moved_max = 8;        // the same; further ones of a ring are joined with the last of them
    using Moved = std::shared_ptr<const protocol::KeptKeys>;

    // Neither floor nor order decreases from call to call; each order is new. False: the prefix is new and the table is full, or
    // the moved keys cannot be described with the last ones.
    // Throws std::bad_alloc without effect.
    bool hide(std::string_view prefix, uint64_t floor, uint64_t order);
    // epoch: of the list of nodes by which the keys moved (protocol::EpochRecord); 0: unknown.
    bool hide(const Moved& kept, uint64_t floor, uint64_t order, uint64_t epoch);
    bool hides(std::string_view key, uint64_t generation) const;
    bool is_deleted(std::string_view key, uint64_t generation) const;  // hidden by a prefix
    bool has(const protocol::KeptKeys& kept) const {
        return std::ranges::any_of(moved_, [&](const AwayKeys& away) { return *away.kept == kept; });
    }
    void forget_epochs() {
        for (AwayKeys& away : moved_) away.epoch = 0;
    }
    // The lowest epoch by which the item has moved; UINT64_MAX: it has not.
    uint64_t moved_at(std::string_view key, uint64_t generation) const;
    // Where the item counts when it is removed: at the prefix whose delete hid it first. Null: it is not hidden.
    uint64_t* counter(std::string_view key, uint64_t generation);
    // The prefix's counter. None: it is unknown.
    std::optional<uint64_t> removed(std::string_view prefix) const;
    // Removes the prefixes of this order and earlier ones.
    void swept(uint64_t order);
    void clear();

    size_t size() const { return entries_.size(); }
    uint64_t floor() const { return floor_; }  // items of this generation or a later one are not hidden

  private:
    struct Delete {
        uint64_t floor, order;
    };
    struct Entry {
        Delete first, last;  // not swept yet; equal if there is one. Those between the two count as the last
        uint64_t removed;
    };
    struct Hash {
        using is_transparent = void;
        size_t operator()(std::string_view text) const { return hash_bytes(text.data(), text.size(), 0); }
    };
    struct Length {
        size_t bytes, prefixes;
    };

    struct AwayKeys {
        Moved kept;
        Delete last;
        uint64_t epoch;  // the lowest
    };

    void uncount(size_t bytes);

    std::unordered_map<std::string, Entry, Hash, std::equal_to<>> entries_;
    std::vector<Length> lengths_;  // ascending; only lengths in use
    std::vector<AwayKeys> moved_;
    uint64_t floor_ = 0;
};

class HiddenItems {
  public:
    void attach(Arena& arena, layout::PartitionEntry& entry, uint64_t floor);
    // The floor of the last flush is to outlive the process: this word of its notes has it.
    void keep(uint64_t* flush_floor) {
        kept_floor_ = flush_floor;
        __atomic_store_n(kept_floor_, flush_floor_, __ATOMIC_RELEASE);
    }

    bool hides(Ref ref) const {
        if (is_kept_moved(ref)) return true;
        const uint64_t generation = generation_of(*arena_, ref);
        if (generation >= entry_->flush_floor) return false;
        return generation < flush_floor_ || hides_by_prefix(ref);
    }
    bool hides_by_prefix(Ref ref) const { return prefixes_.hides(key_of(*arena_, ref), generation_of(*arena_, ref)); }
    bool is_kept_moved(Ref ref) const { return (arena_->descriptor(ref).flags & item_moved) != 0; }
    bool is_flushed(Ref ref) const {
        const uint64_t generation = generation_of(*arena_, ref);
        return generation < flush_floor_ || prefixes_.is_deleted(key_of(*arena_, ref), generation);
    }
    // Did the item's key move at this epoch or later, and not before?
    bool has_moved_since(Ref ref, uint64_t epoch) const;
    // May the item, which is hidden, be marked as item_moved (F3)?
    bool may_keep_moved(Ref ref) const;
    // All moves so far count as of an unknown epoch.
    void forget_moves();
    // When such an item goes.
    NodeSeconds moved_until() const { return moved_until_; }
    // Hides all items below that generation.
    void flush(uint64_t floor);
    // Hides the items with the prefix below that generation. False: the table of prefixes is full. Throws std::bad_alloc.
    bool hide_prefix(std::string_view prefix, uint64_t floor, uint64_t order);
    // The same with the items that these do not keep.
    bool hide_moved(const HiddenPrefixes::Moved& kept, uint64_t floor, uint64_t order, const PartialFlush::Move& move);
    // Every page was swept since that order: this prefix delete and earlier ones hide nothing any more.
    void swept(uint64_t order);
    // The item is being removed.
    void count_removed(Ref ref, NodeSeconds now) {
        if (prefixes_.size() == 0) return;
        const uint64_t generation = generation_of(*arena_, ref);
        uint64_t* const removed = prefixes_.counter(key_of(*arena_, ref), generation);
        if (removed == nullptr) return;
        prefix_items_++;
        if (generation >= flush_floor_ && !expired(*arena_, ref, now)) (*removed)++;
    }
    // Live items that a delete by prefix removed so far. None: no such delete, or a flush came after it.
    std::optional<uint64_t> removed(std::string_view prefix) const { return prefixes_.removed(prefix); }
    void add_stats(Stats& sum) const;

  private:
    void publish();

    Arena* arena_ = nullptr;
    layout::PartitionEntry* entry_ = nullptr;
    uint64_t* kept_floor_ = nullptr;
    uint64_t flush_floor_ = 0;   // of the last flush; entry_->flush_floor may be higher (F2)
    HiddenPrefixes prefixes_;    // not swept yet
    uint64_t prefix_items_ = 0;  // removed for a prefix
    // The last moves, newest first: items from that generation on that are marked (F3) moved at that epoch.
    struct Moves {
        uint64_t floor = UINT64_MAX, epoch = 0;
    };
    std::array<Moves, 4> moves_;
    NodeSeconds moved_until_ = 0;
};

}  // namespace farcached::node
