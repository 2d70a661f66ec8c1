// SPDX-License-Identifier: BSD-3-Clause
// The pages of a region. Huge ones are requested for the arena. If the region is registered they are requested for all of it,
// because a device may have one page size for it.
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <string>
#include <system_error>

#include "t/unit/fabric/channel_fixture.h"

namespace {

using namespace channel_test;

struct Pages {
    uint64_t begin = UINT64_MAX, bytes = 0;  // of the region
    uint64_t huge_from = UINT64_MAX;         // offset of the first byte with requested huge pages
};

// As the kernel lists them in smaps.
Pages pages_of(const Region& region) {
    const uint64_t begin = reinterpret_cast<uintptr_t>(region.view().base), end = begin + region.view().region_bytes;
    Pages pages;
    uint64_t from = 0, to = 0;
    std::ifstream smaps("/proc/self/smaps");
    for (std::string line; std::getline(smaps, line);) {
        if (uint64_t a = 0, b = 0; std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " ", &a, &b) == 2) {
            from = a;
            to = b;
            if (from < begin || to > end) continue;
            pages.begin = std::min(pages.begin, from);
            pages.bytes += to - from;
        } else if (line.starts_with("VmFlags:") && line.find(" hg") != line.npos && from >= begin && to <= end) {
            pages.huge_from = std::min(pages.huge_from, from - begin);
        }
    }
    return pages;
}

RegionShape huge(bool registered) {
    RegionShape shape = small_region(1);
    shape.page_count = 100;  // no whole huge pages
    shape.huge_pages = true;
    shape.registered = registered;
    return shape;
}

void check(const char* kind, bool registered) {
    const Region region(huge(registered));
    const RegionView& view = region.view();
    const uint64_t arena = reinterpret_cast<const char*>(view.arena) - view.base;
    const Pages pages = pages_of(region);
    const std::string of = std::string(" (") + kind + ")";
    tap::is(pages.begin % Mapping::huge_page_bytes, uint64_t(0), "the region begins at a huge page" + of);
    tap::is(arena % Mapping::huge_page_bytes, uint64_t(0), "so does its arena" + of);
    tap::is(pages.bytes, view.region_bytes, "nothing else is mapped" + of);
    tap::is(pages.huge_from, registered ? 0 : arena, "huge pages are requested from there on" + of);
    tap::is(view.region_bytes % Mapping::huge_page_bytes == 0, registered, "whole huge pages if registered" + of);
    tap::is(std::string(header_wrong(*view.header, view.region_bytes)), "", "and a header that readers accept" + of);
}

void check_small() {
    RegionShape shape = huge(true);
    shape.huge_pages = false;
    const Region region(shape);
    tap::is(pages_of(region).huge_from, UINT64_MAX, "without -L none are requested");
    tap::is(region.view().region_bytes - region.view().arena_bytes,
            uint64_t(reinterpret_cast<const char*>(region.view().arena) - region.view().base), "and the arena is the end");
}

// As with -k: mappings to come are locked, and the limit allows for this one and a little more.
bool maps_within_lock_limit() {
    constexpr size_t bytes = 4 << 20, limit = 8 << 20;
    const pid_t child = fork();
    if (child == 0) {
        rlimit locked{limit, limit};
        if (geteuid() == 0 && setuid(65534) != 0) _exit(2);
        if (setrlimit(RLIMIT_MEMLOCK, &locked) != 0 || mlockall(MCL_FUTURE | MCL_ONFAULT) != 0) _exit(2);
        try {
            const Mapping mapping(Mapping::Kind::private_memory, bytes, /* huge_pages= */ true);
            _exit(0);
        } catch (const std::system_error&) {
            _exit(1);
        }
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status == 2 << 8) tap::note("memory cannot be locked here");
    return status == 0 || status == 2 << 8;
}

}  // namespace

int main() {
    if (access("/sys/kernel/mm/transparent_hugepage", F_OK) != 0) {
        tap::skip(1, "the kernel has no huge pages");
        return tap::done();
    }
    check("mapped by others", false);
    check("registered", true);
    check_small();
    tap::ok(maps_within_lock_limit(), "memory that begins at a huge page counts once against the limit of locked memory");
    return tap::done();
}
