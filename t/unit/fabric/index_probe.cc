// SPDX-License-Identifier: BSD-3-Clause
// A probe of an index by copies alone: every mixture of two generations' words is refused. For any copies, the probe
// asks for no bytes outside of the region and ends soon.
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "fabric/index_probe.h"
#include "node/store/node.h"
#include "t/lib/tap.h"

using namespace farcached;
using fabric::IndexProbe;

namespace {

constexpr NodeSeconds now = 1000;

node::Config small() {
    node::Config config;
    config.memory_bytes = 8 << 20;
    config.workers = 1;
    return config;
}

void set(node::Node& cache, std::string_view key, std::string_view value) {
    protocol::StoreOp op;
    op.key = cache.key(key);
    op.value = value;
    cache.store(op, now);
}

fabric::FarRegion region_of(const node::Node& cache) {
    const layout::RegionHeader& header = *cache.view().header;
    return {header.region_bytes, header.incarnation, header.hash_seed};
}

std::vector<uint64_t> copy_of(const node::Node& cache, const IndexProbe& probe) {
    std::vector<uint64_t> copies(probe.want_bytes() / 8);
    char* to = reinterpret_cast<char*>(copies.data());
    for (const IndexProbe::Want& want : probe.wants()) {
        std::memcpy(to, cache.view().base + want.offset, want.bytes);
        to += want.bytes;
    }
    return copies;
}

// Runs the probe until it wants the item; false: it never does.
bool find_item(const node::Node& cache, fabric::FarRegion& region, IndexProbe& probe,
               const IndexProbe::Question& question, uint64_t hash) {
    probe.begin(region, hash);
    for (int round = 0; round < 5; round++) {
        const uint64_t from = probe.wants()[0].offset;
        if (region.header_known && from >= region.arena_offset) return true;
        if (probe.fed(region, copy_of(cache, probe).data(), question) != IndexProbe::Step::read_on) return false;
    }
    return false;
}

void mixtures() {
    node::Node cache(small());
    const std::string values[] = {std::string(60, 'o'), std::string(60, 'm'), std::string(60, 'n')};
    const protocol::Key key = cache.key("key");
    fabric::FarRegion region = region_of(cache);
    const IndexProbe::Question question{"key", false, now, cache.check_secret()};
    IndexProbe probe;
    set(cache, "key", values[0]);
    bool found = find_item(cache, region, probe, question, key.hash);
    const uint64_t place = probe.wants()[0].offset;
    const std::vector<uint64_t> old = copy_of(cache, probe);
    set(cache, "key", values[1]);
    set(cache, "key", values[2]);
    found = found && find_item(cache, region, probe, question, key.hash);
    tap::ok(found && probe.wants()[0].offset == place, "a key returns to its earlier place");
    const std::vector<uint64_t> fresh = copy_of(cache, probe);
    std::mt19937_64 random(1);
    int hits = 0, mixed = 0;
    for (int run = 0; run < 100'000; run++) {
        std::vector<uint64_t> copy = old;
        uint64_t taken = random();
        if (run < 16) taken = ~UINT64_C(0) << run;  // new from some word on
        else if (run < 32) taken = ~(~UINT64_C(0) << (run - 16));
        for (size_t i = 0; i < copy.size(); i++)
            if ((taken >> i % 64 & 1) != 0) copy[i] = fresh[i];
        IndexProbe again = probe;
        if (again.fed(region, copy.data(), question) != IndexProbe::Step::hit) continue;
        hits++;
        mixed += again.found().value != values[0] && again.found().value != values[2];
    }
    tap::ok(hits > 0, "whole copies are hits");
    tap::is(mixed, 0, "of two generations no mixture of words is");
    IndexProbe moved = probe;
    const IndexProbe::Question other{"key", false, now, cache.check_secret() + 1};
    tap::ok(moved.fed(region, fresh.data(), other) == IndexProbe::Step::invalid &&
                moved.found().outcome == fabric::Outcome::check,
            "nor is what was signed by another secret");
}

// Copies with random words.
void nonsense() {
    node::Node cache(small());
    for (int i = 0; i < 3000; i++) set(cache, "key" + std::to_string(i), std::string(size_t(i % 300), 'v'));
    const uint64_t bytes = cache.view().header->region_bytes;
    std::mt19937_64 random(2);
    int outside = 0, wrong = 0, endless = 0, hits = 0;
    for (int run = 0; run < 20'000; run++) {
        const int number = int(random() % 3000);
        const std::string key = "key" + std::to_string(number);
        const IndexProbe::Question question{key, false, now, cache.check_secret()};
        fabric::FarRegion region = region_of(cache);
        IndexProbe probe;
        probe.begin(region, cache.key(key).hash);
        IndexProbe::Step step = IndexProbe::Step::read_on;
        std::vector<uint64_t> copies;  // the value that is found lies in them
        int rounds = 0;
        for (; step == IndexProbe::Step::read_on && rounds < 20; rounds++) {
            for (const IndexProbe::Want& want : probe.wants())
                outside += want.bytes == 0 || want.bytes > bytes || want.offset > bytes - want.bytes;
            if (outside != 0) break;
            copies = copy_of(cache, probe);
            if (random() % 3 == 0) {
                uint64_t& word = copies[random() % copies.size()];
                word = random() % 2 == 0 ? random() >> random() % 64 : word ^ UINT64_C(1) << random() % 64;
            }
            step = probe.fed(region, copies.data(), question);
        }
        endless += rounds > 7;
        if (step != IndexProbe::Step::hit) continue;
        hits++;
        wrong += probe.found().value != std::string(size_t(number % 300), 'v');
    }
    tap::is(outside, 0, "for any copies, nothing outside of the region is wanted");
    tap::is(wrong, 0, "nothing wrong is found");
    tap::is(endless, 0, "and no probe takes more than seven rounds");
    tap::ok(hits > 5000, "while most find their item");
}

}  // namespace

int main() {
    mixtures();
    nonsense();
    return tap::done();
}
