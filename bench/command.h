// SPDX-License-Identifier: BSD-3-Clause
// What the commands of farbench share: exit statuses, interrupts, files of results.
#pragma once

#include <atomic>
#include <csignal>
#include <fstream>
#include <stdexcept>
#include <string>

namespace farcached::bench {

// Exit statuses of farbench.
enum ExitStatus : int {
    exit_good = 0,
    exit_failed = 1,  // an error, a wrong value, a broken connection, an interrupt, or a failed start
    exit_usage = 64,  // invalid arguments
};

// The first interrupt ends a long measurement with its partial results; a second one ends it at once.
inline std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);  // a signal handler stores it

inline void catch_interrupts() {
    struct sigaction action {};
    action.sa_handler = [](int) { interrupted.store(true); };
    action.sa_flags = int(SA_RESETHAND);
    for (const int number : {SIGINT, SIGTERM}) sigaction(number, &action, nullptr);
}

// Writes text to a file, whole.
// mode: std::ios::trunc or std::ios::app. Throws std::runtime_error.
inline void write_file(const std::string& path, const std::string& text, std::ios::openmode mode) {
    std::ofstream file(path, mode);
    file << text;
    file.close();
    if (!file) throw std::runtime_error("cannot write " + path);
}

}  // namespace farcached::bench
