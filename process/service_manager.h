// SPDX-License-Identifier: BSD-3-Clause
// ServiceManager: whoever started the process as a service and wants to hear how it does, as sd_notify(3) describes it
// for implementations without libsystemd: a datagram of lines VARIABLE=VALUE to the Unix socket that $NOTIFY_SOCKET names.
//
// M1  Where nobody listens every call does nothing.
// M2  A message that is not taken within a second is given up: serving matters more than telling.
// M3  READY=1 is told once at first, and then at the end of each Reloading; none is told before.
//
// Owner: main, which makes it before any thread starts. All calls may come from any thread.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace farcached::process {

class ServiceManager {
  public:
    // Reads $NOTIFY_SOCKET, $WATCHDOG_USEC and $WATCHDOG_PID, and removes them: no child speaks for this process. What it
    // cannot make sense of is said, and then nobody listens.
    ServiceManager();
    ~ServiceManager();
    ServiceManager(const ServiceManager&) = delete;
    ServiceManager& operator=(const ServiceManager&) = delete;

    bool listens() const { return fd_ >= 0; }
    // Is this the process that it started, and whose end it would take for the service's? Not one that was started by that,
    // and has its environment.
    bool waits_for_this() const { return listens() && waits_; }
    // How long it waits for tell_alive() before it takes the process for stuck, in microseconds; 0: it does not.
    uint64_t watchdog_us() const { return watchdog_us_; }

    // What the process does, in a line; `status` here and below. For people: systemctl status shows it.
    void tell_status(std::string_view status) const;
    void tell_ready(std::string_view status);
    void tell_alive() const;
    void tell_stopping(std::string_view status) const;

    // The time in which the process reads its configuration again: it is told at its begin, and at its end that the process
    // is ready again, whatever came of it.
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

}  // namespace farcached::process
