// SPDX-License-Identifier: BSD-3-Clause
// The results of a load, as text, JSON and CSV. Pure, except for writing files.
//
// R1  JSON and CSV have the same fields, from one list.
#pragma once

#include <string>

#include "bench/load/load.h"

namespace farcached::bench {

std::string text_report(const LoadOptions& options, const Results& results);
std::string json_report(const LoadOptions& options, const Results& results);

// These throw std::runtime_error if the file cannot be written.
void write_json(const std::string& path, const LoadOptions& options, const Results& results);
void append_csv(const std::string& path, const LoadOptions& options, const Results& results);
// A line per nonempty step of the histogram: kind, us (the step's middle), count, count_up_to, quantile.
void write_histogram(const std::string& path, const Results& results);

}  // namespace farcached::bench
