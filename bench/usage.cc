// SPDX-License-Identifier: BSD-3-Clause
#include "bench/usage.h"

#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>

namespace farcached::bench {

namespace {

std::string read_all(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

uint64_t switches_in(const std::string& status) {
    uint64_t sum = 0;
    std::istringstream lines(status);
    for (std::string line; std::getline(lines, line);) {
        size_t at = line.find("voluntary_ctxt_switches:");
        if (at != line.npos) sum += std::stoull(line.substr(line.find(':') + 1));
    }
    return sum;
}

uint64_t context_switches(int pid) {
    uint64_t sum = 0;
    std::error_code gone;
    std::filesystem::directory_iterator threads("/proc/" + std::to_string(pid) + "/task", gone),
        none;
    for (; !gone && threads != none; threads.increment(gone))
        sum += switches_in(read_all(threads->path().string() + "/status"));
    return sum;
}

// Throws std::runtime_error if the process is gone.
double seconds_on(clockid_t clock, pid_t pid) {
    timespec used{};
    if (clock_gettime(clock, &used) != 0) throw std::runtime_error("no process " + std::to_string(pid));
    return double(used.tv_sec) + double(used.tv_nsec) * 1e-9;
}

}  // namespace

double process_cpu_s(pid_t pid) {
    clockid_t clock{};
    if (clock_getcpuclockid(pid, &clock) != 0) throw std::runtime_error("no process " + std::to_string(pid));
    return seconds_on(clock, pid);
}

double thread_cpu_s() { return seconds_on(CLOCK_THREAD_CPUTIME_ID, getpid()); }

double own_cpu_s() { return seconds_on(CLOCK_PROCESS_CPUTIME_ID, getpid()); }

Usage usage_of(std::span<const int> pids) {
    Usage sum;
    for (int pid : pids) {
        sum.cpu_s += process_cpu_s(pid);
        sum.context_switches += context_switches(pid);
    }
    return sum;
}

}  // namespace farcached::bench
