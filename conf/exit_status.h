// SPDX-License-Identifier: BSD-3-Clause
// What the program's exit status tells, and how a refusal to start is carried to main. The numbers are
// memcached's, which took them from sysexits.h: harnesses and units look at them.
#pragma once

#include <optional>
#include <string>

namespace farcached::conf {

constexpr int exit_ok = 0;
constexpr int exit_illegal = 1;       // an illegal argument or a value out of its range
constexpr int exit_usage = 64;        // EX_USAGE
constexpr int exit_no_user = 67;      // EX_NOUSER
constexpr int exit_system = 71;       // EX_OSERR: the system refused (sockets, limits, users)

struct Problem {
    int exit_status;
    std::string text;  // whole lines
};

using Refusal = std::optional<Problem>;  // none: all is well

}  // namespace farcached::conf
