// SPDX-License-Identifier: BSD-3-Clause
// Plans a reload: compares the running settings with those that the command line and files now yield.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "conf/option.h"
#include "conf/program.h"
#include "conf/settings.h"

namespace farcached::conf {

struct ReloadPlan {
    std::vector<std::string> errors;   // not empty: change nothing, and ignore the rest
    Settings settings;                 // the running settings, with the changes that a reload may apply
    std::vector<std::string> changed;  // keys that differ, and are applied
    std::vector<std::string> waiting;  // keys that differ, and need a restart
};

// running: the daemon's current settings. wanted: checked settings.
// A list of nodes that becomes empty, or nonempty, waits for a restart: with nodes the process stores no items.
ReloadPlan plan_reload(std::span<const Option> table, const Program& program, const Settings& running,
                       const Settings& wanted);

}  // namespace farcached::conf
