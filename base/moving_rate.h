// SPDX-License-Identifier: BSD-3-Clause
// A rate as a moving mean. Pure.
#pragma once

#include <algorithm>

namespace farcached {

// Events a second: the mean so far, after `events` in the last `passed_s` seconds. Those within `over_s` seconds weigh most.
// passed_s, over_s: above 0.
constexpr double moving_rate(double mean, double events, double passed_s, double over_s) {
    return mean + (events / passed_s - mean) * std::min(1.0, passed_s / over_s);
}

}  // namespace farcached
