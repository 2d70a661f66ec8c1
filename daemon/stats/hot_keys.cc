// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/stats/hot_keys.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <new>

#include "base/check.h"
#include "base/hash.h"
#include "daemon/stats/own_stats.h"
#include "daemon/stats/stats.h"

namespace farcached::daemon {

size_t SpaceSaving::find(std::string_view wanted, uint64_t hash) const {
    for (size_t i = 0; i < size_; i++)
        if (hashes_[i] == hash && key(i) == wanted) return i;
    return size_;
}

size_t SpaceSaving::least() const {
    return size_t(std::min_element(counts_.begin(), counts_.begin() + ptrdiff_t(size_)) - counts_.begin());
}

void SpaceSaving::add(std::string_view wanted) {
    CHECK(wanted.size() <= limits::key_bytes_max);
    const uint64_t hash = hash_key(wanted, 0);
    total_++;
    size_t at = find(wanted, hash);
    if (at < size_) {
        counts_[at]++;
        return;
    }
    uint64_t before = 0;
    if (size_ < size_max) {
        size_++;
    } else {
        at = least();
        before = counts_[at];
    }
    hashes_[at] = hash;
    counts_[at] = before + 1;
    errors_[at] = before;
    lengths_[at] = uint8_t(wanted.size());
    std::memcpy(keys_[at].data(), wanted.data(), wanted.size());
}

std::vector<HotKey> hottest(const std::vector<const SpaceSaving*>& streams, size_t most) {
    uint64_t floors = 0;
    std::map<std::string_view, HotKey> sums;
    for (const SpaceSaving* stream : streams) {
        const uint64_t floor = stream->floor();
        floors += floor;
        for (size_t i = 0; i < stream->size(); i++) {
            const SpaceSaving::Counted counted = stream->at(i);
            HotKey& sum = sums[counted.key];
            // Minus the floor that is added below as for a stream without the key. An error may be smaller than the floor, and
            // wraps until then.
            sum.count += counted.count - floor;
            sum.error += counted.error - floor;
        }
    }
    std::vector<HotKey> all;
    for (auto& [key, sum] : sums) all.push_back({std::string(key), sum.count + floors, sum.error + floors});
    std::stable_sort(all.begin(), all.end(), [](const HotKey& a, const HotKey& b) { return a.count > b.count; });
    all.resize(std::min(all.size(), most));
    return all;
}

HotKeys::HotKeys(uint32_t one_in, uint64_t seed) : chance_(uint32_t(seed ^ seed >> 32) | 1) { change(one_in); }

void HotKeys::change(uint32_t one_in) {
    if (one_in == one_in_) return;
    one_in_ = one_in;
    left_ = one_in == 0 ? UINT64_MAX : 1 + chance_ % (2 * uint64_t(one_in) - 1);
    reset();
}

// Not inlined: the path of unsampled requests stays short.
[[gnu::noinline]] void HotKeys::sample(Way way, std::string_view key) {
    chance_ ^= chance_ << 13;
    chance_ ^= chance_ >> 17;
    chance_ ^= chance_ << 5;
    left_ = 1 + chance_ % (2 * uint64_t(one_in_) - 1);  // one_in_ on average
    const std::unique_lock hold(lock_, std::try_to_lock);
    if (!hold.owns_lock()) return missed_.add(1);
    std::unique_ptr<SpaceSaving>& keys = ways_[size_t(way)];
    if (keys == nullptr) keys.reset(new (std::nothrow) SpaceSaving());
    if (keys == nullptr) return missed_.add(1);
    keys->add(key);
}

HotKeys::Copy HotKeys::copy() const {
    Copy copied;
    for (auto& way : copied.ways) way = std::make_unique<SpaceSaving>();  // allocated before the lock is taken
    const std::lock_guard hold(lock_);
    for (size_t i = 0; i < ways_.size(); i++) {
        if (ways_[i] != nullptr)
            *copied.ways[i] = *ways_[i];
        else
            copied.ways[i].reset();
    }
    copied.missed = missed_.get() - missed_before_;
    return copied;
}

void HotKeys::reset() {
    const std::lock_guard hold(lock_);
    for (auto& way : ways_) way.reset();
    missed_before_ = missed_.get();
}

// `stats hotkeys`: the samples of all workers, merged into one list per way.

namespace {

void write_way(StatWriter& out, std::string_view way, const std::vector<const SpaceSaving*>& streams, uint64_t one_in) {
    const std::string prefix = std::string(way) + ":";
    uint64_t sampled = 0;
    for (const SpaceSaving* stream : streams) sampled += stream->total();
    out.numbers(hot_way_rows, HotWayShown{sampled}, prefix);
    uint32_t rank = 0;
    for (const HotKey& hot : hottest(streams, HotKeys::shown_max)) {
        const std::string front = prefix + std::to_string(++rank) + ":";
        const HotKeyShown shown{hot, one_in};
        for (const auto& row : hot_key_rows) out.text(front + std::string(row.name), row.of(shown));
    }
}

}  // namespace

void write_hot_keys(StatWriter out, ServerView& server) {
    HotKeysShown all{.one_in = server.hot_keys_one_in()};
    std::vector<HotKeys::Copy> copies;
    for (uint32_t worker = 0; worker < server.worker_count(); worker++) {
        const HotKeys* keys = server.hot_keys(worker);
        if (keys == nullptr) continue;
        all.missed += copies.emplace_back(keys->copy()).missed;
    }
    out.numbers(hot_keys_rows, all);
    for (size_t way = 0; way < way_names.size(); way++) {
        std::vector<const SpaceSaving*> streams;
        for (const HotKeys::Copy& copy : copies)
            if (copy.ways[way] != nullptr) streams.push_back(copy.ways[way].get());
        if (!streams.empty()) write_way(out, way_names[way], streams, all.one_in);
    }
}

void reset_hot_keys(ServerView& server) {
    for (uint32_t worker = 0; worker < server.worker_count(); worker++)
        if (HotKeys* keys = server.hot_keys(worker)) keys->reset();
}

}  // namespace farcached::daemon
