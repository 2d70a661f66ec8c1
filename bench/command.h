// SPDX-License-Identifier: BSD-3-Clause
// What the commands of farbench share: exit statuses, interrupts, files of results.
#pragma once

#include <atomic>
#include <charconv>
#include <csignal>
#include <fstream>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

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

inline void catch_interrupts() {
    struct sigaction action {};
    action.sa_handler = [](int) { interrupted.store(true); };
    action.sa_flags = int(SA_RESETHAND);
    for (const int number : {SIGINT, SIGTERM}) sigaction(number, &action, nullptr);
}

// Writes text to a file, whole.
// mode: std::ios::trunc or std::ios::app. Throws std::runtime_error.
inline void write_file(const std::string& path, const std::string& text, std::ios::openmode mode) {
    std::ofstream file(path, mode);
    file << text;
    file.close();
    if (!file) throw std::runtime_error("cannot write " + path);
}

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

// Sets the defaults, then the arguments. plain(text): handles an argument that is not an option and returns its error.
// Returns an error, or an empty string.
template <class Options, class Plain>
std::string read_options(std::span<const OptionOf<Options>> table, std::span<char* const> arguments,
                         Options& options, Plain&& plain) {
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

}  // namespace farcached::bench
