// SPDX-License-Identifier: BSD-3-Clause
#include "process/resident.h"

#include <sys/mman.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <memory>
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
    char line[4096 + 128];  // a path is no longer than that
    while (std::fgets(line, sizeof line, file.get()) != nullptr) {
        uint64_t begin = 0, end = 0, inode = 0, own_kb = 0;
        char rights[8] = "";
        if (std::sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*x %*x:%*x %" SCNu64, &begin, &end, rights, &inode) == 4) {
            range = {begin, end};
            candidate = inode != 0 && rights[1] == '-' && rights[3] == 'p';
        } else if (candidate && std::sscanf(line, "Anonymous: %" SCNu64, &own_kb) == 1 && own_kb == 0) {
            found.push_back(range);
        }
    }
    return found;
}

}  // namespace

void unmap_unused() {
    for (const Range& range : read_only_mappings())
        (void)madvise(reinterpret_cast<void*>(range.begin), range.end - range.begin, MADV_DONTNEED);
}

}  // namespace farcached::process
