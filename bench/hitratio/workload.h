// SPDX-License-Identifier: BSD-3-Clause
// The requests of `farbench hitratio`: keys by popularity, GETs and SETs, and disturbances of the cache.
//
// Threads: a Popularity does not change, and serves all. A Trace belongs to one.
//
// W1  Keys 0 .. keys-1 have a popularity; numbers from `keys` up are requested once only.
// W2  A Trace has the same steps for the same workload, scale and seed, for any cache.
// W3  of_most_popular() uses the exact probabilities of the draws.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "bench/data.h"

namespace farcached::bench {

enum class Spread : uint8_t {
    zipf,       // rank r has a probability proportional to 1 / (r + 1)^theta
    scrambled,  // as in YCSB: ranks of 10^10 items, hashed to keys, many to one
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
    // The key `ranks` ranks behind that key's; after the last rank the first follows.
    uint32_t behind(uint32_t key, uint64_t ranks) const;

  private:
    void fill_cells(std::vector<double>& weights);

    // Walker's alias method: every cell is drawn equally often and shared by two keys, its own and another.
    struct Cell {
        uint32_t own;  // its own key's share, of 2^32
        uint32_t other;
    };
    std::vector<Cell> cells_;
    std::vector<double> sums_;          // [i]: of the i + 1 most popular
    std::vector<uint32_t> key_of_rank_, rank_of_key_;
};

enum class Disturbance : uint8_t {
    none,
    shifting,  // popular keys become unpopular and others popular, at once, repeatedly
    scan,      // for a while, requests for many keys, each once
    one_hit,   // such requests between the others, all the time
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
    // Shares and periods of the disturbances.
    static constexpr double passing_share = 0.2;  // scan, one_hit: of all steps
    static constexpr uint64_t shift_parts = 8;    // each shift moves every rank by keys / 8

    // popularity: of the kind's spread; outlives this. shift_period: steps between shifts.
    Trace(const WorkloadKind& kind, const Popularity& popularity, uint64_t shift_period, uint64_t seed);

    struct Step {
        uint64_t key;
        bool set;
    };
    Step next();

    // The share of GETs that a cache of `items` items would answer if it always held the most popular keys.
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
