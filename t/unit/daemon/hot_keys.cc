// SPDX-License-Identifier: BSD-3-Clause
// Space-Saving beside a model that counts every key: its bounds hold for every stream, and for the sum of several. The
// sample: its rate, no waiting, and estimates near the true counts.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "daemon/stats/hot_keys.h"
#include "t/lib/tap.h"

using namespace farcached;
using daemon::HotKey;
using daemon::HotKeys;
using daemon::SpaceSaving;
using daemon::Way;

namespace {

using Exact = std::map<std::string, uint64_t>;

std::string key_of(uint64_t n) { return "key:" + std::to_string(n); }

// Ranks from 0, the likelier the smaller.
class Zipf {
  public:
    Zipf(size_t keys, double exponent) {
        double sum = 0;
        for (size_t i = 0; i < keys; i++) below_.push_back(sum += std::pow(double(i + 1), -exponent));
    }
    size_t operator()(std::mt19937_64& random) {
        const double at = std::uniform_real_distribution<double>(0, below_.back())(random);
        return std::min(size_t(std::upper_bound(below_.begin(), below_.end(), at) - below_.begin()), below_.size() - 1);
    }

  private:
    std::vector<double> below_;
};

// V1, V2 and V3.
bool bounds_hold(const SpaceSaving& kept, const Exact& exact) {
    uint64_t sum = 0, length = 0, wrong = 0;
    Exact left = exact;
    for (size_t i = 0; i < kept.size(); i++) {
        const SpaceSaving::Counted one = kept.at(i);
        auto found = left.find(std::string(one.key));
        const uint64_t times = found == left.end() ? 0 : found->second;  // 0, too, if it is kept twice
        if (times == 0 || one.count < times || one.count - one.error > times) wrong++;
        if (found != left.end()) left.erase(found);
        sum += one.count;
    }
    for (const auto& [key, times] : left)
        if (times > kept.floor()) wrong++;
    for (const auto& [key, times] : exact) length += times;
    return wrong == 0 && sum == length && kept.total() == length && kept.floor() <= length / SpaceSaving::size_max;
}

void streams() {
    std::mt19937_64 random(20050105);
    struct Shape {
        const char* name;
        size_t keys;
        double exponent;
    };
    for (const Shape& shape : {Shape{"few keys", 100, 0.5}, Shape{"as many keys as counters", SpaceSaving::size_max, 1},
                               Shape{"one more", SpaceSaving::size_max + 1, 0}, Shape{"flat", 5000, 0},
                               Shape{"zipf 0.9", 20000, 0.9}, Shape{"zipf 1.2", 20000, 1.2}}) {
        auto kept = std::make_unique<SpaceSaving>();
        Exact exact;
        Zipf rank(shape.keys, shape.exponent);
        bool good = bounds_hold(*kept, exact);
        for (int i = 1; i <= 50'000; i++) {
            const std::string key = key_of(rank(random));
            kept->add(key);
            exact[key]++;
            if (i % 5000 == 0 || i < 300) good = good && bounds_hold(*kept, exact);
        }
        tap::ok(good, std::string("the bounds hold: ") + shape.name);
        uint64_t errors = 0;
        for (size_t i = 0; i < kept->size(); i++) errors += kept->at(i).error;
        if (shape.keys <= SpaceSaving::size_max) tap::is(errors, 0u, "where all are kept there is no error");
        if (shape.exponent < 1.1) continue;
        const std::vector<HotKey> top = daemon::hottest({kept.get()}, 10);
        size_t right = 0;
        for (size_t i = 0; i < top.size(); i++) right += top[i].key == key_of(i);
        tap::report(right >= 8, "those that come most are found", std::to_string(right));
    }
}

// The worst case: each key outside of the list replaces one in it.
void adversary() {
    auto kept = std::make_unique<SpaceSaving>();
    Exact exact;
    for (uint64_t i = 0; i < 20'000; i++) {
        const std::string key = i % 3 == 0 ? "often" : key_of(i);
        kept->add(key);
        exact[key]++;
    }
    tap::ok(bounds_hold(*kept, exact), "keys that come once each");
    const std::vector<HotKey> top = daemon::hottest({kept.get()}, 1);
    tap::ok(top[0].key == "often" && top[0].error == 0, "do not push out what comes often");
    std::string longest(limits::key_bytes_max, '\0');
    kept->add(longest);
    kept->add(longest.substr(1));
    bool both[2] = {};
    for (size_t i = 0; i < kept->size(); i++) {
        both[0] |= kept->at(i).key == longest;
        both[1] |= kept->at(i).key == longest.substr(1);
    }
    tap::ok(both[0] && both[1], "a key may be as long as can be, and any bytes");
}

void sums() {
    std::mt19937_64 random(7);
    uint64_t wrong = 0;
    for (int round = 0; round < 20; round++) {
        std::vector<std::unique_ptr<SpaceSaving>> all;
        std::vector<const SpaceSaving*> streams;
        Exact exact;
        for (int worker = 0; worker < 4; worker++) {
            all.push_back(std::make_unique<SpaceSaving>());
            streams.push_back(all.back().get());
            Zipf rank(worker == 3 ? 50 : 3000, 0.8 + 0.1 * worker);
            for (int i = 0; i < 5000; i++) {
                const std::string key = key_of(rank(random) * (worker == 2 ? 2 : 1));
                all.back()->add(key);
                exact[key]++;
            }
        }
        uint64_t before = UINT64_MAX;
        const std::vector<HotKey> hot = daemon::hottest(streams, 100);
        if (hot.size() != 100) wrong++;
        for (const HotKey& one : hot) {
            const uint64_t times = exact.contains(one.key) ? exact.at(one.key) : 0;
            if (one.count < times || one.count - one.error > times || one.count > before) wrong++;
            before = one.count;
        }
    }
    tap::is(wrong, 0u, "the bounds hold for the sum of four streams");
    tap::ok(daemon::hottest({}, 5).empty(), "and nothing is the sum of none");
}

// ---- the sample ---------------------------------------------------------------------------------------

uint64_t sampled(const HotKeys& keys, Way way) {
    const HotKeys::Copy copy = keys.copy();
    const auto& of = copy.ways[size_t(way)];
    return of == nullptr ? 0 : of->total();
}

void how_often() {
    for (uint32_t one_in : {1u, 2u, 10u, 100u}) {
        HotKeys keys(one_in, 42);
        const uint32_t requests = 200'000;
        for (uint32_t i = 0; i < requests; i++)
            if (keys.due()) keys.sample(Way::two_sided, "k");
        const double want = double(requests) / one_in, got = double(sampled(keys, Way::two_sided));
        tap::report(one_in == 1 ? got == want : std::abs(got - want) < 6 * std::sqrt(want),
                    "one in " + std::to_string(one_in), std::to_string(got));
        tap::is(sampled(keys, Way::local), 0u, "each way has its own list");
    }
    HotKeys none(0, 1);
    uint64_t due = 0;
    for (int i = 0; i < 100'000; i++) due += none.due();
    tap::is(due, 0u, "none of 0");
}

// A client whose sequence of keys has the period of the sample does not count as one key.
void patterns() {
    HotKeys keys(100, 5);
    for (uint32_t i = 0; i < 1'000'000; i++)
        if (keys.due()) keys.sample(Way::local, key_of(i % 100));
    const HotKeys::Copy copy = keys.copy();
    const std::vector<HotKey> top = daemon::hottest({copy.ways[0].get()}, 1);
    tap::report(top[0].count < 200, "a period of a hundred, sampled one in a hundred", std::to_string(top[0].count));
}

void while_read() {
    HotKeys keys(1, 1);
    std::atomic<bool> stop{false};
    std::thread reader([&] {
        uint64_t n = 0;
        while (!stop) {
            const HotKeys::Copy copy = keys.copy();
            for (const auto& way : copy.ways)
                for (size_t i = 0; way != nullptr && i < way->size(); i++) n += way->at(i).key.size() < 5;
            if (++n % 64 == 0) keys.reset();
        }
    });
    for (uint64_t i = 0; i < 300'000; i++)
        if (keys.due()) keys.sample(Way(i % 4), key_of(i % 200));
    stop = true;
    reader.join();
    keys.reset();
    const uint64_t before = keys.copy().missed;
    if (keys.due()) keys.sample(Way::index, "k");
    tap::ok(before == 0 && sampled(keys, Way::index) == 1, "read and reset while it is filled");
}

}  // namespace

int main() {
    streams();
    adversary();
    sums();
    how_often();
    patterns();
    while_read();
    return tap::done();
}
