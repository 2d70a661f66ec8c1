// SPDX-License-Identifier: BSD-3-Clause
// NodeProcess: a farnode that was started for a measurement, and ends with it.
//
// P1  It is killed if this process dies, whatever of, and ended with a signal, by its id, when this object goes.
// P2  It is in a process group of its own: an interrupt from the terminal is ours, and we end it.
// P3  Ports are the kernel's choice; folders and files are its own and are removed.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "bench/transport_options.h"

namespace farcached::bench {

class NodeProcess {
  public:
    // arguments: more of farnode's. Waits until it serves. Throws std::runtime_error.
    NodeProcess(const NodeToStart& start, const std::vector<std::string>& arguments);
    ~NodeProcess();
    NodeProcess(const NodeProcess&) = delete;
    NodeProcess& operator=(const NodeProcess&) = delete;

    pid_t pid() const { return pid_; }
    const std::vector<NodePlace>& places() const { return places_; }  // every way that it can be reached

  private:
    void run(const NodeToStart& start, std::vector<std::string> arguments);
    void wait_for_ports();
    void end();

    std::string folder_;
    pid_t pid_ = -1;
    std::vector<NodePlace> places_;
};

// An address of this host that is an RDMA device's. Throws std::runtime_error if there is none.
std::string rdma_address();

}  // namespace farcached::bench
