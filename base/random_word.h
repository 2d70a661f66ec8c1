// SPDX-License-Identifier: BSD-3-Clause
// Chance from the kernel, for seeds and identities: nobody outside can foretell it.
#pragma once

#include <cstdint>

namespace farcached {

// Never 0. Waits until the kernel has enough of it, early in the host's start.
uint64_t random_word();

}  // namespace farcached
