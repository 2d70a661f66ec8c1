// SPDX-License-Identifier: BSD-3-Clause
// StartGuard: while a daemon starts, what the system cannot give, wherever it was wanted, ends it with a sentence and an
// exit status, and not by a crash. Owner: main, from one thread; once.
#pragma once

#include <cstdint>
#include <exception>

#include "conf/exit_status.h"

namespace farcached::process {

class StartGuard {
  public:
    StartGuard();
    ~StartGuard() { over(); }
    StartGuard(const StartGuard&) = delete;
    StartGuard& operator=(const StartGuard&) = delete;

    // Before threads are started: is there address space for their stacks, and for what the allocator takes for each? It takes
    // it for granted (libjemalloc 5.3 does), and would crash.
    static conf::Refusal room_for(uint32_t threads);

    // It serves: what is thrown and not caught from now on is a bug, and ends as one.
    void over();

  private:
    std::terminate_handler before_;
};

}  // namespace farcached::process
