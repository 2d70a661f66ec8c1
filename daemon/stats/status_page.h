// SPDX-License-Identifier: BSD-3-Clause
// The status page, daemon/stats/status_page.html at build time. @NONCE@ in it stands for a word that differs in each answer.
#pragma once

#include <string>
#include <string_view>

#include "daemon/stats/metrics.h"

namespace farcached::daemon {

extern const std::string_view status_page;

// The numbers of the status page, as JSON. Counters are since the start: clients compute rates from differences, as the page
// does.
// not_ready: why clients are not served; empty: they are served.
std::string status_json(const MetricsSource& source, const std::string& not_ready);

}  // namespace farcached::daemon
