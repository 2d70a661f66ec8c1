// SPDX-License-Identifier: BSD-3-Clause
// Runs a load: connects, preloads, warms up, measures. One thread calls; it starts the workers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "bench/histogram.h"
#include "bench/load/options.h"
#include "bench/load/server_stats.h"
#include "bench/load/worker.h"
#include "bench/usage.h"

namespace farcached::bench {

struct Results {
    double measured_s = 0;
    double preload_s = 0;
    double warmup_reads_s = 0;
    Tally total;              // of all workers
    Usage server;             // while measuring; valid if there are server_pids
    Usage back;               // the same, of back_pids
    double client_cpu_s = 0;  // while measuring
    std::optional<GetShares> shares;  // while measuring; only for a farcached with nodes

    uint64_t operations() const { return total.sets.count() + total.gets.count() + total.deletes.count(); }
};

// Throws std::runtime_error when the load cannot start. Later failures are in the results.
Results run_load(const LoadOptions& options);

// The results of a load, as text, JSON and CSV. Pure, except for writing files.
//
// R1  JSON and CSV have the same fields, from one list.
std::string text_report(const LoadOptions& options, const Results& results);
std::string json_report(const LoadOptions& options, const Results& results);

// Appends a line, after a head if the file is new. Throws std::runtime_error if the file cannot be written.
void append_csv(const std::string& path, const LoadOptions& options, const Results& results);
// A line per nonempty step of the histogram: kind, us (the step's middle), count, count_up_to, quantile.
std::string histogram_csv(const Results& results);

}  // namespace farcached::bench
