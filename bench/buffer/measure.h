// SPDX-License-Identifier: BSD-3-Clause
// One round of `farbench buffer --tiers`. Each function makes its tiers in a new folder, and removes both. Values are
// verified.
//
// Owner: one thread. A wrong value, a failure or an interrupt throws std::runtime_error.
#pragma once

#include <vector>

#include "bench/buffer/buffer.h"
#include "bench/transport/transport.h"

namespace farcached::bench {

// Figures 11 and 12: FReadF and FPrintF.
std::vector<CallSeries> measure_home_files(const BufferOptions& options);
std::vector<CallSeries> measure_remote_files(const BufferOptions& options, Via via);

// Figure 14: all pages are fixed and unfixed, all tiers move them to their files and restart, and all are fixed and unfixed again.
std::vector<CallSeries> measure_pages(const BufferOptions& options, Via via);

}  // namespace farcached::bench
