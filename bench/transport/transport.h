// SPDX-License-Identifier: BSD-3-Clause
// `farbench transport` compares the transports to a node. It runs one trial of each point per round, so that changes on the
// machine affect all points. Here: its options; one table is the source of parsing and help.
//
// Constants, and functions without state. Owner of TransportOptions: the command; it does not change during a trial.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/rpc_mode.h"
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

// Whether clients spin, where they wait.
constexpr std::string_view wait_names[] = {"sleep", "spin"};

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

// --rpc: the ways of requests over RDMA, instead of transports (bench/transport/rpc_points.h).
struct RpcSweep {
    std::vector<RpcMode> modes;     // none: transports are measured
    std::vector<uint32_t> figures;  // of the paper
};

struct TransportOutput {
    std::string csv_folder;
    bool resume = false;
    std::string json_path;
};

struct TransportOptions {
    std::vector<NodePlace> places;
    NodeToStart start;
    int node_pid = 0;  // process to measure; 0: the started node
    Sweep sweep;
    RpcSweep rpc;
    TransportOutput output;
};

std::span<const OptionOf<TransportOptions>> transport_options();

// Parses an address. Returns an error, or an empty string.
std::string read_node_place(const std::string& text, NodePlace& place);

// --spawn; returns an error, or nullptr.
const char* to_started(const std::string& text, NodeToStart& start);

// Reads the arguments of a command that needs a node: its addresses, or --spawn. Returns an error, or an empty string.
template <class Options>
std::string read_node_options(std::span<const OptionOf<Options>> table, std::span<char* const> arguments, Options& options) {
    const std::string wrong = read_options(table, arguments, options, [&](const std::string& text) {
        return read_node_place(text, options.places.emplace_back());
    });
    if (!wrong.empty()) return wrong;
    if (options.start.via == Via::none && options.places.empty())
        return "no node given: use its addresses, as in tcp:10.0.0.1:11300 verbs:10.0.0.1:11301, or --spawn";
    if (options.start.via != Via::none && !options.places.empty()) return "either addresses or --spawn";
    return {};
}

// Reads the arguments after `transport`. Returns an error, or an empty string.
std::string read_transport_options(std::span<char* const> arguments, TransportOptions& options);

}  // namespace farcached::bench
