// SPDX-License-Identifier: BSD-3-Clause
#include "bench/distribution.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

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

}  // namespace farcached::bench
