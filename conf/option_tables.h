// SPDX-License-Identifier: BSD-3-Clause
// The option tables beside farcached's own (conf/option.h).
#pragma once

#include <span>
#include <vector>

#include "conf/option.h"

namespace farcached::conf {

// The options of a farnode. Each is also a key of the file of --config, except those that print something.
std::span<const Option> node_option_table();

std::span<const Option> proxy_option_table();
// farcached's own rows, followed by these.
std::vector<Option> option_table_with_nodes();

}  // namespace farcached::conf
