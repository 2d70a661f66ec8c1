// SPDX-License-Identifier: BSD-3-Clause
// Exit statuses, and the type that carries a startup error to main. The numbers are memcached's, from sysexits.h: harnesses and
// units check them.
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

using Refusal = std::optional<Problem>;  // empty: no error

}  // namespace farcached::conf
