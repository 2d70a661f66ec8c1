// SPDX-License-Identifier: BSD-3-Clause
// Fences: the rejoin fence of fail-over (S19). While a node is out of use, its keys go to other nodes (gutters). A mutation there
// makes the node's own item of the key stale, and leaves an item at the gutter that is stale once the node is in use again (a
// guest). A Fence is the state of one node, shared by all workers.
//
//   in_use --another division of the keys (F7)--> moving --deleted what moved, and every worker has the new set--> in_use
//   in_use --failover, and a link is down or the node is drained--> leaving --every worker has stopped to use it--> out
//     ^                                                                                                              |
//     |                                 all links up, not drained, no request under way, first deletes acknowledged  |
//     +--every worker holds, no stale key-- joining <----------------------------------------------------------------+
//                                              +--a link is down, or drained--> out
//
// Owner: Nodes. Any thread; one lock, which only workers' ticks and diverted requests take.
//
// F1  All workers send a key to the same node. Each worker takes new states between two requests (attend()). Keys are diverted,
//     and the node is used again, only after every worker has taken the state before. While a node is `leaving`, its keys are
//     unavailable; while it is `joining`, their requests wait.
// F2  The key of a mutation is in the own node's set of stale keys before it is sent elsewhere. A node is in use again only after
//     it has acknowledged the delete of each of these keys, or a flush if they were too many.
// F3  A guest is deleted, or has expired by its capped time, before its gutter gets diverted keys again. Until then those keys are
//     unavailable. A gutter that goes out of use itself counts its guests as stale keys.
// F4  A request that was sent before a change of state has its answer, or has failed, before the deletes are sent. One of unknown
//     outcome may still be executed later. With F7 such a request may leave an item; the next change of the set deletes it.
// F5  The sets are bounded by KeySet::bytes_max. A set that overflows, or finds no memory, stands for all keys.
// F6  Once the set of nodes was replaced, a gutter may also have an old item of a key, from a time when the key was its own. From
//     then on its item counts only if it is a known guest: in this outage the gutter has acknowledged a set or a delete of the
//     key. Until then a get misses, and a delete goes before a mutation that depends on the present item. GuestMarks bounds the
//     known guests. A new set of nodes clears them.
// F7  When the set of nodes is replaced by one that divides the keys in another way, each node of both is `moving` until it has
//     deleted all items but those of keys that both give it. So it has no item from before another node had the key, nor one that a
//     request of the former set left there. A node that returns to the set deletes all. A node that is new to it is `moving` until
//     every worker has taken the set. A request for a key that moved waits if its present node or its former one is `moving`, until
//     no node with a connection is. If the former node is in the set and has no connection, it may still serve others
//     that have the former set: the key is unavailable until it has deleted it, too. Other keys' requests go on. A node that has
//     not acknowledged one change when the next one comes receives both as one. If that cannot be described, it is flushed.
// F8  With etcd the nodes receive the first list, too (Kept::first; ListEpoch, E5), and a node that joins receives its keys.
//     Earlier lists are not known: each key may have been at any node. So all mutations wait until the nodes have replied.
//     They do not wait for a node that has lost its connection, nor for one that has none after FirstWait. A node may not know
//     its own record yet, and refuses: they wait for it, too, for refused_wait_ns at most, and once more if it restarts. All these
//     nodes receive the list later. Mutations also wait if etcd may have had another list between two that this process uses.
//     That list may have given a key to other nodes, although the two give it to the same ones.
// F9  A node that DNS finds has one process whose items are used: its home. A connection that comes up carries no request of a key
//     before its worker attends, which shows the process and the address to all workers. The first process is home. After that:
//     - One with home's incarnation is home, at any address.
//     - Another one at home's address is home, too: it has restarted there, as one of a static list. This needs that all
//       connections to home are at that address, that the list has it, and that the process was not home before. NodeHome knows
//       the last former_max of those.
//     - Any other one becomes home once no connection to home is up, and first deletes all items. It may have had the keys once,
//       and others had them since. While there are connections to both, the node is not in use.
//     When home is another process, requests wait until every worker has attended. The later one of two connections to an address
//     shows the process there. A worker with the other one ends it, and its requests fail. So a former process that answers late,
//     at the address of one that has restarted, costs the node its items.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/function_ref.h"
#include "base/limits.h"
#include "base/shared_epoch.h"
#include "daemon/remote/node_home.h"
#include "daemon/stats/fence_shown.h"
#include "protocol/owned_keys.h"

namespace farcached::daemon {

class KeySet {
  public:
    static constexpr size_t bytes_max = size_t(2) << 20;
    static constexpr size_t key_overhead = 96;  // bytes that a key takes beside its own

    void add(std::string_view key) noexcept;
    void become_all() noexcept;
    void merge(KeySet& other) noexcept;  // empties the other
    void clear() noexcept;
    bool empty() const { return !all_ && keys_.empty(); }
    bool all() const { return all_; }
    size_t size() const { return keys_.size(); }
    // At most so many keys. Throws std::bad_alloc: has changed nothing.
    std::vector<std::string> take(size_t most);

  private:
    std::unordered_set<std::string> keys_;
    size_t bytes_ = 0;
    bool all_ = false;  // keys_ is empty
};

// Known guests of a node's keys: hashes of keys, and where the guest is. A new one may displace an old one.
class GuestMarks {
  public:
    static constexpr size_t bytes = size_t(2) << 20;

    // where: not 0. Without memory it is not known.
    void add(uint64_t hash, uint64_t where) noexcept;
    bool has(uint64_t hash, uint64_t where) const;
    void clear() noexcept { sets_.reset(); }

  private:
    struct Mark {
        uint64_t hash = 0, where = 0;
    };
    using Set = std::array<Mark, 8>;  // the newest first
    static constexpr size_t sets = bytes / sizeof(Set);

    std::unique_ptr<Set[]> sets_;  // nullptr: none
};

// MovedKeys makes it: what a node may keep when the list of nodes changes.
struct Kept {
    std::string text;  // of protocol::KeptKeys; empty: they are not known
    bool nothing = false;
    SharedEpoch epoch = nullptr;  // of the new list
    bool first = false;           // there is no former one
    size_t older_bytes = 0;       // of the text, for a node before version_with_first_list
};

// One change of the list in place of two. nullptr: there are not two, or one cannot describe both.
struct JoinedChanges {
    std::shared_ptr<const Kept> unanswered = nullptr, both = nullptr;
};

// For a node that keeps these keys, by the list of that epoch. With `unmoved` the second list may be left out, to make the text
// shorter. nullptr: they take too long to describe. Throws std::bad_alloc.
std::shared_ptr<const Kept> describe(const protocol::KeptKeys& keys, const SharedEpoch& epoch);

// Items to delete at a node: of these keys, or all (flush).
struct Kill {
    static constexpr size_t keys_max = 512;

    enum class What : uint8_t { none, moved, stale, guests } what = What::none;
    std::shared_ptr<const Kept> kept;  // moved: all but these
    bool flush = false;
    bool refused = false;  // by the node
    std::vector<std::string> keys;
};

// How long requests wait for a node that has not acknowledged the first list (F8).
class FirstWait {
  public:
    static constexpr uint64_t first_wait_ns = 100'000'000, refused_wait_ns = 500'000'000;

    void begin(uint64_t now_ns) {
        if (until_ns_ == 0) until_ns_ = now_ns + first_wait_ns;
    }
    // Without a connection requests wait until then. 0: not begun.
    uint64_t until_ns() const { return until_ns_; }
    // The node has refused the list. False: requests wait for it.
    bool refuse(uint64_t now_ns) {
        if (refused_until_ns_ == 0) refused_until_ns_ = now_ns + refused_wait_ns;
        return is_refused_ = now_ns >= refused_until_ns_;
    }
    // Nothing waits for the node any more.
    bool is_refused() const { return is_refused_; }
    // The node has another incarnation. It may not know its new record yet.
    void forget_refusal() {
        refused_until_ns_ = 0;
        is_refused_ = false;
    }

  private:
    uint64_t until_ns_ = 0, refused_until_ns_ = 0;  // 0: not begun
    bool is_refused_ = false;
};

class Fence {
  public:
    Fence() : run(new_run()) {}
    Fence(const Fence&) = delete;
    Fence& operator=(const Fence&) = delete;

  private:
    friend class Fences;
    static uint64_t new_run();
    enum class Link : uint8_t { none, up, down };

    // Do requests for some keys wait for the node?
    bool waits() const { return shown.state == FenceState::joining || shown.state == FenceState::moving; }
    bool is_used() const { return shown.state == FenceState::in_use || waits(); }
    bool deletes() const { return kept != nullptr || (shown.state == FenceState::moving && !stale.empty()); }
    bool has_link() const { return std::ranges::find(links, Link::up) != links.end(); }
    bool has_first() const { return kept != nullptr && kept->first; }

    std::atomic<uint32_t> guests_under_way{0};  // diverted mutations without an answer
    // The rest under Fences::lock_.
    FenceShown shown;
    uint64_t state_since = 0;     // generation
    uint64_t run;                 // a number of this time in use, or out of use; no other fence has it
    GuestMarks known;             // guests of its keys, by their gutter's `run` (F6)
    KeySet stale, guests;
    std::shared_ptr<const Kept> kept;         // F7: not deleted yet are all items but these; nullptr: nothing
    FirstWait first;                          // F8
    bool was_out = false;                     // since it was in use
    uint64_t guests_until_ns = 0; // all have expired then; UINT64_MAX: never
    bool tainted = false;         // guests may be stale (F3)
    uint64_t tainted_since = 0;   // generation
    NodeHome home;                // F9
    uint64_t renewal = 0;         // how often all connections were renewed, because their addresses changed
    bool killing = false;
    size_t first_kills = SIZE_MAX;  // while out: stale keys still to delete before it joins; SIZE_MAX: not begun
    uint64_t retry_at_ns = 0;
    std::array<Link, limits::workers_max> links{};
    NodeHome::Workers busy;  // with requests under way there
};

class Fences {
  public:
    // A node, as one worker sees it, and what it is to do.
    struct Seen {
        Fence* fence = nullptr;
        bool owns_link = false, up = false;  // neither up nor down: it connects for the first time
        bool down = false;
        bool busy = false;                   // requests under way
        bool drained = false;
        uint64_t incarnation = 0;            // while up
        uint64_t renewal = 0;                // of the worker's set; if it is not the newest, the link is to be replaced
        // Set by attend():
        FenceState state = FenceState::in_use;
        bool takes_guests = true;
        bool deletes = false;                // items of keys that moved away may still be there (F7), and requests wait for that
        bool lost = false;                   // a worker has no connection
        bool rejoined = false;               // in use again, by this call
        bool former = false;                 // the link is to be replaced, and the node is used
        bool elsewhere = false;              // the connection is to another process than home (F9)
        bool ends = false;                   // the connection is to be ended: its address leads to another process by now (F9)
        bool two = false;                    // there are connections to two processes (F9)
        bool back = false;                   // a process that was home before is home again, by this call (F9)
        Kill kill = {};                      // to be done by this worker; killed() ends it
    };
    struct Attended {
        uint64_t generation = 0;
        bool changed = false;    // other workers are to attend
        bool unsettled = false;  // attend again at the end of each tick
        uint64_t again_at_ns = UINT64_MAX;
    };

    // An item of a diverted key at its gutter (F6).
    struct Guest {
        uint64_t hash = 0;                 // of the key
        uint64_t own_run = 0, gutter_run = 0;
        bool known = false;
    };

    // Changes whenever workers are to attend.
    uint64_t generation() const { return generation_.load(std::memory_order_acquire); }
    void change() noexcept;

    // At the end of a tick. The worker follows the states before its next request. Its first call makes others wait for it,
    // until leave().
    Attended attend(uint32_t worker, std::span<Seen> nodes, bool failover, uint64_t now_ns) noexcept;
    void leave(uint32_t worker) noexcept;
    // Before a mutation of the key is sent to the gutter. Its guest expires by then; UINT64_MAX: never. Then answered(), once.
    void divert(Fence& own, Fence& gutter, std::string_view key, uint64_t until_ns, bool capped) noexcept;
    Guest guest(const Fence& own, const Fence& gutter, std::string_view key) const;
    // It is known from now on, unless one of the nodes has changed its state since.
    void know(Fence& own, const Guest& guest) noexcept;
    bool knows(const Fence& own, const Guest& guest) const;
    // Makes one change of `kept` and the one that the node has not acknowledged (F7). In the thread that calls list().
    JoinedChanges join_unanswered(const Fence& fence, const std::shared_ptr<const Kept>& kept) const noexcept;
    // Of a node that is in a new set of nodes (F6). joins: as in F7; it was not in the set before, or has kept.
    // joined: of join_unanswered(). A node that has acknowledged the earlier change since then receives `kept` alone.
    void list(Fence& fence, bool joins, std::shared_ptr<const Kept> kept, const JoinedChanges& joined = {}) noexcept;
    // The node has another incarnation.
    void restarted(Fence& fence) noexcept;
    // F9. The worker has a new connection, to this address. The process counts when it attends.
    void met(Fence& fence, uint32_t worker, uint64_t at) noexcept;
    // The node's list of addresses is another one.
    void readdress(Fence& fence, FunctionRef<bool(uint64_t)> has) noexcept;
    // Those connections that workers have are replaced when they take the next set.
    void renew(Fence& fence) noexcept;
    uint64_t renewal(const Fence& fence) const;
    NodeHome::Address home_address(const Fence& fence) const;
    // Of a node of the first set, before any worker uses it (F8).
    void send_first(Fence& fence, std::shared_ptr<const Kept> kept) noexcept;
    // Because of that, are items to be deleted there, or do other workers have the set before?
    bool moves(const Fence& fence) const;
    static void answered(Fence& gutter) noexcept { gutter.guests_under_way.fetch_sub(1, std::memory_order_acq_rel); }
    // done: the node has acknowledged everything. Else it is repeated.
    void killed(Fence& fence, Kill&& kill, bool done, uint64_t now_ns) noexcept;
    FenceShown shown(const Fence& fence) const;

  private:
    bool all_took(uint64_t generation) const;
    void note_link(uint32_t worker, Seen& seen);
    void note_process(uint32_t worker, Seen& seen) noexcept;
    void delete_all(Fence& fence) noexcept;
    // F8: may mutations go on before the node has the list?
    bool is_sent_later(const Fence& fence, uint64_t now_ns) const;
    bool wants_out(const Fence& fence, bool drained) const;
    bool may_kill(const Fence& fence, const Seen& seen, uint64_t now_ns) const;
    bool enter(Fence& fence, FenceState next);
    bool advance(std::span<Seen> nodes, Seen& seen, bool failover, uint64_t now_ns);
    bool advance_out(Fence& fence, const Seen& seen, uint64_t now_ns);
    bool put_out(Fence& fence);
    bool rejoin(std::span<Seen> nodes, Seen& seen);
    bool clean(Fence& fence, uint64_t now_ns);
    void begin_kill(Seen& seen, uint64_t now_ns) noexcept;
    uint64_t again_at_ns(const Seen& seen, uint64_t now_ns) const;

    std::atomic<uint64_t> generation_{1};
    std::atomic<uint64_t> seed_{0};  // of hashes of keys; 0: the set of nodes was never replaced (F6)
    mutable std::mutex lock_;
    NodeHome::Workers workers_;                          // that take part
    std::array<uint64_t, limits::workers_max> taken_{};  // by worker that takes part: the generation it follows
};

}  // namespace farcached::daemon
