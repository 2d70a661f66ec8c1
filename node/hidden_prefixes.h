// SPDX-License-Identifier: BSD-3-Clause
// HiddenPrefixes: the prefixes of deletes by prefix whose items are not swept yet. Owner: HiddenItems, under the partition's lock.
//
// H1  An item is hidden if its key begins with a prefix and its generation is below that prefix's floor.
// H2  A lookup costs one hash for each distinct prefix length, however many prefixes exist.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/hash.h"

namespace farcached::node {

class HiddenPrefixes {
  public:
    static constexpr size_t prefixes_max = 1024;  // waiting to be swept

    // order: larger than any before. A known prefix gets the new floor and order. False: the prefix is new and the table is
    // full. Throws std::bad_alloc without effect.
    bool hide(std::string_view prefix, uint64_t floor, uint64_t order);
    bool hides(std::string_view key, uint64_t generation) const;
    // Removes the prefixes of this order and earlier ones.
    void swept(uint64_t order);
    void clear();

    size_t size() const { return entries_.size(); }
    uint64_t floor() const { return floor_; }  // items of this generation or a later one are not hidden

  private:
    struct Entry {
        uint64_t floor, order;
    };
    struct Hash {
        using is_transparent = void;
        size_t operator()(std::string_view text) const { return hash_bytes(text.data(), text.size(), 0); }
    };
    struct Length {
        size_t bytes, prefixes;
    };

    void uncount(size_t bytes);

    std::unordered_map<std::string, Entry, Hash, std::equal_to<>> entries_;
    std::vector<Length> lengths_;  // ascending; only lengths in use
    uint64_t floor_ = 0;
};

}  // namespace farcached::node
