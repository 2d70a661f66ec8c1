// SPDX-License-Identifier: BSD-3-Clause
#include "process/affinity.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>

#include "process/log.h"

namespace farcached::process {

namespace {

// "0-3,8"
std::string list_of(const cpu_set_t& cpus) {
    std::string list;
    for (int first = 0; first < CPU_SETSIZE; first++) {
        if (!CPU_ISSET(first, &cpus)) continue;
        int last = first;
        while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &cpus)) last++;
        if (!list.empty()) list += ',';
        list += std::to_string(first);
        if (last != first) list += '-' + std::to_string(last);
        first = last;
    }
    return list;
}

}  // namespace

Refusal check_cpus(std::string_view option, std::span<const uint32_t> cpus) {
    cpu_set_t usable;
    if (cpus.empty() || sched_getaffinity(0, sizeof usable, &usable) != 0) return {};
    const auto refused = std::ranges::find_if(cpus, [&](uint32_t cpu) { return !CPU_ISSET(cpu, &usable); });
    if (refused == cpus.end()) return {};
    return Problem{conf::exit_usage, "ERROR: " + std::string(option) + ": CPU " + std::to_string(*refused) +
                                               " is not among the CPUs that this process may use (" + list_of(usable) + ").\n"};
}

void pin_this_thread(uint32_t cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof one, &one) == 0) return;
    say(Level::warning, "cannot bind a worker to CPU " + std::to_string(cpu) + ": " + std::generic_category().message(errno));
}

}  // namespace farcached::process
