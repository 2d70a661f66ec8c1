// SPDX-License-Identifier: BSD-3-Clause
// A load from its options to its results: connects, preloads, warms up, measures.
#pragma once

#include <cstdint>

#include "bench/histogram.h"
#include "bench/options.h"
#include "bench/usage.h"
#include "bench/worker.h"

namespace farcached::bench {

struct Results {
    double measured_s = 0;
    double preload_s = 0;
    Tally total;              // of all workers
    Usage server;             // while measuring; meaningful if there are server_pids
    Usage back;               // likewise, of back_pids
    double client_cpu_s = 0;  // while measuring

    uint64_t operations() const { return total.sets.count() + total.gets.count(); }
};

// Throws std::runtime_error when the load cannot begin. What goes wrong later is in the results.
Results run_load(const LoadOptions& options);

}  // namespace farcached::bench
