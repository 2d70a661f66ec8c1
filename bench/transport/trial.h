// SPDX-License-Identifier: BSD-3-Clause
// One trial of one point of `farbench transport`: clients connect, store the keys, warm up together, run the
// measurement together, and disconnect.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/transport/transport_options.h"

namespace farcached::bench {

// The measurements; unknown ones are none. Times in microseconds, counts per operation.
struct Measured {
    using Number = std::optional<double>;
    Number ops_per_s, mean_us, p50_us, p95_us, p99_us, p999_us, errors;
    Number node_cpu_us_per_op, client_cpu_us_per_op;
    Number onesided_share;  // GETs answered by a READ
    Number reads, sends, receives, atomics, doorbells, wire_bytes;  // by this program's counters
    Number device_sends, device_packets;                            // by the RDMA devices' counters; the values expected there
    Number expected_sends, expected_packets;
    Number begin_us, post_us, wait_us, finish_us;  // Sweep::profile
};

struct Metric {
    const char* name;
    Measured::Number Measured::*field;
};
const std::vector<Metric>& metrics();

struct Point {
    Transport transport;
    Workload workload;
    uint32_t clients;
    auto operator<=>(const Point&) const = default;
};

struct Trial {
    Point point{};
    uint32_t number = 0;  // from 1
    Measured measured;
    std::string first_error;
};

// The node under test.
struct TestedNode {
    std::vector<NodePlace> places;
    std::optional<int> pid;
    bool here = false;  // its RDMA device is on this host, so it counts both ends
};

// The node's address for that transport; none: `why` has the reason.
std::optional<NodePlace> place_for(Transport transport, const TestedNode& node, std::string& why);

// Throws std::runtime_error if the node is unreachable. None: interrupted.
std::optional<Trial> run_trial(const Sweep& sweep, const TestedNode& node, const Point& point, uint32_t number,
                               const std::atomic<bool>& stop);

}  // namespace farcached::bench
