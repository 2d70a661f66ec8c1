// SPDX-License-Identifier: BSD-3-Clause
// Program: what tells one daemon's command line from another's, beside its table of options.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "conf/exit_status.h"
#include "conf/settings.h"

namespace farcached::conf {

struct Program {
    std::string_view name;                       // of the command
    std::string (*version)() = nullptr;          // for -V, and above the help: a line
    // What options say about each other: all that is wrong.
    std::vector<Problem> (*check)(const Settings&) = nullptr;
    std::string (*remarks)(const Settings&) = nullptr; // not refused, but worth lines on stderr
};

const Program& farcached_program();
const Program& farnode_program();

}  // namespace farcached::conf
