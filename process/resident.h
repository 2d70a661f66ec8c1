// SPDX-License-Identifier: BSD-3-Clause
// What of a program and its libraries is mapped here. Much of it is for the start alone: option tables, dynamic linking with its
// names, parsing. The kernel maps sixteen pages around each that is touched, and keeps them mapped until memory is short.
#pragma once

namespace farcached::process {

// From here on only what is touched again is mapped: the pages stay in the system's cache, and come back with a minor fault. That
// is done to the parts of the program and its libraries that are not for writing, and whose mappings hold nothing of this process's
// own, in memory or swapped out: no relocation, no breakpoint. Any thread, at any time, also while libraries are loaded; where
// /proc is not there, memory is locked, or there is none to be had, nothing happens.
void unmap_unused();

}  // namespace farcached::process
