// SPDX-License-Identifier: BSD-3-Clause
// KeyOrder: what is under way, by key, so that requests of one connection take effect in the order in which they
// were asked although some travel one-sided and some in pieces.
//
// Counts by a few bits of the key's hash: two keys may be taken for one, which costs a detour and nothing else.
#pragma once

#include <array>
#include <cstdint>

#include "base/check.h"

namespace farcached::proxy {

class KeyOrder {
  public:
    enum class Kind : uint8_t {
        read,      // one-sided: a change asked after it could overtake it
        mutation,  // a one-sided read asked after it could overtake it
        large,     // a mutation in pieces: everything asked after it could overtake it
        flush,     // as a mutation, of every key; its own key hash says nothing
    };
    static constexpr uint32_t kinds = 4;
    // Many more than there are requests under way: at pipeline 16 over pointers, with 256 cells, half of the changes
    // waited for reads of other keys, and all that was asked of the node waited behind them.
    static constexpr uint32_t cells = 4096;

    void begun(Kind kind, uint64_t key_hash) {
        uint16_t& count = cell(kind, key_hash);
        CHECK(count < UINT16_MAX);
        count++;
        all_[uint32_t(kind)]++;
    }
    void over(Kind kind, uint64_t key_hash) {
        CHECK(cell(kind, key_hash) > 0);
        cell(kind, key_hash)--;
        all_[uint32_t(kind)]--;
    }
    bool any(Kind kind, uint64_t key_hash) const {
        return counts_[uint32_t(kind)][key_hash % cells] != 0;
    }
    uint32_t all(Kind kind) const { return all_[uint32_t(kind)]; }
    // Is a change of that key under way, that a read of memory could overtake?
    bool changing(uint64_t key_hash) const {
        return any(Kind::mutation, key_hash) || any(Kind::large, key_hash) || all(Kind::flush) != 0;
    }

    // A change was put off for reads of its key, or of all: until it was asked again, or for some rounds if it is not,
    // no more of them begin, lest there be one under way forever.
    void wait_for_reads(uint64_t key_hash) {
        waiting_[key_hash % cells] = rounds_max;
        waits_ = rounds_max;
    }
    void wait_for_all_reads() { waiting_for_all_ = waits_ = rounds_max; }
    bool reads_may_begin(uint64_t key_hash) const {
        if (waits_ == 0) return true;
        return waiting_[key_hash % cells] == 0 && waiting_for_all_ == 0;
    }
    // Something was answered; whoever was put off is told to ask again.
    void round_over() {
        if (waits_ == 0) return;
        waits_--;
        if (waiting_for_all_ != 0) waiting_for_all_--;
        for (uint8_t& rounds : waiting_)
            if (rounds != 0) rounds--;
    }

  private:
    static constexpr uint8_t rounds_max = 4;

    uint16_t& cell(Kind kind, uint64_t key_hash) {
        return counts_[uint32_t(kind)][key_hash % cells];
    }

    std::array<std::array<uint16_t, cells>, kinds> counts_{};
    std::array<uint32_t, kinds> all_{};
    std::array<uint8_t, cells> waiting_{};
    uint8_t waiting_for_all_ = 0;
    uint8_t waits_ = 0;  // the most of them
};

}  // namespace farcached::proxy
