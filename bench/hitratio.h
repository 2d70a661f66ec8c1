// SPDX-License-Identifier: BSD-3-Clause
// `farbench hitratio`: what each policy finds, by workload and size of the cache, in virtual time (bench/hitratio_sim.h).
#pragma once

#include <span>

namespace farcached::bench {

// Exit statuses as farbench.cc says.
int hitratio_command(std::span<char* const> arguments);

}  // namespace farcached::bench
