// SPDX-License-Identifier: BSD-3-Clause
// Populates the pages of a mapping now, not at the first write.
#pragma once

#include <cstddef>

namespace farcached {

// Populates all pages of these bytes. False: the system has no memory for them, and a write there would be a SIGBUS. A
// kernel older than Linux 5.14 cannot report that: true.
bool populate(void* at, size_t bytes);

}  // namespace farcached
