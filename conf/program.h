// SPDX-License-Identifier: BSD-3-Clause
// Program: the properties of one daemon's command line, except its option table.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "conf/exit_status.h"
#include "conf/resource_limits.h"
#include "conf/settings.h"

namespace farcached::conf {

struct Program {
    std::string_view name;                       // command name
    std::string (*version)() = nullptr;          // for -V, and above the help: one line
    // Checks between options; returns all errors.
    std::vector<Problem> (*check)(const Settings&) = nullptr;
    std::string (*remarks)(const Settings&) = nullptr; // warnings for stderr
    ResourceLimits (*limits)(const Settings&) = nullptr;
};

const Program& farcached_program();
const Program& farnode_program();

}  // namespace farcached::conf
