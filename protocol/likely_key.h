// SPDX-License-Identifier: BSD-3-Clause
// likely_key(): a first look at an unparsed request, to prefetch its item. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/limits.h"
#include "protocol/binary.h"

namespace farcached::protocol {

// The probable key of the first request in the input, in any of the three protocols; empty if the head of the request is
// not whole, or has no key. The key is unchecked, and may be no key at all.
inline std::string_view likely_key(std::string_view input) {
    constexpr size_t verb_bytes_max = 8;
    if (input.empty()) return {};
    if (uint8_t(input[0]) == binary_request_magic) {
        if (input.size() < binary_header_bytes) return {};
        const size_t start = binary_header_bytes + static_cast<unsigned char>(input[4]);
        const size_t bytes = static_cast<unsigned char>(input[3]);
        return input.size() < start + bytes ? std::string_view() : input.substr(start, bytes);
    }
    const size_t space = input.substr(0, verb_bytes_max + 1).find(' ');
    if (space == std::string_view::npos) return {};
    const std::string_view rest = input.substr(space + 1, limits::key_bytes_max + 1);
    const auto end = std::ranges::find_if(rest, [](char c) { return static_cast<unsigned char>(c) <= ' '; });
    return end == rest.end() ? std::string_view() : rest.substr(0, size_t(end - rest.begin()));
}

}  // namespace farcached::protocol
