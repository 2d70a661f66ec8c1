// SPDX-License-Identifier: BSD-3-Clause
// A library to preload into a daemon under test (t/faulty/failing_allocations.py). In any thread operator new fails,
// and realloc() too when the program calls it. A file of four words, mapped by test and daemon, selects the failures;
// without it nothing fails. Allocations of libraries do not fail.
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace {

enum Mode : uint64_t { off, one, from_one_on };  // which fail: the one that `left` counts down to, or that and all behind it

struct Control {
    std::atomic<uint64_t> mode, left, failed, seen;
};

struct Program {
    uintptr_t begin = UINTPTR_MAX, end = 0;
    bool has(const void* address) const { return uintptr_t(address) - begin < end - begin; }
};

Control* mapped() {
    const char* path = std::getenv("FARCACHED_FAILING_NEW");
    const int fd = path == nullptr ? -1 : open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return nullptr;
    void* at = mmap(nullptr, sizeof(Control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return at == MAP_FAILED ? nullptr : static_cast<Control*>(at);
}

// The first object that is loaded is the program.
Program program() {
    Program found;
    dl_iterate_phdr(
        [](dl_phdr_info* info, size_t, void* to) {
            Program& found = *static_cast<Program*>(to);
            for (size_t i = 0; i < info->dlpi_phnum; i++) {
                const ElfW(Phdr)& part = info->dlpi_phdr[i];
                if (part.p_type != PT_LOAD) continue;
                found.begin = std::min(found.begin, uintptr_t(info->dlpi_addr + part.p_vaddr));
                found.end = std::max(found.end, uintptr_t(info->dlpi_addr + part.p_vaddr + part.p_memsz));
            }
            return 1;
        },
        &found);
    return found;
}

Control* const control = mapped();
const Program of_program = program();

bool refused() {
    if (control == nullptr) return false;
    const uint64_t mode = control->mode.load();
    if (mode == off) return false;
    control->seen.fetch_add(1);
    uint64_t left = control->left.load();
    while (left != 0 && !control->left.compare_exchange_weak(left, left - 1)) {
    }
    if (left != 1 && (left != 0 || mode == one)) return false;
    control->failed.fetch_add(1);
    return true;
}

void* allocate(size_t bytes) { return refused() ? nullptr : std::malloc(bytes == 0 ? 1 : bytes); }

void* allocate_or_throw(size_t bytes) {
    void* memory = allocate(bytes);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
}

}  // namespace

extern "C" void* realloc(void* memory, size_t bytes) noexcept {
    static void* (*const next)(void*, size_t) = reinterpret_cast<void* (*)(void*, size_t)>(dlsym(RTLD_NEXT, "realloc"));
    return of_program.has(__builtin_return_address(0)) && refused() ? nullptr : next(memory, bytes);
}

void* operator new(size_t bytes) { return allocate_or_throw(bytes); }
void* operator new[](size_t bytes) { return allocate_or_throw(bytes); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
