// SPDX-License-Identifier: BSD-3-Clause
// Reach: the way from a measurement's clients to a node, with their shared resources.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "bench/transport/transport_options.h"
#include "fabric/channel.h"
#include "fabric/mapped_region.h"
#include "fabric/socket_address.h"
#include "fabric/verbs_channel.h"

namespace farcached::bench {

class Reach {
  public:
    // spin: poll for completions without sleeping. Throws std::runtime_error if the host is unknown.
    Reach(const NodePlace& to, bool spin);

    Via via() const { return place_.via; }
    // Starts a connection to the host's address number `turn`, modulo their count. nullptr: `error` has the reason.
    std::unique_ptr<fabric::Channel> connect(const fabric::VerbsMemories& memories, fabric::ChannelEvents& events,
                                             size_t turn, std::string& error);

  private:
    NodePlace place_;
    std::vector<fabric::SocketAddress> addresses_;
    fabric::MappedRegions regions_;
    fabric::VerbsDevices devices_;
};

// CPU time of this thread.
double thread_cpu_s();

}  // namespace farcached::bench
