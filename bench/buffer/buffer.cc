// SPDX-License-Identifier: BSD-3-Clause
#include "bench/buffer/buffer.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <ios>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "bench/buffer/measure.h"
#include "bench/transport/node_process.h"

namespace farcached::bench {

namespace {

constexpr uint32_t calls_max = 4000;  // their values fit into the files, and what stands for them into the nodes' memory
constexpr uint32_t rounds_max = 1000;

using B = BufferOptions;
using S = const std::string;

const char* to_transports(B& b, S& text) {
    b.transports.clear();
    return each_part(text, [&](std::string_view part) {
        NodeToStart one;
        const char* wrong = to_started(std::string(part), one);
        return keep(b.transports, one.via, wrong);
    });
}

const OptionOf<B> table[] = {
    {{"tiers", nullptr, nullptr,
      "the paper's Table 3 and Figures 11, 12 and 14: reads and writes of the file, and of pages, here and at a farnode"},
     [](B& b, S&) { return to_flag(b.tiers); }},
    {{"transports", "LIST", "shm,tcp", "ways to the farnode, which is started for it: shm, tcp, verbs"}, to_transports},
    {{"verbs-address", "ADDR", nullptr, "with verbs: address of an RDMA device; default: the first one"},
     [](B& b, S& s) { return to_text(s, b.start.host); }},
    {{"farnode", "PATH", nullptr, "path of farnode; default: in farbench's folder, or on PATH"},
     [](B& b, S& s) { return to_text(s, b.start.program); }},
    {{"folder", "FOLDER", nullptr, "folder for the files of all nodes; default: that of temporary files"},
     [](B& b, S& s) { return to_text(s, b.folder); }},
    {{"calls", "N", "1000", "calls of each kind in a round"},
     [](B& b, S& s) { return to_number<uint32_t>(s, 1, calls_max, b.calls); }},
    {{"rounds", "N", "3", "rounds; of each kind of calls, the one with the lowest median counts"},
     [](B& b, S& s) { return to_number<uint32_t>(s, 1, rounds_max, b.rounds); }},
    {{"wait", "HOW", "sleep", "waiting for a reply: sleep in poll(), or spin"},
     [](B& b, S& s) { return to_word(s, wait_names, b.spin, "is not spin or sleep"); }},
    {{"quick", nullptr, nullptr, "a short run: 100 calls, one round"},
     [](B& b, S&) -> const char* {
         b.calls = 100;
         b.rounds = 1;
         return nullptr;
     }},
    {{"csv", "FOLDER", nullptr, "folder for points.csv, calls.csv and charts"},
     [](B& b, S& s) { return to_text(s, b.csv_folder); }},
    {{"json", "FILE", nullptr, "also write the points as JSON"}, [](B& b, S& s) { return to_text(s, b.json_path); }},
};

}  // namespace

std::span<const OptionOf<BufferOptions>> buffer_options() { return table; }

std::string read_buffer_options(std::span<char* const> arguments, BufferOptions& options) {
    options.start.threads = 1;
    options.start.lease_ms = 4000;
    const std::string wrong = read_options(buffer_options(), arguments, options);
    if (!wrong.empty()) return wrong;
    return options.tiers ? std::string() : "nothing to measure: use --tiers";
}

namespace {

// Adds a round's results. False: interrupted.
template <class Measure>
bool add_measured(std::vector<BestSeries>& best, const char* what, Measure measure) {
    if (interrupted.load()) return false;
    std::fprintf(stderr, "%s\n", what);
    try {
        for (CallSeries& one : measure()) keep_best(best, std::move(one));
    } catch (const std::runtime_error&) {
        if (interrupted.load()) return false;
        throw;
    }
    return true;
}

// False: interrupted; the results so far count.
bool run_rounds(const BufferOptions& options, std::vector<BestSeries>& best) {
    for (uint32_t round = 1; round <= options.rounds; round++) {
        const auto line = [&](const char* what, Via via) {
            return form("round %u of %u: %s, %s", round, options.rounds, what,
                        via == Via::none ? "local" : via_names[size_t(via)].data());
        };
        if (!add_measured(best, line("FReadF and FPrintF", Via::none).c_str(), [&] { return measure_home_files(options); }))
            return false;
        for (const Via via : options.transports) {
            if (!add_measured(best, line("FReadF and FPrintF", via).c_str(), [&] { return measure_remote_files(options, via); }) ||
                !add_measured(best, line("fix and unfix", via).c_str(), [&] { return measure_pages(options, via); }))
                return false;
        }
    }
    return true;
}

void write(const BufferOptions& options, const std::vector<BestSeries>& best) {
    if (!options.json_path.empty()) write_file(options.json_path, buffer_json(best), std::ios::trunc);
    if (options.csv_folder.empty()) return;
    std::filesystem::create_directories(options.csv_folder);
    write_file(options.csv_folder + "/points.csv", buffer_points_csv(best), std::ios::trunc);
    write_file(options.csv_folder + "/calls.csv", buffer_calls_csv(best), std::ios::trunc);
    draw_charts("buffer", options.csv_folder);
}

int run(std::span<char* const> arguments) {
    BufferOptions options;
    const std::string wrong = read_buffer_options(arguments, options);
    if (!wrong.empty()) return refuse_arguments("buffer", wrong);
    const auto& ways = options.transports;
    const bool over_rdma = std::find(ways.begin(), ways.end(), Via::verbs) != ways.end();
    if (over_rdma && options.start.host.empty()) options.start.host = rdma_address();  // fails before the measurement, if at all
    catch_interrupts();
    std::vector<BestSeries> best;
    const bool whole = run_rounds(options, best);
    std::fputs(buffer_text(options, best).c_str(), stdout);
    if (!best.empty()) write(options, best);
    if (whole) return exit_good;
    std::fprintf(stderr, "farbench buffer: interrupted\n");
    return exit_failed;
}

}  // namespace

Command buffer_command() {
    return {"buffer", "",
            "Cost of reading and writing the tiers of nodes, beside the evaluation of a buffer manager over RDMA.",
            {std::begin(table), std::end(table)}, run};
}

}  // namespace farcached::bench
