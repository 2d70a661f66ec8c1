// SPDX-License-Identifier: BSD-3-Clause
#include "conf/reload.h"

#include "conf/nodes.h"

namespace farcached::conf {

namespace {

bool can_change(const Option& option, const Settings& running, const Settings& wanted) {
    if (option.kind.value != Value::tables) return is_live(option);
    return running.proxy.nodes.empty() == wanted.proxy.nodes.empty();
}

}  // namespace

ReloadPlan plan_reload(std::span<const Option> table, const Program& program, const Settings& running,
                       const Settings& wanted) {
    ReloadPlan plan;
    plan.settings = running;
    for (const Option& option : table) {
        if (!is_key(option) || written(option, running) == written(option, wanted)) continue;
        const bool changes = can_change(option, running, wanted);
        (changes ? plan.changed : plan.waiting).emplace_back(key_of(option));
        if (changes) copy_value(option, wanted, plan.settings);
    }
    // Live changes may conflict with settings that wait for a restart.
    for (const Problem& problem : program.check(plan.settings)) plan.errors.push_back(problem.text);
    for (const std::string& complaint : check_nodes(plan.settings.proxy)) plan.errors.push_back(complaint);
    for (std::string& error : plan.errors) {
        while (error.ends_with('\n')) error.pop_back();
        error += " (some keys keep their values until a restart)";
    }
    return plan;
}

}  // namespace farcached::conf
