// SPDX-License-Identifier: BSD-3-Clause
#include "bench/usage.h"

#include <sys/resource.h>
#include <unistd.h>

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

double cpu_seconds(int pid) {
    std::string stat = read_all("/proc/" + std::to_string(pid) + "/stat");
    size_t name_end = stat.rfind(')');  // the name in front may hold anything
    if (name_end == stat.npos)
        throw std::runtime_error("there is no process " + std::to_string(pid));
    constexpr int fields_between = 11;  // state .. cmajflt; then utime and stime
    std::istringstream fields(stat.substr(name_end + 1));
    std::string skipped;
    for (int i = 0; i < fields_between; i++) fields >> skipped;
    uint64_t user = 0, system = 0;
    fields >> user >> system;
    return double(user + system) / double(sysconf(_SC_CLK_TCK));
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

Usage usage_of(std::span<const int> pids) {
    Usage sum;
    for (int pid : pids) {
        sum.cpu_s += cpu_seconds(pid);
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
