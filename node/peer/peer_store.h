// SPDX-License-Identifier: BSD-3-Clause
// PeerStore: values of evicted items in the memory of another farnode (--spill-to). This is the node's side: what is on its way
// there, and who waits for a value. A link (daemon/farnode/spill_link.h) takes the work and reports what became of it.
//
//   put() -> queue -> take() by the link -> stored() or refused()
//   PeerReads::get() -> queue -> take() by the link -> found() -> PeerReads::take()
//
// Owner: the program. The node, its PeerReads and the link borrow it. Threads: any; one lock, a leaf.
//
// V1  put() and forget() never wait. While the peer is not connected, or too many bytes are on their way, put() drops the
//     value.
// V2  A value has a number that never returns, and no other process knows: a random tag of this run precedes it in its key at the
//     peer. So what is read there under a number is that value, or nothing.
// V3  Until the link reports on it, a value is read from the queue.
// V4  alive() is false for all values of before a loss of the peer's memory (came_up() with another incarnation), and of other
//     runs.
// V5  Each read is reported once, if its PeerReads still exists.
// V6  A Wait is reported once: after the peer has deleted the record, so that no READ of it is a hit any more, or at its time.
#pragma once

#include <sys/eventfd.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/function_ref.h"
#include "fabric/remote_ptr.h"
#include "node/disk/place.h"
#include "node/peer/peer_statistics.h"
#include "protocol/spilled.h"

namespace farcached::node {

// A value on its way to the peer, with what its item's readers need. Constant once made.
struct PeerRecord {
    uint64_t number;
    protocol::SpilledKey key;
    std::unique_ptr<char[]> bytes;  // the user's key, then the value
    uint32_t length;                // of these
    uint32_t flags;
    uint64_t cas;
    bool key_binary;
    std::string_view view() const { return {bytes.get(), length}; }
};

// The value of an item that leaves memory. Borrowed for the call.
struct LeavingValue {
    std::string_view key, value;
    uint32_t flags = 0;
    uint64_t cas = 0;
    bool key_binary = false;
    bool foreign = false;  // of another node (protocol/spilled.h)
};

// The complete reads of a PeerReads. It outlives that: the link may still report to it.
struct PeerInbox {
    struct Done {
        uint64_t cookie;                // of PeerReads
        bool is_wait;                   // else a read
        std::unique_ptr<char[]> bytes;  // nullptr: the peer has it not
        size_t length = 0;
        fabric::LeasedPtr leased{};     // to the record; valid_until_ns 0: no lease
    };
    std::mutex lock;
    int fd = -1;             // -1: no thread reads any more
    std::vector<Done> done;  // has room for all that is under way

    // Without memory for the bytes they count as lost.
    void add(uint64_t cookie, std::optional<std::string_view> bytes, const fabric::LeasedPtr& leased = {});
    void add(Done one);
};

class PeerReads;

class PeerStore {
  public:
    static constexpr uint64_t queue_bytes_max = UINT64_C(16) << 20;
    static constexpr uint64_t pause_after_refusal_ns = 100'000'000;

    // Throws std::system_error.
    PeerStore();
    ~PeerStore();
    PeerStore(const PeerStore&) = delete;
    PeerStore& operator=(const PeerStore&) = delete;

    // ---- for the node
    // Of key and value together; 0 while the peer is not connected.
    uint64_t record_bytes_max() const { return record_bytes_max_.load(std::memory_order_relaxed); }
    std::optional<Place> put(const LeavingValue& leaving);
    bool alive(const Place& place) const {
        return is_at_peer(place) && place.offset == tag_ && number_of(place) >= first_alive_.load(std::memory_order_acquire);
    }
    // The value is not needed any more; once for each place.
    void forget(const Place& place);
    PeerStatistics statistics() const;

    // ---- for the link, in its thread
    struct Read {
        protocol::SpilledKey key;
        std::shared_ptr<PeerInbox> asker;
        uint64_t cookie;  // of PeerReads
    };
    // V6
    struct Wait {
        protocol::SpilledKey key;
        Place place;  // not alive: the wait is for the time alone
        uint64_t until_ns;
        std::shared_ptr<PeerInbox> asker;
        uint64_t cookie;  // of PeerReads
    };
    struct Work {
        std::deque<std::shared_ptr<const PeerRecord>> puts;
        std::deque<protocol::SpilledKey> forgets;
        std::deque<Read> reads;
        std::deque<Wait> waits;
    };
    int fd() const { return event_; }  // readable: there is work
    // Adds all work to `to`.
    void take(Work& to);
    void came_up(uint64_t incarnation, uint64_t item_bytes_max);
    void went_down();
    // What became of a record: the peer has it, or has it not.
    void stored(const PeerRecord& record);
    void refused(const PeerRecord& record);
    // False: the peer that it was meant for is gone (V4).
    bool alive(const PeerRecord& record) const { return record.number >= first_alive_.load(std::memory_order_acquire); }
    void found(const Read& read, std::string_view bytes, const fabric::LeasedPtr& leased);
    void lost(const Read& read);
    static void ended(const Wait& wait) { wait.asker->add({wait.cookie, /* is_wait= */ true, nullptr}); }

  private:
    friend class PeerReads;

    static uint64_t number_of(const Place& place) { return place.segment & ~at_peer; }
    protocol::SpilledKey key_of(uint64_t number) const { return protocol::spilled_key(home_, number); }
    static std::shared_ptr<PeerRecord> record_of(const LeavingValue& leaving);
    uint64_t* reason_against(uint64_t length);
    bool queue(const std::shared_ptr<PeerRecord>& record);
    void forget(const protocol::SpilledKey& key);
    void over(const PeerRecord& record);
    void wake();
    void read(const Place& place, const std::shared_ptr<PeerInbox>& asker, uint64_t cookie);
    void await_end(const Place& place, uint64_t until_ns, const std::shared_ptr<PeerInbox>& asker, uint64_t cookie);

    const uint64_t home_;  // random
    const uint32_t tag_;   // random
    const int event_;
    std::atomic<uint64_t> first_alive_{1};
    std::atomic<uint64_t> record_bytes_max_{0};

    mutable std::mutex lock_;
    uint64_t last_ = 0;             // number
    uint64_t incarnation_ = 0;      // of the peer's memory; 0: never seen
    uint64_t paused_until_ns_ = 0;
    bool woken_ = false;
    Work work_;
    struct OnItsWay {
        std::shared_ptr<const PeerRecord> record;
        bool forgotten = false;
    };
    std::unordered_map<uint64_t, OnItsWay> on_their_way_;
    PeerStatistics numbers_;
};

// PeerReads: one thread's reads of a PeerStore.
//
// Owner: the thread, the only one that calls it. The store outlives it.
class PeerReads {
  public:
    static constexpr uint32_t under_way_max = 4096;

    // fd: an eventfd, borrowed, which is written to when a read is complete.
    PeerReads(PeerStore& store, int fd);
    ~PeerReads();
    PeerReads(const PeerReads&) = delete;
    PeerReads& operator=(const PeerReads&) = delete;

    bool has_room() const { return under_way_ < under_way_max; }
    // cookie: as in DiskReads::get(). Throws std::bad_alloc without effect.
    void get(const Place& place, uint64_t cookie);
    // V6. A place of zeros: only the time counts. Throws std::bad_alloc without effect.
    void await_end(const Place& place, uint64_t until_ns, uint64_t cookie);
    // Reports the complete reads and waits. bytes: the user's key and the value; nullopt: the peer has it not, or a wait is over.
    // leased: to the record, which the peer keeps there until that ends; nullptr: no lease.
    using Report = FunctionRef<void(uint64_t cookie, std::optional<std::string_view> bytes, const fabric::LeasedPtr* leased)>;
    void take(Report done);
    uint32_t under_way() const { return under_way_; }

  private:
    void make_room();

    PeerStore& store_;
    const std::shared_ptr<PeerInbox> inbox_;
    std::vector<PeerInbox::Done> complete_;
    uint32_t under_way_ = 0, waits_ = 0;  // reads, and waits
};

}  // namespace farcached::node
