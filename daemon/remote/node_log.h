// SPDX-License-Identifier: BSD-3-Clause
// NodeLog: lines about nodes, for the log and for watchers of proxyevents.
//
// Owner: Nodes. Any thread. Without memory a line is lost, with no other effect.
#pragma once

#include <cstdint>
#include <string_view>

#include "daemon/remote/one_node.h"
#include "daemon/stats/watch_hub.h"
#include "proxy/node_link.h"

namespace farcached::daemon {

// A connection or an attempt that has ended.
struct LinkLoss {
    bool was_up = false;
    proxy::LinkDown why = proxy::LinkDown::channel_ended;
    std::string_view reason;  // a sentence
    uint32_t requests = 0;    // under way
    uint64_t retry_s = 0;     // until the next attempt
};

class NodeLog {
  public:
    // Sets the log for proxyevents, before any worker starts. Outlives this.
    void use(WatchLog& watch) { watch_ = &watch; }

    // A connection, and the first of a node that was down.
    void connected(const OneNode& node, uint32_t links_up) const noexcept;
    void is_good(OneNode& node) const noexcept;
    void is_older(OneNode& node, uint32_t protocol_version) const noexcept;
    // A connection or an attempt has ended, and the last of a node.
    void lost(const OneNode& node, const LinkLoss& loss) const noexcept;
    void is_bad(OneNode& node, const LinkLoss& loss, bool failover) const noexcept;
    // Its mapped memory is not read.
    void unmapped(OneNode& node, std::string_view why) const noexcept;
    void drained(const OneNode& node, bool on) const noexcept;
    // The node is in use again, behind its fence.
    void rejoined(const OneNode& node, const FenceShown& fence) const noexcept;
    // Deletes of the fence failed; they are repeated.
    void fence_failed(OneNode& node) const noexcept;
    // A worker has a connection to another process than others, for some time now (Fences, F9).
    void two_processes(OneNode& node) const noexcept;
    // A farnode that was in use before is in use again, without its items (F9).
    void is_back(OneNode& node) const noexcept;
    // A one-sided read of a key failed; why: proxy::ReadEvents.
    void read_failed(const OneNode& node, std::string_view key, bool by_index, std::string_view why) const noexcept;

  private:
    template <class Line>
    void tell_event(Line&& line) const noexcept;

    WatchLog* watch_ = nullptr;
};

}  // namespace farcached::daemon
