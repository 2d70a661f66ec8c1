// SPDX-License-Identifier: BSD-3-Clause
// PassedSockets: the sockets that the service manager listens at in this process's place, and passes to it when somebody
// connects, or when it starts (sd_listen_fds(3)): $LISTEN_FDS of them, from descriptor 3, if $LISTEN_PID is this process, by
// the names of $LISTEN_FDNAMES. They outlive the process: who connects while none serves waits.
//
// P1  What is passed is stream sockets that listen, over TCP or Unix; anything else is refused with its number and name.
// P2  They are the service manager's: a process that ends closes its descriptors, and neither shuts a socket down nor
//     removes its file.
//
// Owner: main, from the one thread there is; who takes a socket owns the descriptor.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "conf/exit_status.h"

namespace farcached::process {

struct PassedSocket {
    int fd = -1;            // non-blocking, closed on exec
    std::string name;       // FileDescriptorName= of its unit; empty: none was told
    std::string unix_path;  // as the kernel knows it, "@name" without a file; empty: over TCP
    bool ipv6 = false;

    bool is_unix() const { return !unix_path.empty(); }
};

// "@name" of one without a file, "@" of one without a name.
std::string unix_path_of(const sockaddr_un& address, socklen_t size);

class PassedSockets {
  public:
    // Of these names; all others are for clients.
    static constexpr std::string_view admin = "admin";

    // Reads the variables and removes them. None are passed: empty. Descriptors that are not taken stay open.
    static std::variant<PassedSockets, conf::Problem> of_environment();

    // Those of that name, which are then gone from here.
    std::vector<PassedSocket> take(std::string_view name);
    std::vector<PassedSocket> take_rest() { return std::move(sockets_); }

  private:
    std::vector<PassedSocket> sockets_;
};

// The one for the operator, if there is one: a problem if there are more, or it is over TCP, where nobody knows who asks.
// fd -1: none was passed.
std::variant<PassedSocket, conf::Problem> take_admin(PassedSockets& sockets);

// "socket 4 (farcached.socket) from the service manager".
std::string describe(const PassedSocket& socket);

}  // namespace farcached::process
