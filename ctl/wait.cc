// SPDX-License-Identifier: BSD-3-Clause
#include "ctl/wait.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>

namespace farcached::ctl {

namespace {

volatile sig_atomic_t interrupted = 0;
bool by_console = false;

// The terminal has printed "^C".
void on_interrupt(int) {
    const int error = errno;
    if (interrupted == 0) (void)!write(STDERR_FILENO, "\n", 1);
    interrupted = 1;
    errno = error;
}

// SIGINT is blocked for the lifetime, so that none is lost between the look at the flag and the wait.
class InterruptBlock {
  public:
    InterruptBlock() {
        sigset_t interrupt;
        sigemptyset(&interrupt);
        sigaddset(&interrupt, SIGINT);
        sigprocmask(SIG_BLOCK, &interrupt, &before_);
    }
    ~InterruptBlock() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
    InterruptBlock(const InterruptBlock&) = delete;
    InterruptBlock& operator=(const InterruptBlock&) = delete;
    const sigset_t& before() const { return before_; }

  private:
    sigset_t before_{};
};

}  // namespace

bool is_interrupted() { return interrupted != 0; }
bool console_interrupts() { return by_console; }

Waited wait_for(int fd, uint32_t timeout_ms) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point end = Clock::now() + std::chrono::milliseconds(timeout_ms);
    const InterruptBlock block;
    pollfd wanted{fd, POLLIN, 0};
    for (;;) {
        if (is_interrupted()) return Waited::interrupted;
        const int64_t left_ns = std::max<int64_t>(std::chrono::nanoseconds(end - Clock::now()).count(), 0);
        const timespec left{left_ns / 1'000'000'000, left_ns % 1'000'000'000};
        const int found = ppoll(&wanted, 1, &left, &block.before());
        if (found > 0) return Waited::ready;
        if (found == 0 || errno != EINTR) return Waited::timeout;
    }
}

ConsoleInterrupts::ConsoleInterrupts() {
    struct sigaction action {};
    action.sa_handler = on_interrupt;
    action.sa_flags = SA_RESTART;
    sigaction(SIGINT, &action, &before_);
    by_console = true;
}

ConsoleInterrupts::~ConsoleInterrupts() {
    by_console = false;
    sigaction(SIGINT, &before_, nullptr);
}

void ConsoleInterrupts::forget() { interrupted = 0; }

}  // namespace farcached::ctl
