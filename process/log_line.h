// SPDX-License-Identifier: BSD-3-Clause
// A line of the log in each of its forms (base/log_words.h). Pure.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/log_words.h"

namespace farcached::process {

// What a line is about, to be searched for: {"node", "a"}. Borrowed until the call returns.
struct LogField {
    std::string_view name, value;
};
using LogFields = std::initializer_list<LogField>;

struct LogMoment {
    int64_t seconds = 0;  // since 1970
    uint32_t ms = 0;
};

// sentence: one line, without its end. Without an end itself. Whatever the sentence and the fields hold, it is one
// line, and in json valid UTF-8.
std::string log_line(LogFormat format, LogLevel level, LogMoment at, std::string_view sentence, LogFields fields);

}  // namespace farcached::process
