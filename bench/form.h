// SPDX-License-Identifier: BSD-3-Clause
// printf() formatting for report lines. Pure.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <string>

namespace farcached::bench {

// At most 255 characters.
[[gnu::format(printf, 1, 2)]] inline std::string form(const char* format, ...) {
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return text;
}

}  // namespace farcached::bench
