// SPDX-License-Identifier: BSD-3-Clause
// `farbench reports`: the cost of reporting accesses to a node, by WRITE into its container and by SEND, and of its
// answer. Runs one trial of each point per round, so that changes on the machine affect all points.
#pragma once

#include <span>

namespace farcached::bench {

// Exit statuses: bench/exit_status.h; an interrupt ends it with the partial results.
int reports_command(std::span<char* const> arguments);

}  // namespace farcached::bench
