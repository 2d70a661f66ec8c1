// SPDX-License-Identifier: BSD-3-Clause
// TouchedKeys: which keys of a partition mutations may have touched since the list of nodes changed in etcd. The item of any other
// key may still be at the node that had the key before (protocol/op.h, GetOp::moved_since).
//
// Time is divided into spans. The last two are known, and more after the node has joined or the list has changed. A span begins at
// a look at etcd.
//
// Owner: the Partition. Threads: any; every call needs the partition's lock.
//
// T1  A touched key is never called untouched. An untouched one may be called touched: keys share bits.
// T2  A span counts for changes of the list after it began. It began at a revision of etcd that a later look showed, or before.
//     Until then, all keys are touched. So it counts the mutations of every process, also of one that the node does not know yet.
// T3  From a flush or a delete by prefix until the end of its span every key is touched.
// T4  After another registration revisions may be of another history of etcd. So no span begins below the highest known one.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/node_clock.h"

namespace farcached::node {

class TouchedKeys {
  public:
    static constexpr uint32_t span_s = 60;     // at least
    static constexpr size_t spans_max = 8;

    // The node has no items. joined() follows. bits: of a span, at least 64. Throws std::bad_alloc: every key is touched.
    void begin(size_t bits, NodeSeconds now) {
        end();
        bits_ = std::bit_ceil(bits);
        add_span(now);
        is_prepared_ = true;
    }
    // The node's record has been in etcd since this revision. Without a begin() before it, the first span begins now; its revision
    // is not known yet. keep_until: as in moved(). Throws std::bad_alloc: every key is touched.
    void joined(size_t bits, uint64_t revision, NodeSeconds now, NodeSeconds keep_until) {
        if (!std::exchange(is_prepared_, false)) {
            begin(bits, now);
            is_prepared_ = false;
            return;
        }
        if (!spans_.empty()) spans_.back().since = highest_ = std::max(highest_, revision - 1);
        moved(keep_until);
    }
    // etcd was asked after the last call returned, and has this revision. Throws std::bad_alloc: every key is touched.
    void looked(uint64_t revision, NodeSeconds now) {
        if (spans_.empty()) return;
        highest_ = std::max(highest_, revision);
        if (spans_.back().since == unknown) {
            spans_.back().since = highest_;
            return;
        }
        const bool keeps = now < keep_until_;
        if (!std::exchange(has_moved_, false) && (keeps || now - spans_.back().began < span_s)) return;
        add_span(now);
        if (!keeps) spans_.erase(spans_.begin(), spans_.end() - 2);
        if (spans_.size() > spans_max) join_oldest();
    }
    // The list of nodes has changed.
    void moved(NodeSeconds keep_until) noexcept {
        has_moved_ = true;
        keep_until_ = std::max(keep_until_, keep_until);
    }
    void end() noexcept { std::vector<Span>().swap(spans_); }
    void note_all() noexcept {
        if (!spans_.empty()) spans_.back().all = true;
    }
    void note(uint64_t hash) noexcept {
        if (spans_.empty()) [[likely]] return;
        const size_t bit = bit_of(hash);
        spans_.back().words[bit / bits_per_word] |= UINT64_C(1) << bit % bits_per_word;
    }
    // Since the list changed at that revision.
    bool is_untouched(uint64_t hash, uint64_t changed) const {
        for (size_t i = spans_.size(); i-- > 0;) {
            if (has(spans_[i], hash)) return false;
            if (spans_[i].since < changed) return true;
        }
        return false;
    }

  private:
    static constexpr size_t bits_per_word = 64;
    static constexpr uint64_t unknown = UINT64_MAX;

    struct Span {
        std::vector<uint64_t> words;  // a power of two
        uint64_t since = unknown;     // changes of the list above this revision came after it began
        NodeSeconds began = 0;
        bool all = false;             // every key is touched
    };

    void add_span(NodeSeconds now) { spans_.push_back({std::vector<uint64_t>(bits_ / bits_per_word), unknown, now, false}); }
    void join_oldest() noexcept {
        Span& oldest = spans_[0];
        const Span& next = spans_[1];
        for (size_t i = 0; i < oldest.words.size(); i++) oldest.words[i] |= next.words[i];
        oldest.all = oldest.all || next.all;
        spans_.erase(spans_.begin() + 1);
    }
    // Keys of one partition share the top bits of their hash.
    size_t bit_of(uint64_t hash) const {
        return size_t((hash * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - std::countr_zero(bits_)));
    }
    bool has(const Span& span, uint64_t hash) const {
        const size_t bit = bit_of(hash);
        return span.all || (span.words[bit / bits_per_word] >> bit % bits_per_word & 1) != 0;
    }

    std::vector<Span> spans_;   // the newest last; empty: every key is touched
    size_t bits_ = bits_per_word;
    NodeSeconds keep_until_ = 0;
    uint64_t highest_ = 0;      // revision
    bool has_moved_ = false;    // since the last span began
    bool is_prepared_ = false;  // joined() follows
};

}  // namespace farcached::node
