// SPDX-License-Identifier: BSD-3-Clause
#include "conf/settings_stats.h"

#include <string>

#include "base/check.h"
#include "conf/option.h"
#include "conf/option_tables.h"

namespace farcached::conf {

namespace {

void nodes_stats(const Settings& settings,
                 FunctionRef<void(std::string_view name, std::string_view value)> visit) {
    std::string names;
    for (const NodeSpec& node : settings.proxy.nodes) names += (names.empty() ? "" : ",") + node.name;
    visit("nodes", names);
    for (const Option& option : proxy_option_table()) {
        if (!option.in_file || option.kind.show == nullptr) continue;
        std::string value = option.kind.show(option, settings);
        if (value.empty()) value = "NULL";
        visit(option.name, value);
        if (!option.old_name.empty()) visit(option.old_name, value);
    }
}

}  // namespace

void settings_stats(const Settings& settings,
                    FunctionRef<void(std::string_view name, std::string_view value)> visit) {
    for (const Option& option : option_table()) {
        if (option.stat.empty()) continue;
        Show* show = option.stat_show != nullptr ? option.stat_show : option.kind.show;
        CHECK(show != nullptr);
        visit(option.stat, show(option, settings));
    }
    if (!settings.proxy.nodes.empty()) nodes_stats(settings, visit);
}

}  // namespace farcached::conf
