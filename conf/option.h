// SPDX-License-Identifier: BSD-3-Clause
// Option: one row of the option table, the only description of an option. The table generates the parser, the defaults, --help,
// the man page and `stats settings`.
//
// Constants, and functions without state; any thread.
//
// I1  The table is in the order of `stats settings`; help and man page group its rows by section.
// I2  The default is always accepted, even outside the range: some zeros mean "not given".
// I3  A row with neither flag nor suboption exists for `stats settings` alone.
// I4  A key's written value reads back: set(write(x)) is x. A row that keeps no value, or that stands for several others, is no
//     key (Value::none).
// I5  A reload applies rows that are `live`; it reports any other changed row as waiting for a restart.
// I6  A renamed option keeps its old name for one release: as a flag, a suboption and a key. Only `stats settings` prints it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "conf/program.h"
#include "conf/settings.h"

namespace farcached::conf {

// The unit of a plain number, and the unit words allowed after a number: "64MB", "4g", "10s", "5m". Sizes are powers of 1024, as
// memcached's megabytes.
enum class Unit : uint8_t { none, bytes, kilobytes, megabytes, microseconds, milliseconds, seconds };

// "megabytes"; empty for none.
std::string_view name_of(Unit unit);
// The unit words allowed with such a number, without other spellings: "B, KB, MB, GB, TB".
std::string_view words_of(Unit unit);
// A valid example: "64MB", "10s".
std::string_view example_of(Unit unit);

struct Measured {
    bool known = false;  // the word is a unit of that kind
    bool fits = false;   // and the value does not overflow
    bool whole = false;  // and is an integer in `unit`
    int64_t value = 0;   // in `unit`
};
// Converts `number` in the unit `word` to `unit`. Words of sizes have any case, and may be their first letter: "MB", "mb", "m".
// Words of durations are exact: "m" is minutes.
Measured measure(int64_t number, std::string_view word, Unit unit);

// The shortest text with a unit: 65536 kilobytes are "64MB". Numbers up to zero, and numbers without a unit: digits alone.
std::string with_unit(int64_t number, Unit unit);

// Parses a list of CPUs in the syntax of taskset(1): "0-3,8".
constexpr uint32_t cpu_number_max = 1023;  // limit of cpu_set_t

// In list order, duplicates included; empty if the list is empty or malformed.
std::vector<uint32_t> cpus_of(std::string_view list);

inline bool is_cpu_list(std::string_view list) { return !cpus_of(list).empty(); }

// Section of help. Each has a title (option_table.cc).
enum class Section : uint8_t {
    network, memory, nodes, process, commands, security, extended, compat, hidden
};
constexpr size_t sections_count = 9;
std::string_view title(Section section);

enum class Where : uint8_t {
    flag,        // -x, --name
    suboption,   // -o name
    stat,        // `stats settings` alone
};

// Actions that end parsing instead of running; `extended`, the list of -o, does not.
enum class Action : uint8_t {
    none, help, license, version, version_full, options_man, extended,
    check_config, print_config, print_limits,  // after all words and files were read
    config_sample, config_man, completion_bash, completion_zsh,
};

// Why a number is refused.
enum class NumberFault : uint8_t { none, no_number, too_small, too_large, no_power_of_two };

// The type of a value in a file, where the command line has text.
enum class Value : uint8_t {
    none,      // not allowed in a file
    text,
    integer,   // with a Unit also a text of number and unit
    size,      // bytes as a number, or as a text in command-line syntax
    real,
    boolean,
    tables,    // [[node]]
    permissions,  // [permissions]
};

struct Option;

// Reads a value into the settings; text is nullptr for an option without argument. Appends warnings as whole lines to
// `warnings`.
using Set = Refusal(const Option& option, Settings& settings, const char* text, std::string& warnings);
using Show = std::string(const Option& option, const Settings& settings);
using Copy = void(const Settings& from, Settings& to);

// How a value is parsed and shown. The helpers of conf/kinds.h create kinds.
struct Kind {
    Set* set = nullptr;        // nullptr: cannot be set
    Show* show = nullptr;      // nullptr: not shown
    double min = 0, max = 0;   // of the number as written
    uint64_t scale = 1;        // its unit
    Value value = Value::none;
    std::span<const std::string_view> choices = {};  // the allowed words, if few
    bool (*good)(std::string_view) = nullptr;        // whether a text is allowed
    bool power_of_two = false;                       // only powers of two
    Show* write = nullptr;     // in the syntax of `set`; empty: not given. nullptr: as `show`
    Unit unit = Unit::none;    // of the number
    Copy* copy = nullptr;      // between settings, for a reload
    bool several = false;      // a comma-separated list of texts: in a file also an array
};

struct Option {
    Where where = Where::flag;
    char flag = 0;                     // 0: only long
    std::string_view name = {};             // long flag, or suboption
    std::string_view old_name = {};         // until the last release; still accepted (I6)
    bool negatable = false;            // suboption: no_<name> negates it
    bool argument_optional = false;    // suboption: accepts nullptr as text
    std::string_view argument = {};         // placeholder; empty: takes no argument
    std::string_view initial = {};          // default as written; empty: unset
    Kind kind{};
    Action action = Action::none;
    Section section = Section::hidden;
    bool in_file = true;               // a key of the file of --config, unless Value::none; a dot denotes a table
    std::string_view key = {};         // name in the file; empty: `name`
    bool live = false;                 // a reload applies it
    std::string_view stat = {};             // name in `stats settings`; empty: not shown
    Show* stat_show = nullptr;         // instead of kind.show
    int exit_status = exit_illegal;    // of a refused value
    std::string_view refusal = {};          // message; {} is the value; empty: generated from the allowed values
    bool refuses_low = false;          // the refusal is about a number that is too small
    bool refuses_range = false;        // the refusal is about a number out of range
    std::string_view once = {};             // refusal of a second one on a command line, or in a file; empty: it overrides
    std::string_view allowed = {};          // allowed texts, for messages; numbers and choices generate theirs
    std::string_view help = {};             // \n begins a new line
};

std::span<const Option> option_table();  // farcached's own
std::span<const Option> proxy_option_table();
// farcached's own rows, followed by these.
std::vector<Option> option_table_with_nodes();
// The options of a farnode. Each is also a key of the file of --config, except those that print something.
std::span<const Option> node_option_table();

// The name in a file.
std::string_view key_of(const Option& option);
// A key with _ between words, as in memcached's -o: our spelling in files, which may have - instead.
std::string file_spelling(std::string_view key);
inline std::string file_key(const Option& option) { return file_spelling(key_of(option)); }
// Whether the option is a key of the file.
bool is_key(const Option& option);
// The value in the syntax of `set`; empty: not given. For keys.
std::string written(const Option& option, const Settings& settings);
// Whether a reload applies the option. Rows that are only shown also change at once.
bool is_live(const Option& option);
// For a live option: copies its value.
void copy_value(const Option& option, const Settings& from, Settings& to);

// The settings of an empty command line.
Settings defaults(std::span<const Option> table);

// "-p, --port" or "-o hashpower", for messages.
std::string spelled(const Option& option);
// "a whole number from 1 to 1024", "true or false", "one of rpc, index".
std::string allowed_text(const Option& option);
// Describes a refused value: "'0' is out of range: 1 to 1024".
std::string complaint(const Option& option, std::string_view value);
// The error for a refused value, in the option's words.
Problem refuse(const Option& option, std::string_view value);

// `stats settings`: 77 names and values, in memcached 1.6.45's order and formats. With nodes configured, their names and the
// options about them follow.
void settings_stats(const Settings& settings, FunctionRef<void(std::string_view name, std::string_view value)> visit);

}  // namespace farcached::conf
