// SPDX-License-Identifier: BSD-3-Clause
// Measures the node's eviction: its hit ratio beside those of a true LRU and a FIFO. These are simulated with as many
// items as the node held. One thread.
//
//     bench/hitratio/lru [MEGABYTES] [KEYS] [OPERATIONS]
//
// The node is used as in daemon/. Gets are lock-free reads whose accesses are reported in batches. A failed read is
// repeated under the lock, and a miss is stored. All caches get the same seeded trace; its first half fills them and is
// not counted.
#include <cstdio>
#include <cstdlib>
#include <list>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/out_buffer.h"
#include "bench/data.h"
#include "node/store/node.h"
#include "proxy/local_get.h"

namespace farcached::bench {

namespace {

constexpr uint32_t value_bytes = 100;
constexpr uint64_t operations_per_second = 100'000;  // by the node's clock
constexpr uint32_t operations_per_tick = 16;         // between two reports of accesses
constexpr uint64_t scan_period = 100'000;     // operations from the start of a scan to the next
constexpr uint64_t scan_operations = 30'000;  // of these, on keys used once only

struct Setup {
    uint64_t memory_megabytes = 16;
    uint64_t keys = 1'000'000;
    uint64_t operations = 4'000'000;
};

// The sequence of keys. Scans use the keys above setup.keys, each once.
class Trace {
  public:
    Trace(const Setup& setup, double theta, bool scans)
        : distribution_(setup.keys, theta), random_(11), scans_(scans), scan_next_(setup.keys) {}

    static uint64_t keys_max(const Setup& setup) { return setup.keys + setup.operations; }

    struct Access {
        uint64_t key;
        bool scan;
    };
    Access next() {
        bool scan = scans_ && at_++ % scan_period < scan_operations;
        return {scan ? scan_next_++ : distribution_.key(random_), scan};
    }

  private:
    Distribution distribution_;
    Random random_;
    bool scans_;
    uint64_t scan_next_;
    uint64_t at_ = 0;
};

class NodeCache {
  public:
    NodeCache(const Setup& setup, PolicyKind policy)
        : node_(config(setup, policy)), local_(node_.view()), value_(value_bytes, 'v') {}

    // A get, and a set after a miss. True on a hit.
    bool access(uint64_t number) {
        now_ = NodeSeconds(2 + at_++ / operations_per_second);
        char text[32];
        text[0] = 'k';
        protocol::Key key = node_.key({text, size_t(write_number(text + 1, number) - text)});
        if (at_ % operations_per_tick == 0) report();
        auto sink = [this](const fabric::ReadMeta&) { return value_.data(); };
        fabric::Found found;
        if (local_.read(key.bytes, key.hash, now_, false, sink, found) == fabric::Outcome::hit) {
            local_.note_access(found, key.hash);
            return true;
        }
        protocol::GetOp get;
        get.key = key;
        auto locked_sink = [this](const protocol::ItemMeta&) { return value_.data(); };
        if (node_.get(get, now_, locked_sink).status == protocol::GetReply::Status::hit)
            return true;
        protocol::StoreOp store;
        store.key = key;
        store.value = value_;
        CHECK(node_.store(store, now_).status == protocol::StoreReply::Status::stored);
        return false;
    }
    uint64_t items() const { return node_.stats(now_).items; }

  private:
    static node::Config config(const Setup& setup, PolicyKind policy) {
        node::Config config;
        config.memory_bytes = setup.memory_megabytes << 20;
        config.policy = policy;
        return config;
    }
    void report() { node_.record(local_.take_accesses(), now_); }

    node::Node node_;
    proxy::LocalGet local_;
    std::string value_;
    uint64_t at_ = 0;
    NodeSeconds now_ = 2;
};
static_assert(operations_per_tick < proxy::LocalGet::accesses_max);

// A list of keys, newest first.
class ListCache {
  public:
    ListCache(uint64_t keys, uint64_t items_max, bool move_on_hit)
        : place_of_(keys, keys_.end()), items_max_(items_max), move_on_hit_(move_on_hit) {}

    bool access(uint64_t key) {
        if (place_of_[key] != keys_.end()) {
            if (move_on_hit_) keys_.splice(keys_.begin(), keys_, place_of_[key]);
            return true;
        }
        if (keys_.size() == items_max_) {
            place_of_[keys_.back()] = keys_.end();
            keys_.pop_back();
        }
        keys_.push_front(uint32_t(key));
        place_of_[key] = keys_.begin();
        return false;
    }

  private:
    std::list<uint32_t> keys_;
    std::vector<std::list<uint32_t>::iterator> place_of_;  // by key; end(): absent
    uint64_t items_max_;
    bool move_on_hit_;
};

// Over the accesses in the second half, except those of scans.
template <class Cache>
double hit_ratio(Cache& cache, Trace trace, const Setup& setup) {
    uint64_t hits = 0, counted = 0;
    for (uint64_t i = 0; i < setup.operations; i++) {
        Trace::Access access = trace.next();
        bool hit = cache.access(access.key);
        if (access.scan || i < setup.operations / 2) continue;
        counted++;
        hits += hit;
    }
    return double(hits) / double(counted);
}

void compare(const Setup& setup, const char* name, double theta, bool scans) {
    Trace trace(setup, theta, scans);
    NodeCache clock(setup, PolicyKind::clock);
    double clock_ratio = hit_ratio(clock, trace, setup);
    NodeCache strict(setup, PolicyKind::lru);
    double strict_ratio = hit_ratio(strict, trace, setup);
    ListCache lru(Trace::keys_max(setup), clock.items(), true);
    double lru_ratio = hit_ratio(lru, trace, setup);
    ListCache fifo(Trace::keys_max(setup), clock.items(), false);
    double fifo_ratio = hit_ratio(fifo, trace, setup);
    std::printf("%-18s %9llu %10.4f %12.4f %10.4f %10.4f\n", name,
                (unsigned long long)clock.items(), clock_ratio, strict_ratio, lru_ratio,
                fifo_ratio);
    std::fflush(stdout);
}

}  // namespace

}  // namespace farcached::bench

int main(int argc, char** argv) {
    using namespace farcached::bench;
    Setup setup;
    if (argc > 1) setup.memory_megabytes = std::strtoull(argv[1], nullptr, 10);
    if (argc > 2) setup.keys = std::strtoull(argv[2], nullptr, 10);
    if (argc > 3) setup.operations = std::strtoull(argv[3], nullptr, 10);
    constexpr uint64_t numbers_max = UINT64_C(1) << 31;
    if (setup.memory_megabytes == 0 || setup.keys == 0 || setup.operations < 2 ||
        setup.keys > numbers_max || setup.operations > numbers_max - 1) {
        std::fprintf(stderr, "usage: %s [MEGABYTES] [KEYS] [OPERATIONS]\n", argv[0]);
        return 64;
    }
    std::printf(
        "%llu MB, %llu keys, values of %u bytes, %llu operations, the first half not counted\n\n"
        "%-18s %9s %10s %12s %10s %10s\n",
        (unsigned long long)setup.memory_megabytes, (unsigned long long)setup.keys, value_bytes,
        (unsigned long long)setup.operations, "trace", "items", "node lru", "node strict",
        "true LRU", "FIFO");
    compare(setup, "zipf 0.8", 0.8, false);
    compare(setup, "zipf 0.99", 0.99, false);
    compare(setup, "zipf 1.1", 1.1, false);
    compare(setup, "zipf 0.99, scans", 0.99, true);
    return 0;
}
