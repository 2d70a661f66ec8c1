// SPDX-License-Identifier: BSD-3-Clause
// Charts of what was measured, by a Python script that reads it.
#pragma once

#include <string>

namespace farcached::bench {

// Runs the script (its file's name; `given`: its path, or empty for where it is installed) on a folder. That there are no
// charts for whatever reason is said on standard error, behind "farbench COMMAND: ".
void draw_charts(const char* command, const char* script, const std::string& given, const std::string& folder);

}  // namespace farcached::bench
