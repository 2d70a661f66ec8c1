// SPDX-License-Identifier: BSD-3-Clause
#include "bench/data.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/check.h"
#include "base/hash.h"

namespace farcached::bench {

// Rejection-inversion (Hoermann and Derflinger, 1996): inverts the integral of x^-theta, and rejects the small area
// between the curve and the steps. Constant time, no table, any theta.
Distribution::Distribution(uint64_t keys, double theta) : keys_(keys), theta_(theta) {
    CHECK(keys > 0);
    CHECK(theta >= 0);
    stride_ = std::max<uint64_t>(1, uint64_t(double(keys) * 0.6180339887));
    while (std::gcd(stride_, keys_) != 1) stride_++;
    if (theta == 0) return;
    area_first_ = area(1.5) - 1.0;
    area_last_ = area(double(keys) + 0.5);
    shortcut_ = 2.0 - area_inverse(area(2.5) - std::pow(2.0, -theta));
}

double Distribution::area(double x) const {
    double exponent = 1.0 - theta_;
    if (std::abs(exponent) < 1e-9) return std::log(x);
    return std::expm1(exponent * std::log(x)) / exponent;
}

double Distribution::area_inverse(double y) const {
    double exponent = 1.0 - theta_;
    if (std::abs(exponent) < 1e-9) return std::exp(y);
    return std::exp(std::log1p(std::max(y * exponent, -1.0)) / exponent);
}

uint64_t Distribution::zipf(Random& random) const {
    constexpr int tries_max = 64;  // more than two are rare, so many never happen
    for (int i = 0; i < tries_max; i++) {
        double y = area_last_ + random.unit() * (area_first_ - area_last_);
        double x = area_inverse(y);
        double k = std::clamp(std::floor(x + 0.5), 1.0, double(keys_));
        if (k - x <= shortcut_) return uint64_t(k) - 1;
        if (y >= area(k + 0.5) - std::exp(-theta_ * std::log(k))) return uint64_t(k) - 1;
    }
    return 0;
}

namespace {

constexpr uint32_t shifts = 64;  // offsets into the filler, chosen by sequence number

struct Head {
    uint64_t key;
    uint64_t sequence;
    uint64_t check;
};
static_assert(sizeof(Head) == Values::verified_bytes_min);

uint64_t check_of(const Head& head, std::string_view filler) {
    uint64_t seed = mix(head.key ^ mix(head.sequence ^ mix(filler.size())));
    return hash_bytes(filler.data(), filler.size(), seed);
}

// Character `at` of a value that is too short for a Head.
char short_character(uint64_t key, uint32_t bytes, uint32_t at) {
    return char('!' + mix(mix(key) ^ (uint64_t(bytes) << 32 | at)) % 94);
}

}  // namespace

std::string text_of(std::span<const ValueSizes> sizes) {
    std::string text;
    for (const ValueSizes& one : sizes) {
        text += (text.empty() ? "" : ",") + std::to_string(one.bytes_min);
        if (one.bytes_max != one.bytes_min) text += ":" + std::to_string(one.bytes_max);
        if (sizes.size() > 1) text += "@" + std::to_string(one.weight);
    }
    return text;
}

Values::Values(std::span<const ValueSizes> sizes, bool verified)
    : sizes_(sizes.begin(), sizes.end()), bytes_min_(UINT32_MAX), bytes_max_(0), verified_(verified) {
    CHECK(!sizes_.empty());
    uint32_t weights = 0;
    for (ValueSizes& one : sizes_) {
        CHECK(one.bytes_min <= one.bytes_max);
        bytes_min_ = std::min(bytes_min_, one.bytes_min);
        bytes_max_ = std::max(bytes_max_, one.bytes_max);
        weights += one.weight;
        one.weight = weights;
    }
    CHECK(weights > 0);
    filler_.resize(bytes_max_ + shifts);
    Random random(1);
    for (char& c : filler_) c = char('!' + random.below(94));
}

Values::Values(uint32_t bytes_min, uint32_t bytes_max, bool verified)
    : Values(std::vector<ValueSizes>{{bytes_min, bytes_max}}, verified) {}

uint32_t Values::size(uint64_t sequence) const {
    if (bytes_min_ == bytes_max_) return bytes_min_;
    Random random(sequence);
    const ValueSizes* one = sizes_.data();
    if (sizes_.size() > 1)
        for (const uint64_t drawn = random.below(sizes_.back().weight); drawn >= one->weight; one++) {}
    return one->bytes_min + uint32_t(random.below(uint64_t(one->bytes_max) - one->bytes_min + 1));
}

void Values::fill(char* to, uint32_t bytes, uint64_t key, uint64_t sequence) const {
    CHECK(bytes <= bytes_max_);
    const char* filler = filler_.data() + sequence % shifts;
    if (!verified_) {
        std::memcpy(to, filler, bytes);
        return;
    }
    if (bytes < verified_bytes_min) {
        for (uint32_t i = 0; i < bytes; i++) to[i] = short_character(key, bytes, i);
        return;
    }
    Head head{key, sequence, 0};
    uint32_t rest = bytes - uint32_t(sizeof head);
    head.check = check_of(head, {filler, rest});
    std::memcpy(to, &head, sizeof head);
    std::memcpy(to + sizeof head, filler, rest);
}

bool Values::good(std::string_view value, uint64_t key) const {
    if (!verified_) return true;
    if (value.size() < bytes_min_) return false;
    if (value.size() > bytes_max_) return false;
    if (value.size() < verified_bytes_min) {
        for (uint32_t i = 0; i < value.size(); i++)
            if (value[i] != short_character(key, uint32_t(value.size()), i)) return false;
        return true;
    }
    Head head;
    std::memcpy(&head, value.data(), sizeof head);
    return head.key == key && head.check == check_of(head, value.substr(sizeof head));
}

}  // namespace farcached::bench
