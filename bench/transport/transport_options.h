// SPDX-License-Identifier: BSD-3-Clause
// The options of `farbench transport`: one table, the source of parsing and help.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/command.h"

namespace farcached::bench {

// The kind of access to the node.
enum class Transport : uint8_t {
    tcp,       // two-sided, over TCP
    twosided,  // two-sided, over a channel that also supports READs
    onesided,  // GETs are READs through remote pointers
    index,     // GETs are READs of the node's index, then of the item
    atomic,    // as onesided, with a FETCH_AND_ADD behind each READ
};
constexpr std::string_view transport_names[] = {"tcp", "twosided", "onesided", "index", "onesided+atomic"};

enum class Workload : uint8_t { get, mixed, set };
constexpr std::string_view workload_names[] = {"get", "95:5", "set"};
constexpr uint32_t workload_sets_percent[] = {0, 5, 100};

enum class Via : uint8_t { none, shm, tcp, verbs };
constexpr std::string_view via_names[] = {"none", "shm", "tcp", "verbs"};

// Where a node is: "tcp:HOST:PORT", "verbs:HOST:PORT", "shm:PATH".
struct NodePlace {
    Via via = Via::none;
    std::string host;  // shm: the path
    uint16_t port = 0;
};

struct NodeToStart {
    Via via = Via::none;      // none: already running
    std::string host;         // of an RDMA device; empty: the first one found
    std::string program;      // empty: beside this program, else on PATH
    uint32_t threads = 0;
    uint32_t lease_ms = 0;
};

struct Sweep {
    std::vector<Transport> transports;
    std::vector<uint32_t> clients;
    std::vector<Workload> workloads;
    uint32_t trials = 0;
    uint64_t operations = 0;  // measured, of all clients together
    uint64_t warmup = 0;      // before the measured ones
    uint64_t keys = 0;
    uint32_t value_bytes = 0;
    double zipf = 0;
    uint64_t seed = 0;
    bool spin = false;     // clients poll for completions without sleeping
    bool profile = false;  // measure the parts of operations
};

struct TransportOutput {
    std::string csv_folder;
    bool resume = false;
    std::string json_path;
    std::string chart_script;  // empty: the installed one
};

struct TransportOptions {
    std::vector<NodePlace> places;
    NodeToStart start;
    int node_pid = 0;  // process to measure; 0: the started node
    Sweep sweep;
    TransportOutput output;
};

std::span<const OptionOf<TransportOptions>> transport_options();

// Parses an address. Returns an error, or an empty string.
std::string read_node_place(const std::string& text, NodePlace& place);

// Reads the arguments after `transport`. Returns an error, or an empty string.
std::string read_transport_options(std::span<char* const> arguments, TransportOptions& options);

// `farbench transport`: compares the transports to a node. Runs one trial of each point per round, so that changes on
// the machine affect all points.
// Exit statuses: bench/command.h; an interrupt ends it with the partial results.
int transport_command(std::span<char* const> arguments);

}  // namespace farcached::bench
