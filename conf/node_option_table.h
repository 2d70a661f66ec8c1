// SPDX-License-Identifier: BSD-3-Clause
// The options of a farnode. Each is also a key of the file of --config, except those that print something.
#pragma once

#include <span>

#include "conf/option.h"

namespace farcached::conf {

std::span<const Option> node_option_table();

}  // namespace farcached::conf
