// SPDX-License-Identifier: BSD-3-Clause
// Ends a daemon that cannot start: prints the reason on stderr and exits with the status of its kind.
// Owner: main, before other threads start.
#pragma once

#include <cstdint>
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

// While a daemon starts, a failed allocation or system call ends it with a message and an exit status, not with a crash. Once.
class StartGuard {
  public:
    StartGuard();
    ~StartGuard() { over(); }
    StartGuard(const StartGuard&) = delete;
    StartGuard& operator=(const StartGuard&) = delete;

    // Before threads start: is there address space for their stacks and the allocator's part for each? The allocator
    // (libjemalloc 5.3) would crash without it.
    static Refusal room_for(uint32_t threads);

    // The start is complete: an uncaught exception from now on is a bug and ends as one; if memory ran out, a message
    // comes first.
    void over();
};

}  // namespace farcached::process
