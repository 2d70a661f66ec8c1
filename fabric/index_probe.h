// SPDX-License-Identifier: BSD-3-Clause
// IndexProbe: finds an item by its node's published index with one-sided READs alone. It decides which pieces of the
// region to READ next, and checks the copies. Pure: its owner does the READs.
//
//   header ---> entry ---> bucket, entry ---> item ---> hit          one round of READs each; known headers
//                            ^  |   |          |                     and entries are skipped
//      overflow link, a count|  |   |          | another key
//      that has grown        +--+   +----------+---> not found, invalid, out of reach: the proxy sends a request
//
// B1  A probe proves a hit, never a miss. An outdated cached field leads to "not found" at worst.
// B2  It READs a bounded number of pieces, and no item of more than item_bytes_most.
// B3  It checks every field of a copy against possible values before use (S10); all wants lie in the region.
// B4  The probe does not look at the slot again after copying the item. No two generations of a key are live at once: a
//     node flips the old guard before the new one is live (S7). So when the READ copied the guard, the item was the value
//     of its key. The check proves that all other bytes belong to that generation, whenever they were copied.
// B5  The flush floor comes from an entry that was READ for this very probe. So it covers every flush acknowledged before
//     the probe began (S11). An item flushed later was still there when the probe began. A floor that has sunk again,
//     after a delete by prefix, sank when all items that it had hidden were dead; the item is READ after the entry.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/node_clock.h"
#include "fabric/region.h"
#include "fabric/validate.h"
#include "protocol/layout.h"

namespace farcached::fabric {

// The known layout of a region that only READs reach. Its fixed fields were checked on arrival.
struct FarRegion {
    FarRegion() = default;
    // From the fields of the greeting.
    FarRegion(uint64_t region_bytes, uint64_t its_incarnation, uint64_t its_hash_seed)
        : bytes(region_bytes), incarnation(its_incarnation), hash_seed(its_hash_seed) {}

    bool take(const layout::RegionHeader& header);
    bool take(uint32_t partition, const layout::PartitionEntry& entry);

    uint64_t bytes = 0, incarnation = 0, hash_seed = 0;
    bool header_known = false;
    uint32_t partition_count_log2 = 0;
    uint64_t partitions_offset = 0, arena_offset = 0, arena_bytes = 0;
    std::array<uint32_t, 64> class_bytes{};
    struct Partition {
        bool known = false;
        IndexShape shape;
        uint32_t bucket_count = 1;  // as last seen
    };
    std::vector<Partition> partitions;
};

class IndexProbe {
  public:
    static constexpr uint32_t item_bytes_most = 4096;
    static constexpr uint32_t buckets_max = 3;
    static constexpr uint32_t items_max = 2;  // of the same tag

    struct Want {
        uint64_t offset = 0;  // from the region's start
        uint32_t bytes = 0;   // a multiple of 16
    };
    struct Question {
        std::string_view key;
        bool tokens_matter = false;
        NodeSeconds latest = 0;  // upper bound of the node's clock when the READs completed (S13)
        uint64_t check_secret = 0;
    };
    enum class Step : uint8_t {
        read_on,       // READ wants() next
        hit,           // found() has the value
        not_found,     // no proof of absence
        invalid,       // found() has the outcome
        out_of_reach,  // beyond the bounds of B2
    };

    // key_hash: under the region's seed.
    void begin(const FarRegion& region, uint64_t key_hash);
    std::span<const Want> wants() const { return {wants_.data(), want_count_}; }
    uint32_t want_bytes() const;
    bool wants_item() const { return stage_ == Stage::item; }
    // The copies of wants(), one after the other. `region` learns from them.
    Step fed(FarRegion& region, const uint64_t* copies, const Question& question);

    // A hit's value lies in the last copies passed to fed().
    const PointerRead& found() const { return found_; }
    uint64_t item_offset() const { return wants_[0].offset; }  // of a hit, from the region's start

  private:
    enum class Stage : uint8_t { header, entry, entry_and_bucket, bucket, item };

    Step want(Stage stage, Want first, Want second);  // second: none without bytes
    Step invalid(Outcome why);
    Step begin_entry(const FarRegion& region);
    Step another_bucket(Want bucket);
    Step take_bucket(const FarRegion& region, const uint64_t* copy);
    Step next(const FarRegion& region);
    Step take_item(const FarRegion& region, const uint64_t* copy, const Question& question);
    Want entry_want(const FarRegion& region) const;
    Want bucket_want(const FarRegion& region) const;

    Stage stage_ = Stage::header;
    uint8_t buckets_ = 0, items_ = 0;  // READ, or wanted
    uint8_t candidates_ = 0, candidate_ = 0;
    uint8_t want_count_ = 0;
    uint32_t partition_ = 0;
    uint64_t hash_ = 0;
    uint64_t flush_floor_ = 0;
    uint64_t link_ = 0;  // of the last bucket
    std::array<Want, 2> wants_;
    std::array<layout::Slot, layout::bucket_slots> slots_{};  // of the key's tag, in the last bucket
    PointerRead found_;
};

}  // namespace farcached::fabric
