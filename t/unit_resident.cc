// SPDX-License-Identifier: BSD-3-Clause
// unmap_unused(): of a file's mapping that was only read nothing is mapped any more, and it reads as before; one that was written,
// as by relocation or a debugger, is left alone. And libraries that are not there are named.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include "base/loaded_library.h"
#include "process/resident.h"
#include "t/tap.h"

namespace {

using namespace farcached;

constexpr size_t page = 4096, pages = 40;

char* map_file(FILE* file) {
    return static_cast<char*>(mmap(nullptr, pages * page, PROT_READ, MAP_PRIVATE, fileno(file), 0));
}

uint64_t sum(const char* bytes) {
    uint64_t all = 0;
    for (size_t i = 0; i < pages; i++) all = all * 31 + uint64_t(static_cast<unsigned char>(bytes[i * page]));
    return all;
}

// Of the mapping there, in kB; -1: it is not listed.
long resident_kb(const char* at) {
    std::ifstream smaps("/proc/self/smaps");
    char begin[32];
    std::snprintf(begin, sizeof begin, "%lx-", long(at));
    bool there = false;
    for (std::string line; std::getline(smaps, line);) {
        if (line.compare(0, std::strlen(begin), begin) == 0) there = true;
        if (there && line.compare(0, 4, "Rss:") == 0) return std::stol(line.substr(4));
    }
    return -1;
}

void mappings() {
    FILE* const file = std::tmpfile();
    for (size_t i = 0; i < pages * page; i++) std::fputc(int(i / page + 1), file);
    std::fflush(file);
    char* const read = map_file(file);
    char* const written = map_file(file);
    const uint64_t whole = sum(read);
    (void)sum(written);
    mprotect(written, page, PROT_READ | PROT_WRITE);
    written[0] = 77;
    mprotect(written, page, PROT_READ);
    tap::is(resident_kb(read), long(pages * page / 1024), "a file that was read is mapped");
    process::unmap_unused();
    tap::is(resident_kb(read), 0L, "nothing of it is, when it is not used");
    tap::is(sum(read), whole, "it reads as before");
    tap::is(int(written[0]), 77, "what was written to a mapping is still there");
    munmap(read, pages * page);
    munmap(written, pages * page);
    std::fclose(file);
}

void libraries() {
    int (*function)(const char*) = nullptr;
    LoadedLibrary missing("libfarcached-none.so.1");
    missing.find("puts", function);
    tap::ok(missing.error().find("libfarcached-none.so.1") != std::string::npos, "a library that is not there is named");
    tap::ok(function == nullptr, "and has no functions");
    LoadedLibrary there("libc.so.6");
    there.find("puts", function);
    tap::ok(there.error().empty() && function == &std::puts, "one that is there has them");
    there.find("farcached_none", function);
    tap::ok(there.error().find("farcached_none") != std::string::npos, "a function that it lacks is named");
}

}  // namespace

int main() {
    mappings();
    libraries();
    return tap::done();
}
