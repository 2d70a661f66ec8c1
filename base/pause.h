// SPDX-License-Identifier: BSD-3-Clause
// What a thread does between two looks at what another is about to change.
#pragma once

namespace farcached {

// Lets the processor's other thread go first; no system call.
inline void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

}  // namespace farcached
