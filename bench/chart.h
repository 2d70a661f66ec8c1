// SPDX-License-Identifier: BSD-3-Clause
// Runs the Python scripts that draw charts of results.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <string>

namespace farcached::bench {

// The path of a script, by file name: installed or in the source tree; empty: not found.
std::string find_script(const char* script);

// Runs a script on a folder. `script`: its file name; `given`: its path, or empty for the installed one. A failure is
// printed on standard error, after "farbench COMMAND: ".
void draw_charts(const char* command, const char* script, const std::string& given, const std::string& folder);

// printf() formatting for report lines. Pure.
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
