// SPDX-License-Identifier: BSD-3-Clause
// The pause of a thread between two polls of memory that another thread is about to change.
#pragma once

namespace farcached {

// Lets the core's other hardware thread run first; no system call.
inline void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

}  // namespace farcached
