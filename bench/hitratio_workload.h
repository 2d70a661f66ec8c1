// SPDX-License-Identifier: BSD-3-Clause
// What the clients of `farbench hitratio` ask for: keys by popularity, GETs and SETs, and what disturbs a cache.
//
// W1  Keys 0 .. keys-1 have a popularity; numbers from `keys` up are asked for once and never again.
// W2  A Trace is the same steps for the same workload, scale and seed, whatever the cache.
// W3  of_most_popular() is of the very probabilities that are drawn from.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "bench/random.h"

namespace farcached::bench {

enum class Spread : uint8_t {
    zipf,       // rank r has a probability proportional to 1 / (r + 1)^theta
    scrambled,  // as YCSB: ranks of 10^10 items, each sent to a key by a hash, many to one
};

// The popularity of keys. Immutable; one serves all threads.
class Popularity {
  public:
    Popularity(Spread spread, uint32_t keys, double theta);

    uint32_t keys() const { return uint32_t(cells_.size()); }
    uint32_t key(Random& random) const {
        const unsigned __int128 place = (unsigned __int128)(random.next()) * cells_.size();
        const uint32_t cell = uint32_t(place >> 64);
        return uint32_t(uint64_t(place) >> 32) < cells_[cell].own ? cell : cells_[cell].other;
    }
    // The probability that one of the `items` most popular keys is drawn.
    double of_most_popular(uint64_t items) const;
    // The key whose rank is `ranks` behind that key's; the last is followed by the first.
    uint32_t behind(uint32_t key, uint64_t ranks) const;

  private:
    void fill_cells(std::vector<double>& weights);

    // Walker's alias method: every cell is drawn alike often and shared by two keys, its own and another.
    struct Cell {
        uint32_t own;  // of 2^32: its own key's share
        uint32_t other;
    };
    std::vector<Cell> cells_;
    std::vector<double> sums_;          // [i]: of the i + 1 most popular
    std::vector<uint32_t> key_of_rank_, rank_of_key_;
};

enum class Disturbance : uint8_t {
    none,
    shifting,  // the popular keys become unpopular, and others popular, at once, again and again
    scan,      // for a while many keys are asked for, each once
    one_hit,   // between the others, all the time
};

struct WorkloadKind {
    std::string_view name;
    Spread spread;
    uint32_t sets_percent;
    Disturbance disturbance;
    std::string_view help;
};
std::span<const WorkloadKind> workload_kinds();

class Trace {
  public:
    // Shares and periods of what disturbs.
    static constexpr double passing_share = 0.2;  // scan, one_hit: of all steps
    static constexpr uint64_t shift_parts = 8;    // each shift moves every rank by keys / 8

    // popularity: of the kind's spread; outlives this. shift_period: steps from one shift to the next.
    Trace(const WorkloadKind& kind, const Popularity& popularity, uint64_t shift_period, uint64_t seed);

    struct Step {
        uint64_t key;
        bool set;
    };
    Step next();

    // What share of GETs a cache of so many items would answer that always held the most popular keys.
    double bound(uint64_t items) const;

    bool passes();

    const WorkloadKind& kind_;
    const Popularity& popularity_;
    const uint64_t shift_period_, scan_period_;
    Random random_;
    uint64_t at_ = 0;
    uint64_t passing_next_;
};

}  // namespace farcached::bench
