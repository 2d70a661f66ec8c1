// SPDX-License-Identifier: BSD-3-Clause
// Histogram of durations: 128 steps per power of two, so the error of a quantile is below 0.4 %.
//
// Owner: one thread; merge() combines those of several threads.
// H1  Values below 256 are exact; count, sum and maximum are always exact.
// H2  Memory is fixed; larger values count as value_max.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace farcached::bench {

class Histogram {
  public:
    static constexpr uint32_t steps = 128;
    static constexpr uint32_t value_bits = 40;  // ns: 18 minutes
    static constexpr uint64_t value_max = (UINT64_C(1) << value_bits) - 1;

    void add(uint64_t value) {
        counts_[index_of(std::min(value, value_max))]++;
        count_++;
        sum_ += value;
        max_ = std::max(max_, value);
    }

    void merge(const Histogram& other) {
        for (size_t i = 0; i < counts_.size(); i++) counts_[i] += other.counts_[i];
        count_ += other.count_;
        sum_ += other.sum_;
        max_ = std::max(max_, other.max_);
    }

    uint64_t count() const { return count_; }
    uint64_t max() const { return max_; }
    double mean() const { return count_ == 0 ? 0.0 : double(sum_) / double(count_); }

    // The smallest value that at least this share of the values does not exceed; 0 without values.
    uint64_t quantile(double share) const {
        uint64_t wanted = std::max<uint64_t>(1, uint64_t(std::ceil(share * double(count_))));
        uint64_t seen = 0;
        for (size_t i = 0; i < counts_.size(); i++) {
            seen += counts_[i];
            if (seen >= wanted) return std::min(middle_of(i), max_);
        }
        return max_;
    }

    // Calls tell(value, count) for each nonempty step, ascending; the value is the step's middle.
    template <class Tell>
    void each(Tell tell) const {
        for (size_t i = 0; i < counts_.size(); i++)
            if (counts_[i] > 0) tell(middle_of(i), counts_[i]);
    }

  private:
    static constexpr size_t index_of(uint64_t value) {
        uint32_t shift = value < 2 * steps ? 0 : uint32_t(std::bit_width(value)) - 8;
        return size_t(shift) * steps + (value >> shift);
    }
    static constexpr uint64_t middle_of(size_t index) {
        if (index < 2 * steps) return index;
        uint32_t shift = uint32_t(index / steps) - 1;
        uint64_t low = (index - size_t(shift) * steps) << shift;
        return low + (UINT64_C(1) << shift) / 2;
    }

    std::array<uint64_t, (value_bits - 8) * steps + 2 * steps> counts_{};
    uint64_t count_ = 0, sum_ = 0, max_ = 0;
};
static_assert(Histogram::steps * 2 == 256);  // index_of() keeps 8 significant bits

}  // namespace farcached::bench
