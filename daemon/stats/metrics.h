// SPDX-License-Identifier: BSD-3-Clause
// The metrics for Prometheus: every number of `stats` and its groups, named by Prometheus's conventions, with the help texts of
// the tables that declare them. Numbers of one node have its name as a label; the embedded node's is "embedded".
//
// Counters are the process's own: `stats reset` does not affect them.
#pragma once

#include <string_view>
#include <vector>

#include "base/metrics_text.h"
#include "daemon/stats/node_numbers.h"
#include "daemon/stats/nodes_view.h"
#include "daemon/stats/stats_sample.h"

namespace farcached::daemon {

struct MetricsSource {
    const Sample& sample;
    const NodesView* nodes = nullptr;        // nullptr: only the embedded node
    const std::vector<NodeNumbers>& told;    // of nodes that answered
    std::string_view version;
};

void write_metrics(MetricsText& out, const MetricsSource& source);

}  // namespace farcached::daemon
