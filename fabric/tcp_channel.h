// SPDX-License-Identifier: BSD-3-Clause
// The channel over TCP: frames over a stream, every read two-sided (can_read() is false). With TLS (fabric/peer_tls.h) the
// channel is connected when the handshake is complete.
//
// The caller resolves names, and may wait for that. The owner limits the time to make a connection: it closes the channel.
// Threads: as any channel.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "fabric/channel.h"
#include "fabric/peer_tls.h"
#include "fabric/socket.h"

namespace farcached::fabric {

struct TcpOptions {
    size_t input_bytes_max = input_bytes_default;
    const PeerTls* tls = nullptr;  // outlives channels and listener; nullptr: without TLS
    std::string host = {};         // with TLS, of a connecting end: what the peer's certificate must name
};

// A proxy's side. `events` outlives the channel. A problem: the process has no free descriptor. A connection that fails
// ends through `events`, as any other does. With TLS it throws std::bad_alloc.
Result<std::unique_ptr<Channel>> connect_tcp(const SocketAddress& to, ChannelEvents& events, const TcpOptions& options = {});

class TcpListener final : public ChannelListener {
  public:
    // A problem is a sentence with address and cause. Port 0: the kernel chooses.
    static Result<std::unique_ptr<TcpListener>> listen(const SocketAddress& at, int backlog, const TcpOptions& options = {});

    // From a socket that listens already, and is non-blocking.
    static std::unique_ptr<TcpListener> adopt(Descriptor socket, const TcpOptions& options = {});

    int fd() const override { return socket_.get(); }
    // Without a free descriptor it closes the connection and takes the next one.
    std::unique_ptr<Channel> accept(ChannelEvents& events) override;
    std::string describe() const override;
    uint64_t turned_away() const override { return turned_away_; }
    const SocketAddress& address() const { return address_; }  // with the actual port

  private:
    TcpListener(Descriptor socket, Descriptor reserve, const SocketAddress& address, const TcpOptions& options);

    Descriptor socket_;
    Descriptor reserve_;  // released to accept, and then close, a connection without a free descriptor
    uint64_t turned_away_ = 0;
    SocketAddress address_;
    const TcpOptions options_;
};

}  // namespace farcached::fabric
