// SPDX-License-Identifier: BSD-3-Clause
// Option: one row of the option table, the only place where an option is described. The parser, the
// defaults, --help, the man page and `stats settings` are all made from it.
//
// I1  The table is in the order of `stats settings`; help and man page group its rows by section.
// I2  The default is always accepted, even outside the range: some zeros mean "not given".
// I3  A row with neither flag nor suboption is there for `stats settings` alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "conf/exit_status.h"
#include "conf/settings.h"

namespace farcached::conf {

// Where help prints it. Each has a title (option_table.cc).
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

// What parsing ends with, instead of running.
enum class Action : uint8_t { none, help, license, version, version_full, options_man, extended };

// What a file must hold where the command line has text.
enum class Value : uint8_t { none, text, integer, real, boolean, tables };

struct Option;

// Reads a value into the settings; text is nullptr for an option without argument. Remarks, whole lines, are
// appended to `warnings`.
using Set = Refusal(const Option& option, Settings& settings, const char* text, std::string& warnings);
using Show = std::string(const Option& option, const Settings& settings);

// How a value is read and shown. Made by the helpers of conf/kinds.h.
struct Kind {
    Set* set = nullptr;        // nullptr: cannot be set
    Show* show = nullptr;      // nullptr: is not shown
    double min = 0, max = 0;   // of the number as it is written
    uint64_t scale = 1;        // its unit
    Value value = Value::none;
    std::span<const std::string_view> choices = {};  // the words it takes, if it takes few
    bool (*good)(std::string_view) = nullptr;        // whether a text is allowed
    bool power_of_two = false;                       // and no other number
};

struct Option {
    Where where = Where::flag;
    char flag = 0;                     // 0: only long
    std::string_view name = {};             // long flag, or suboption
    bool negatable = false;            // suboption: no_<name> says the opposite
    bool argument_optional = false;    // suboption: nullptr as text is fine
    std::string_view argument = {};         // its placeholder; empty: takes none
    std::string_view initial = {};          // as it would be written; empty: unset
    Kind kind{};
    Action action = Action::none;
    Section section = Section::hidden;
    bool in_file = false;              // a key of the file of --config, by its name; a dot is a table's
    std::string_view stat = {};             // name in `stats settings`; empty: not shown
    Show* stat_show = nullptr;         // instead of kind.show
    int exit_status = exit_illegal;    // of a refused value
    std::string_view refusal = {};          // its text; {} is the value; empty: made from what is allowed
    std::string_view allowed = {};          // of a text, for messages; numbers and choices say it themselves
    std::string_view help = {};             // \n begins a new line
};

std::span<const Option> option_table();  // farcached's own

// As if a command line with these options were empty.
Settings defaults(std::span<const Option> table);

// "-p, --port" or "-o hashpower", for messages.
std::string spelled(const Option& option);
// "a whole number from 1 to 1024", "true or false", "one of rpc, index".
std::string allowed_text(const Option& option);
// What is wrong with a value that was refused: "'0' is no number from 1 to 1024".
std::string complaint(const Option& option, std::string_view value);
// The refusal of a value, in the option's words.
Problem refuse(const Option& option, std::string_view value);

}  // namespace farcached::conf
