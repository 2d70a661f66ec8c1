// SPDX-License-Identifier: BSD-3-Clause
// ServiceManager: the connection to the process's service manager, as sd_notify(3) describes it for implementations
// without libsystemd. Messages are datagrams of lines VARIABLE=VALUE to the Unix socket $NOTIFY_SOCKET.
//
// M1  Without a service manager every call does nothing.
// M2  A message that is not taken within a second is discarded, so that serving continues.
// M3  READY=1 is sent once after the start, then at the end of each Reloading, and never earlier.
//
// Owner: main, which makes it before any thread starts. Any thread may call it.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "conf/program.h"

namespace farcached::process {

class ServiceManager {
  public:
    // Reads $NOTIFY_SOCKET, $WATCHDOG_USEC and $WATCHDOG_PID, and removes them, so that children do not send messages.
    // Invalid values are logged, and disable the messages.
    ServiceManager();
    ~ServiceManager();
    ServiceManager(const ServiceManager&) = delete;
    ServiceManager& operator=(const ServiceManager&) = delete;

    bool listens() const { return fd_ >= 0; }
    // Is this the service's main process, whose end would end the service? False for its children, which inherit its
    // environment.
    bool waits_for_this() const { return listens() && waits_; }
    // Watchdog timeout of tell_alive() in microseconds; 0: no watchdog.
    uint64_t watchdog_us() const { return watchdog_us_; }

    // The process's state as one line, here and below. For people: systemctl status shows it.
    void tell_status(std::string_view status) const;
    // Still starting: the manager is to wait that much longer from now.
    void tell_longer(std::string_view status, uint64_t us) const;
    void tell_ready(std::string_view status);
    void tell_alive() const;
    void tell_stopping(std::string_view status) const;

    // The time of a reload: once tell_ready() was called, sends RELOADING=1 at its begin and READY=1 at its end, on
    // success or failure.
    class Reloading {
      public:
        explicit Reloading(const ServiceManager& manager);
        ~Reloading();
        Reloading(const Reloading&) = delete;
        Reloading& operator=(const Reloading&) = delete;

      private:
        const ServiceManager& manager_;
        const bool told_;
    };

  private:
    void send(std::string_view lines) const;

    int fd_ = -1;
    sockaddr_un address_{};
    socklen_t address_bytes_ = 0;
    uint64_t watchdog_us_ = 0;
    bool waits_ = true;
    std::atomic<bool> ready_{false};
};

// The log lines of a start with -e. Progress also asks the service manager to wait longer.
void say_restart(bool warning, const std::string& text);
void say_restart_progress(const ServiceManager& manager, const std::string& text);

// PassedSockets: listening sockets from the service manager, which passes them when a client connects or when this
// process starts (sd_listen_fds(3)). They are $LISTEN_FDS descriptors from 3 on, named by $LISTEN_FDNAMES, valid if
// $LISTEN_PID is this process. They outlive the process: connections queue while no process serves them.
//
// P1  Only listening stream sockets are accepted, over TCP or Unix; others are refused with number and name.
// P2  The service manager owns the sockets: at its end a process closes its descriptors, but neither shuts a socket
//     down nor removes its file.
//
// Owner: main, before other threads start; taking a socket transfers its descriptor.

struct PassedSocket {
    int fd = -1;            // non-blocking, closed on exec
    std::string name;       // FileDescriptorName= of its unit; may be empty
    std::string unix_path;  // as in the kernel, "@name" without a file; empty: TCP
    std::string host;       // of TCP: its address in digits
    uint16_t port = 0;      // of TCP
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
