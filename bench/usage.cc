// SPDX-License-Identifier: BSD-3-Clause
#include "bench/usage.h"

#include <sys/resource.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>

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

}  // namespace

double process_cpu_s(pid_t pid) {
    clockid_t clock{};
    timespec used{};
    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0)
        throw std::runtime_error("no process " + std::to_string(pid));
    return double(used.tv_sec) + double(used.tv_nsec) * 1e-9;
}

Usage usage_of(std::span<const int> pids) {
    Usage sum;
    for (int pid : pids) {
        sum.cpu_s += process_cpu_s(pid);
        sum.context_switches += context_switches(pid);
    }
    return sum;
}

double own_cpu_s() {
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    auto seconds = [](const timeval& t) { return double(t.tv_sec) + double(t.tv_usec) * 1e-6; };
    return seconds(used.ru_utime) + seconds(used.ru_stime);
}

}  // namespace farcached::bench
