// SPDX-License-Identifier: BSD-3-Clause
// AdminSocket: the Unix socket for the daemon's operator (--admin): binds it, guards it and accepts from it.
//
// A1  Its mode is 0600, and only root or the process's own user may connect; the socket rejects any other user with a
//     message.
// A2  listen() leaves a socket alone if another process answers there, replaces a dead one, and touches no other file.
// A3  At most connections_max connections at a time; the socket rejects further ones with a message.
// A4  Nothing blocks. When the process is out of descriptors, accepting pauses for a moment.
// A5  A socket passed by the service manager (process/service_manager.h) has the mode that its unit sets; its file
//     stays.
//
// Owner: the thread of its event loop, once the loop runs; any thread may call left().
#pragma once

#include <event2/event.h>
#include <event2/event_struct.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "conf/program.h"
#include "process/process.h"
#include "process/service_manager.h"

namespace farcached::process {

class AdminSocket {
  public:
    static constexpr uint32_t connections_max = 16;
    // Takes ownership of the non-blocking descriptor; its owner calls left() after closing it.
    using Enter = std::function<void(int fd)>;

    // Binds, gives the file to that user, and listens. `path`: conf::is_socket_path().
    static Result<std::unique_ptr<AdminSocket>> listen(const std::string& path, const Identity& owner);
    // From a passed Unix socket; takes ownership of its descriptor.
    static std::unique_ptr<AdminSocket> adopt(const PassedSocket& socket);
    ~AdminSocket();  // calls shut()
    AdminSocket(const AdminSocket&) = delete;
    AdminSocket& operator=(const AdminSocket&) = delete;

    // Starts accepting, in the loop of `base`; shut() must precede the end of `base`. Call in the final process: clients see
    // its pid.
    void open(event_base* base, Enter enter);
    // Stops accepting, and removes the file that it made, unless another process replaced it.
    void shut();
    void left() { connections_.fetch_sub(1, std::memory_order_relaxed); }

    // As configured.
    const std::string& path() const { return path_; }

  private:
    AdminSocket(std::string path, int fd, bool made);
    void accept_some();

    const std::string path_;
    const std::string absolute_path_;  // the process may change its folder
    int fd_;
    const bool made_;  // by listen()
    uint64_t device_ = 0, inode_ = 0;
    bool opened_ = false;
    event readable_{}, retry_{};
    Enter enter_;
    std::atomic<uint32_t> connections_{0};
};

}  // namespace farcached::process
