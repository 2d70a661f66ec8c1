// SPDX-License-Identifier: BSD-3-Clause
// The words of log_level and log_format, for messages on stderr, in the order of their enumerations.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace farcached {

// In the order of syslog(3) and the journal, from its 3 on.
enum class LogLevel : uint8_t {
    error,    // the process cannot do its work, or ends
    warning,  // a resource is missing; the process goes on without it
    notice,   // the resource is back, or an operator acted
    info,     // with -v
    debug,    // with -vv: the requests of clients and the replies
};
constexpr std::array<std::string_view, 5> log_level_names = {"error", "warning", "notice", "info", "debug"};
static_assert(log_level_names[size_t(LogLevel::debug)] == "debug");
constexpr int journal_level(LogLevel level) { return 3 + int(level); }

enum class LogFormat : uint8_t {
    text,    // a sentence, then its subject as name=value
    logfmt,  // name=value alone, time and level first
    json,    // the same as an object
};
constexpr std::array<std::string_view, 3> log_format_names = {"text", "logfmt", "json"};
static_assert(log_format_names[size_t(LogFormat::json)] == "json");

}  // namespace farcached
