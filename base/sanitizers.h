// SPDX-License-Identifier: BSD-3-Clause
// Which sanitizers this program is built with. GCC has macros for them, clang has __has_feature().
// Constants.
#pragma once

#if defined(__has_feature)
#define FARCACHED_HAS_FEATURE(name) __has_feature(name)
#else
#define FARCACHED_HAS_FEATURE(name) 0
#endif

namespace farcached {

#if defined(__SANITIZE_ADDRESS__) || FARCACHED_HAS_FEATURE(address_sanitizer)
constexpr bool has_asan = true;
#else
constexpr bool has_asan = false;
#endif
#if defined(__SANITIZE_THREAD__) || FARCACHED_HAS_FEATURE(thread_sanitizer)
constexpr bool has_tsan = true;
#else
constexpr bool has_tsan = false;
#endif

}  // namespace farcached

#undef FARCACHED_HAS_FEATURE
