// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/farcached/run.h"

// jemalloc's settings, found by this name. Workers allocate little: few arenas and short lists of free objects per thread
// suffice, and save a third of a megabyte. MALLOC_CONF in the environment takes precedence.
extern "C" {
extern const char* const malloc_conf;
const char* const malloc_conf = "narenas:4,tcache_nslots_small_max:32";
}

int main(int argc, char** argv) { return farcached::daemon::run(argc, argv); }
