// SPDX-License-Identifier: BSD-3-Clause
// Ends a daemon that cannot start: prints the reason on stderr and exits with the status of its kind.
// Owner: main, before other threads start.
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "conf/command_line.h"
#include "conf/program.h"

namespace farcached::process {

[[noreturn]] void fatal(const Problem& problem);
// For a failed system call. sentence: without a line end.
[[noreturn]] void fatal(const std::string& sentence);

void or_fatal(const Refusal& refusal);

template <class Value>
Value or_fatal(Result<Value> result) {
    if (auto* problem = std::get_if<Problem>(&result)) fatal(*problem);
    return std::move(std::get<Value>(result));
}

// Prints the output that the command line asked for. Exits if that was all, or if the command line was wrong.
conf::Settings settings_or_exit(conf::CommandLine line);

}  // namespace farcached::process
