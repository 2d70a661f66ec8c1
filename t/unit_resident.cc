// SPDX-License-Identifier: BSD-3-Clause
// unmap_unused(): of the program's constants nothing is mapped any more when they are not used, and they read as before; a mapping
// that was written, as by relocation or a debugger, is left alone. And libraries that are not there are named.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <string>

#include "base/loaded_library.h"
#include "process/resident.h"
#include "t/tap.h"

namespace {

using namespace farcached;

constexpr size_t page = 4096, pages = 96;
constexpr size_t middle = pages / 2;  // the kernel maps sixteen around each that is touched

constexpr auto bytes_like(unsigned char first) {
    std::array<unsigned char, pages * page> all{};
    for (size_t i = 0; i < pages; i++) all[i * page] = static_cast<unsigned char>(first + i);
    return all;
}
alignas(page) constexpr auto read = bytes_like(1), written = bytes_like(2);

unsigned sum(const volatile unsigned char* bytes) {
    unsigned all = 0;
    for (size_t i = 0; i < pages; i++) all = all * 31 + bytes[i * page];
    return all;
}

bool is_mapped(const unsigned char* at) {
    constexpr uint64_t present = UINT64_C(1) << 63;
    const int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    uint64_t entry = 0;
    const ssize_t got = pread(pagemap, &entry, sizeof entry, off_t(reinterpret_cast<uintptr_t>(at) / page * sizeof entry));
    close(pagemap);
    return got == ssize_t(sizeof entry) && (entry & present) != 0;
}

void mappings() {
    const unsigned whole = sum(read.data());
    (void)sum(written.data());
    auto* const own = const_cast<unsigned char*>(&written[middle * page]);
    mprotect(own, page, PROT_READ | PROT_WRITE);
    *const_cast<volatile unsigned char*>(own) = 77;
    mprotect(own, page, PROT_READ);
    tap::ok(is_mapped(&read[middle * page]), "constants that were read are mapped");
    process::unmap_unused();
    tap::ok(!is_mapped(&read[middle * page]), "they are not, when they are not used");
    tap::is(sum(read.data()), whole, "they read as before");
    tap::is(unsigned(*const_cast<volatile unsigned char*>(own)), 77U, "what was written to a mapping is still there");
}

void libraries() {
    int (*function)() = nullptr;
    LoadedLibrary missing("libfarcached-none.so.1");
    missing.find("getpagesize", function);
    tap::ok(missing.error().find("libfarcached-none.so.1") != std::string::npos, "a library that is not there is named");
    tap::ok(function == nullptr, "and has no functions");
    LoadedLibrary there("libc.so.6");
    there.find("getpagesize", function);  // which no sanitizer replaces
    tap::ok(there.error().empty() && function != nullptr && function() == getpagesize(), "one that is there has them");
    there.find("farcached_none", function);
    tap::ok(there.error().find("farcached_none") != std::string::npos, "a function that it lacks is named");
}

}  // namespace

int main() {
    mappings();
    libraries();
    return tap::done();
}
