// SPDX-License-Identifier: BSD-3-Clause
// HotKeys: a worker's sample of requested keys, by the way of their answers (daemon/stats/latency.h).
//
// About one in `one_in` of the answered gets and sets is sampled, at random intervals: no pattern of the clients coincides with
// them. Between samples a request costs a subtraction.
//
// Owner: one worker's thread; any thread may call copy() and reset().
// H1  The worker never waits: samples during a copy or reset count as missed only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/counters.h"
#include "base/limits.h"
#include "daemon/stats/latency.h"

namespace farcached::daemon {

// SpaceSaving: the most frequent keys of a stream, in bounded memory (Metwally, Agrawal, El Abbadi: "Efficient Computation of
// Frequent and Top-k Elements in Data Streams", 2005). A new key replaces the one with the smallest count, and continues that
// count.
//
// Owner: its user; no locks.
// V1  A kept key occurred at most `count` and at least `count - error` times.
// V2  A key that is not kept occurred floor() times at most.
// V3  The sum of all counts is total(). So floor() is total() / size_max at most, and more frequent keys are kept.
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

    // One array per field: a linear search of 128 entries. Samples are rare; a heap or list would not pay.
    std::array<uint64_t, size_max> hashes_;
    std::array<uint64_t, size_max> counts_;
    std::array<uint64_t, size_max> errors_;
    std::array<uint8_t, size_max> lengths_;
    std::array<std::array<char, limits::key_bytes_max>, size_max> keys_;
    size_t size_ = 0;
    uint64_t total_ = 0;
};
static_assert(limits::key_bytes_max <= UINT8_MAX);

// Several streams merged: of each key kept by any of them, the bounds hold for the sum (other streams may have had it floor()
// times). Returns the `most` with the largest count; ties in order of the key.
struct HotKey {
    std::string key;
    uint64_t count = 0, error = 0;
};
std::vector<HotKey> hottest(const std::vector<const SpaceSaving*>& streams, size_t most);

class HotKeys {
  public:
    static constexpr size_t shown_max = 16;

    // one_in 0: no samples.
    HotKeys(uint32_t one_in, uint64_t seed);
    HotKeys(const HotKeys&) = delete;
    HotKeys& operator=(const HotKeys&) = delete;

    // ---- the worker -----------------------------------------------------------------------------
    // Between requests: sets the rate, about one in `one_in`. A new rate resets the counts.
    void change(uint32_t one_in);
    // After an answer. True: call sample().
    bool due() { return --left_ == 0; }
    void sample(Way way, std::string_view key);

    // ---- any thread -----------------------------------------------------------------------------
    struct Copy {
        std::array<std::unique_ptr<SpaceSaving>, size_t(Way::count)> ways;  // null: no samples
        uint64_t missed = 0;
    };
    Copy copy() const;
    void reset();

  private:
    uint32_t one_in_ = 0;
    uint64_t left_ = UINT64_MAX;  // until the next sample
    uint32_t chance_;
    Counter missed_;

    mutable std::mutex lock_;
    std::array<std::unique_ptr<SpaceSaving>, size_t(Way::count)> ways_;  // under lock_
    uint64_t missed_before_ = 0;                                        // under lock_: at the last reset
};

}  // namespace farcached::daemon
