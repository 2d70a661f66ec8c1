// SPDX-License-Identifier: BSD-3-Clause
// Reach: how the clients of a measurement reach a node, and what they share for that.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "bench/transport_options.h"
#include "fabric/channel.h"
#include "fabric/mapped_region.h"
#include "fabric/socket_address.h"
#include "fabric/verbs_channel.h"

namespace farcached::bench {

class Reach {
  public:
    // spin: completions are looked for without sleeping. Throws std::runtime_error if the host is not known.
    Reach(const NodePlace& to, bool spin);

    Via via() const { return place_.via; }
    // A connection that is being made; to the turn-th of the host's addresses. nullptr: `error` says why.
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
