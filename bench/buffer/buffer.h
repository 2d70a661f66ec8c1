// SPDX-License-Identifier: BSD-3-Clause
// `farbench buffer`: repeats the evaluation of "One Buffer Manager to Rule Them All: Using Distributed Memory with Cache Coherence
// over RDMA" on the tiers of farcached's nodes. Here: its options and its results. The results are pure.
//
//   the paper        here
//   FReadF, local    get of an embedded node, whose value is in the file of ext_path
//   FReadF, remote   get through a link to a farnode, whose value is in its file
//   FPrintF, local   a value is put into the disk store and flushed; or a set of an embedded node with full memory
//   FPrintF, remote  set through a link to a farnode with full memory
//   fix, unfix       get of a page, which is stored if it is new; set of the page
//
// M1  In a node with full memory each set moves an older value to the file, through a write buffer. The set does not wait for the
//     file. FPrintF of the paper returns when its value is in the file, and so does a flush, which also waits for the device.
// M2  All files go through the page cache, as in the paper.
// M3  The paper opens the file in each call, and connects a queue pair in each remote call. A node keeps both open. For comparison,
//     the remote calls are also measured with a new link for each.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/command.h"
#include "bench/transport/transport.h"

namespace farcached::bench {

struct BufferOptions {
    bool tiers = false;
    std::vector<Via> transports;
    NodeToStart start;
    std::string folder;  // for the files of the tiers
    uint32_t calls = 0, rounds = 0;
    bool spin = false;
    std::string csv_folder, json_path;
};

std::span<const OptionOf<BufferOptions>> buffer_options();

// Reads the arguments after `buffer`. Returns an error, or an empty string.
std::string read_buffer_options(std::span<char* const> arguments, BufferOptions& options);

// Microseconds of calls.
struct Summary {
    double min = 0, mean = 0, median = 0, max = 0;
};

struct Call {
    uint32_t number;  // in its figure, from 1
    double us;
};

// The calls of one kind in one round.
struct CallSeries {
    uint32_t figure = 0;    // of the paper
    std::string operation;  // FReadF, FPrintF, fix, unfix
    std::string place;      // local or remote; of a page: where it was
    Via via = Via::none;    // to the remote node
    std::string how;        // what a call does
    std::vector<Call> calls;
    uint64_t in_file = 0;   // calls that read the file, or values that moved to it during the calls
};
Summary summary_of(const CallSeries& series);
// The row of the paper's Table 3 for this operation and place; nullptr: it has none.
const Summary* paper_of(const CallSeries& series);

// Of some rounds, the one with the lowest median.
struct BestSeries {
    CallSeries series;
    uint32_t rounds = 0;
    double median_low = 0, median_high = 0;
};
void keep_best(std::vector<BestSeries>& best, CallSeries one);

// points.csv and calls.csv.
std::string buffer_points_csv(const std::vector<BestSeries>& best);
std::string buffer_calls_csv(const std::vector<BestSeries>& best);
// A list with one object per series.
std::string buffer_json(const std::vector<BestSeries>& best);
std::string buffer_text(const BufferOptions& options, const std::vector<BestSeries>& best);

}  // namespace farcached::bench
