// SPDX-License-Identifier: BSD-3-Clause
// Hints to the CPU: memory that is soon used, and a thread that polls.
// No state; any thread.
#pragma once

namespace farcached {

// Prefetching: loads memory into the cache before its use. Any address is allowed: an invalid one is ignored.
// The empty statement is a side effect. Without one GCC treats a function that only prefetches as pure, and drops its calls.
inline void prefetch(const void* at) {
    __builtin_prefetch(at);
    asm volatile("");
}

inline void prefetch_to_write(const void* at) {
    __builtin_prefetch(at, 1);
    asm volatile("");
}

// The pause of a thread between two polls of memory that another thread is about to change.
// Lets the core's other hardware thread run first; no system call.
inline void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

}  // namespace farcached
