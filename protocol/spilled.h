// SPDX-License-Identifier: BSD-3-Clause
// Items that a farnode, their home, keeps in the memory of another farnode, and their remote pointers. Pure.
//
// The other node has an ordinary item with layout::format_spilled. The header's flags, cas and expiry time are the home's,
// the last on that node's clock.
//
//   key    0      1                    9                     17
//          | 0x01 | home id            | number              |      little-endian; the home uses no number twice
//   value  | key bytes | value bytes |                              those of the home's item
//
// X1  Such an item is never written in place: its slot has it in exactly one generation.
// X2  The home grants a pointer to it for at most spilled_term_ms_max, in the reply to a get. The grant names the
//     incarnation of the other node. The home acknowledges no mutation of its item while such a lease runs, unless the other
//     node has killed the slot.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "protocol/layout.h"
#include "protocol/wire.h"

namespace farcached::protocol {

constexpr uint32_t spilled_key_bytes = 1 + 2 * sizeof(uint64_t);
constexpr uint32_t spilled_term_ms_max = 200;
constexpr char spilled_mark = 1;  // the key's first byte

using SpilledKey = std::array<char, spilled_key_bytes>;

inline SpilledKey spilled_key(uint64_t home, uint64_t number) {
    SpilledKey key;
    key[0] = spilled_mark;
    wire::put(wire::put(key.data() + 1, home), number);
    return key;
}
inline std::string_view view_of(const SpilledKey& key) { return {key.data(), key.size()}; }

constexpr bool is_spilled_key(std::string_view key) { return key.size() == spilled_key_bytes && key[0] == spilled_mark; }

// The length of the item at the other node; key_len and value_len: of the home's item.
constexpr uint64_t spilled_item_bytes(uint64_t key_len, uint64_t value_len) {
    return layout::item_bytes(spilled_key_bytes, key_len + value_len);
}

// The home's value in the value of the item at the other node; nothing: that is of another key.
constexpr std::optional<std::string_view> spilled_value(std::string_view record, std::string_view key) {
    if (!record.starts_with(key)) return std::nullopt;
    return record.substr(key.size());
}

}  // namespace farcached::protocol
