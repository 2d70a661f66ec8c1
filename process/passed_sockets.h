// SPDX-License-Identifier: BSD-3-Clause
// PassedSockets: listening sockets from the service manager, which passes them when a client connects or when this
// process starts (sd_listen_fds(3)). They are $LISTEN_FDS descriptors from 3 on, named by $LISTEN_FDNAMES, valid if
// $LISTEN_PID is this process. They outlive the process: connections queue while no process serves them.
//
// P1  Only listening stream sockets are accepted, over TCP or Unix; others are refused with number and name.
// P2  The service manager owns the sockets: at its end a process closes its descriptors, but neither shuts a socket
//     down nor removes its file.
//
// Owner: main, before other threads start; taking a socket transfers its descriptor.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "conf/program.h"

namespace farcached::process {

struct PassedSocket {
    int fd = -1;            // non-blocking, closed on exec
    std::string name;       // FileDescriptorName= of its unit; may be empty
    std::string unix_path;  // as in the kernel, "@name" without a file; empty: TCP
    bool ipv6 = false;

    bool is_unix() const { return !unix_path.empty(); }
};

// "@name" for a socket without a file, "@" without a name.
std::string unix_path_of(const sockaddr_un& address, socklen_t size);

class PassedSockets {
  public:
    // The operator's socket; all other names are for clients.
    static constexpr std::string_view admin = "admin";

    // Reads and removes the variables. Without passed sockets: empty. Sockets that are not taken stay open.
    static Result<PassedSockets> of_environment();

    // Moves out all sockets of that name.
    std::vector<PassedSocket> take(std::string_view name);
    std::vector<PassedSocket> take_rest() { return std::move(sockets_); }

  private:
    std::vector<PassedSocket> sockets_;
};

// Takes the operator's socket. More than one is a problem, and so is TCP, which does not identify its users. fd -1:
// none was passed.
Result<PassedSocket> take_admin(PassedSockets& sockets);

// "socket 4 (farcached.socket) from the service manager".
std::string describe(const PassedSocket& socket);

}  // namespace farcached::process
