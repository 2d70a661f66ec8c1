// SPDX-License-Identifier: BSD-3-Clause
// Partition: one share of the keys with all that belongs to it: index, pages, policy lists, counters. Whoever
// holds its lock owns it; every member below but `lock` asks for that.
//
// P1  An item is in the index, in its class's place of the policy and in a live slot, or in none of them.
// P2  A guard flips to dead before its slot leaves the index or is replaced there, before the guard of what replaces
//     it is live, and before the caller can acknowledge (S1, S7): no two generations of a key live at once.
// P3  Generations only go up and are never used twice; the low bits are the partition's number.
// P4  A mutation is written to a free slot. The one exception is rewrite() when there is no free slot: it
//     reclaims the item's own slot, which is allowed only while no lease on it runs (S2), and every
//     reader under way sees the guard change.
// P5  A slot whose item died under a lease is pending: counted in its page, in no list, and free again only
//     when the lease and its grace have ended on a clock that was read later (S2).
// P6  `now` is read after the request that it serves was received: what a proxy counts from its sending is then
//     over before what is counted here (S3).
// P7  An item that a flush or a delete by prefix has hidden is not found, leased, renewed, moved or copied: it can only be
//     killed. entry_->flush_floor is the one word that readers without the lock see of both: what is older goes to the
//     locked path, where flushed() decides. It sinks again only when all that a delete by prefix has hidden is dead.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <queue>
#include <string>
#include <string_view>
#include <vector>

#include "base/broken.h"
#include "node/hidden_prefixes.h"
#include "node/index.h"
#include "node/node.h"
#include "node/policy.h"

namespace farcached::node {

// Pages taken from the pool by somebody who held no partition's lock, for the next allocate().
struct Reservation {
    uint64_t first = 0;
    uint64_t pages = 0;  // 0: none
    // What must not be evicted to make room: the item that the new one is made from.
    uint64_t keep_first = 0, keep_pages = 0;

    bool spares(uint64_t window_first, uint64_t window_pages) const {
        return window_first + window_pages <= keep_first || keep_first + keep_pages <= window_first;
    }
};

// What goes into a new item. The value is the two parts, one after the other.
struct NewItem {
    protocol::Key key;
    std::string_view value, value_tail;
    uint32_t flags = 0;
    NodeSeconds exptime = never_expires;
    uint64_t cas = 0;
    uint16_t format = layout::format_plain;
    uint8_t descriptor_flags = 0;
    bool counts_as_new = true;  // in items_total: not what memcached would have changed in place
    bool same_item = false;     // all that is known of the one in whose place it comes stays; else it was touched

    uint64_t bytes() const {
        return layout::item_bytes(key.bytes.size(), value.size() + value_tail.size());
    }
};

struct ClassTally {
    uint32_t partial_head[2] = {nil, nil};  // pages with room: outside the lease zone, and in it
    uint64_t pages = 0, used = 0, requested = 0;
    uint64_t listed = 0;  // pages that leases may run in; a run of pages is one
    NodeSeconds own_sought = 0, zone_sought = 0;  // when a page to drain or to empty was last looked for
    uint64_t evicted = 0, evicted_nonzero = 0, evicted_unfetched = 0, evicted_active = 0;
    uint64_t evicted_age_s = 0, out_of_memory = 0, reclaimed = 0, expired_unfetched = 0;
    uint64_t crawler_reclaimed = 0, crawler_checked = 0;
};

enum class Gone : uint8_t { replaced, deleted, evicted, reclaimed, crawled };

class alignas(64) Partition {
  public:
    mutable std::mutex lock;

    void attach(fabric::Region& region, Arena& arena, const Config& config, uint32_t number,
                uint32_t partition_count, uint64_t secret, uint64_t first_generation);

    struct Found {
        Index::Place place;  // slot null: a miss
        protocol::Miss why = protocol::Miss::absent;
    };
    // A live, unexpired, unflushed item; what is found dead is removed.
    Found find(const protocol::Key& key, NodeSeconds now);

    // A free slot for `bytes`, evicting if need be but never `pinned`. nil: `need_pages` is what to reserve
    // (without this lock) before another try, or 0 if there is no memory to be had (-M). What is reserved then
    // spares the pages of `pinned`, if `made_of_pinned`.
    Ref allocate(uint64_t bytes, NodeSeconds now, Ref pinned, Reservation& reserved,
                 uint64_t& need_pages, bool made_of_pinned = false);
    // Counts a store that found no memory.
    void count_no_memory(uint64_t bytes) {
        tally_[arena_->classes().of(bytes)].out_of_memory++;
    }
    // Writes and publishes `item` in `ref`, in the place of `old` if that is there.
    void put(Ref ref, const NewItem& item, NodeSeconds now, Index::Place old);
    // Unpublishes and frees an item.
    void kill(Ref ref, uint64_t* place, Gone why, NodeSeconds now);
    // The same item with a changed header: out of place if there is room, else in its own slot (P4). If neither
    // can be, because a lease runs, nothing is changed and there is no slot in the place.
    Index::Place rewrite(Index::Place at, const NewItem& header, NodeSeconds now);

    // A lease on a live item, moved for it if need be (then `at` changes); none: the policy says no.
    // For a report: nothing is moved, and the lease keeps memory for no more than it may cost.
    struct Cost {
        uint64_t byte_s_max;
        uint64_t byte_s = 0;  // of the lease that was granted
        bool over = false;    // none was, only because of that
    };
    std::optional<protocol::Grant> grant(Index::Place& at, NodeSeconds now, Cost* report = nullptr);
    Renewal renew(const Access& seen, NodeSeconds now, uint64_t byte_s_max);
    void end_leases_before(NodeSeconds when) { lease_before_ = when; }
    // Of leases granted from now on.
    void set_lease_terms(const LeaseTerms& terms) {
        terms_ = terms;
        pressed_at_ = 0;
    }
    // Frees the slots whose leases have ended; how many.
    uint32_t reclaim_pending(NodeSeconds now);
    bool lease_runs(Ref ref, NodeSeconds now) const;

    void access(Ref ref, NodeSeconds now, uint32_t times = 1);  // the item was read
    void bump(Ref ref, NodeSeconds now, uint32_t times = 1);    // it was met by a change, which is not a read
    // What its counter says was read of it since this was called last are accesses, of now. False: nothing was.
    bool see_reads(Ref ref, NodeSeconds now);
    void record(const Access& access, NodeSeconds now);
    void flush(NodeSeconds now);
    // Hides what is there and begins so, for all but the proxies that hold leases on it: kill_leased() on each of
    // leased_pages() comes before the answer. `order` is larger than any before. What is older than the generation that
    // is returned is hidden; 0: too many prefixes are. Throws std::bad_alloc.
    uint64_t hide_prefix(std::string_view prefix, uint64_t order);
    std::vector<uint32_t> leased_pages() const { return pinned_pages_; }
    void kill_leased(uint64_t page, std::string_view prefix, uint64_t floor, NodeSeconds now);
    // Each page was swept since the order of that number came: nothing is hidden by it or by one before it any more.
    void prefixes_swept(uint64_t order);
    // Removes every item of a page that this partition owns; the page goes back to the pool.
    void empty_page(uint64_t page, Ref pinned, NodeSeconds now);
    Node::Swept sweep_page(uint64_t page, NodeSeconds now);
    void visit_page(uint64_t page, NodeSeconds now, FunctionRef<void(const ItemView&)> visit);

    protocol::ItemMeta meta(Ref ref) const;
    std::string_view key_of(Ref ref) const;
    std::string_view value_of(Ref ref) const;
    // The item as it is, to be written again. Its value lies where it lay.
    NewItem same_item(const protocol::Key& key, Ref ref) const;
    Index::Place locate(const protocol::Key& key) { return index_.find(key.hash, key.bytes); }
    uint64_t next_cas();
    bool dead_by_time(Ref ref, NodeSeconds now) const;
    bool flushed(Ref ref) const;
    void add_stats(Stats& stats, NodeSeconds now) const;
    // How much would be lost with a page: share in use, weighted by recency, 0 to 1. With any page of a large
    // item all of it is lost: that much times its pages, and `end` is behind the last of them.
    double page_heat(uint64_t page, NodeSeconds now, uint64_t& end);
    // The lease zone's end was moved over that page, which is ours.
    void zone_moved(uint64_t page);

    Observer* observer = nullptr;
    uint16_t number = 0;
    // Tests stop a replacement before and after the old guard's flip.
    void (*test_hook)(void*) = nullptr;
    void* test_hook_argument = nullptr;

  private:
    static constexpr uint16_t in_other_list = 1, in_zone_list = 2;  // Page::partial
    static constexpr uint32_t reclaim_tries = 4;
    static constexpr uint32_t lease_halvings_max = 7;
    static constexpr uint32_t told_times_max = 128;  // that one record counts: what the last queue takes
    static constexpr uint64_t balance_every = 16;  // evictions between looks at the other classes

    Ref seen_item(const Access& seen) const;
    bool prefix_deleted(Ref ref) const;
    void publish_floor();
    void halfway() {
        if (test_hook != nullptr) test_hook(test_hook_argument);
        broken::hold_up(broken::Moment::replacing);
    }
    Index::Place place_of(Ref ref) const;
    Ref take_slot(uint8_t size_class, bool in_zone);
    Ref take_zone_slot(uint8_t size_class, NodeSeconds now, Ref pinned);
    bool make_room_in_zone(uint8_t size_class, NodeSeconds now, Ref pinned);
    void move_item(Index::Place from, Ref to, NodeSeconds now);
    Ref take_zone_run(Ref like);
    bool move_to_zone(Index::Place& at, NodeSeconds now);
    void retire(Ref ref, uint64_t bytes, NodeSeconds now);
    bool term_wasted(const Descriptor& item, NodeSeconds now) const;
    void note_outlived(Ref ref, uint32_t lease_end, uint32_t term_ms, NodeSeconds now);
    bool affords(Cost& report, Ref ref, uint32_t lease_end, NodeSeconds now) const;
    void count_leased(Ref ref, uint32_t lease_end, NodeSeconds now);
    void uncount_leased(Ref ref);
    uint64_t leased_bytes(NodeSeconds now) const;
    void add_lease_stats(LeaseStats& sum, NodeSeconds now) const;
    bool page_pinned(uint64_t page, NodeSeconds now) const;
    bool draining(Ref ref) const { return arena_->page(page_of(ref)).draining != 0; }
    bool leasable(Ref ref) const { return arena_->leasable(ref) && !draining(ref); }
    uint64_t bytes_pinned_in(uint64_t page, NodeSeconds now) const;
    void drain_emptiest(uint8_t wanted_by, NodeSeconds now, FunctionRef<bool(uint8_t)> of_class);
    void drain_own(uint8_t size_class, NodeSeconds now);
    uint64_t pages_to_lease(uint8_t size_class) const;
    void settle_drains(uint8_t size_class, NodeSeconds now, Ref pinned);
    uint64_t coldest_zone_page(uint8_t except, double heat, NodeSeconds now, Ref pinned);
    bool free_zone_page(uint8_t to, NodeSeconds now, Ref pinned);
    void unlist(uint64_t page);
    void forget_page(uint64_t page);
    void add_partial(uint64_t page);
    void note_pinned(uint64_t page, uint32_t lease_end, NodeSeconds now);
    uint32_t lease_ms_left(Ref ref, NodeSeconds now) const;
    Moment moment(NodeSeconds now) { return {arena_->descriptors(), now}; }
    void press(NodeSeconds now);
    void add_to_policy(Ref ref, const NewItem& item, const Descriptor* before, NodeSeconds now);
    void remove_from_policy(Ref ref, Gone why, NodeSeconds now);
    Ref next_to_go(uint8_t size_class) const;
    bool walk_next_to_go(uint8_t size_class, uint32_t depth, NodeSeconds now, FunctionRef<bool(Ref)> stop);
    bool adopt_page(uint64_t page, uint8_t size_class);
    Ref first_slot(uint64_t page, uint8_t size_class);
    void release_slot(Ref ref);
    void drop_partial(uint64_t page);
    bool reclaim_tail(uint8_t size_class, NodeSeconds now, Ref pinned);
    bool evict_one(uint8_t size_class, NodeSeconds now, Ref pinned);
    uint8_t coldest_class(uint8_t except, NodeSeconds now, uint32_t& age);
    bool move_page(uint8_t to, NodeSeconds now, Ref pinned);
    bool should_move_page(uint8_t to, NodeSeconds now);
    Ref allocate_run(uint64_t bytes, Reservation& reserved, uint64_t& need_pages);
    Ref adopt_run(uint64_t first, uint64_t pages);
    void tally_gone(Ref ref, Gone why, NodeSeconds now);
    uint64_t write(Ref ref, const NewItem& item, NodeSeconds now);
    void bring_to_life(Ref ref, uint64_t generation);
    layout::Slot slot_word(Ref ref, uint64_t hash) const;
    template <class Visit>
    void for_live(uint64_t page, Visit&& visit) const;

    fabric::Region* region_ = nullptr;
    Arena* arena_ = nullptr;
    layout::PartitionEntry* entry_ = nullptr;
    Index index_;
    Policy policy_;
    std::array<ClassTally, 64> tally_;
    bool evict_ = true;
    bool cas_ = true;
    uint32_t partition_count_ = 1;
    uint32_t home_ = 0;  // of its pages (Arena, A5)
    uint64_t secret_ = 0;
    uint64_t generation_ = 0;
    uint64_t flush_floor_ = 0;  // of the last flush; entry_->flush_floor may be higher (P7)
    HiddenPrefixes prefixes_;    // not swept yet
    uint64_t prefix_items_ = 0;  // killed for one
    uint64_t cas_issued_ = 0;
    uint64_t items_ = 0, items_total_ = 0, bytes_ = 0;
    uint64_t pages_moved_ = 0, evictions_ = 0, overflow_evictions_ = 0, reads_counted_ = 0;

    LeaseConfig lease_;
    LeaseTerms terms_;
    NodeSeconds pressed_at_ = 0;  // terms_ are of what was leased then
    uint32_t grants_since_press_ = 0;  // asked for
    LeaseStats leases_;  // but `bytes`
    NodeSeconds lease_before_ = 0;  // a scheduled flush
    // Bytes of the live items whose leases end in a second; what has passed is overwritten.
    struct LeasedIn {
        uint32_t second = 0;
        uint64_t bytes = 0;
    };
    static constexpr uint32_t lease_seconds_max = 1024;
    std::vector<uint32_t> pinned_pages_;  // every page of ours that a lease may run in; others too
    size_t pinned_compact_at_ = 64;
    std::vector<uint32_t> draining_;  // pages of ours
    size_t drain_cursor_ = 0;
    uint64_t zone_cursor_ = 0;
    std::vector<LeasedIn> leased_in_;
    struct Pending {
        uint32_t lease_end;
        Ref ref;
        bool operator>(const Pending& other) const { return lease_end > other.lease_end; }
    };
    std::priority_queue<Pending, std::vector<Pending>, std::greater<>> pending_;
};

template <class Visit>
void Partition::for_live(uint64_t page, Visit&& visit) const {
    const Page& at = arena_->page(page);
    const uint32_t used = at.size_class == layout::large_class ? 1 : at.fresh;
    for (uint32_t slot = 0; slot < used; slot++) {
        Ref ref = make_ref(page, slot);
        if (arena_->descriptor(ref).state == SlotState::live) visit(ref);
        if (arena_->owner_hint(page) != number) return;  // the visit freed the page's last item
    }
}

}  // namespace farcached::node
