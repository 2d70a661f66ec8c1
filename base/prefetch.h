// SPDX-License-Identifier: BSD-3-Clause
// Prefetching: loads memory into the cache before its use. Any address is allowed: an invalid one is ignored.
#pragma once

namespace farcached {

// The empty statement is a side effect. Without one GCC treats a function that only prefetches as pure, and drops its calls.
inline void prefetch(const void* at) {
    __builtin_prefetch(at);
    asm volatile("");
}

inline void prefetch_to_write(const void* at) {
    __builtin_prefetch(at, 1);
    asm volatile("");
}

}  // namespace farcached
