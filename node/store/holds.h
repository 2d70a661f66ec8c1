// SPDX-License-Identifier: BSD-3-Clause
// Holds: the keys of a partition whose copies are about to change. The primary node of a key orders its mutations; this node has a
// copy of the item. A proxy that sends a mutation to the primary first takes a hold of the key here, which removes the copy. With the
// changed item, or without one, it ends the hold.
//
// Owner: the Partition. Threads: any; every call needs the partition's lock.
//
// H1  From the begin of a hold to its end there is no copy here. So a copy is never older than a mutation that the primary has
//     executed, whatever happens to the proxy in between.
// H2  Only a hold that was alone for all of its time ends with a copy: of two at a time nobody here knows the primary's order.
//     Nor does one end so if the key was mutated here, or all keys were flushed, meanwhile.
// H3  A hold that its proxy does not end has ended after its seconds. They are more than the primary may take to execute the
//     mutation. A later end has no effect.
// H4  At most keys_max keys are held. Beyond that no hold begins, and the mutation is not sent.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <unordered_map>

#include "base/broken.h"
#include "base/node_clock.h"
#include "base/random_word.h"
#include "protocol/op.h"

namespace farcached::node {

class Holds {
  public:
    static constexpr size_t keys_max = 4096;

    // A word that names the hold. nullopt: too many keys, or no memory.
    std::optional<uint64_t> begin(uint64_t hash, uint32_t seconds, NodeSeconds now) noexcept {
        if (keys_.size() >= keys_max) drop_ended(now);
        Key* const key = find_or_add(hash);
        if (key == nullptr) return {};
        const uint64_t number = ++last_;
        if (key->count == 0 || has_expired(key->ends, now)) *key = {.first = number};
        key->spoiled = key->spoiled || key->count != 0;
        key->count++;
        key->ends = std::max(key->ends, now + seconds + 1);
        return number | protocol::mark_bit | protocol::hold_bit;
    }
    // True: nothing else has changed the key since its begin. A hold ends once.
    bool end(uint64_t hash, uint64_t word, NodeSeconds now) noexcept {
        const uint64_t number = word & ~(protocol::mark_bit | protocol::hold_bit);
        const auto at = keys_.find(hash);
        if (at == keys_.end() || number < at->second.first || number > last_) return false;
        Key& key = at->second;
        const bool clean = !key.spoiled && !has_expired(key.ends, now);
        if (--key.count == 0) keys_.erase(at);
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
    size_t keys() const { return keys_.size(); }

  private:
    struct Key {
        uint64_t first = 0;     // number of the first hold since it was not held
        uint32_t count = 0;     // holds that have not ended
        bool spoiled = false;   // no hold ends with a copy
        NodeSeconds ends = 0;   // all have ended then
    };

    Key* find_or_add(uint64_t hash) noexcept {
        const auto at = keys_.find(hash);
        if (at != keys_.end()) return &at->second;
        if (keys_.size() >= keys_max) return nullptr;
        try {
            return &keys_[hash];
        } catch (const std::bad_alloc&) {
            return nullptr;
        }
    }
    void drop_ended(NodeSeconds now) noexcept {
        std::erase_if(keys_, [now](const auto& one) { return has_expired(one.second.ends, now); });
    }

    std::unordered_map<uint64_t, Key> keys_;  // by the hash of the key, which two keys may share
    // A hold says nothing to another node or another run.
    uint64_t last_ = random_word() >> 3;
};

}  // namespace farcached::node
