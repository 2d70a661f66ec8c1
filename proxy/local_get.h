// SPDX-License-Identifier: BSD-3-Clause
// LocalGet: answers a worker's GETs from a region mapped into this process, without locks, hand-offs or system calls.
// It counts, by reason, the GETs that it could not answer, and collects the accesses that the node cannot see.
//
// Owner: one worker thread; not shared.
// I1  A read proves a hit, never a miss: everything but Outcome::hit uses the locked path (S5).
// I2  Accesses are handed over (take_accesses) before the replies of the tick are sent, so that a client with its
//     answer finds the access recorded.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/check.h"
#include "base/node_clock.h"
#include "base/stat_row.h"
#include "fabric/access.h"
#include "fabric/local_read.h"
#include "protocol/op.h"

namespace farcached::proxy {

//        name                   help
#define LOCAL_GET_COUNTERS(X)                                                                   \
    X(local_hits, "GETs answered by a lock-free read of the local region")                      \
    X(local_not_found, "lock-free lookups that missed and were repeated under the lock")        \
    X(local_guard_dead, "lock-free reads of an item already replaced or deleted")               \
    X(local_moved, "lock-free reads whose slot, guard, page or flush epoch changed under them") \
    X(local_expired, "lock-free reads of an expired item")                                      \
    X(local_flushed, "lock-free reads of an item older than the last flush or a running sweep") \
    X(local_tokens, "mg reads of an item with a stale or win state")                            \
    X(local_bounds, "lock-free reads refused because a length or offset was out of bounds")

template <class Cell>
struct LocalGetCells {
#define X(name, help) Cell name{};
    LOCAL_GET_COUNTERS(X)
#undef X
    static std::span<const StatRow<Cell LocalGetCells::*>> rows() {
#define X(name, help) {#name, help, &LocalGetCells::name},
        static constexpr StatRow<Cell LocalGetCells::*> table[] = {LOCAL_GET_COUNTERS(X)};
#undef X
        return table;
    }
};
using LocalGetCounters = LocalGetCells<Counter>;

// What a lock-free read shows of an item; the node alone knows the rest.
inline protocol::ItemMeta item_meta(const fabric::ReadMeta& read) {
    protocol::ItemMeta meta;
    meta.cas = read.cas;
    meta.value_len = read.value_len;
    meta.flags = read.flags;
    meta.size_class = read.size_class;
    meta.key_binary = read.key_binary;
    return meta;
}

class LocalGet {
  public:
    // How far ahead a multi-get prefetches, in keys: 8 halves the time per key, and more gains nothing
    // (bench/prefetch_window).
    static constexpr uint32_t prefetch_window = 8;
    static constexpr uint32_t accesses_max = 256;

    explicit LocalGet(const fabric::RegionView& view) : view_(view) {}
    // Switches to another region, which outlives its reads.
    void aim(const fabric::RegionView& view) { view_ = view; }

    uint64_t hash(std::string_view key) const { return hash_key(key, view_.hash_seed); }
    void prefetch_bucket(uint64_t hash) const { fabric::prefetch_bucket(view_, hash); }
    void prefetch_item(uint64_t hash) const { fabric::prefetch_item(view_, hash); }

    // Reads the item. `sink(const fabric::ReadMeta&) -> char*` is called once the header is read and the key matches.
    // It returns the destination of the value (meta.value_len bytes), or nullptr for no value. On any outcome but
    // Outcome::hit, undo the sink's writes and use the locked path. tokens_matter: for mg, since a stale or win state
    // needs the locked path. `found` describes the item.
    template <class Sink>
    fabric::Outcome read(std::string_view key, uint64_t hash, NodeSeconds now, bool tokens_matter,
                         Sink&& sink, fabric::Found& found) {
        const fabric::Outcome outcome =
            fabric::local_read(view_, key, hash, now, tokens_matter, sink, found, fabric::no_steps);
        count(outcome);
        return outcome;
    }
    // Collects the access of a hit, for the node in this process. The caller calls take_accesses() when accesses_full().
    void note_access(const fabric::Found& found, uint64_t hash) {
        CHECK(access_count_ < accesses_max);
        fabric::Access& access = accesses_[access_count_++];  // whose generation_tag stays 0
        access.slot_word = found.slot.word;
        access.guard_word = found.guard.word;
        access.hash = hash;
        access.times = 1;
    }

    bool accesses_full() const { return access_count_ == accesses_max; }
    std::span<const fabric::Access> take_accesses() {
        std::span<const fabric::Access> taken(accesses_, access_count_);
        access_count_ = 0;
        return taken;
    }
    const LocalGetCounters& counters() const { return counters_; }

  private:
    void count(fabric::Outcome outcome);

    fabric::RegionView view_;
    LocalGetCounters counters_;
    uint32_t access_count_ = 0;
    fabric::Access accesses_[accesses_max];
};

}  // namespace farcached::proxy
