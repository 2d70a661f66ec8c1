// SPDX-License-Identifier: BSD-3-Clause
#include "base/random_word.h"

#include <sys/random.h>

namespace farcached {

uint64_t random_word() {
    uint64_t word = 0;
    while (word == 0)
        if (getrandom(&word, sizeof word, 0) != ssize_t(sizeof word)) word = 0;
    return word;
}

}  // namespace farcached
