// SPDX-License-Identifier: BSD-3-Clause
// KeyChanges: the mutations of a partition's keys, as values that come from elsewhere need them: copies of items, refilled items,
// and items of a key's former node. It decides whether such a value may be stored.
//
// Owner: a Partition. Threads: any; every call needs the partition's lock.
//
// K1  A mutation, a flush and a change of the list of nodes are noted in Marks, Holds and TouchedKeys together, before the lock is
//     released.
// K2  While the node is closed for copies (SharedKeys::close_copies()), no value from elsewhere is stored.
// K3  Without memory for TouchedKeys every key is touched: the node brings no items from others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>

#include "base/node_clock.h"
#include "node/keys/holds.h"
#include "node/keys/marks.h"
#include "node/keys/touched_keys.h"
#include "protocol/op.h"

namespace farcached::node {

class KeyChanges {
  public:
    // A mutation of the key is executed.
    void note(uint64_t hash) {
        marks_.note(hash);
        holds_.spoil(hash);
        touched_.note(hash);
    }
    // A flush, or a delete by prefix.
    void note_all() {
        marks_.note_all();
        holds_.spoil_all();
        touched_.note_all();
    }
    // Keys have moved to other nodes. keep_until: as TouchedKeys::moved().
    void note_moved(NodeSeconds keep_until) {
        marks_.note_all();
        holds_.spoil_all();
        touched_.moved(keep_until);
    }
    // K2. until: as Holds::close().
    void close(NodeSeconds until) {
        marks_.note_all();
        holds_.close(until);
    }

    // As Holds::begin().
    uint64_t begin_hold(uint64_t hash, uint32_t seconds, NodeSeconds now) {
        const uint64_t hold = holds_.begin(hash, seconds, now);
        marks_.note(hash);
        return hold;
    }
    // Without a copy.
    void end_hold(uint64_t hash, uint64_t hold, NodeSeconds now) { holds_.end(hash, hold, now); }
    uint64_t mark(uint64_t hash) const { return marks_.of(hash); }
    // The mark that a store compares, which has this mark or ends this hold. mark_bit: the store has no effect.
    uint64_t compared_mark(uint64_t hash, uint64_t word, NodeSeconds now) {
        if (protocol::is_hold(word)) word = holds_.end(hash, word, now) ? marks_.of(hash) : protocol::mark_bit;
        return holds_.is_closed(now) ? protocol::mark_bit : word;
    }
    // May the key's item come from another node? moved_since: as StoreOp::moved_since.
    bool takes_item(uint64_t hash, std::optional<uint64_t> moved_since, NodeSeconds now) const {
        return !holds_.is_closed(now) && (!moved_since.has_value() || touched_.is_untouched(hash, *moved_since));
    }

    // As in TouchedKeys; K3.
    void begin_spans(size_t bits, NodeSeconds now) {
        marks_.note_all();
        unless_no_memory([&] { touched_.begin(bits, now); });
    }
    void joined(size_t bits, uint64_t revision, NodeSeconds now, NodeSeconds keep_until) {
        unless_no_memory([&] { touched_.joined(bits, revision, now, keep_until); });
    }
    void looked(uint64_t revision, NodeSeconds now) {
        unless_no_memory([&] { touched_.looked(revision, now); });
    }

  private:
    template <class Act>
    void unless_no_memory(Act&& act) {
        try {
            act();
        } catch (const std::bad_alloc&) {
            touched_.end();
        }
    }

    Marks marks_;
    Holds holds_;
    TouchedKeys touched_;
};

}  // namespace farcached::node
