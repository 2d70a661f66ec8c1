// SPDX-License-Identifier: BSD-3-Clause
// Units of the numbers that options take: what a plain number counts, and the words by which a text may count
// otherwise: "64MB", "10s", "1ms". Sizes are powers of 1024, as memcached's megabytes are.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace farcached::conf {

enum class Unit : uint8_t { none, bytes, kilobytes, megabytes, microseconds, milliseconds, seconds };

// "megabytes"; empty for none.
std::string_view name_of(Unit unit);
// The words that mean something beside such a number: "B, KB, MB, GB, TB".
std::string_view words_of(Unit unit);
// A text that would do: "64MB", "10s".
std::string_view example_of(Unit unit);

struct Measured {
    bool known = false;  // the word is a unit of that kind
    bool whole = false;  // and the number is a whole one in `unit`, that can be held
    int64_t value = 0;   // in `unit`
};
// `number` of what `word` says, as so many of `unit`. Words are exact: "MB", not "mb" and not "m".
Measured measure(int64_t number, std::string_view word, Unit unit);

// The shortest text with a unit: 65536 kilobytes are "64MB". Zero and less, and numbers without unit: digits alone.
std::string with_unit(int64_t number, Unit unit);

}  // namespace farcached::conf
