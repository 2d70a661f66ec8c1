// SPDX-License-Identifier: BSD-3-Clause
// `stats settings`: 77 names and values, in memcached 1.6.45's order and formats, from the option table. With nodes configured,
// their names and the options about them follow.
#pragma once

#include <string_view>

#include "base/function_ref.h"
#include "conf/settings.h"

namespace farcached::conf {

void settings_stats(const Settings& settings,
                    FunctionRef<void(std::string_view name, std::string_view value)> visit);

}  // namespace farcached::conf
