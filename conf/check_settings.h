// SPDX-License-Identifier: BSD-3-Clause
// Checks between options, after all were parsed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "conf/exit_status.h"
#include "conf/settings.h"

namespace farcached::conf {

std::vector<Problem> check_settings(const Settings& settings);
// Checks that the admin socket's path differs from the other one.
Refusal check_admin_path(const Settings& settings, std::string_view other_path, std::string_view other_option);
Refusal check_item_size(const Settings& settings);  // the part that all daemons need

// Warnings for stderr; empty if none.
std::string remarks(const Settings& settings);

}  // namespace farcached::conf
