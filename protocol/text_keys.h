// SPDX-License-Identifier: BSD-3-Clause
// KeyCursor: the keys of a get line, one after the other, from text that may end before the line does. Pure.
//
// I1  consumed() never points into a key. The text up to it can be discarded; the text from it on must be passed again,
//     together with the text that follows.
// I2  However the line is cut, the cursor returns the same keys, then line_end or too_long.
#pragma once

#include <cstddef>
#include <cstring>
#include <string_view>

#include "base/limits.h"

namespace farcached::protocol {

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

}  // namespace farcached::protocol
