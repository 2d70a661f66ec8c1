// SPDX-License-Identifier: BSD-3-Clause
#include "process/resident.h"

#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <new>
#include <vector>

namespace farcached::process {

namespace {

struct Range {
    uint64_t begin = 0, end = 0;
};

std::vector<Range> read_only_mappings() {
    std::vector<Range> found;
    const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen("/proc/self/smaps", "re"), std::fclose);
    if (file == nullptr) return found;
    Range range;
    bool candidate = false;
    uint64_t own_kb = 0;
    char line[4096 + 128];  // a path is no longer than that
    while (std::fgets(line, sizeof line, file.get()) != nullptr) {
        uint64_t begin = 0, end = 0, inode = 0, kb = 0;
        char rights[8] = "";
        if (std::sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*x %*x:%*x %" SCNu64, &begin, &end, rights, &inode) == 4) {
            range = {begin, end};
            candidate = inode != 0 && rights[1] == '-' && rights[3] == 'p';
            own_kb = 1;  // until it is known
        } else if (candidate && std::sscanf(line, "Anonymous: %" SCNu64, &kb) == 1) {
            own_kb = kb;
        } else if (candidate && std::sscanf(line, "Swap: %" SCNu64, &kb) == 1) {  // behind it; such a page is no "Anonymous"
            if (own_kb == 0 && kb == 0) found.push_back(range);
        }
    }
    return found;
}

// What is loaded when the list is read may be mapped otherwise when it is gone through: the loader maps a whole library as its
// first part, and the others over it. So it is asked: while this runs nothing is taken from its list, and what is in it has all
// its parts where they stay.
int unmap_parts(dl_phdr_info* object, size_t, void* argument) {
    const auto& mappings = *static_cast<const std::vector<Range>*>(argument);
    const uint64_t page = uint64_t(sysconf(_SC_PAGESIZE));
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr)& part = object->dlpi_phdr[i];
        if (part.p_type != PT_LOAD || (part.p_flags & PF_W) != 0) continue;
        const uint64_t at = object->dlpi_addr + part.p_vaddr;
        for (const Range& mapping : mappings) {
            const uint64_t begin = std::max(at / page * page, mapping.begin);
            const uint64_t end = std::min((at + part.p_memsz + page - 1) / page * page, mapping.end);
            if (begin < end) (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
        }
    }
    return 0;
}

}  // namespace

void unmap_unused() {
    try {
        std::vector<Range> mappings = read_only_mappings();
        dl_iterate_phdr(unmap_parts, &mappings);
    } catch (const std::bad_alloc&) {  // then all stays mapped
    }
}

}  // namespace farcached::process
