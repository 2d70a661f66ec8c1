// SPDX-License-Identifier: BSD-3-Clause
// A point of `farbench hitratio --servers`: the steps of the simulation (sim.h), run in real time against
// running farcached daemons. Each daemon acts as one host; its operator chose nodes, policy and leases.
//
// Owner: the command; one thread, which has all clients.
//
// R1  The steps are the simulation's, from the same trace. Client n % clients takes step n, on server n % clients %
//     servers, not before the time n / rate.
// R2  A client has one connection and one request on it; due steps wait in their order. After a GET that missed, its
//     client stores the key before its next step.
// R3  Before the first counted step and after the last, all requests are answered while the counters are read.
// R4  A latency runs from the sending of a request to the receipt of its whole answer. It excludes the client's own
//     delay under overload, which late_s_max shows.
// R5  The first step starts with a second of the node's clock, as in the simulation. The node checks its fill once a
//     second, and leases that it grants in its first second, while empty, are long.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/histogram.h"
#include "bench/hitratio/sim.h"
#include "bench/load/connection.h"
#include "bench/load/options.h"

namespace farcached::bench {

// In nanoseconds, of counted steps.
struct Latencies {
    Histogram hits, misses, sets;  // GETs that hit, that missed; SETs, including those after a miss
};

struct AskedPoint {
    double cache_ratio = 0;  // as the nodes report it
    SimResult result;
    Latencies latencies;
    double late_s_max = 0;  // the largest delay of a step's start
    Failures failures;
};

// None: interrupted. Throws std::runtime_error when servers do not answer, or have another policy than
// point.contestant.
std::optional<AskedPoint> ask_servers(const SimScale& scale, const Popularity& popularity, const SimPoint& point,
                                      const std::vector<Target>& servers);

}  // namespace farcached::bench
