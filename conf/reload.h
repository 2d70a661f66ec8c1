// SPDX-License-Identifier: BSD-3-Clause
// What a reload comes to: the settings that a daemon runs by, and those that its command line and files say now.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "conf/option.h"
#include "conf/program.h"
#include "conf/settings.h"

namespace farcached::conf {

struct ReloadPlan {
    std::vector<std::string> errors;   // not empty: nothing is to be changed, and the rest says nothing
    Settings settings;                 // to run by from now on: those that run, with what a reload may change
    std::vector<std::string> changed;  // keys that differ from what runs, and are applied
    std::vector<std::string> waiting;  // keys that differ, and need a restart
};

// running: what the daemon runs by, of which this says what to change. wanted: checked settings.
// A list of nodes that becomes empty, or no longer is, waits: with nodes the process keeps no items.
ReloadPlan plan_reload(std::span<const Option> table, const Program& program, const Settings& running,
                       const Settings& wanted);

}  // namespace farcached::conf
