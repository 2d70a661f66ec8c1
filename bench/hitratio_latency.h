// SPDX-License-Identifier: BSD-3-Clause
// Latencies of a point of `farbench hitratio --servers`, as Figures 7 to 9 of the paper (hitratio_report.h) have them. Pure.
#pragma once

#include <string>

#include "bench/hitratio_clients.h"

namespace farcached::bench {

// A row for each interval that any answer fell into, eight to a power of two. Lines end with a newline.
std::string latency_csv(const SimScale& scale, const SimPoint& point, const Latencies& latencies);
// Quantiles.
std::string latency_text(const Latencies& latencies);

}  // namespace farcached::bench
