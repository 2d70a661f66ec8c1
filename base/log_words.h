// SPDX-License-Identifier: BSD-3-Clause
// How much a daemon says on stderr, and in which form: the words of log_level and log_format, in the order of their
// enumerations.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace farcached {

// As syslog(3) and the journal order them, from its 3 on.
enum class LogLevel : uint8_t {
    error,    // the process does not do what it is for, or ends
    warning,  // something that it needs is not there; it goes on without
    notice,   // what was not there is back, or an operator did something
    info,     // with -v
    debug,    // with -vv: what clients say, and hear
};
constexpr std::array<std::string_view, 5> log_level_names = {"error", "warning", "notice", "info", "debug"};
static_assert(log_level_names[size_t(LogLevel::debug)] == "debug");
constexpr int journal_level(LogLevel level) { return 3 + int(level); }

enum class LogFormat : uint8_t {
    text,    // a sentence, then what it is about as name=value
    logfmt,  // name=value alone, time and level first
    json,    // the same as an object
};
constexpr std::array<std::string_view, 3> log_format_names = {"text", "logfmt", "json"};
static_assert(log_format_names[size_t(LogFormat::json)] == "json");

}  // namespace farcached
