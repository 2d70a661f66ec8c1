// SPDX-License-Identifier: BSD-3-Clause
// Program: the properties of one daemon's command line, except its option table.
// Constants; any thread.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "conf/settings.h"

namespace farcached::conf {

using farcached::Problem;
using farcached::Refusal;

// The two versions: memcached's, reported to clients and tools, and this program's.
// Clients choose the commands they send by this number.
constexpr std::string_view memcached_version = "1.6.45";

std::string_view farcached_version();  // from configure.ac

struct ResourceLimits;  // conf/check_settings.h

// An error between options.
struct Conflict {
    Problem problem;
    std::vector<std::string_view> keys;  // that it is about, the one to change first
};

// Where keys were given: "far.toml:3:8: max_item_size". Empty, or no entry: on the command line, or by default.
using Origins = std::map<std::string, std::string, std::less<>>;

struct Program {
    std::string_view name;                       // command name
    std::string (*version)() = nullptr;          // for -V, and above the help: one line
    // Checks between options; returns all errors.
    std::vector<Conflict> (*check)(const Settings&) = nullptr;
    std::string (*remarks)(const Settings&) = nullptr; // warnings for stderr
    ResourceLimits (*limits)(const Settings&) = nullptr;
};

const Program& farcached_program();
const Program& farnode_program();

// Exit statuses, of errors that end a program (base/result.h). The numbers are memcached's, from sysexits.h: harnesses and units
// check them.
constexpr int exit_ok = 0;
constexpr int exit_illegal = 1;       // an illegal argument or a value out of its range
constexpr int exit_usage = 64;        // EX_USAGE
constexpr int exit_no_user = 67;      // EX_NOUSER
constexpr int exit_system = 71;       // EX_OSERR: the system refused (sockets, limits, users)

}  // namespace farcached::conf
