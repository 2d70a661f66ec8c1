// SPDX-License-Identifier: BSD-3-Clause
// `farbench reports`: what it takes to tell a node of accesses, by WRITE into its container and by SEND, and to hear its
// answer. Each trial of each point in turn, trials outermost, so that what changes on the machine meanwhile meets all of them.
#pragma once

#include <span>

namespace farcached::bench {

// Exit statuses as farbench.cc says; an interrupt ends it with what was measured until then.
int reports_command(std::span<char* const> arguments);

}  // namespace farcached::bench
