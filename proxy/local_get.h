// SPDX-License-Identifier: BSD-3-Clause
// LocalGet: a worker's way to answer GETs from a region that is mapped in this process: no lock, no hand-off,
// no system call. Also counts, by reason, what it could not answer, and collects the accesses that the node
// cannot see.
//
// Owner: one worker thread; not shared.
// I1  A read proves a hit, never a miss: everything but Outcome::hit goes to the locked path (S5).
// I2  Accesses are handed over (take_accesses) before the replies of the tick are sent, so that a client that
//     has its answer finds it recorded.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/check.h"
#include "base/counters.h"
#include "base/node_clock.h"
#include "fabric/local_read.h"

namespace farcached::proxy {

//        name                   help
#define LOCAL_GET_COUNTERS(X)                                                                     \
    X(local_hits, "GETs answered by a lock-free read of the local region")                        \
    X(local_not_found, "lock-free probes that found nothing and asked under the lock")            \
    X(local_guard_dead, "lock-free reads that met an item already replaced or deleted")           \
    X(local_moved, "lock-free reads whose slot, guard, page or flush epoch changed under them")   \
    X(local_expired, "lock-free reads that met a passed expiry time")                             \
    X(local_flushed, "lock-free reads that met an item older than the last flush or a sweep under way") \
    X(local_tokens, "mg reads that met a stale or win state")                                     \
    X(local_bounds, "lock-free reads refused because a length or offset was out of bounds")

struct LocalGetCounters {
#define X(name, help) Cell name;
    LOCAL_GET_COUNTERS(X)
#undef X
};

// An access for node::Node::record(): same layout as node::Access, without knowing node/.
struct SeenAccess {
    uint64_t slot_word;
    uint64_t guard_word;
    uint64_t hash;
    uint32_t times;
};

class LocalGet {
  public:
    // How far ahead a multi-get prefetches, in keys. bench/prefetch_window, two million items of 100 bytes,
    // multi-gets of 64 keys, Xeon at 2.5 GHz; ns per key:
    //     window   1     2     4     8     16    32
    //     ns     612   392   331   313    312   314
    static constexpr uint32_t prefetch_window = 8;
    static constexpr uint32_t accesses_max = 256;

    explicit LocalGet(const fabric::RegionView& view) : view_(view) {}
    // From now on another region, as long-lived as its reads.
    void aim(const fabric::RegionView& view) { view_ = view; }

    uint64_t hash(std::string_view key) const { return hash_key(key, view_.hash_seed); }
    void prefetch_bucket(uint64_t hash) const { fabric::prefetch_bucket(view_, hash); }
    void prefetch_item(uint64_t hash) const { fabric::prefetch_item(view_, hash); }

    // Reads the item. `sink(const fabric::ReadMeta&) -> char*` is called when the header has been read and
    // the key matched; it returns where the value goes (meta.value_len bytes) or nullptr for no value.
    // Anything but Outcome::hit means: take back what sink wrote, use the locked path.
    // tokens_matter: mg, for which a stale or win state must go to the locked path.
    // The caller must call take_accesses() before accesses_full().
    template <class Sink>
    fabric::Outcome read(std::string_view key, uint64_t hash, NodeSeconds now, bool tokens_matter,
                         bool count_access, Sink&& sink);

    // The same, without remembering the access: `found` is what was read.
    template <class Sink>
    fabric::Outcome read(std::string_view key, uint64_t hash, NodeSeconds now, bool tokens_matter,
                         Sink&& sink, fabric::Found& found) {
        const fabric::Outcome outcome =
            fabric::local_read(view_, key, hash, now, tokens_matter, sink, found, fabric::no_steps);
        count(outcome);
        return outcome;
    }

    bool accesses_full() const { return access_count_ == accesses_max; }
    std::span<SeenAccess> take_accesses() {
        std::span<SeenAccess> taken(accesses_, access_count_);
        access_count_ = 0;
        return taken;
    }
    const LocalGetCounters& counters() const { return counters_; }

  private:
    void count(fabric::Outcome outcome);

    fabric::RegionView view_;
    LocalGetCounters counters_;
    uint32_t access_count_ = 0;
    SeenAccess accesses_[accesses_max];
};

template <class Sink>
fabric::Outcome LocalGet::read(std::string_view key, uint64_t hash, NodeSeconds now,
                               bool tokens_matter, bool count_access, Sink&& sink) {
    CHECK(access_count_ < accesses_max);
    fabric::Found found;
    const fabric::Outcome outcome = read(key, hash, now, tokens_matter, sink, found);
    if (outcome == fabric::Outcome::hit)
        if (count_access)
            accesses_[access_count_++] = {found.slot.word, found.guard.word, hash, 1};
    return outcome;
}

}  // namespace farcached::proxy
