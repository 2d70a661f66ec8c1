// SPDX-License-Identifier: BSD-3-Clause
// What Prometheus is told of a farcached: every number of `stats` and its groups, under names of Prometheus' conventions, with
// the help texts of the tables that declare them. What is of one node bears its name as a label; the embedded node's is
// "embedded".
//
// Counters are the process's own, whatever `stats reset` did.
#pragma once

#include <string_view>
#include <vector>

#include "base/metrics_text.h"
#include "daemon/node_numbers.h"
#include "daemon/nodes_view.h"
#include "daemon/stats_sample.h"

namespace farcached::daemon {

struct MetricsSource {
    const Sample& sample;
    const NodesView* nodes = nullptr;        // nullptr: the embedded one is all there is
    const std::vector<NodeNumbers>& told;    // of nodes that answered
    std::string_view version;
};

void write_metrics(MetricsText& out, const MetricsSource& source);

}  // namespace farcached::daemon
