// SPDX-License-Identifier: BSD-3-Clause
// The options of a farcached in front of nodes, apart from the table of farcached's own: a program
// that serves nodes parses its command line by both.
#pragma once

#include <span>
#include <vector>

#include "conf/option.h"

namespace farcached::conf {

std::span<const Option> proxy_option_table();
// farcached's own rows, then these.
std::vector<Option> option_table_with_nodes();

}  // namespace farcached::conf
