// SPDX-License-Identifier: BSD-3-Clause
// Holds: the keys of a partition whose copies are about to change. The primary node of a key orders its mutations; this node has a
// copy of the item. A proxy that sends a mutation to the primary first takes a hold of the key here, which removes the copy.
// With the changed item, or without one, it ends the hold.
//
// Owner: the Partition. Threads: any; every call needs the partition's lock.
//
// H1  From the begin of a hold to its end there is no copy here. So no copy is older than a mutation that the primary has
//     executed, even if the proxy dies in between.
// H2  Only a hold that was alone for all of its time ends with a copy: of two at a time this node does not know the
//     primary's order. A mutation of the key here, or a flush, has the same effect.
// H3  A hold that its proxy does not end has ended after its seconds. They are more than the proxy and the primary may take to
//     execute the mutation (daemon/steps/replicas.h). A later end has no effect.
// H4  The table has keys_max keys. A hold that finds no room is not noted. Until it would have ended no hold ends with a copy.
// H5  While the node is closed for copies (SharedKeys::close_copies()), no hold ends with a copy, and none that begins.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/broken.h"
#include "base/node_clock.h"
#include "base/random_word.h"
#include "protocol/op.h"

namespace farcached::node {

class Holds {
  public:
    static constexpr size_t keys_max = 16384;

    // A word that names the hold.
    uint64_t begin(uint64_t hash, uint32_t seconds, NodeSeconds now) noexcept {
        const NodeSeconds ends = now + seconds + 1;
        const uint64_t number = ++last_;
        try {
            if (keys_.size() >= keys_max) drop_ended(now);
            if (keys_.size() < keys_max || keys_.contains(hash)) {
                Key& key = keys_[hash];
                drop_ended(key, now);
                key.spoiled = key.spoiled || !key.open.empty() || is_closed(now) || lacks_notes(now);
                key.open.push_back({number, ends});
            } else {
                spoiled_until_ = std::max(spoiled_until_, ends);
            }
        } catch (const std::bad_alloc&) {
            spoiled_until_ = std::max(spoiled_until_, ends);
        }
        return number | protocol::mark_bit | protocol::hold_bit;
    }
    // True: nothing else has changed the key since its begin. A hold ends once.
    bool end(uint64_t hash, uint64_t word, NodeSeconds now) noexcept {
        const uint64_t number = word & ~(protocol::mark_bit | protocol::hold_bit);
        const auto at = keys_.find(hash);
        if (at == keys_.end()) return broken::s20_end_any;
        Key& key = at->second;
        const auto hold = std::ranges::find(key.open, number, &Hold::number);
        if (hold == key.open.end()) return broken::s20_end_any;
        const bool clean = !key.spoiled && !has_expired(hold->ends, now) && !is_closed(now) && !lacks_notes(now);
        key.open.erase(hold);
        if (key.open.empty()) keys_.erase(at);
        return clean || broken::s20_end_any;
    }
    void spoil(uint64_t hash) noexcept {
        if (keys_.empty()) [[likely]] return;
        const auto at = keys_.find(hash);
        if (at != keys_.end()) at->second.spoiled = true;
    }
    // Of every key.
    void spoil_all() noexcept {
        for (auto& [hash, key] : keys_) key.spoiled = true;
    }
    // until: no hold ends with a copy before; 0: the node is open.
    void close(NodeSeconds until) noexcept {
        closed_until_ = until;
        spoil_all();
    }
    bool is_closed(NodeSeconds now) const { return closed_until_ != 0 && now < closed_until_; }
    size_t keys() const { return keys_.size(); }

  private:
    struct Hold {
        uint64_t number;
        NodeSeconds ends;
    };
    struct Key {
        std::vector<Hold> open;  // holds that have not ended
        bool spoiled = false;    // none of them ends with a copy
    };

    bool lacks_notes(NodeSeconds now) const { return spoiled_until_ != 0 && now < spoiled_until_; }  // H4
    static void drop_ended(Key& key, NodeSeconds now) {
        std::erase_if(key.open, [now](const Hold& hold) { return has_expired(hold.ends, now); });
        if (key.open.empty()) key.spoiled = false;
    }
    // Once a second at most.
    void drop_ended(NodeSeconds now) {
        if (std::exchange(dropped_at_, now) == now) return;
        for (auto at = keys_.begin(); at != keys_.end();) {
            drop_ended(at->second, now);
            at = at->second.open.empty() ? keys_.erase(at) : std::next(at);
        }
    }

    std::unordered_map<uint64_t, Key> keys_;  // by the hash of the key, which two keys may share
    // A hold has no meaning for another node or another run.
    uint64_t last_ = random_word() >> 3;
    NodeSeconds closed_until_ = 0, spoiled_until_ = 0, dropped_at_ = 0;
};

}  // namespace farcached::node
