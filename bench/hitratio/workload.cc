// SPDX-License-Identifier: BSD-3-Clause
#include "bench/hitratio/workload.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "bench/data.h"

namespace farcached::bench {

namespace {

constexpr uint64_t scrambled_items = UINT64_C(10'000'000'000);

// FNV-1a of the number's bytes, as in YCSB.
uint64_t scramble(uint64_t number) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int byte = 0; byte < 8; byte++) {
        hash ^= number >> (8 * byte) & 0xff;
        hash *= UINT64_C(0x100000001b3);
    }
    return hash;
}

std::vector<double> zipf_weights(uint32_t keys, double theta) {
    const Distribution places(keys, theta);
    std::vector<double> weights(keys);
    for (uint32_t rank = 0; rank < keys; rank++)
        weights[places.key_of_rank(rank)] = std::pow(double(rank) + 1, -theta);
    return weights;
}

// The sum of 1 / r^theta for r from `first` to `last`, by its integral: `first` is large.
double tail_sum(double first, double last, double theta) {
    const double exponent = 1 - theta, from = first - 0.5, to = last + 0.5;
    if (std::abs(exponent) < 1e-9) return std::log(to / from);
    return (std::pow(to, exponent) - std::pow(from, exponent)) / exponent;
}

// The unpopular items are so many per key that every key gets the same share of them.
std::vector<double> scrambled_weights(uint32_t keys, double theta) {
    const uint64_t single = std::max<uint64_t>(UINT64_C(1) << 20, UINT64_C(4) * keys);
    std::vector<double> weights(keys, tail_sum(double(single) + 1, double(scrambled_items), theta) / keys);
    for (uint64_t rank = 0; rank < single; rank++)
        weights[scramble(rank) % keys] += std::pow(double(rank) + 1, -theta);
    return weights;
}

constexpr WorkloadKind all_kinds[] = {
    {"zipf-100:0", Spread::zipf, 0, Disturbance::none, "GETs only"},
    {"zipf-95:5", Spread::zipf, 5, Disturbance::none, "5 % SETs"},
    {"zipf-90:10", Spread::zipf, 10, Disturbance::none, "10 % SETs"},
    {"scrambled-100:0", Spread::scrambled, 0, Disturbance::none, "YCSB's scrambled Zipf"},
    {"scrambled-95:5", Spread::scrambled, 5, Disturbance::none, "with 5 % SETs"},
    {"scrambled-90:10", Spread::scrambled, 10, Disturbance::none, "with 10 % SETs"},
    {"shifting", Spread::zipf, 5, Disturbance::shifting, "zipf-95:5 whose popular keys change"},
    {"scan", Spread::zipf, 5, Disturbance::scan, "zipf-95:5 with scans, a fifth of it"},
    {"one-hit", Spread::zipf, 5, Disturbance::one_hit, "zipf-95:5 with a fifth of keys that never come again"},
};

}  // namespace

Popularity::Popularity(Spread spread, uint32_t keys, double theta) {
    CHECK(keys > 0);
    std::vector<double> weights = spread == Spread::zipf ? zipf_weights(keys, theta) : scrambled_weights(keys, theta);
    key_of_rank_.resize(keys);
    std::iota(key_of_rank_.begin(), key_of_rank_.end(), 0);
    std::stable_sort(key_of_rank_.begin(), key_of_rank_.end(),
                     [&](uint32_t a, uint32_t b) { return weights[a] > weights[b]; });
    rank_of_key_.resize(keys);
    for (uint32_t rank = 0; rank < keys; rank++) rank_of_key_[key_of_rank_[rank]] = rank;
    const double whole = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (double& weight : weights) weight /= whole;
    double sum = 0;
    for (uint32_t key : key_of_rank_) sums_.push_back(sum += weights[key]);
    fill_cells(weights);
}

// A key with less than a cell shares its cell with a key that has more than one.
void Popularity::fill_cells(std::vector<double>& weights) {
    const uint32_t keys = uint32_t(weights.size());
    cells_.resize(keys);
    std::vector<uint32_t> small, large;
    for (uint32_t key = 0; key < keys; key++) {
        weights[key] *= keys;  // in cells
        cells_[key] = {UINT32_MAX, key};
        (weights[key] < 1 ? small : large).push_back(key);
    }
    while (!small.empty() && !large.empty()) {
        const uint32_t poor = small.back(), rich = large.back();
        small.pop_back();
        cells_[poor] = {uint32_t(weights[poor] * 0x1p32), rich};
        weights[rich] -= 1 - weights[poor];
        if (weights[rich] >= 1) continue;
        large.pop_back();
        small.push_back(rich);
    }
}

double Popularity::of_most_popular(uint64_t items) const {
    return items == 0 ? 0 : sums_[std::min<uint64_t>(items, sums_.size()) - 1];
}

uint32_t Popularity::behind(uint32_t key, uint64_t ranks) const {
    return key_of_rank_[(rank_of_key_[key] + ranks) % keys()];
}

std::span<const WorkloadKind> workload_kinds() { return all_kinds; }

Trace::Trace(const WorkloadKind& kind, const Popularity& popularity, uint64_t shift_period, uint64_t seed)
    : kind_(kind),
      popularity_(popularity),
      shift_period_(std::max<uint64_t>(1, shift_period)),
      scan_period_(popularity.keys()),
      random_(seed),
      passing_next_(popularity.keys()) {}

bool Trace::passes() {
    if (kind_.disturbance == Disturbance::scan)
        return double(at_ % scan_period_) < passing_share * double(scan_period_);
    return kind_.disturbance == Disturbance::one_hit && random_.unit() <= passing_share;
}

Trace::Step Trace::next() {
    const bool passing = passes();
    const uint64_t shifts = at_++ / shift_period_;
    if (passing) return {passing_next_++, false};
    const bool set = random_.below(100) < kind_.sets_percent;
    uint32_t key = popularity_.key(random_);
    if (kind_.disturbance == Disturbance::shifting)
        key = popularity_.behind(key, shifts % shift_parts * (popularity_.keys() / shift_parts));
    return {key, set};
}

double Trace::bound(uint64_t items) const {
    const bool with_passing = kind_.disturbance == Disturbance::scan || kind_.disturbance == Disturbance::one_hit;
    const double passing = with_passing ? passing_share : 0;
    const double others = (1 - passing) * (1 - kind_.sets_percent / 100.0);
    return others / (passing + others) * popularity_.of_most_popular(items);
}

}  // namespace farcached::bench
