// SPDX-License-Identifier: BSD-3-Clause
// The text of a reply to CopiesOp: `more`, then keys, each behind its length in bytes. Pure.
//
//  0      1        3
//  | more | length | key | length | key | ...
//
// more: 1 if the pass goes on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/limits.h"

namespace farcached::protocol {

inline void append_key(std::string& text, std::string_view key) {
    text.push_back(char(key.size() & 0xff));
    text.push_back(char(key.size() >> 8));
    text.append(key);
}

// visit(key) for each. False: the text is damaged; the keys before that were visited (S10).
template <class Visit>
bool each_key(std::string_view text, Visit&& visit) {
    while (!text.empty()) {
        if (text.size() < 2) return false;
        const size_t bytes = uint8_t(text[0]) | size_t(uint8_t(text[1])) << 8;
        if (bytes == 0 || bytes > limits::key_bytes_max || bytes > text.size() - 2) return false;
        visit(text.substr(2, bytes));
        text.remove_prefix(2 + bytes);
    }
    return true;
}

}  // namespace farcached::protocol
