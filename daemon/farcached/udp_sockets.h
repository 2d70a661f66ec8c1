// SPDX-License-Identifier: BSD-3-Clause
// UdpSockets: the sockets of UDP (-U): several at one address, one for each worker. The kernel gives all datagrams of one sender to
// one of them (SO_REUSEPORT), so no two workers wake up for one datagram.
//
// Owner: the Server, which binds them before the workers start. After bind() any thread may read.
// V1  The first socket of an address is bound without SO_REUSEPORT, so an address in use is refused.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "conf/program.h"
#include "daemon/farcached/acceptor.h"
#include "daemon/session/datagrams.h"
#include "daemon/stats/server_view.h"
#include "process/process.h"

namespace farcached::daemon {

// The kernel's limit may be lower than the socket's size is: never lowers it. name: SO_RCVBUF or SO_SNDBUF.
void raise_buffer(int fd, int name, int bytes);

struct UdpOptions {
    std::vector<ListenAt> at;   // empty: no UDP
    uint32_t sockets_each = 1;  // at each address
    int32_t port = 0;           // this and the next: the arguments of -U and -l, for error messages
    std::string interfaces;
};

class UdpSockets {
  public:
    UdpSockets() = default;
    ~UdpSockets();
    UdpSockets(const UdpSockets&) = delete;
    UdpSockets& operator=(const UdpSockets&) = delete;

    // Error text and status are memcached's. Adds one port for each address.
    conf::Refusal bind(const UdpOptions& options, std::vector<process::BoundPort>& ports);
    // Each worker has its share of all.
    std::vector<UdpSocket*> of_worker(uint32_t worker, uint32_t workers);
    void add_to(ServerNumbers& numbers) const;
    void each(NodeSeconds now, FunctionRef<void(const ConnectionInfo&)> visit) const;
    void each_address(FunctionRef<void(const ConnectionInfo&)> visit) const;

  private:
    conf::Refusal bind_at(const UdpOptions& options, const ListenAt& at, std::vector<process::BoundPort>& ports);

    std::deque<UdpSocket> sockets_;  // those of one address follow each other
};

}  // namespace farcached::daemon
