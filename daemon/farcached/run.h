// SPDX-License-Identifier: BSD-3-Clause
// farcached, from its start to its end.
// Owner: main. Threads: main's alone; the parts that run() makes start all others.
#pragma once

namespace farcached::daemon {

// The exit status; once, in the main thread. The words of the command line outlive it.
int run(int argc, char** argv);

}  // namespace farcached::daemon
