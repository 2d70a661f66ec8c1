// SPDX-License-Identifier: BSD-3-Clause
// A log line in each of its formats (conf/log_words.h). Pure; any thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "conf/log_words.h"

namespace farcached::process {

// A searchable attribute of a line: {"node", "a"}. Borrowed until the call returns.
struct LogField {
    std::string_view name, value;
};
using LogFields = std::initializer_list<LogField>;

struct LogMoment {
    int64_t seconds = 0;  // since 1970
    uint32_t ms = 0;
};

// sentence: one line without a line end; so is the result. Any sentence and fields yield one line, in json valid UTF-8.
std::string log_line(LogFormat format, LogLevel level, LogMoment at, std::string_view sentence, LogFields fields);

}  // namespace farcached::process
