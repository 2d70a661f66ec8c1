// SPDX-License-Identifier: BSD-3-Clause
// farbench compare: its options, which are read here, and the program in Python that does what they say (bench/compare.py).
#pragma once

#include <map>
#include <span>
#include <string>

#include "bench/option_text.h"

namespace farcached::bench {

// What was said or is standard, checked, by option. Flags are "yes".
using CompareOptions = std::map<std::string, std::string>;

std::span<const OptionOf<CompareOptions>> compare_options();

// arguments: behind `compare`. Does not return if the program in Python can be run.
int compare_command(std::span<char* const> arguments);

}  // namespace farcached::bench
