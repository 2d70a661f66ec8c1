// SPDX-License-Identifier: BSD-3-Clause
// Units of numeric options: the unit of a plain number, and the unit words allowed after a number: "64MB", "10s", "1ms". Sizes
// are powers of 1024, as memcached's megabytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace farcached::conf {

enum class Unit : uint8_t { none, bytes, kilobytes, megabytes, microseconds, milliseconds, seconds };

// "megabytes"; empty for none.
std::string_view name_of(Unit unit);
// The unit words allowed with such a number: "B, KB, MB, GB, TB".
std::string_view words_of(Unit unit);
// A valid example: "64MB", "10s".
std::string_view example_of(Unit unit);

struct Measured {
    bool known = false;  // the word is a unit of that kind
    bool whole = false;  // and the value is an integer in `unit`, without overflow
    int64_t value = 0;   // in `unit`
};
// Converts `number` in the unit `word` to `unit`. Words are exact: "MB", not "mb" or "m".
Measured measure(int64_t number, std::string_view word, Unit unit);

// The shortest text with a unit: 65536 kilobytes are "64MB". Numbers up to zero, and numbers without a unit: digits alone.
std::string with_unit(int64_t number, Unit unit);

// Parses a list of CPUs in the syntax of taskset(1): "0-3,8".
constexpr uint32_t cpu_number_max = 1023;  // limit of cpu_set_t

// In list order, duplicates included; empty if the list is empty or malformed.
std::vector<uint32_t> cpus_of(std::string_view list);

inline bool is_cpu_list(std::string_view list) { return !cpus_of(list).empty(); }

}  // namespace farcached::conf
