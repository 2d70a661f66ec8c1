// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/stats/space_saving.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/check.h"
#include "base/hash.h"

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

}  // namespace farcached::daemon
