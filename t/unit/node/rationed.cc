// SPDX-License-Identifier: BSD-3-Clause
// A system that has memory for some pages and refuses the others. Pages once used are used again after refusals, and
// large items find room by eviction as small ones do.
#include <sys/mman.h>
#include <unistd.h>

#include <stdexcept>
#include <string>

#include "base/mapping.h"
#include "node/store/pages.h"
#include "t/lib/tap.h"
#include "t/unit/node/invariants.h"

using namespace farcached;
using namespace farcached::node;

namespace {

constexpr NodeSeconds now = 1000;
constexpr uint64_t pages_all = 256;
constexpr size_t small_bytes = 8000, large_bytes = 400'000;

// Maps a shorter file over a part of the arena: the kernel refuses the pages behind its end.
class Ration {
  public:
    Ration(Node& cache, uint64_t first, uint64_t pages) : fd_(memfd_create("farcached-ration", MFD_CLOEXEC)) {
        give(pages);
        uint64_t* at = cache.impl().region.arena() + first * layout::page_bytes / 8;
        const size_t bytes = (pages_all - first) * layout::page_bytes;
        if (mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd_, 0) == MAP_FAILED)
            throw std::runtime_error("mmap");
    }
    ~Ration() { close(fd_); }
    Ration(const Ration&) = delete;
    Ration& operator=(const Ration&) = delete;
    void give(uint64_t pages) {
        if (ftruncate(fd_, off_t(pages * layout::page_bytes)) != 0) throw std::runtime_error("ftruncate");
    }

  private:
    const int fd_;
};

Config config_of(bool leases) {
    Config config;
    config.grows = false;
    config.memory_bytes = pages_all * layout::page_bytes;
    config.partitions = 4;
    config.seed = 7;
    config.lease.enabled = leases;
    if (leases) config.policy = PolicyKind::pdla;
    return config;
}

bool set(Node& cache, const std::string& key, size_t bytes) {
    const std::string value(bytes, 'v');
    protocol::StoreOp op;
    op.key = cache.key(key);
    op.value = value;
    return cache.store(op, now).status == protocol::StoreReply::Status::stored;
}

// Returns how many were stored: small items, half as many again as fit.
int fill(Node& cache) {
    int stored = 0;
    for (int i = 0; i < int(pages_all * layout::page_bytes * 3 / 2 / small_bytes); i++)
        stored += set(cache, "small:" + std::to_string(i), small_bytes) ? 1 : 0;
    return stored;
}

void empty(Node& cache) {
    cache.flush_all(now);
    for (uint64_t page = 0; page < cache.pages().count(); page++) cache.pages().sweep(page, now);
}

void used_again(bool leases) {
    const std::string title = leases ? "with leases: " : "";
    Node cache(config_of(leases));
    const uint64_t first = cache.impl().arena.pool().lease_zone();  // pages are taken from there on
    Ration ration(cache, first, 30);
    fill(cache);
    const Stats full = cache.stats(now);
    tap::ok(full.pages_refused > 0, title + "the system refused a page");
    tap::is(full.pages_used, UINT64_C(30), title + "all that it gave are used");
    for (int i = 0; i < 3; i++) {
        empty(cache);
        tap::is(cache.stats(now).pages_used, UINT64_C(0), title + "all pages are free");
        tap::ok(fill(cache) > 100, title + "items are stored again");
        const Stats again = cache.stats(now);
        tap::is(again.pages_used, full.pages_used, title + "in as many pages");
        tap::ok(again.bytes >= full.bytes - full.bytes / 10, title + "and as many bytes");
    }
    tap::is(wrong_in(cache, now), "", title + "the node is in order");
    ration.give(pages_all - first);
    fill(cache);
    tap::is(cache.stats(now).pages_used, pages_all, title + "when there is memory all of it is used");
}

void large_items() {
    Node cache(config_of(/* leases= */ false));
    Ration ration(cache, 0, 60);
    fill(cache);
    int stored = 0;
    for (int i = 0; i < 40; i++) stored += set(cache, "large:" + std::to_string(i), large_bytes) ? 1 : 0;
    tap::is(stored, 40, "large items evict what is there");
    tap::ok(cache.stats(now).pages_refused > 0, "though free pages without memory are many");
    tap::ok(cache.stats(now).pages_used <= 60, "none of which is used");
    stored = 0;
    for (int i = 0; i < 100; i++) stored += set(cache, "again:" + std::to_string(i), small_bytes) ? 1 : 0;
    tap::is(stored, 100, "and small ones evict large ones");
    tap::is(wrong_in(cache, now), "", "the node is in order");
}

// Whether this kernel refuses memory in this way.
bool kernel_refuses() {
    Node cache(config_of(/* leases= */ false));
    Ration ration(cache, 0, 0);
    return !populate(cache.impl().region.arena(), layout::page_bytes);
}

}  // namespace

int main() {
    if (!kernel_refuses()) {
        tap::skip(1, "Linux 5.14 or newer is needed");
        return tap::done();
    }
    used_again(/* leases= */ false);
    used_again(/* leases= */ true);
    large_items();
    return tap::done();
}
