// SPDX-License-Identifier: BSD-3-Clause
// What the HTTP pages show of a Sample. Pure; a page writes to a text of its own.
//
// The metrics for Prometheus: every number of `stats` and its groups, named by Prometheus's conventions, with the help texts of
// the tables that declare them. Numbers of one node have its name as a label; the embedded node's is "embedded".
//
// Counters are the process's own: `stats reset` does not affect them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/metrics_text.h"
#include "daemon/discovery/source.h"
#include "daemon/http/shared_pages.h"
#include "daemon/stats/server_view.h"
#include "daemon/stats/stats_sample.h"

namespace farcached::daemon {

struct MetricsSource {
    const Sample& sample;
    const NodesView* nodes = nullptr;        // nullptr: only the embedded node
    const std::vector<NodeNumbers>& told;    // of nodes that answered
    std::string_view version;
    std::optional<SourceState> discovery = std::nullopt;  // of --discover
};

void write_metrics(MetricsText& out, const MetricsSource& source);

// The numbers of the status page, as JSON. Counters are since the start: clients compute rates from differences, as the page does.
// not_ready: why clients are not served; empty: they are served.
std::string status_json(const MetricsSource& source, const http::Identity& identity, const std::string& not_ready);

}  // namespace farcached::daemon
