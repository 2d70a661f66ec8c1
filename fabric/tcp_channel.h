// SPDX-License-Identifier: BSD-3-Clause
// The channel over TCP: frames over a stream, every read two-sided (can_read() is false).
//
// Names are resolved by the caller, who may wait. How long a connection may take to be made is its
// owner's to decide: it closes the channel.
#pragma once

#include <memory>
#include <string>

#include "fabric/channel.h"
#include "fabric/descriptor.h"
#include "fabric/socket_address.h"

namespace farcached::fabric {

// A proxy's side. `events` outlives the channel. nullptr: the process can have no more descriptors;
// `error` says so. A connection that cannot be made ends as any other does, through `events`.
std::unique_ptr<Channel> connect_tcp(const SocketAddress& to, ChannelEvents& events,
                                     std::string& error,
                                     size_t input_bytes_max = input_bytes_default);

class TcpListener final : public ChannelListener {
  public:
    // nullptr: `error` is a sentence with address and cause. Port 0: the kernel chooses.
    static std::unique_ptr<TcpListener> listen(const SocketAddress& at, int backlog,
                                               std::string& error,
                                               size_t input_bytes_max = input_bytes_default);

    // Of a socket that listens already, and is non-blocking.
    static std::unique_ptr<TcpListener> adopt(Descriptor socket, size_t input_bytes_max = input_bytes_default);

    int fd() const override { return socket_.get(); }
    // With no descriptor left for it, a connection is closed and the next one looked at.
    std::unique_ptr<Channel> accept(ChannelEvents& events) override;
    std::string describe() const override;
    uint64_t turned_away() const override { return turned_away_; }
    const SocketAddress& address() const { return address_; }  // with the port that it has

  private:
    TcpListener(Descriptor socket, Descriptor reserve, const SocketAddress& address,
                size_t input_bytes_max);

    Descriptor socket_;
    Descriptor reserve_;  // given up to accept, and so to close, what there is no descriptor for
    uint64_t turned_away_ = 0;
    SocketAddress address_;
    size_t input_bytes_max_;
};

}  // namespace farcached::fabric
