// SPDX-License-Identifier: BSD-3-Clause
// The options of a farnode. Each but those that print something is a key of the file of --config, too.
#pragma once

#include <span>

#include "conf/option.h"

namespace farcached::conf {

std::span<const Option> node_option_table();

}  // namespace farcached::conf
