// SPDX-License-Identifier: BSD-3-Clause
// The check in each item (protocol/layout.h): a keyed hash of its generation and of all bytes after the check, keyed also
// by the item's place. A proxy with the secret of the incarnation can verify a copy. Pure.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/broken.h"
#include "base/hash.h"
#include "protocol/layout.h"

namespace farcached::layout {

// The key of the check of an item of that generation, `offset` bytes from the region's start.
inline uint64_t item_check_seed(uint64_t secret, uint64_t generation, uint64_t offset) {
    if (broken::s4_check_without_generation) generation = 0;
    return secret ^ generation * UINT64_C(0x9e3779b97f4a7c15) ^ offset;
}

// `item`: the item or a copy of it, `bytes` long, with its header; offset: of the item, from the region's start.
inline uint64_t item_check(const void* item, uint64_t bytes, uint64_t secret, uint64_t generation,
                           uint64_t offset) {
    constexpr size_t from = offsetof(ItemHeader, cas);
    return hash_bytes(static_cast<const char*>(item) + from, bytes - from, item_check_seed(secret, generation, offset));
}

}  // namespace farcached::layout
