// SPDX-License-Identifier: BSD-3-Clause
// The options of a farcached with nodes, separate from farcached's own table: such a program parses its command line by both.
#pragma once

#include <span>
#include <vector>

#include "conf/option.h"

namespace farcached::conf {

std::span<const Option> proxy_option_table();
// farcached's own rows, followed by these.
std::vector<Option> option_table_with_nodes();

}  // namespace farcached::conf
