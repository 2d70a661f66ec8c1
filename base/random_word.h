// SPDX-License-Identifier: BSD-3-Clause
// Random numbers from the kernel, for seeds and identities: unpredictable from outside.
#pragma once

#include <sys/random.h>

#include <cstdint>

namespace farcached {

// Never 0. Waits until the kernel has enough entropy, early after boot.
inline uint64_t random_word() {
    uint64_t word = 0;
    while (word == 0)
        if (getrandom(&word, sizeof word, 0) != ssize_t(sizeof word)) word = 0;
    return word;
}

}  // namespace farcached
