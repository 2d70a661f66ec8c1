// SPDX-License-Identifier: BSD-3-Clause
// NodeAddresses: the addresses of a node that DNS finds (Nodes, D5), and where each worker's connection or present attempt leads.
//
// Owner: OneNode. Any thread; one lock, which may be taken under Nodes' lock, and under which Fences' lock is taken.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/limits.h"
#include "base/result.h"
#include "conf/settings.h"
#include "daemon/remote/fence.h"
#include "daemon/remote/host_addresses.h"

namespace farcached::daemon {

// Of a node, by DNS.
struct FoundAddresses {
    std::vector<std::string> texts;       // as conf::addresses_of()
    std::string text;                     // as conf::address_of()
    std::shared_ptr<HostAddresses> host;  // in the order of the texts
};
using SharedFound = std::shared_ptr<const FoundAddresses>;  // nullptr: DNS finds none

SharedFound found_of(const conf::NodeSpec& spec);

class NodeAddresses {
  public:
    // A process that restarts, with two addresses, is not taken for another one that answers at the second. CLOCK_BOOTTIME.
    static constexpr uint64_t at_home_ns = 5'000'000'000;

    NodeAddresses() = default;
    explicit NodeAddresses(SharedFound found) : found_(std::move(found)) {}

    // For the worker's attempt `turn`, counted up if attempts rotate.
    Result<fabric::SocketAddress> next(const Fences& fences, const Fence& fence, uint32_t worker, size_t& turn, uint64_t now_ns);
    // The attempt has led to a connection.
    void connected(Fences& fences, Fence& fence, uint32_t worker) noexcept;
    // The worker's connection, or its attempt, has ended.
    void ended(uint32_t worker, uint64_t now_ns) noexcept;
    // The set in use has these. If a connection or an attempt leads elsewhere, all connections are renewed.
    void replace(SharedFound found, Fences& fences, Fence& fence) noexcept;
    SharedFound found() const;

  private:
    mutable std::mutex lock_;
    SharedFound found_;
    // By worker: address_id() of its connection or present attempt; 0: none.
    std::array<uint64_t, limits::workers_max> tried_at_{};
    std::array<uint64_t, limits::workers_max> last_tried_{};     // its last attempt
    std::array<uint64_t, limits::workers_max> at_home_until_ns_{};  // its attempts are at home's address
    std::bitset<limits::workers_max> is_up_;
};

}  // namespace farcached::daemon
