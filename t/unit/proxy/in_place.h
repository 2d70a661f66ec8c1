// SPDX-License-Identifier: BSD-3-Clause
// An item's words, and the stores in order by which a node writes them over another item of the key (S1): for tests
// that stop between two of them. Independent of node/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "protocol/layout.h"
#include "protocol/layout_hash.h"

namespace in_place {

using namespace farcached;

struct Place {
    uint64_t secret = 0, offset = 0;  // of the incarnation; from the region's start
};

struct Item {
    std::string key, value;
    uint64_t cas = 0;
    uint32_t flags = 0;
    uint32_t exptime = 0;
    uint16_t format = layout::format_plain;
};

using Words = std::vector<uint64_t>;

// The words of a published item; the last is padded with zeros.
inline Words words_of(const Item& item, uint64_t generation, const Place& place) {
    layout::ItemHeader header{};
    header.guard = layout::Guard::make(generation, layout::GuardState::live).word;
    header.cas = item.cas;
    header.value_len = uint32_t(item.value.size());
    header.flags = item.flags;
    header.exptime = item.exptime;
    header.key_len = uint16_t(item.key.size());
    header.format = item.format;
    std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
    bytes += item.key + item.value;
    header.check = layout::item_check(bytes.data(), bytes.size(), place.secret, generation, place.offset);
    std::memcpy(bytes.data() + offsetof(layout::ItemHeader, check), &header.check, sizeof header.check);
    Words words((bytes.size() + 7) / 8);
    std::memcpy(words.data(), bytes.data(), bytes.size());
    return words;
}

struct Store {
    size_t word;
    uint64_t value;
};
using Stores = std::vector<Store>;

inline void die(Stores& stores, uint64_t generation) {
    stores.push_back({0, layout::Guard::make(generation, layout::GuardState::dead).word});
}
// Into a slot whose guard is dead.
inline void come_to_life(Stores& stores, const Words& words) {
    constexpr size_t check_word = offsetof(layout::ItemHeader, check) / 8;
    for (size_t i = check_word + 1; i < words.size(); i++) stores.push_back({i, words[i]});
    stores.push_back({check_word, words[check_word]});
    stores.push_back({0, words[0]});
}

}  // namespace in_place
