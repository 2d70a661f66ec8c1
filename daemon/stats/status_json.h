// SPDX-License-Identifier: BSD-3-Clause
// The numbers of the status page, as JSON. Counters are since the start: clients compute rates from differences, as the page
// does.
#pragma once

#include <string>

#include "daemon/stats/metrics.h"

namespace farcached::daemon {

// not_ready: why clients are not served; empty: they are served.
std::string status_json(const MetricsSource& source, const std::string& not_ready);

}  // namespace farcached::daemon
