// SPDX-License-Identifier: BSD-3-Clause
// Checks between options: after all were parsed, and for a reload, which compares the running settings with those that the
// command line and files now yield.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "conf/option.h"
#include "conf/program.h"
#include "conf/settings.h"

namespace farcached::conf {

std::vector<Problem> check_settings(const Settings& settings);
// Checks that the admin socket's path differs from the other one.
Refusal check_admin_path(const Settings& settings, std::string_view other_path, std::string_view other_option);
Refusal check_item_size(const Settings& settings);  // the part that all daemons need

// Warnings for stderr; empty if none.
std::string remarks(const Settings& settings);

// A planned reload.
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
