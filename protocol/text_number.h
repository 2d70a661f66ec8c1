// SPDX-License-Identifier: BSD-3-Clause
// Numbers in text commands. Two spellings are accepted, because memcached reads its arguments in two ways:
//
//   exact     digits only (and one '-' where a sign makes sense): lengths, levels, delays, CAS uniques,
//             deltas, meta tokens, exptimes of touch and gat. A '-' without digits is 0.
//   lenient   as strtol does: blanks but the space before, one sign, digits; a blank or a NUL ends it:
//             flags and exptimes of storage commands
//
// All take one word (no spaces inside). They return false, and leave `out` alone, if the word is no such number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace farcached::protocol {

// Exact. A number above `max` is rejected.
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

// Longer exact words are rejected with any value, as in memcached.
constexpr size_t int32_word_max = 11;
constexpr size_t u64_word_max = 22;

// Exact, signed, 32 bits.
inline bool parse_int32(std::string_view word, int64_t& out) {
    if (word.size() > int32_word_max) return false;
    bool negative = !word.empty() && word.front() == '-';
    if (negative) word.remove_prefix(1);
    uint64_t magnitude = 0;
    if (negative && word.empty()) {
        out = 0;
        return true;
    }
    if (!parse_digits(word, uint64_t(INT32_MAX) + (negative ? 1 : 0), magnitude)) return false;
    out = negative ? -int64_t(magnitude) : int64_t(magnitude);
    return true;
}

// Exact, the length of a value: a number of 32 bits that leaves room for the CRLF after the value.
inline bool parse_length(std::string_view word, uint32_t& out) {
    int64_t length = 0;
    if (!parse_int32(word, length) || length < 0 || length > INT32_MAX - 2) return false;
    out = uint32_t(length);
    return true;
}

// Exact, 32 bits unsigned.
inline bool parse_u32(std::string_view word, uint32_t& out) {
    uint64_t wide = 0;
    if (word.size() > int32_word_max || !parse_digits(word, UINT32_MAX, wide)) return false;
    out = uint32_t(wide);
    return true;
}

// Exact, 64 bits unsigned.
inline bool parse_u64(std::string_view word, uint64_t& out) {
    return word.size() <= u64_word_max && parse_digits(word, UINT64_MAX, out);
}

// Lenient, the common part of the two below: the magnitude, and whether a '-' precedes it.
bool parse_lenient(std::string_view word, uint64_t& magnitude, bool& negative);

// Lenient, client flags of a storage command: 32 bits. Higher bits are dropped, as in memcached. strtoul negates modulo 2^64;
// memcached rejects a result above 2^63.
inline bool parse_flags(std::string_view word, uint32_t& out) {
    bool negative = false;
    uint64_t magnitude = 0;
    if (!parse_digits(word, UINT64_MAX, magnitude))
        if (!parse_lenient(word, magnitude, negative)) return false;
    if (negative) magnitude = -magnitude;
    if (negative && magnitude > uint64_t(INT64_MAX)) return false;
    out = uint32_t(magnitude);
    return true;
}

// Lenient, the exptime of a storage command: the lower 32 bits of a 64-bit number, as in memcached. Every negative result
// has expired: -1.
inline bool parse_storage_exptime(std::string_view word, int64_t& out) {
    bool negative = false;
    uint64_t magnitude = 0;
    if (!parse_digits(word, INT64_MAX, magnitude)) {
        if (!parse_lenient(word, magnitude, negative)) return false;
        if (magnitude > uint64_t(INT64_MAX) + (negative ? 1 : 0)) return false;
    }
    const int32_t low = int32_t(uint32_t(negative ? -magnitude : magnitude));
    out = low < 0 ? -1 : low;
    return true;
}

}  // namespace farcached::protocol
