// SPDX-License-Identifier: BSD-3-Clause
// farbench compare: parses its options and runs the Python program that implements them (bench/compare/compare.py).
#pragma once

#include <map>
#include <span>
#include <string>

#include "bench/command.h"

namespace farcached::bench {

// Given or default values, checked, by option. Flags are "yes".
using CompareOptions = std::map<std::string, std::string>;

std::span<const OptionOf<CompareOptions>> compare_options();

// arguments: those after `compare`. Does not return if the Python program starts.
int compare_command(std::span<char* const> arguments);

}  // namespace farcached::bench
