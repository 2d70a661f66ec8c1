// SPDX-License-Identifier: BSD-3-Clause
// The check in each item (protocol/layout.h): a keyed hash of its generation and of everything behind the check,
// keyed also by where the item lies. Whoever was told the secret of the incarnation can verify a copy.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/hash.h"
#include "protocol/layout.h"

namespace farcached::layout {

// `item`: the item or a copy of it, `bytes` long, header and all; offset: of the item, from the region's start.
inline uint64_t item_check(const void* item, uint64_t bytes, uint64_t secret, uint64_t generation,
                           uint64_t offset) {
    constexpr size_t from = offsetof(ItemHeader, cas);
    const uint64_t seed = secret ^ generation * UINT64_C(0x9e3779b97f4a7c15) ^ offset;
    return hash_bytes(static_cast<const char*>(item) + from, bytes - from, seed);
}

}  // namespace farcached::layout
