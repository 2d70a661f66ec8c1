// SPDX-License-Identifier: BSD-3-Clause
// `farbench hitratio`: the hit ratio of each policy, by workload and cache size, in virtual time
// (bench/hitratio/sim.h).
#pragma once

#include <span>

namespace farcached::bench {

// Exit statuses: bench/exit_status.h.
int hitratio_command(std::span<char* const> arguments);

}  // namespace farcached::bench
