// SPDX-License-Identifier: BSD-3-Clause
// Charts of what was measured, by a Python script that reads it; and where such scripts are.
#pragma once

#include <string>

namespace farcached::bench {

// The path of a script by its file's name: where it is installed, or in the sources that this was built from; empty: nowhere.
std::string find_script(const char* script);

// Runs the script (its file's name; `given`: its path, or empty for where it is installed) on a folder. That there are no
// charts for whatever reason is said on standard error, behind "farbench COMMAND: ".
void draw_charts(const char* command, const char* script, const std::string& given, const std::string& folder);

}  // namespace farcached::bench
