// SPDX-License-Identifier: BSD-3-Clause
#include "base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace farcached {

uint64_t hash_bytes(const void* data, size_t size, uint64_t seed) {
    return XXH3_64bits_withSeed(data, size, seed);
}

uint64_t hash_bytes(const void* data, size_t size, const void* more, size_t more_size, uint64_t seed) {
    XXH3_state_t state;
    XXH3_INITSTATE(&state);
    XXH3_64bits_reset_withSeed(&state, seed);
    XXH3_64bits_update(&state, data, size);
    XXH3_64bits_update(&state, more, more_size);
    return XXH3_64bits_digest(&state);
}

}  // namespace farcached
