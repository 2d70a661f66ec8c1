// SPDX-License-Identifier: BSD-3-Clause
// Numbers in text commands. Two spellings are accepted, because memcached reads its arguments in
// two ways:
//
//   exact     digits only (and one '-' where a sign makes sense): lengths, levels, delays, gat
//   lenient   as strtol does: blanks but the space before, one sign, digits; a blank ends it:
//             flags, exptimes, CAS uniques, deltas, meta tokens
//
// All take one word (no spaces inside) and answer false without touching `out` when it is not such
// a number.
#pragma once

#include <cstdint>
#include <string_view>

namespace farcached::protocol {

// Exact. At most 20 digits count; a number above the type's range is refused.
inline bool parse_digits(std::string_view word, uint64_t max, uint64_t& out) {
    if (word.empty()) return false;
    uint64_t sum = 0;
    for (char c : word) {
        unsigned digit = unsigned(static_cast<unsigned char>(c)) - '0';
        if (digit > 9) return false;
        if (__builtin_mul_overflow(sum, uint64_t(10), &sum)) return false;
        if (__builtin_add_overflow(sum, uint64_t(digit), &sum)) return false;
    }
    if (sum > max) return false;
    out = sum;
    return true;
}

// Exact, signed, 32 bits.
inline bool parse_int32(std::string_view word, int64_t& out) {
    bool negative = !word.empty() && word.front() == '-';
    if (negative) word.remove_prefix(1);
    uint64_t magnitude = 0;
    if (!parse_digits(word, uint64_t(INT32_MAX) + (negative ? 1 : 0), magnitude)) return false;
    out = negative ? -int64_t(magnitude) : int64_t(magnitude);
    return true;
}

// Lenient, what the three below share: the magnitude and whether a '-' stood before it.
bool parse_lenient(std::string_view word, uint64_t& magnitude, bool& negative);

// Lenient, 64 bits unsigned; nothing below zero.
inline bool parse_u64(std::string_view word, uint64_t& out) {
    if (parse_digits(word, UINT64_MAX, out)) [[likely]]
        return true;
    bool negative = false;
    uint64_t magnitude = 0;
    if (!parse_lenient(word, magnitude, negative)) return false;
    if (negative) return false;
    out = magnitude;
    return true;
}

// Lenient, client flags: 32 bits, the bits above are dropped as memcached drops them.
inline bool parse_flags(std::string_view word, uint32_t& out) {
    uint64_t wide = 0;
    if (!parse_u64(word, wide)) return false;
    out = uint32_t(wide);
    return true;
}

// Lenient, an exptime. What does not fit 32 bits has already expired, as has every negative one:
// -1.
inline bool parse_exptime(std::string_view word, int64_t& out) {
    bool negative = false;
    uint64_t magnitude = 0;
    if (!parse_digits(word, INT64_MAX, magnitude)) {
        if (!parse_lenient(word, magnitude, negative)) return false;
        if (magnitude > uint64_t(INT64_MAX) + (negative ? 1 : 0)) return false;
    }
    if (magnitude == 0)
        out = 0;
    else
        out = negative || magnitude > uint64_t(INT32_MAX) ? -1 : int64_t(magnitude);
    return true;
}

}  // namespace farcached::protocol
