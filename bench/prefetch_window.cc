// SPDX-License-Identifier: BSD-3-Clause
// Measures how far ahead a multi-get should prefetch: time per key of proxy::LocalGet by window, with a node::Node much
// larger than the caches. It supports LocalGet::prefetch_window. One thread.
//
//     prefetch_window [ITEMS] [VALUE_BYTES] [SECONDS PER WINDOW]
//
// A multi-get works as in daemon/: it hashes a window of keys and prefetches their buckets, then their items, then
// reads each. Window 1 has no prefetch. Rounds alternate between the windows, and the median is printed, so that noise
// affects all windows alike.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/out_buffer.h"
#include "bench/data.h"
#include "bench/load/worker.h"
#include "node/store/node.h"
#include "proxy/local_get.h"

namespace farcached::bench {

namespace {

constexpr uint32_t windows[] = {1, 2, 4, 8, 16, 32};
constexpr uint32_t window_max = 32;
constexpr uint32_t keys_per_get = 64;
constexpr uint32_t gets_per_look = 64;  // between two clock readings
constexpr uint32_t rounds = 5;
constexpr size_t key_bytes_max = 32;
constexpr NodeSeconds now = 100;

struct Setup {
    uint64_t items = 2'000'000;
    uint32_t value_bytes = 100;
    double seconds = 1.0;
};

class Subject {
  public:
    explicit Subject(const Setup& setup)
        : node_(config(setup)),
          local_(node_.view()),
          distribution_(setup.items, 0),
          random_(7),
          value_(setup.value_bytes) {
        std::string value(setup.value_bytes, 'v');
        for (uint64_t i = 0; i < setup.items; i++) {
            char text[key_bytes_max];
            protocol::StoreOp op;
            op.key = node_.key({text, write(text, i)});
            op.value = value;
            CHECK(node_.store(op, now).status == protocol::StoreReply::Status::stored);
        }
    }

    // ns per key. Keys are chosen before the clock starts: a daemon receives them.
    double measure(uint32_t window, double seconds) {
        uint64_t keys = 0, spent_ns = 0, until_ns = now_ns() + uint64_t(seconds * 1e9);
        while (now_ns() < until_ns) {
            choose();
            uint64_t start_ns = now_ns();
            for (uint32_t at = 0; at < chosen_.size(); at += keys_per_get)
                get_many(&chosen_[at], window);
            spent_ns += now_ns() - start_ns;
            keys += chosen_.size();
        }
        return double(spent_ns) / double(keys);
    }

    uint64_t not_hits() const {
        const proxy::LocalGetCounters& c = local_.counters();
        return c.local_not_found.get() + c.local_moved.get() + c.local_guard_dead.get();
    }

  private:
    struct Chosen {
        char text[key_bytes_max];
        uint32_t bytes;
        std::string_view view() const { return {text, bytes}; }
    };

    static node::Config config(const Setup& setup) {
        node::Config config;
        config.memory_bytes = setup.items * (setup.value_bytes + 200) + (UINT64_C(64) << 20);
        config.workers = 1;
        return config;
    }
    static size_t write(char* to, uint64_t number) {
        to[0] = 'k';
        return size_t(write_number(to + 1, number) - to);
    }

    void choose() {
        chosen_.resize(size_t(keys_per_get) * gets_per_look);
        for (Chosen& key : chosen_)
            key.bytes = uint32_t(write(key.text, distribution_.key(random_)));
    }

    void get_many(const Chosen* keys, uint32_t window) {
        uint64_t hashes[window_max];
        for (uint32_t at = 0; at < keys_per_get; at += window) {
            for (uint32_t i = 0; i < window; i++) {
                hashes[i] = local_.hash(keys[at + i].view());
                if (window > 1) local_.prefetch_bucket(hashes[i]);
            }
            for (uint32_t i = 0; window > 1 && i < window; i++) local_.prefetch_item(hashes[i]);
            for (uint32_t i = 0; i < window; i++) read(keys[at + i].view(), hashes[i]);
        }
    }
    void read(std::string_view key, uint64_t hash) {
        auto sink = [this](const fabric::ReadMeta& meta) {
            return meta.value_len <= value_.size() ? value_.data() : nullptr;
        };
        fabric::Found found;
        local_.read(key, hash, now, /* tokens_matter= */ false, sink, found);
    }

    node::Node node_;
    proxy::LocalGet local_;
    Distribution distribution_;
    Random random_;
    std::vector<char> value_;
    std::vector<Chosen> chosen_;
};
static_assert(keys_per_get % window_max == 0);

void run(const Setup& setup) {
    std::printf("storing %llu items of %u bytes\n", (unsigned long long)setup.items,
                setup.value_bytes);
    Subject subject(setup);
    std::vector<double> found[std::size(windows)];
    for (uint32_t round = 0; round < rounds; round++)
        for (size_t i = 0; i < std::size(windows); i++)
            found[i].push_back(subject.measure(windows[i], setup.seconds / rounds));
    std::printf("multi-gets of %u keys, uniform; medians of %u rounds\n\n%8s %10s %12s\n",
                keys_per_get, rounds, "window", "ns per key", "of window 1");
    double first = 0;
    for (size_t i = 0; i < std::size(windows); i++) {
        std::sort(found[i].begin(), found[i].end());
        double median = found[i][rounds / 2];
        if (i == 0) first = median;
        std::printf("%8u %10.1f %12.2f\n", windows[i], median, median / first);
    }
    if (subject.not_hits() > 0)
        std::printf("\n%llu reads were no hits\n", (unsigned long long)subject.not_hits());
}

}  // namespace

}  // namespace farcached::bench

int main(int argc, char** argv) {
    farcached::bench::Setup setup;
    if (argc > 1) setup.items = std::strtoull(argv[1], nullptr, 10);
    if (argc > 2) setup.value_bytes = uint32_t(std::strtoul(argv[2], nullptr, 10));
    if (argc > 3) setup.seconds = std::strtod(argv[3], nullptr);
    if (setup.items == 0 || setup.seconds <= 0 || setup.value_bytes > (1u << 20) - 4096) {
        std::fprintf(stderr, "usage: %s [ITEMS] [VALUE_BYTES] [SECONDS PER WINDOW]\n", argv[0]);
        return 64;
    }
    farcached::bench::run(setup);
    return 0;
}
