// SPDX-License-Identifier: BSD-3-Clause
// Random numbers from the kernel, for seeds and identities: unpredictable from outside.
#pragma once

#include <cstdint>

namespace farcached {

// Never 0. Waits until the kernel has enough entropy, early after boot.
uint64_t random_word();

}  // namespace farcached
