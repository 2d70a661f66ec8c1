// SPDX-License-Identifier: BSD-3-Clause
#include "bench/rnic/resource.h"

namespace farcached::bench {

ResourceCache::ResourceCache(uint32_t entries) : entries_max_(entries), entries_{{0, 0, 0}} { places_.reserve(entries); }

void ResourceCache::unlink(uint32_t place) {
    const Entry& entry = entries_[place];
    entries_[entry.newer].older = entry.older;
    entries_[entry.older].newer = entry.newer;
}

void ResourceCache::link_newest(uint32_t place) {
    const uint32_t second = entries_[0].older;
    entries_[place].newer = 0;
    entries_[place].older = second;
    entries_[second].newer = place;
    entries_[0].older = place;
}

bool ResourceCache::look(uint64_t key) {
    const auto found = places_.find(key);
    if (found == places_.end()) return false;
    unlink(found->second);
    link_newest(found->second);
    return true;
}

void ResourceCache::insert(uint64_t key) {
    if (entries_max_ == 0 || look(key)) return;
    uint32_t place = uint32_t(entries_.size());
    if (places_.size() == entries_max_) {
        place = entries_[0].newer;  // the oldest
        places_.erase(entries_[place].key);
        unlink(place);
    } else {
        entries_.push_back({});
    }
    entries_[place].key = key;
    link_newest(place);
    places_.emplace(key, place);
}

}  // namespace farcached::bench
