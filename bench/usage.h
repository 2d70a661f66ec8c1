// SPDX-License-Identifier: BSD-3-Clause
// Resource usage of processes, from /proc.
// No state; any thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>

namespace farcached::bench {

struct Usage {
    double cpu_s = 0;
    uint64_t context_switches = 0;

    Usage operator-(const Usage& earlier) const {
        return {cpu_s - earlier.cpu_s, context_switches - earlier.context_switches};
    }
};

// User and system time of all current and past threads, to the nanosecond (/proc/PID/stat counts in ticks). Throws
// std::runtime_error if there is no such process.
double process_cpu_s(pid_t pid);

// The sum over the processes. Throws std::runtime_error if one does not exist.
Usage usage_of(std::span<const int> pids);

// CPU time of this thread, and of this process.
double thread_cpu_s();
double own_cpu_s();

}  // namespace farcached::bench
