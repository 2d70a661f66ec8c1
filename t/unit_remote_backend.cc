// SPDX-License-Identifier: BSD-3-Clause
// A worker's way to a node: what it says when there is no memory for a value that it would have to keep.
#include <cstdlib>
#include <new>
#include <string>

#include "t/unit_remote_backend_fixture.h"

namespace {

// Of this size and above there is no memory.
size_t too_much = SIZE_MAX;

}  // namespace

// Not inlined, so that the compiler takes each new and its delete for a pair.
[[gnu::noinline]] void* operator new(size_t bytes) {
    void* memory = bytes >= too_much ? nullptr : std::malloc(bytes);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
}
[[gnu::noinline]] void* operator new[](size_t bytes) { return operator new(bytes); }
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

namespace {

using backend_test::Desk;
using farcached::daemon::Asked;

// Larger than a frame: it is sent in pieces, from a copy.
const std::string large(200'000, 'v');

Asked set_without_memory(Desk& desk) {
    too_much = large.size();
    Asked asked = Asked::now;
    try {
        asked = desk.set("large", large);
    } catch (const std::bad_alloc&) {
        tap::ok(false, "asking throws nothing");
    }
    too_much = SIZE_MAX;
    return asked;
}

void no_memory_to_send() {
    Desk desk;
    tap::ok(desk.until_up(), "the node is up");
    desk.set("k", "v");
    tap::is(set_without_memory(desk), Asked::later, "a value that there is no memory for is taken");
    desk.set("k", "w");
    tap::is(desk.answers(), "stored unavailable stored ", "and answered as unavailable, between others");
    desk.set("large", large);
    tap::is(desk.answers(), "stored ", "with memory, it is stored");
}

void no_memory_to_wait() {
    Desk desk;
    tap::is(desk.set("k", "v"), Asked::crowded, "what is asked before the node is up waits");
    tap::is(set_without_memory(desk), Asked::later, "if there is memory for it");
    desk.set("k", "w");
    tap::is(desk.answers(), "stored unavailable stored ", "else it is unavailable, and the others are not");
}

}  // namespace

int main() {
    no_memory_to_send();
    no_memory_to_wait();
    return tap::done();
}
