// SPDX-License-Identifier: BSD-3-Clause
// TouchedKeys: which keys of a partition a mutation may have touched since before the node joined its fleet. A key that none has
// touched may still have its item at the node that had the key before (protocol/op.h, GetOp::moved_since).
//
// Owner: the Partition. Threads: any; every call needs the partition's lock.
//
// T1  A touched key is never called untouched. An untouched one may be called touched: keys share bits.
// T2  Before the node's record in etcd is known (joined()), every key is touched: a proxy may mean an earlier one.
// T3  From a flush or a delete by prefix until the next begin() every key is touched.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/node_clock.h"

namespace farcached::node {

class TouchedKeys {
  public:
    // None is touched yet. joined() follows. `bits`: at least 64. Throws std::bad_alloc: every key is touched.
    void begin(size_t bits, NodeSeconds ends) {
        end();
        words_.assign(std::bit_ceil(bits) / bits_per_word, 0);
        shift_ = 64 - std::countr_zero(std::bit_ceil(bits));
        ends_ = ends;
        joined_at_ = 0;
    }
    // The node's record has been in etcd since this revision. A second one ends it: what it noted is of another record.
    void joined(uint64_t revision) noexcept {
        if (joined_at_ != 0) return end();
        joined_at_ = revision;
    }
    void end() noexcept { std::vector<uint64_t>().swap(words_); }
    void note(uint64_t hash, NodeSeconds now) noexcept {
        if (words_.empty()) [[likely]] return;
        if (has_expired(ends_, now)) return end();
        const size_t bit = bit_of(hash);
        words_[bit / bits_per_word] |= UINT64_C(1) << bit % bits_per_word;
    }
    // Since that revision, at which the node had joined.
    bool is_untouched(uint64_t hash, uint64_t since, NodeSeconds now) const {
        if (words_.empty() || has_expired(ends_, now) || joined_at_ == 0 || joined_at_ > since) return false;
        const size_t bit = bit_of(hash);
        return (words_[bit / bits_per_word] >> bit % bits_per_word & 1) == 0;
    }

  private:
    static constexpr size_t bits_per_word = 64;

    // Keys of one partition share the top bits of their hash.
    size_t bit_of(uint64_t hash) const { return size_t((hash * UINT64_C(0x9e3779b97f4a7c15)) >> shift_); }

    std::vector<uint64_t> words_;  // a power of two; empty: every key is touched
    int shift_ = 0;
    NodeSeconds ends_ = 0;
    uint64_t joined_at_ = 0;  // 0: not known yet
};

}  // namespace farcached::node
