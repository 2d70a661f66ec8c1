// SPDX-License-Identifier: BSD-3-Clause
// Random numbers from the kernel, for seeds and identities: unpredictable from outside.
// No state; any thread.
#pragma once

#include <sys/random.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace farcached {

// Never 0. Waits until the kernel has enough entropy, early after boot.
inline uint64_t random_word() {
    uint64_t word = 0;
    while (word == 0)
        if (getrandom(&word, sizeof word, 0) != ssize_t(sizeof word)) word = 0;
    return word;
}

// Also waits. A call of the kernel fills up to 256 bytes without an interruption.
inline void fill_random(char* to, size_t bytes) {
    constexpr size_t step = 256;
    for (size_t done = 0; done < bytes;) {
        const ssize_t got = getrandom(to + done, std::min(step, bytes - done), 0);
        if (got > 0) done += size_t(got);
    }
}

}  // namespace farcached
