// SPDX-License-Identifier: BSD-3-Clause
// Exit statuses, of errors that end a program (base/result.h). The numbers are memcached's, from sysexits.h: harnesses and units
// check them.
#pragma once

#include "base/result.h"

namespace farcached::conf {

constexpr int exit_ok = 0;
constexpr int exit_illegal = 1;       // an illegal argument or a value out of its range
constexpr int exit_usage = 64;        // EX_USAGE
constexpr int exit_no_user = 67;      // EX_NOUSER
constexpr int exit_system = 71;       // EX_OSERR: the system refused (sockets, limits, users)

using farcached::Problem;
using farcached::Refusal;

}  // namespace farcached::conf
