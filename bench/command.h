// SPDX-License-Identifier: BSD-3-Clause
// What the commands of farbench share: their descriptions, exit statuses, interrupts, options, files and charts of results.
//
// No state but `interrupted`: the handler of a signal sets it, and any thread reads it.
#pragma once

#include <algorithm>
#include <atomic>
#include <charconv>
#include <ios>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace farcached::bench {

// Exit statuses of farbench.
enum ExitStatus : int {
    exit_good = 0,
    exit_failed = 1,  // an error, a wrong value, a broken connection, an interrupt, or a failed start
    exit_usage = 64,  // invalid arguments
};

// The first interrupt ends a long measurement with its partial results; a second one ends it at once.
inline std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);  // a signal handler stores it

void catch_interrupts();

// Writes text to a file, whole.
// mode: std::ios::trunc or std::ios::app. Throws std::runtime_error.
void write_file(const std::string& path, const std::string& text, std::ios::openmode mode);

// The path of a command's Python script, by file name: installed or in the build tree; empty: not found.
std::string find_script(const std::string& command, const std::string& script);

// Draws charts of the results in a folder. A failure is printed on standard error, after "farbench COMMAND: ".
// script: empty: COMMAND_chart.py.
void draw_charts(const std::string& command, const std::string& folder, std::string script = {});

// printf() formatting for report lines, of at most 255 characters.
[[gnu::format(printf, 1, 2)]] std::string form(const char* format, ...);

// A measurement; none: unknown, which is "-" in a table, empty in CSV and null in JSON.
using Number = std::optional<double>;
std::string shown(const Number& number, const char* format);
std::string csv_number(const Number& number);
// Of the known numbers; none for too few: without any, and the sample standard deviation of one.
Number mean_of(const std::vector<double>& known);
Number deviation_of(const std::vector<double>& known);

// An option of a farbench command, and the parsing of arguments. Each command has one table of options.
struct OptionText {
    const char* name;      // without the dashes
    const char* value;     // name of its value; nullptr: it takes none
    const char* standard;  // default value; nullptr: none
    const char* help;
};

template <class Options>
struct OptionOf : OptionText {
    // Returns an error for the text, or nullptr.
    const char* (*set)(Options& options, const std::string& text);
};

template <class Number>
const char* to_number(std::string_view text, Number low, Number high, Number& to) {
    Number n{};
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (error != std::errc() || end != text.data() + text.size()) return "is not a number";
    if (!(n >= low)) return "is too small";
    if (!(n <= high)) return "is too large";
    to = n;
    return nullptr;
}

// What options set. Each returns an error, or nullptr.
inline const char* to_any_text(const std::string& text, std::string& to) {
    to = text;
    return nullptr;
}
inline const char* to_text(const std::string& text, std::string& to) {
    to = text;
    return text.empty() ? "is empty" : nullptr;
}
inline const char* to_flag(bool& to) {
    to = true;
    return nullptr;
}
// The names are in the order of the enumeration. `wrong`: the error for another word.
template <class Word, size_t n>
const char* to_word(std::string_view text, const std::string_view (&names)[n], Word& to, const char* wrong) {
    const auto found = std::find(std::begin(names), std::end(names), text);
    if (found == std::end(names)) return wrong;
    to = Word(found - std::begin(names));
    return nullptr;
}
// Adds a part of a list, unless it is `wrong`.
template <class One>
const char* keep(std::vector<One>& list, One one, const char* wrong = nullptr) {
    if (wrong != nullptr) return wrong;
    if (std::find(list.begin(), list.end(), one) != list.end()) return "has a word twice";
    list.push_back(one);
    return nullptr;
}

// Calls take(part) for each part between commas until one fails; returns its error, or nullptr.
template <class Take>
const char* each_part(std::string_view text, Take&& take) {
    for (;;) {
        const size_t comma = text.find(',');
        if (const char* wrong = take(text.substr(0, comma))) return wrong;
        if (comma == text.npos) return nullptr;
        text.remove_prefix(comma + 1);
    }
}

inline std::string unknown_option(const std::string& text) { return "unknown option " + text; }

// Sets the defaults, then the arguments. plain(text): handles an argument that is not an option and returns its error.
// Returns an error, or an empty string.
template <class Options, class Plain = decltype(&unknown_option)>
std::string read_options(std::span<const OptionOf<Options>> table, std::span<char* const> arguments,
                         Options& options, Plain plain = unknown_option) {
    for (const OptionOf<Options>& option : table)
        if (option.standard != nullptr) option.set(options, option.standard);
    for (size_t i = 0; i < arguments.size(); i++) {
        const std::string_view argument = arguments[i];
        if (!argument.starts_with("--")) {
            const std::string wrong = plain(std::string(argument));
            if (!wrong.empty()) return wrong;
            continue;
        }
        const size_t equals = argument.find('=');
        const std::string_view name = argument.substr(2, equals == argument.npos ? equals : equals - 2);
        const OptionOf<Options>* option = nullptr;
        for (const OptionOf<Options>& one : table)
            if (name == one.name) option = &one;
        if (option == nullptr) return "unknown option " + std::string(argument.substr(0, equals));
        std::string text;
        if (equals != argument.npos) {
            if (option->value == nullptr) return "--" + std::string(option->name) + " takes no value";
            text = argument.substr(equals + 1);
        } else if (option->value != nullptr) {
            if (++i == arguments.size()) return "--" + std::string(option->name) + " needs a value";
            text = arguments[i];
        }
        if (const char* wrong = option->set(options, text))
            return "--" + std::string(option->name) + " " + text + " " + wrong;
    }
    return {};
}

struct Command {
    const char* name;
    const char* arguments;  // besides options; empty: none
    const char* help;
    std::vector<OptionText> options;
    int (*run)(std::span<char* const> arguments);  // those after its name; returns the exit status
};

// Each command describes itself, beside its options. An interrupt ends the long ones with their partial results.
Command load_command();
Command compare_command();
Command floor_command();
Command transport_command();
Command hitratio_command();
Command reports_command();
Command rnic_command();
Command capacity_command();
Command buffer_command();

// Prints what is wrong in the arguments. Returns the exit status.
int refuse_arguments(const char* command, const std::string& wrong);

}  // namespace farcached::bench
