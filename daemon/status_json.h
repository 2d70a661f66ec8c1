// SPDX-License-Identifier: BSD-3-Clause
// What the status page shows, as JSON. Counters are since the start: who wants rates takes differences, as the page does.
#pragma once

#include <string>

#include "daemon/metrics.h"

namespace farcached::daemon {

// not_ready: why clients are not served; empty: they are.
std::string status_json(const MetricsSource& source, const std::string& not_ready);

}  // namespace farcached::daemon
