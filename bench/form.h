// SPDX-License-Identifier: BSD-3-Clause
// A line of a report, as printf() forms it.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <string>

namespace farcached::bench {

// Of 255 characters at most.
[[gnu::format(printf, 1, 2)]] inline std::string form(const char* format, ...) {
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return text;
}

}  // namespace farcached::bench
