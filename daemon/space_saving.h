// SPDX-License-Identifier: BSD-3-Clause
// SpaceSaving: which keys of a stream come most often, in memory that does not grow (Metwally, Agrawal, El Abbadi:
// "Efficient Computation of Frequent and Top-k Elements in Data Streams", 2005). A key that is not kept takes the place
// of the one that is counted least, and its count goes on from there.
//
// Owner: who adds; nothing in it is locked.
// V1  A key that is kept came `count` times at most, and `count - error` times at least.
// V2  A key that is not kept came floor() times at most.
// V3  The sum of all counts is total(); so floor() is total() / size_max at most, and what came more often is kept.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/limits.h"

namespace farcached::daemon {

class SpaceSaving {
  public:
    static constexpr size_t size_max = 128;

    void add(std::string_view key);  // of 1 to limits::key_bytes_max bytes

    struct Counted {
        std::string_view key;
        uint64_t count, error;
    };
    size_t size() const { return size_; }
    Counted at(size_t i) const { return {key(i), counts_[i], errors_[i]}; }
    uint64_t total() const { return total_; }
    uint64_t floor() const { return size_ < size_max ? 0 : counts_[least()]; }

  private:
    std::string_view key(size_t i) const { return {keys_[i].data(), lengths_[i]}; }
    size_t find(std::string_view key, uint64_t hash) const;
    size_t least() const;

    // One array for each: 128 of one kind are searched from the front to the end, which for as rare a thing as a sample is
    // cheaper than any list or heap would have to be to be worth its words.
    std::array<uint64_t, size_max> hashes_;
    std::array<uint64_t, size_max> counts_;
    std::array<uint64_t, size_max> errors_;
    std::array<uint8_t, size_max> lengths_;
    std::array<std::array<char, limits::key_bytes_max>, size_max> keys_;
    size_t size_ = 0;
    uint64_t total_ = 0;
};
static_assert(limits::key_bytes_max <= UINT8_MAX);

// Several streams as one: of each key that any of them keeps, the bounds hold for the sum (a stream that does not keep it
// may have had it floor() times). The `most` with the largest count; of equal ones those whose key is first.
struct HotKey {
    std::string key;
    uint64_t count = 0, error = 0;
};
std::vector<HotKey> hottest(const std::vector<const SpaceSaving*>& streams, size_t most);

}  // namespace farcached::daemon
