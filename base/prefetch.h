// SPDX-License-Identifier: BSD-3-Clause
// Prefetching: memory is brought nearer before it is needed. The address may be any: what cannot be had is not.
#pragma once

namespace farcached {

// The empty statement is an effect. Without one GCC takes a function that only prefetches for pure, and drops the calls of it.
inline void prefetch(const void* at) {
    __builtin_prefetch(at);
    asm volatile("");
}

inline void prefetch_to_write(const void* at) {
    __builtin_prefetch(at, 1);
    asm volatile("");
}

}  // namespace farcached
