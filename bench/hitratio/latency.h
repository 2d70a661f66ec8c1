// SPDX-License-Identifier: BSD-3-Clause
// Latencies of a point of `farbench hitratio --servers`, as in Figures 7 to 9 of the paper (hitratio_report.h). Pure.
#pragma once

#include <string>

#include "bench/hitratio/clients.h"

namespace farcached::bench {

// One row per nonempty interval, eight to a power of two. Lines end with a newline.
std::string latency_csv(const SimScale& scale, const SimPoint& point, const Latencies& latencies);
// The quantiles as text.
std::string latency_text(const Latencies& latencies);

}  // namespace farcached::bench
