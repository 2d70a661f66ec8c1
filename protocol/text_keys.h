// SPDX-License-Identifier: BSD-3-Clause
// KeyCursor: the keys of a get line, one after the other, from text that may end before the line does. Pure.
//
// I1  consumed() never points into a key. The text up to it can be discarded; the text from it on must be passed again,
//     together with the text that follows.
// I2  However the line is cut, the cursor returns the same keys, then line_end or too_long.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/limits.h"
#include "protocol/binary.h"

namespace farcached::protocol {

// Removes the next word from `words` and returns it; empty at the end.
inline std::string_view take_word(std::string_view& words) {
    size_t start = 0;
    while (start < words.size() && words[start] == ' ') start++;
    size_t end = start;
    while (end < words.size() && words[end] != ' ') end++;
    std::string_view word = words.substr(start, end - start);
    words.remove_prefix(end);
    return word;
}

// Numbers in text commands. Two spellings are accepted, because memcached reads its arguments in two ways:
//
//   exact     digits only (and one '-' where a sign makes sense): lengths, levels, delays, CAS uniques,
//             deltas, meta tokens, exptimes of touch and gat. A '-' without digits is 0.
//   lenient   as strtol does: blanks but the space before, one sign, digits; a blank or a NUL ends it:
//             flags and exptimes of storage commands
//
// All take one word (no spaces inside). They return false, and leave `out` alone, if the word is no such number.

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

class KeyCursor {
  public:
    enum class Step : unsigned char {
        key,        // a whole key
        line_end,   // the newline; consumed() is after it
        need_more,  // the text ended; the next cursor must start at consumed()
        too_long,   // the key at consumed() has more than key_bytes_max bytes
    };

    explicit KeyCursor(std::string_view text) : text_(text) {}

    Step next(std::string_view& key) {
        const char* begin = text_.data();
        const char* end = begin + text_.size();
        const char* at = begin + at_;
        while (at != end && *at == ' ') at++;
        const char* start = at;
        at_ = size_t(start - begin);
        // The most bytes to examine: a key, a carriage return, and the end of the key.
        constexpr size_t look_bytes_max = limits::key_bytes_max + 2;
        const char* last = size_t(end - at) > look_bytes_max ? at + look_bytes_max : end;
        while (at != last && *at != ' ' && *at != '\n') at++;
        if (at == last) return last == end && size_t(end - start) < look_bytes_max
                                   ? Step::need_more
                                   : Step::too_long;
        size_t size = size_t(at - start);
        if (*at == '\n') {
            if (size != 0 && at[-1] == '\r') size--;
            if (size == 0) {
                at_ = size_t(at + 1 - begin);
                return Step::line_end;
            }
        }
        if (size > limits::key_bytes_max) return Step::too_long;
        key = std::string_view(start, size);
        at_ = size_t(start + size - begin);
        return Step::key;
    }
    size_t consumed() const { return at_; }

  private:
    std::string_view text_;
    size_t at_ = 0;
};

// Skips the rest of a line: returns how many of `text`'s bytes belong to it; `ended`: its newline is among them.
inline size_t skip_line(std::string_view text, bool& ended) {
    const void* newline = std::memchr(text.data(), '\n', text.size());
    ended = newline != nullptr;
    return ended ? size_t(static_cast<const char*>(newline) - text.data()) + 1 : text.size();
}

// likely_key(): a first look at an unparsed request, to prefetch its item. Pure.
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
