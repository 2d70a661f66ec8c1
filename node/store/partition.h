// SPDX-License-Identifier: BSD-3-Clause
// Partition: one share of the keys, with its lock, its parts, and the requests that need several of them.
//
// Each part owns its state, and calls only parts to its right:
//
//     Partition -> LeaseZone -> Room -> Items -> Draining -> Leases, Slots
//                                       Items -> EvictionOrder, HiddenItems
//
// Owner: the Node. Threads: any; every member but `lock` and order().reads_counted() needs the lock, and so do the parts.
//
// P1  Each part keeps its own invariants (items.h, leases.h, draining.h, slots.h, ...). A request does what several need, in
//     the order that they demand.
// P2  `now` is read after the request that it serves was received. So a lease that a proxy counts from its send time ends
//     before it ends here (S3). `now` never decreases here, even if another thread read it earlier (latest()).
// P3  The caller makes room first, and then puts an item there: nothing between the two calls releases the lock.
#pragma once

#include <algorithm>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "node/items/stored_item.h"
#include "node/keys/key_changes.h"
#include "node/keys/subleases.h"
#include "node/store/draining.h"
#include "node/store/eviction_order.h"
#include "node/store/hidden_items.h"
#include "node/store/items.h"
#include "node/store/leases.h"
#include "node/store/node.h"
#include "node/store/room.h"
#include "node/store/slots.h"

namespace farcached::node {

class alignas(64) Partition {
  public:
    mutable std::mutex lock;

    void attach(fabric::Region& region, Arena& arena, const Config& config, uint32_t number,
                uint32_t partition_count, uint64_t secret, uint64_t private_seed, uint64_t first_generation);

    // Items are to outlive the process: what a reply promises is in its notes before the reply (node/memory/memory_file.h).
    void keep(Notes& notes, uint32_t number);

    // The latest clock reading of any thread for this partition (P2).
    NodeSeconds latest(NodeSeconds now) { return latest_ = std::max(latest_, now); }

    Items& items() { return items_; }
    const Items& items() const { return items_; }
    EvictionOrder& order() { return order_; }
    const EvictionOrder& order() const { return order_; }
    TestHook& test_hook() { return items_.writer().test_hook; }

    // The slot for `item`, which replaces `old` if that exists: the slot of `old`, a dead slot of the key, or a free one.
    // Evicts if necessary, but never `old`. nil: the caller reserves `need_pages` (without this lock) and tries again; 0: no
    // memory (-M). The reservation spares the pages of `old` if `made_of_old`.
    Ref room_for(const NewItem& item, Index::Place old, NodeSeconds now, Reservation& reserved, uint64_t& need_pages,
                 bool made_of_old = false);
    // Stores an item of the former run. Of two with one key the later one stays. nil as in room_for().
    bool restore(const FormerRun::Item& former, const protocol::Key& key, NodeSeconds now, Reservation& reserved,
                 uint64_t& need_pages);
    // Of the value of a stub: its tier has what it stands for.
    bool stub_lives(std::string_view value) const;
    // Before an item of another node is stored: whether the share for these items (SpillRules) has room, for which older ones go.
    bool has_room_for_foreign(uint64_t bytes, double share, NodeSeconds now);
    // The same item with another header, or a value that is not longer: in place, or in another slot.
    Index::Place rewrite(Index::Place at, const NewItem& changed, NodeSeconds now);

    // Of a live item: its value does not change until unpin(), even if the item dies. False: see HeldSlots.
    bool pin(Ref ref) { return held_.pin(ref); }
    void unpin(Ref ref);
    // A slot for an upload of that size; its bytes are already counted. nil: as in room_for(). take_received() or
    // drop_received() ends it.
    Ref receive(uint64_t bytes, NodeSeconds now, Reservation& reserved, uint64_t& need_pages);
    // After the value was received behind header and key: the slot to publish the item in. That is `received`, unless a slot
    // that remote pointers refer to fits the item.
    Ref room_for_received(Ref received, const NewItem& item, Index::Place old, NodeSeconds now);
    // Before the item is put there: the upload no longer holds the slot.
    void take_received(Ref received);
    void drop_received(Ref received);

    // The cause of a lease request. A mutation extends a lease only if the key was read since the last grant (S8). A report
    // moves no item, and its lease keeps memory within the report's cost limit.
    enum class Asker : uint8_t { get, mutation, report };
    struct Granted {
        std::optional<protocol::Grant> grant;
        protocol::LeaseDenial denied = protocol::LeaseDenial::none;
    };
    // A remote pointer to a live item under a lease that is new, extended or unchanged. The item may be moved for it; then `at`
    // changes. Without a grant: no lease runs, or a report did not extend it.
    Granted grant(Index::Place& at, NodeSeconds now, Asker asker, LeaseCost* report = nullptr);
    Renewal renew(const Access& seen, NodeSeconds now, uint64_t byte_s_max);
    Leases& leases() { return leases_; }
    HiddenItems& hidden() { return hidden_; }
    Subleases& subleases() { return subleases_; }
    KeyChanges& changes() { return changes_; }

    void record(const Access& access, NodeSeconds now);
    void flush(NodeSeconds now);
    // Hides these existing items from all readers but proxies with leases on them: kill_leased() on each of leased_pages()
    // precedes the reply. `order` is larger than any before. Returns a generation: matching items below it are hidden. 0: the
    // table is full. Throws std::bad_alloc.
    uint64_t hide(const PartialFlush& what, uint64_t order);
    std::vector<uint32_t> leased_pages() const { return leases_.pages().all(); }
    void kill_leased(uint64_t page, const PartialFlush& what, uint64_t floor, NodeSeconds now);

    // Removes every item of a page of this partition; the page returns to the pool.
    void empty_page(uint64_t page, NodeSeconds now) { room_.empty_page(page, nil, now); }
    SweptPage sweep_page(uint64_t page, NodeSeconds now, bool tails);
    void visit_page(uint64_t page, NodeSeconds now, FunctionRef<void(const ItemView&)> visit);
    double page_heat(uint64_t page, NodeSeconds now, uint64_t& end) { return room_.page_heat(page, now, end); }
    void zone_moved(uint64_t page) { slots_.zone_moved(page); }
    void add_stats(Stats& stats, NodeSeconds now) const;

  private:
    protocol::LeaseDenial lengthen(Index::Place& at, NodeSeconds now, LeaseCost* report, uint32_t& granted_ms);
    Ref seen_item(const Access& seen, bool& same_generation) const;
    uint64_t reclaim_tails(uint8_t size_class, NodeSeconds now);
    // Of an item that moved away, and is kept for a while.
    bool keeps_moved(Ref ref, NodeSeconds now) const {
        if (!hidden_.is_kept_moved(ref) || hidden_.is_flushed(ref)) return false;
        return hidden_.moved_until() > now && !expired(*arena_, ref, now);
    }

    fabric::Region* region_ = nullptr;
    Arena* arena_ = nullptr;
    bool evict_ = true;
    uint32_t partition_count_ = 1;
    Tiers tiers_;
    NodeSeconds latest_ = 0;
    Slots slots_;
    HeldSlots held_;
    Leases leases_;
    Draining draining_;
    HiddenItems hidden_;
    EvictionOrder order_;
    Items items_;
    Room room_;
    Spill spill_;
    LeaseZone zone_;
    Subleases subleases_;
    KeyChanges changes_;
};

}  // namespace farcached::node
