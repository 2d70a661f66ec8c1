// SPDX-License-Identifier: BSD-3-Clause
// The options of `farbench transport`: one table, from which arguments are read and help is printed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/option_text.h"

namespace farcached::bench {

// How operations reach the node.
enum class Transport : uint8_t {
    tcp,       // two-sided, over TCP
    twosided,  // two-sided, over the channel that could also be read over
    onesided,  // GETs are READs through remote pointers
    index,     // GETs are READs of the node's index, then of the item
    atomic,    // as onesided, with a FETCH_AND_ADD behind each READ
};
constexpr std::string_view transport_names[] = {"tcp", "twosided", "onesided", "index", "onesided+atomic"};

enum class Workload : uint8_t { get, mixed };
constexpr std::string_view workload_names[] = {"get", "95:5"};
constexpr uint32_t mixed_sets_percent = 5;

enum class Via : uint8_t { none, shm, tcp, verbs };
constexpr std::string_view via_names[] = {"none", "shm", "tcp", "verbs"};

// Where a node is: "tcp:HOST:PORT", "verbs:HOST:PORT", "shm:PATH".
struct NodePlace {
    Via via = Via::none;
    std::string host;  // shm: the path
    uint16_t port = 0;
};

struct NodeToStart {
    Via via = Via::none;      // none: it is running already
    std::string host;         // of an RDMA device; empty: the first that is found
    std::string program;      // empty: beside this program, else on PATH
    uint32_t threads = 0;
    uint32_t lease_ms = 0;
};

struct Sweep {
    std::vector<Transport> transports;
    std::vector<uint32_t> clients;
    std::vector<Workload> workloads;
    uint32_t trials = 0;
    uint64_t operations = 0;  // measured, of all clients together; and
    uint64_t warmup = 0;      // before
    uint64_t keys = 0;
    uint32_t value_bytes = 0;
    double zipf = 0;
    uint64_t seed = 0;
    bool spin = false;     // clients look for completions without sleeping
    bool profile = false;  // and time the parts of what they do
};

struct TransportOutput {
    std::string csv_folder;
    bool resume = false;
    std::string json_path;
    std::string chart_script;  // empty: where it is installed
};

struct TransportOptions {
    std::vector<NodePlace> places;
    NodeToStart start;
    int node_pid = 0;  // whose CPU time is measured; 0: that of the one that was started
    Sweep sweep;
    TransportOutput output;
};

std::span<const OptionOf<TransportOptions>> transport_options();

// Reads an address. Returns what is wrong, or an empty string.
std::string read_node_place(const std::string& text, NodePlace& place);

// Reads the arguments behind `transport`. Returns what is wrong, or an empty string.
std::string read_transport_options(std::span<char* const> arguments, TransportOptions& options);

}  // namespace farcached::bench
