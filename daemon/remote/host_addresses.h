// SPDX-License-Identifier: BSD-3-Clause
// HostAddresses: the addresses of a node's host, looked up at the start, and again when it cannot be reached.
//
// Owner: OneNode, or FoundAddresses of a node that DNS finds. Any thread may call. Lookups may be slow, and no serving thread may
// wait for one:
// A1  refresh() looks up in a thread of its own, one at a time. The thread owns its data, and no thread waits for it, not even
//     at exit.
// A2  A lookup's result replaces the known addresses; one that fails, also for lack of memory, changes nothing.
// A3  Literal addresses are not looked up again.
// A4  A host that the first lookup did not find has no address until a later one finds it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "fabric/socket.h"

namespace farcached::daemon {

class HostAddresses {
  public:
    using Found = std::variant<std::vector<fabric::SocketAddress>, std::string>;
    using LookUp = std::function<Found(const std::string& host, uint16_t port)>;
    static constexpr uint64_t pause_ns = 1'000'000'000;  // minimum between two lookups

    // addresses: found by a first lookup.
    static std::shared_ptr<HostAddresses> make(const std::string& host, uint16_t port,
                                               std::vector<fabric::SocketAddress> addresses, const LookUp& look_up);
    // Of literal addresses (A3); nullptr without any.
    static std::shared_ptr<HostAddresses> of_literals(const std::vector<std::string>& addresses, uint16_t port);

    // A4. why: of the first lookup.
    static std::shared_ptr<HostAddresses> unknown(const std::string& host, uint16_t port, std::string why,
                                                  const LookUp& look_up);

    // The address for attempt `turn`: attempts rotate through them. A problem: the host is not known.
    Result<fabric::SocketAddress> at(size_t turn) const;
    // The addresses may be outdated. now_ns: CLOCK_BOOTTIME. True: a lookup has begun.
    bool refresh(uint64_t now_ns);

  private:
    struct Shared;
    explicit HostAddresses(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

    const std::shared_ptr<Shared> shared_;
};

// Parallel lookups of many hosts, in a bounded time: a slow or absent name server delays a start or reload as for one host, not
// for the sum.
// From the first lookup to the timeout of all; about the resolver's own timeout.
constexpr std::chrono::milliseconds host_lookups_patience{20'000};

struct HostRequest {
    std::string host;
    uint16_t port = 0;
};

// In the order of `asked`, each with its addresses or the reason of the failure, a timeout included. Returns as soon as all are
// there. look_up runs in threads that own their data and are never joined; its exceptions are failures, too. Without threads,
// or if all are literal addresses, it runs in this one.
std::vector<HostAddresses::Found> look_up_all(std::vector<HostRequest> asked, const HostAddresses::LookUp& look_up,
                                              std::chrono::milliseconds patience = host_lookups_patience);

}  // namespace farcached::daemon
