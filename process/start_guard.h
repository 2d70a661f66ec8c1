// SPDX-License-Identifier: BSD-3-Clause
// StartGuard: while a daemon starts, a failed allocation or system call ends it with a message and an exit status, not
// with a crash. Owner: main, from one thread; once.
#pragma once

#include <cstdint>

#include "conf/program.h"

namespace farcached::process {

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
