// SPDX-License-Identifier: BSD-3-Clause
// AwaitedReads: session and key of each one-sided GET whose sink waits. It is exact, while KeyOrder may confuse two keys.
//
// Owner: a Reads, on its worker's thread.
//
// A1  KeyOrder counts a read from add() to remove().
// A2  A Place belongs to one read, and does not move while it is listed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "proxy/key_order.h"

namespace farcached::proxy {

class AwaitedReads {
  public:
    struct Place {
        bool listed = false;
        uint32_t at = 0;  // while listed
    };

    // order: outlives this.
    explicit AwaitedReads(KeyOrder& order) : order_(order) {}

    // Room for so many. Throws std::bad_alloc.
    void have_room(size_t reads) {
        if (list_.capacity() < reads) list_.reserve(2 * reads);
    }
    // There is room for it.
    void add(KeyOrder::Of of, Place& place) {
        CHECK(!place.listed);
        order_.begun(KeyOrder::Kind::read, of);
        place.listed = true;
        place.at = uint32_t(list_.size());
        list_.push_back({of, &place});
    }
    // The sink has its answer. Of a read that is not listed it does nothing.
    void remove(Place& place) {
        if (!place.listed) return;
        place.listed = false;
        Entry& entry = list_[place.at];
        CHECK(entry.place == &place);
        order_.over(KeyOrder::Kind::read, entry.of);
        entry = list_.back();
        entry.place->at = place.at;
        list_.pop_back();
    }
    // Does that session wait for a read of that key?
    bool any(KeyOrder::Of of) const {
        return std::ranges::any_of(list_, [&](const Entry& one) { return one.of == of; });
    }
    bool any_of_session(uint64_t session) const {
        return std::ranges::any_of(list_, [&](const Entry& one) { return one.of.session == session; });
    }

  private:
    struct Entry {
        KeyOrder::Of of;
        Place* place;
    };

    KeyOrder& order_;
    std::vector<Entry> list_;
};

}  // namespace farcached::proxy
