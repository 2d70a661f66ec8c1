// SPDX-License-Identifier: BSD-3-Clause
// Waiting of farctl. The console makes Ctrl-C end the command that waits; without a ConsoleInterrupts a SIGINT ends the process.
// Owner: main; one thread.
#pragma once

#include <csignal>
#include <cstdint>

namespace farcached::ctl {

enum class Waited : uint8_t { ready, timeout, interrupted };

// Until fd is readable (-1: never), the timeout, or an interrupt. Every wait of a command is this one.
Waited wait_for(int fd, uint32_t timeout_ms);
inline Waited wait_ms(uint32_t ms) { return wait_for(-1, ms); }

// A SIGINT arrived since the last forget().
bool is_interrupted();
// A ConsoleInterrupts lives.
bool console_interrupts();

// While it lives, SIGINT interrupts instead of ending the process. At most one.
class ConsoleInterrupts {
  public:
    ConsoleInterrupts();
    ~ConsoleInterrupts();
    ConsoleInterrupts(const ConsoleInterrupts&) = delete;
    ConsoleInterrupts& operator=(const ConsoleInterrupts&) = delete;

    // Before a command, and before a completion that asks daemons.
    void forget();

  private:
    struct sigaction before_ {};
};

}  // namespace farcached::ctl
