// SPDX-License-Identifier: BSD-3-Clause
// What options say about each other, after all have been read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "conf/exit_status.h"
#include "conf/settings.h"

namespace farcached::conf {

std::vector<Problem> check_settings(const Settings& settings);
// May the operator's socket be where it was said, beside the other one?
Refusal check_admin_path(const Settings& settings, std::string_view other_path, std::string_view other_option);
Refusal check_item_size(const Settings& settings);  // of it, what every daemon asks for

// Not refused, but worth a line on stderr; empty if nothing is.
std::string remarks(const Settings& settings);

}  // namespace farcached::conf
