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
    };
    static constexpr uint32_t kinds = 3;

    void begun(Kind kind, uint64_t key_hash) {
        at(kind, key_hash)++;
        all_[uint32_t(kind)]++;
    }
    void over(Kind kind, uint64_t key_hash) {
        CHECK(at(kind, key_hash) > 0);
        at(kind, key_hash)--;
        all_[uint32_t(kind)]--;
    }
    bool any(Kind kind, uint64_t key_hash) const {
        return counts_[uint32_t(kind)][key_hash % cells] != 0;
    }
    uint32_t all(Kind kind) const { return all_[uint32_t(kind)]; }

  private:
    static constexpr uint32_t cells = 256;

    uint32_t& at(Kind kind, uint64_t key_hash) { return counts_[uint32_t(kind)][key_hash % cells]; }

    std::array<std::array<uint32_t, cells>, kinds> counts_{};
    std::array<uint32_t, kinds> all_{};
};

}  // namespace farcached::proxy
