// SPDX-License-Identifier: BSD-3-Clause
// `farbench transport`: compares the transports to a node. Runs one trial of each point per round, so that changes on
// the machine affect all points.
#pragma once

#include <span>

namespace farcached::bench {

// Exit statuses: bench/exit_status.h; an interrupt ends it with the partial results.
int transport_command(std::span<char* const> arguments);

}  // namespace farcached::bench
