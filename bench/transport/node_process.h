// SPDX-License-Identifier: BSD-3-Clause
// NodeProcess: a farnode started for a measurement; it ends with this object.
//
// Owner: one thread.
// P1  The kernel kills it if this process dies; the destructor ends it with a signal, by its id.
// P2  It has its own process group: this process handles an interrupt from the terminal, and ends it.
// P3  The kernel chooses the ports; folders and files are its own and are removed.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/transport/transport.h"
#include "fabric/channel.h"
#include "fabric/mapped_region.h"
#include "fabric/socket.h"
#include "fabric/verbs/verbs_channel.h"

namespace farcached::bench {

class NodeProcess {
  public:
    // arguments: further farnode arguments. Waits until it serves. Throws std::runtime_error.
    NodeProcess(const NodeToStart& start, const std::vector<std::string>& arguments);
    ~NodeProcess();
    NodeProcess(const NodeProcess&) = delete;
    NodeProcess& operator=(const NodeProcess&) = delete;

    pid_t pid() const { return pid_; }
    const std::vector<NodePlace>& places() const { return places_; }  // all its addresses

  private:
    void run(const NodeToStart& start, std::vector<std::string> arguments);
    void wait_for_ports();
    void end();

    std::string folder_;
    pid_t pid_ = -1;
    std::vector<NodePlace> places_;
};

// An address of this host on an RDMA device. Throws std::runtime_error if there is none.
std::string rdma_address();

// Reach: the way from a measurement's clients to a node, with their shared resources.
class Reach {
  public:
    // spin: poll for completions without sleeping. Throws std::runtime_error if the host is unknown.
    Reach(const NodePlace& to, bool spin);

    Via via() const { return place_.via; }
    // Starts a connection to the host's address number `turn`, modulo their count. rpc: the way of requests, if over RDMA.
    Result<std::unique_ptr<fabric::Channel>> connect(const fabric::VerbsMemories& memories, fabric::ChannelEvents& events,
                                                     size_t turn, const fabric::RpcWish& rpc = {RpcMode::send});

  private:
    NodePlace place_;
    std::vector<fabric::SocketAddress> addresses_;
    fabric::MappedRegions regions_;
    fabric::VerbsDevices devices_;
};

// The node under test.
struct TestedNode {
    std::vector<NodePlace> places;
    std::optional<int> pid;
    bool here = false;  // its RDMA device is on this host, so it counts both ends

    // Its address over this medium; nullptr: none.
    const NodePlace* over(Via via) const;
};

// started: by this program; nullptr: the node at `places`. pid: process to measure; 0: the started one.
TestedNode tested_node(const NodeProcess* started, const std::vector<NodePlace>& places, int pid);

}  // namespace farcached::bench
