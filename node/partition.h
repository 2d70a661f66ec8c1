// SPDX-License-Identifier: BSD-3-Clause
// Partition: one share of the keys with its index, pages, policy lists and counters.
//
// Owner: the Node. Threads: any; every member but `lock` needs the lock.
//
// P1  An item is in the index, in its class's list of the policy and in a live slot, or in none of them.
// P2  A guard flips to dead before its slot leaves the index or is replaced there, before the new item's guard is live, and
//     before the caller can acknowledge (S1, S7). No two generations of a key live at once.
// P3  Generations only increase and are never reused; the low bits are the partition's number.
// P4  put() writes an item in place if room_for() chose that, or into a free slot, or into a dead slot of its key (S1). The
//     item is complete, with its check, in private memory before the first word of a published slot changes; the guard there is
//     dead while words change. Of items larger than a page, only headers are written in place. Their bytes go directly into a
//     free run of pages or a dead run of the key; its guard is dead until all bytes are there.
// P5  A slot whose item died under a lease is dead: counted in its page, and in no list of free slots. It is reserved for its
//     key until lease and grace have ended on a clock read later (S2; node/dead_slots.h).
// P6  `now` is read after the request that it serves was received. So a lease that a proxy counts from its send time ends
//     before it ends here (S3). `now` never decreases here, even if another thread read it earlier (latest()).
// P7  An item hidden by a flush or a delete by prefix is not found, leased, renewed, moved or copied: it can only be killed.
//     Readers without the lock see both through one word, entry_->flush_floor: older items use the locked path, where flushed()
//     decides. The floor decreases only when all items hidden by a delete by prefix are dead.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/broken.h"
#include "base/hash.h"
#include "node/dead_slots.h"
#include "node/held_slots.h"
#include "node/hidden_prefixes.h"
#include "node/index.h"
#include "node/node.h"
#include "node/policy.h"

namespace farcached::node {

// Pages taken from the pool without any partition's lock, for the next allocate().
struct Reservation {
    uint64_t first = 0;
    uint64_t pages = 0;  // 0: none
    // Not to be evicted to make room: the item that the new one is made from.
    uint64_t keep_first = 0, keep_pages = 0;

    bool spares(uint64_t window_first, uint64_t window_pages) const {
        return window_first + window_pages <= keep_first || keep_first + keep_pages <= window_first;
    }
};

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

struct ClassTally {
    uint32_t partial_head[2] = {nil, nil};  // pages with free slots: outside the lease zone, and in it
    uint64_t pages = 0, used = 0, requested = 0;
    uint64_t listed = 0;  // pages that leases may run in; a run of pages counts as one
    NodeSeconds own_sought = 0, zone_sought = 0;  // last search for a page to drain or to empty
    uint64_t evicted = 0, evicted_nonzero = 0, evicted_unfetched = 0, evicted_active = 0;
    uint64_t evicted_age_s = 0, out_of_memory = 0, reclaimed = 0, expired_unfetched = 0;
    uint64_t crawler_reclaimed = 0, crawler_checked = 0;
};

// reclaimed: expired or flushed when its memory was needed, or when next to go; crawled: by a sweep; met: by a request for its
// key.
enum class Gone : uint8_t { replaced, deleted, evicted, reclaimed, crawled, met };

class alignas(64) Partition {
  public:
    mutable std::mutex lock;

    void attach(fabric::Region& region, Arena& arena, const Config& config, uint32_t number,
                uint32_t partition_count, uint64_t secret, uint64_t private_seed, uint64_t first_generation);

    // The latest clock reading of any thread for this partition (P6).
    NodeSeconds latest(NodeSeconds now) { return latest_ = std::max(latest_, now); }

    struct Found {
        Index::Place place;  // slot null: miss
        protocol::Miss why = protocol::Miss::absent;
    };
    // Finds a live, unexpired, unflushed item; removes a dead one.
    Found find(const protocol::Key& key, NodeSeconds now);

    // The slot for `item`, which replaces `old` if that exists: the slot of `old`, a dead slot of the key, or a free one.
    // Evicts if necessary, but never `old`. nil: the caller reserves `need_pages` (without this lock) and tries again; 0: no
    // memory (-M). The reservation spares the pages of `old` if `made_of_old`.
    Ref room_for(const NewItem& item, Index::Place old, NodeSeconds now, Reservation& reserved, uint64_t& need_pages,
                 bool made_of_old = false);
    // Counts a store that found no memory.
    void count_no_memory(uint64_t bytes) {
        tally_[arena_->classes().of(bytes)].out_of_memory++;
    }
    // Writes and publishes `item` in `ref`, which came from room_for() or the lease zone; replaces `old` if that exists.
    void put(Ref ref, const NewItem& item, NodeSeconds now, Index::Place old);
    // Unpublishes and frees an item.
    void kill(Ref ref, uint64_t* place, Gone why, NodeSeconds now);
    // The same item with another header, or a value that is not longer: in place, or in another slot.
    Index::Place rewrite(Index::Place at, const NewItem& changed, NodeSeconds now);
    // Writes the true expiry time into the header if it differs (S13).
    void true_exptime(Index::Place at, NodeSeconds now);

    // Of a live item: its value does not change until unpin(), even if the item dies. False: replies have pinned half of the
    // memory limit, or memory for the hold is short.
    bool pin(Ref ref);
    void unpin(Ref ref);
    bool held(Ref ref) const { return arena_->descriptor(ref).held != 0; }
    // A slot for an upload of that size; its bytes are already counted. nil: as in room_for(). take_received() or
    // drop_received() ends it.
    Ref receive(uint64_t bytes, NodeSeconds now, Reservation& reserved, uint64_t& need_pages);
    // After the value was received behind header and key: the slot to publish the item in. That is `received`, unless a slot
    // that remote pointers refer to fits the item.
    Ref room_for_received(Ref received, const NewItem& item, Index::Place old, NodeSeconds now);
    // Before put(): the upload no longer holds the slot.
    void take_received(Ref received);
    void drop_received(Ref received);

    // The cause of a lease request. A mutation extends a lease only if the key was read since the last grant (S8). A report
    // moves no item, and its lease keeps memory within the report's cost limit.
    enum class Asker : uint8_t { get, mutation, report };
    struct Cost {
        uint64_t byte_s_max;
        uint64_t byte_s = 0;  // of the granted lease
        bool over = false;    // denied only for its cost
    };
    struct Granted {
        std::optional<protocol::Grant> grant;
        protocol::LeaseDenial denied = protocol::LeaseDenial::none;
    };
    // A remote pointer to a live item under a lease that is new, extended or unchanged. The item may be moved for it; then `at`
    // changes. Without a grant: no lease runs, or a report did not extend it.
    Granted grant(Index::Place& at, NodeSeconds now, Asker asker, Cost* report = nullptr);
    Renewal renew(const Access& seen, NodeSeconds now, uint64_t byte_s_max);
    void end_leases_before(NodeSeconds when) { lease_before_ = when; }
    // For leases granted from now on.
    void set_lease_terms(const LeaseTerms& terms) {
        terms_ = terms;
        pressed_at_ = 0;
    }
    // Frees the dead slots whose leases have ended; returns their number.
    uint32_t reclaim_dead(NodeSeconds now);
    bool lease_runs(Ref ref, NodeSeconds now) const;

    void access(Ref ref, NodeSeconds now, uint32_t times = 1);  // the item was read
    void bump(Ref ref, NodeSeconds now, uint32_t times = 1);    // a mutation met the item, which is not a read
    // Records reads from the item's counter since the last call as accesses at `now`. False: none.
    bool see_reads(Ref ref, NodeSeconds now);
    void record(const Access& access, NodeSeconds now);
    void flush(NodeSeconds now);
    // Hides existing items with the prefix from all readers but proxies with leases on them: kill_leased() on each of
    // leased_pages() precedes the reply. `order` is larger than any before. Returns a generation: matching items below it are
    // hidden. 0: the table of prefixes is full. Throws std::bad_alloc.
    uint64_t hide_prefix(std::string_view prefix, uint64_t order);
    std::vector<uint32_t> leased_pages() const { return pinned_pages_; }
    void kill_leased(uint64_t page, std::string_view prefix, uint64_t floor, NodeSeconds now);
    // Every page was swept since that order: this prefix delete and earlier ones hide nothing any more.
    void prefixes_swept(uint64_t order);
    // Removes every item of a page of this partition; the page returns to the pool.
    void empty_page(uint64_t page, Ref pinned, NodeSeconds now);
    Node::Swept sweep_page(uint64_t page, NodeSeconds now, bool tails);
    uint64_t reclaim_tails(uint8_t size_class, NodeSeconds now);
    void visit_page(uint64_t page, NodeSeconds now, FunctionRef<void(const ItemView&)> visit);

    protocol::ItemMeta meta(Ref ref) const;
    std::string_view key_of(Ref ref) const;
    std::string_view value_of(Ref ref) const;
    // The item unchanged, to be written again. Its value is not copied.
    NewItem same_item(const protocol::Key& key, Ref ref) const;
    Index::Place locate(const protocol::Key& key) { return index_.find(key.hash, key.bytes); }
    uint64_t next_cas();
    bool dead_by_time(Ref ref, NodeSeconds now) const;
    bool flushed(Ref ref) const;
    void add_stats(Stats& stats, NodeSeconds now) const;
    // The loss if a page is emptied: share in use, weighted by recency, 0 to 1. For a page of a large item: times the item's
    // pages, and `end` is behind its last page. Infinite: a slot is held.
    double page_heat(uint64_t page, NodeSeconds now, uint64_t& end);
    // The end of the lease zone moved across that page of this partition.
    void zone_moved(uint64_t page);

    Observer* observer = nullptr;
    uint16_t number = 0;
    // Tests stop a replacement before and after the old guard's flip.
    void (*test_hook)(void*) = nullptr;
    void* test_hook_argument = nullptr;

  private:
    static constexpr uint16_t in_other_list = 1, in_zone_list = 2;  // Page::partial
    static constexpr uint64_t draining_max = 16;  // pages of a partition at once
    static constexpr uint32_t reclaim_tries = 4;
    static constexpr uint32_t told_times_max = 128;  // limit per record: enough for the last queue
    static constexpr uint64_t balance_every = 16;  // evictions between looks at the other classes

    Ref seen_item(const Access& seen, bool& same_generation) const;
    void count_touches(Ref ref, NodeSeconds now, uint32_t times);
    bool fits_in_place(Ref ref, const NewItem& item, NodeSeconds now) const;
    Ref dead_slot_for(const protocol::Key& key, uint64_t bytes);
    bool left_dead_slot(Ref ref) const;
    Ref allocate(uint64_t bytes, NodeSeconds now, Ref pinned, Reservation& reserved, uint64_t& need_pages);
    void write_over(Ref ref, const NewItem& item, NodeSeconds now);
    void evict_of_chain(uint64_t hash, NodeSeconds now);
    uint64_t private_hash(std::string_view key) const { return hash_key(key, private_seed_); }
    void count_dead_gone(Ref ref);
    void forget_dead(Ref ref);
    void revive(Ref ref, NodeSeconds now);
    void compose(Ref ref, const layout::ItemHeader& header, const NewItem& item, uint64_t generation);
    void write_header(Ref ref, const layout::ItemHeader& header, uint64_t generation);
    void finish_received(Ref ref, const layout::ItemHeader& header, const NewItem& item, uint64_t generation);
    void write_run(Ref ref, const layout::ItemHeader& header, const NewItem& item, uint64_t generation);
    uint64_t check_seed(Ref ref, uint64_t generation) const;
    uint64_t check_of(Ref ref, uint64_t bytes, uint64_t generation) const;
    void begin_write(uint64_t* at);
    static void store_header(uint64_t* at, const layout::ItemHeader& header);
    void part(Ref ref);
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
    void retire(Ref ref, NodeSeconds now);
    protocol::LeaseDenial lengthen(Index::Place& at, NodeSeconds now, Cost* report, uint32_t& granted_ms);
    protocol::LeaseDenial judge_lease(Ref ref, NodeSeconds now, bool by_report, uint32_t& term_ms);
    protocol::LeaseDenial judge_dead(Ref ref, NodeSeconds now) const;
    static bool is_sparse(uint64_t bytes, uint64_t capacity);
    bool sparse(Ref ref) const;
    uint32_t told_ms(Ref ref, NodeSeconds now) const;
    uint32_t flush_ms_left(NodeSeconds now) const;
    bool affords(Cost& report, Ref ref, uint32_t lease_end, NodeSeconds now) const;
    void count_leased(Ref ref, uint32_t lease_end, NodeSeconds now);
    void uncount_leased(Ref ref);
    void add_leased(Ref ref);
    uint64_t leased_bytes(NodeSeconds now) const;
    void add_lease_stats(LeaseStats& sum, NodeSeconds now) const;
    bool leases_run_in(uint64_t page, NodeSeconds now) const;
    // The page cannot be emptied.
    bool page_pinned(uint64_t page, NodeSeconds now) const {
        return arena_->page(page).held != 0 || leases_run_in(page, now);
    }
    bool same_value(Ref ref, const NewItem& item) const;
    bool may_go(Ref ref, NodeSeconds now) const { return !lease_runs(ref, now) && !draining(ref) && !held(ref); }
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
    bool can_list() noexcept;
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
    void evict_or_reclaim(Ref ref, NodeSeconds now);
    uint8_t coldest_class(uint8_t except, NodeSeconds now, uint32_t& age);
    bool move_page(uint8_t to, NodeSeconds now, Ref pinned);
    bool should_move_page(uint8_t to, NodeSeconds now);
    Ref allocate_run(uint64_t bytes, Reservation& reserved, uint64_t& need_pages);
    Ref adopt_run(uint64_t first, uint64_t pages);
    void tally_gone(Ref ref, Gone why, NodeSeconds now);
    uint64_t write(Ref ref, const NewItem& item);
    void describe(Ref ref, const NewItem& item, NodeSeconds now);
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
    bool checked_ = true;  // readers may rely on the items' checks (S5)
    bool cas_ = true;
    uint32_t partition_count_ = 1;
    NodeSeconds latest_ = 0;
    uint32_t home_ = 0;  // of its pages (Arena, A5)
    uint64_t secret_ = 0;
    uint64_t private_seed_ = 0;  // of hashes whose collisions no peer can aim
    uint64_t generation_ = 0;
    uint64_t flush_floor_ = 0;  // of the last flush; entry_->flush_floor may be higher (P7)
    HiddenPrefixes prefixes_;    // not swept yet
    uint64_t prefix_items_ = 0;  // killed for a prefix
    uint64_t cas_issued_ = 0;
    uint64_t items_ = 0, items_total_ = 0, bytes_ = 0;
    uint64_t pages_moved_ = 0, evictions_ = 0, overflow_evictions_ = 0, reads_counted_ = 0;

    LeaseConfig lease_;
    LeaseTerms terms_;
    Lifetime lifetime_;  // of items; input of the terms
    NodeSeconds pressed_at_ = 0;  // when the leased share in terms_ was computed
    uint32_t grants_since_press_ = 0;  // requested grants
    LeaseStats leases_;  // except `bytes`
    NodeSeconds lease_before_ = 0;  // a scheduled flush
    // Bytes of the slots of live items whose leases end in a second, and of these items; past seconds are overwritten.
    struct LeasedIn {
        uint32_t second = 0;
        uint64_t bytes = 0, filled = 0;
    };
    std::vector<uint32_t> pinned_pages_;  // every page of this partition that a lease may run in, and possibly others
    size_t pinned_compact_at_ = 64;
    std::vector<uint32_t> draining_;  // pages of this partition
    size_t drain_cursor_ = 0;
    uint64_t zone_cursor_ = 0;
    std::vector<LeasedIn> leased_in_;
    std::unique_ptr<DeadSlots> dead_;  // with leases only
    HeldSlots held_;
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
