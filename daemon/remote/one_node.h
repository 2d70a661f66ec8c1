// SPDX-License-Identifier: BSD-3-Clause
// OneNode: a node behind this process, as all workers share it: its name and addresses, its state, and its fence.
//
// Owner: Nodes; the sets and the workers that have it share it. Atomics and parts with locks of their own: any thread. The rest of
// the public fields does not change.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/limits.h"
#include "conf/settings.h"
#include "daemon/remote/fence.h"
#include "daemon/remote/host_addresses.h"
#include "daemon/remote/host_socket.h"
#include "daemon/remote/link_sums.h"
#include "daemon/remote/node_addresses.h"
#include "process/log.h"

namespace farcached::daemon {

// A worker's link to a node, as the workers that borrow it see it.
struct LentLink {
    enum class State : uint8_t { starting, up, down };
    std::atomic<State> state{State::starting};
    void show(State now) { state.store(now, std::memory_order_relaxed); }
    std::atomic<uint32_t> borrowers{0};  // present BorrowedLinks
};
struct OneNode {
    uint32_t number = 0;  // as in NodeShown
    std::string name, address;                 // address: empty with is_found
    bool is_found = false;                     // DNS finds its addresses
    conf::NodeChannel channel = conf::NodeChannel::shm;
    std::string place;                         // host name; shm: path
    uint16_t port = 0;                         // shm: 0
    std::shared_ptr<HostAddresses> host;       // tcp, verbs; without is_found
    NodeAddresses addresses;                   // with is_found
    HostSocket socket;                         // of the set in use (NodeSet::Member::socket)
    std::atomic<bool> drained{false};
    std::atomic<uint32_t> links_up{0};
    std::atomic<bool> tried{false};            // a first connection was made or failed
    process::LimitedLines lines;               // log lines of connects and losses
    std::atomic<uint64_t> incarnation{0};
    Fence fence;
    std::array<LentLink, limits::workers_max> lent;  // by the owner's number (NodeOptions::links_per_node)

    explicit OneNode(SharedFound found = nullptr) : is_found(found != nullptr), addresses(std::move(found)) {}
    // May its memory be mapped here?
    bool maps() const { return channel == conf::NodeChannel::shm || socket.is_there(); }
    bool is_over_shm() const { return channel == conf::NodeChannel::shm || socket.links() != 0; }
    // Of a new connection's first attempt.
    conf::NodeChannel first_channel() const { return maps() ? conf::NodeChannel::shm : channel; }

  private:
    friend class Nodes;
    // Under Nodes::lock_.
    LinkSums sums;
    uint64_t hash_seed = 0;    // of the current incarnation
    uint32_t protocol_version = 0;
    uint64_t told_older = 0;   // the last incarnation whose older version was logged
    std::string down_reason;
    bool key_refused = false;  // by the reason of the last loss
    bool told_down = false;
};

}  // namespace farcached::daemon
