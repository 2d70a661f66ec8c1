// SPDX-License-Identifier: BSD-3-Clause
// Option: one row of the option table, the only place where an option is described. The parser, the
// defaults, --help, the man page and `stats settings` are all made from it.
//
// I1  The table is in the order of `stats settings`; help and man page group its rows by section.
// I2  The default is always accepted, even outside the range: some zeros mean "not given".
// I3  A row with neither flag nor suboption is there for `stats settings` alone.
// I4  What a key of the file says is read back from what is written of it: set(write(x)) is x. A row that keeps
//     nothing, or that stands for several others, is no key (Value::none).
// I5  A row that is `live` is applied by a reload; of any other a reload says that it waits for a restart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "conf/exit_status.h"
#include "conf/settings.h"
#include "conf/units.h"

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

// What parsing ends with, instead of running; but `extended`, which is the list of -o.
enum class Action : uint8_t {
    none, help, license, version, version_full, options_man, extended,
    check_config, print_config,             // after all that the words and files say was read
    config_sample, config_man, completion_bash, completion_zsh,
};

// What a file must hold where the command line has text.
enum class Value : uint8_t {
    none,      // it cannot be in a file
    text,
    integer,   // with a Unit also a text of number and unit
    size,      // bytes as a number, or as a text that the command line takes, too
    real,
    boolean,
    tables,    // [[node]]
};

struct Option;

// Reads a value into the settings; text is nullptr for an option without argument. Remarks, whole lines, are
// appended to `warnings`.
using Set = Refusal(const Option& option, Settings& settings, const char* text, std::string& warnings);
using Show = std::string(const Option& option, const Settings& settings);
using Copy = void(const Settings& from, Settings& to);

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
    Show* write = nullptr;     // as `set` reads it; empty: not given. nullptr: what `show` says
    Unit unit = Unit::none;    // of the number
    Copy* copy = nullptr;      // from settings to others, for a reload
    bool several = false;      // of texts, with commas between them: in a file an array, too
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
    bool in_file = true;               // a key of the file of --config, unless Value::none; a dot is a table's
    std::string_view key = {};         // its name there; empty: `name`
    bool live = false;                 // a reload applies it
    std::string_view stat = {};             // name in `stats settings`; empty: not shown
    Show* stat_show = nullptr;         // instead of kind.show
    int exit_status = exit_illegal;    // of a refused value
    std::string_view refusal = {};          // its text; {} is the value; empty: made from what is allowed
    std::string_view allowed = {};          // of a text, for messages; numbers and choices say it themselves
    std::string_view help = {};             // \n begins a new line
};

std::span<const Option> option_table();  // farcached's own

// What it is called in a file.
std::string_view key_of(const Option& option);
// Is it a key of the file?
bool is_key(const Option& option);
// Its value as `set` reads it; empty: not given. Of keys.
std::string written(const Option& option, const Settings& settings);
// Does a reload apply it? What is only shown changes at once, too.
bool is_live(const Option& option);
// Of one that is live: has `to` say what `from` does.
void copy_value(const Option& option, const Settings& from, Settings& to);

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
