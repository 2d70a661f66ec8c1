// SPDX-License-Identifier: BSD-3-Clause
// A point of `farbench hitratio --servers`: what the simulation (hitratio_sim.h) does in virtual time, asked of running
// farcached in real time. Each of them is a host; nodes, policy and leases are as whoever started them chose.
//
// R1  The steps are the simulation's: of the same trace, step n by client n % clients on server n % clients % servers, not
//     before the time n / rate.
// R2  A client has a connection, and one request on it; steps that are due meanwhile wait in their order. What a GET did not
//     find is stored by its client before its next step.
// R3  Before the first step that is counted, and after the last, everything is answered while the counters are read.
// R4  A latency is from the sending of a request to the receipt of all of its answer: what the client did itself while it had
//     too much to do is not in it, but in late_s_max.
// R5  The first step is taken when the node's clock begins a second, as the simulation's: a node looks once a second how full
//     it is, and what it leases in its first, while it is empty, is leased for long.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/batch.h"
#include "bench/histogram.h"
#include "bench/hitratio_sim.h"
#include "bench/options.h"

namespace farcached::bench {

// In nanoseconds, of what was counted.
struct Latencies {
    Histogram hits, misses, sets;  // GETs that found, that did not; SETs, those after a miss among them
};

struct AskedPoint {
    double cache_ratio = 0;  // as the nodes say
    SimResult result;
    Latencies latencies;
    double late_s_max = 0;  // a step began so long after its time
    Failures failures;
};

// Nothing: it was interrupted. Throws std::runtime_error when servers do not answer, or are not of point.contestant's policy.
std::optional<AskedPoint> ask_servers(const SimScale& scale, const Popularity& popularity, const SimPoint& point,
                                      const std::vector<Target>& servers);

}  // namespace farcached::bench
