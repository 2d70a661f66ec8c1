// SPDX-License-Identifier: BSD-3-Clause
// farctl, from its command line to its exit status.
// Owner: main; one thread.
#pragma once

namespace farcached::ctl {

// The exit status; once. The words of the command line outlive it.
int run(int argc, char** argv);

}  // namespace farcached::ctl
