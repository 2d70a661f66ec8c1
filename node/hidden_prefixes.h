// SPDX-License-Identifier: BSD-3-Clause
// HiddenPrefixes: which items deletes by prefix have hidden, until they were swept. Owner: a partition, under its lock.
//
// H1  An item is hidden if its key begins with a prefix and its generation is below the floor that was noted with it.
// H2  A look costs a hash for each length that there is among the prefixes, however many they are.
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
    static constexpr size_t prefixes_max = 1024;  // that wait to be swept

    // order: larger than any before. One that is known gets the new floor and order. False: it is not, and there are
    // prefixes_max. Throws std::bad_alloc: nothing is changed.
    bool hide(std::string_view prefix, uint64_t floor, uint64_t order);
    bool hides(std::string_view key, uint64_t generation) const;
    // Those of this order and before are over.
    void swept(uint64_t order);
    void clear();

    size_t size() const { return entries_.size(); }
    uint64_t floor() const { return floor_; }  // nothing of this generation or a later one is hidden

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
    std::vector<Length> lengths_;  // ascending, none without prefixes
    uint64_t floor_ = 0;
};

}  // namespace farcached::node
