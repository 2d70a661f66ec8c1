// SPDX-License-Identifier: BSD-3-Clause
// Replaces operator new in a program that includes this file once and defines allocation_refused(). An allocation fails
// when that function returns true for it.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

bool allocation_refused(size_t bytes);

// Not inlined, so that the compiler takes each new and its delete for a pair.
[[gnu::noinline]] void* operator new(size_t bytes) {
    void* memory = allocation_refused(bytes) ? nullptr : std::malloc(bytes);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
}
[[gnu::noinline]] void* operator new[](size_t bytes) { return operator new(bytes); }
[[gnu::noinline]] void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
    return allocation_refused(bytes) ? nullptr : std::malloc(bytes);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
