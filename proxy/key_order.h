// SPDX-License-Identifier: BSD-3-Clause
// KeyOrder: counts the requests under way by client session and key. Requests of one session take effect in the order
// of their acceptance, although some travel one-sided and some in pieces. Requests of different sessions are concurrent
// and never delay one another.
//
// Owner: a Requests, in the link's thread. Cells are chosen by a few bits of hashes; two keys or sessions that share one cost a
// detour.
#pragma once

#include <array>
#include <cstdint>

#include "base/check.h"

namespace farcached::proxy {

class KeyOrder {
  public:
    enum class Kind : uint8_t {
        read,      // one-sided: a later mutation could overtake it
        mutation,  // a later one-sided read could overtake it
        large,     // a mutation in pieces: any later request could overtake it
        flush,     // a mutation of every key
    };
    static constexpr uint32_t kinds = 4;
    // Many more than requests under way: at pipeline 16 over pointers, 256 cells made half of the mutations wait for
    // reads of other keys.
    static constexpr uint32_t cells = 4096;
    static constexpr uint32_t session_cells = 1024;

    // Session and key of a request; key_hash 0: no key.
    struct Of {
        uint64_t session = 0;
        uint64_t key_hash = 0;

        constexpr bool operator==(const Of&) const = default;
        constexpr uint32_t cell() const { return uint32_t((key_hash ^ session * UINT64_C(0x9e3779b97f4a7c15)) % cells); }
        constexpr uint32_t session_cell() const { return uint32_t(session % session_cells); }
    };

    void begun(Kind kind, Of of) {
        uint16_t& count = count_[uint32_t(kind)][of.cell()];
        CHECK(count < UINT16_MAX);
        count++;
        session_count_[uint32_t(kind)][of.session_cell()]++;
        all_[uint32_t(kind)]++;
    }
    void over(Kind kind, Of of) {
        uint16_t& count = count_[uint32_t(kind)][of.cell()];
        CHECK(count > 0);
        count--;
        session_count_[uint32_t(kind)][of.session_cell()]--;
        all_[uint32_t(kind)]--;
    }
    bool any(Kind kind, Of of) const { return count_[uint32_t(kind)][of.cell()] != 0; }
    bool any_of_session(Kind kind, Of of) const { return session_count_[uint32_t(kind)][of.session_cell()] != 0; }
    uint32_t all(Kind kind) const { return all_[uint32_t(kind)]; }
    // Is a mutation of the key by that session under way? A one-sided read could overtake it.
    bool changing(Of of) const {
        return any(Kind::mutation, of) || any(Kind::large, of) || any_of_session(Kind::flush, of);
    }

  private:
    std::array<std::array<uint16_t, cells>, kinds> count_{};
    std::array<std::array<uint32_t, session_cells>, kinds> session_count_{};
    std::array<uint32_t, kinds> all_{};
};

}  // namespace farcached::proxy
