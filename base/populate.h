// SPDX-License-Identifier: BSD-3-Clause
// Memory of a mapping that has its pages now, and not when somebody writes there.
#pragma once

#include <cstddef>

namespace farcached {

// Of all pages that hold these bytes. False: the system has no memory for them, and who wrote there would end by SIGBUS. A
// kernel older than Linux 5.14 cannot say that: true.
bool populate(void* at, size_t bytes);

}  // namespace farcached
