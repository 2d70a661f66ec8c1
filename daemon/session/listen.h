// SPDX-License-Identifier: BSD-3-Clause
// Listening sockets, and the text form of addresses in stats and watch lines.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/peer_address.h"
#include "conf/exit_status.h"
#include "fabric/socket_address.h"
#include "process/passed_sockets.h"

namespace farcached::daemon {

struct Listening {
    int fd = -1;
    bool ipv6 = false;
    uint16_t port = 0;
    std::string address;  // "tcp:127.0.0.1:11211"
    uint64_t device = 0, inode = 0;  // of a Unix socket
    bool passed = false;             // by the service manager, which owns it
};

// One socket for each address of `host` (empty: all interfaces). A problem if there is none; its text names `interfaces`, the
// argument of -l, or the port if that is empty.
std::variant<std::vector<Listening>, conf::Problem> listen_on_tcp(const std::string& host,
                                                                  uint16_t port, int backlog,
                                                                  const std::string& interfaces);
// Replaces a stale socket file, but no other file.
std::variant<Listening, conf::Problem> listen_on_unix(const std::string& path, uint32_t mode,
                                                      int backlog);

// A socket passed by the service manager.
Listening listen_on_passed(const process::PassedSocket& socket);

// Leaves a socket that another process put there since.
void remove_unix_socket(const std::string& path, const Listening& ours);

// "tcp:127.0.0.1:40950", "tcp6:[::1]:40950", "unix:/path".
std::string describe(const fabric::SocketAddress& address);
PeerAddress peer_address(const sockaddr_storage& address);
// A connection's remote and local end. Of a Unix socket both are the path of the listener.
std::string describe_peer(int fd, const PeerAddress& peer);
std::string describe_here(int fd);
// " rip=127.0.0.1 rport=40950 transport=tcp" of a described address.
std::string watch_words(const std::string& described);

}  // namespace farcached::daemon
