// SPDX-License-Identifier: BSD-3-Clause
#include "conf/settings_stats.h"

#include "base/check.h"
#include "conf/option.h"

namespace farcached::conf {

void settings_stats(const Settings& settings,
                    FunctionRef<void(std::string_view name, std::string_view value)> visit) {
    for (const Option& option : option_table()) {
        if (option.stat.empty()) continue;
        Show* show = option.stat_show != nullptr ? option.stat_show : option.kind.show;
        CHECK(show != nullptr);
        visit(option.stat, show(option, settings));
    }
}

}  // namespace farcached::conf
