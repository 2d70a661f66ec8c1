// SPDX-License-Identifier: BSD-3-Clause
// The options of `farbench load`: one table, the source of parsing and help.
// Constants, and functions without state. Owner of LoadOptions: the command; it does not change while workers run.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/command.h"
#include "bench/data.h"
#include "bench/load/wire.h"

namespace farcached::bench {

struct Target {
    std::string host;
    std::string port;
    std::string unix_path;  // if not empty, replaces host and port
    Wire wire = Wire::text;
    std::vector<int> server_pids;  // report their CPU time
    std::vector<int> back_pids;    // the servers behind them: report their CPU time separately
};

enum class Arrivals : uint8_t {
    even,     // one every 1 / rate
    poisson,  // as from many independent clients
};
constexpr std::string_view arrival_names[] = {"even", "poisson"};

struct Shape {
    uint32_t threads = 0;
    uint32_t connections = 0;
    uint32_t pipeline = 0;
    uint32_t multiget = 0;
};

// The pacing of requests.
struct Pace {
    double rate = 0;  // requests per second of an open loop; 0: a closed loop
    Arrivals arrivals = Arrivals::even;
};

struct Bounds {
    double seconds = 0;     // 0: bounded by requests only
    uint64_t requests = 0;  // 0: bounded by seconds only
    double warmup_s = 0;
    uint64_t warmup_requests = 0;  // before warmup_s
    double stall_s = 0;
};

struct Mix {
    uint32_t sets = 0, gets = 0;  // set:get
    uint64_t keys = 0;
    std::string key_prefix;
    bool zipf = false;
    double theta = 0;
    std::vector<ValueSizes> values;
    bool verify = false;
    bool preload = false;
    uint32_t warmup_reads = 0;  // per key
    double delete_share = 0;    // of operations
    bool fill_misses = false;
    double once_share = 0;        // of the keys of gets: each is new, and never comes again
    uint64_t shift_requests = 0;  // keys that a thread draws between changes of the popular ones; 0: they stay
    static constexpr uint64_t shift_parts = 8;  // after so many changes they are the first ones again
    uint64_t seed = 0;
};

struct Output {
    std::string json_path;
    std::string csv_path;
    std::string histogram_path;
    bool progress = false;
};

struct LoadOptions {
    Target target;
    Shape shape;
    Pace pace;
    Bounds bounds;
    Mix mix;
    Output output;
};

using Option = OptionOf<LoadOptions>;
std::span<const Option> load_options();

// Reads the arguments after `load`. Returns an error, or an empty string.
std::string read_load_options(std::span<char* const> arguments, LoadOptions& options);

}  // namespace farcached::bench
