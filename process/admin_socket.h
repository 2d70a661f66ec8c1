// SPDX-License-Identifier: BSD-3-Clause
// AdminSocket: the Unix socket at which a daemon's operator talks to it (--admin): made, guarded, and accepted from.
//
// A1  Its mode is 0600, and who connects is root or the user that the process runs as; anybody else is told a sentence.
// A2  A socket at which another process answers is left alone, a dead one's is replaced, and no other file is touched.
// A3  At most connections_max connections at a time; one more is told a sentence.
// A4  Nothing blocks. When the process is out of descriptors, accepting rests for a moment.
// A5  One that the service manager passed (process/passed_sockets.h) has the mode that its unit says; its file stays.
//
// Owner: the thread of the loop it was opened in, once it runs; left() may be called by any.
#pragma once

#include <event2/event.h>
#include <event2/event_struct.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>

#include "conf/exit_status.h"
#include "process/passed_sockets.h"

namespace farcached::process {

class AdminSocket {
  public:
    static constexpr uint32_t connections_max = 16;
    // Owns the descriptor, which is non-blocking; whoever has closed it calls left().
    using Enter = std::function<void(int fd)>;

    // Binds and listens. `path`: conf::is_socket_path().
    static std::variant<std::unique_ptr<AdminSocket>, conf::Problem> listen(const std::string& path);
    // Of a Unix socket that was passed; owns the descriptor.
    static std::unique_ptr<AdminSocket> adopt(const PassedSocket& socket);
    ~AdminSocket();  // shuts
    AdminSocket(const AdminSocket&) = delete;
    AdminSocket& operator=(const AdminSocket&) = delete;

    // Accepts from now on, in the loop of `base`, which outlives this or is shut() before.
    void open(event_base* base, Enter enter);
    // Accepts no more, and removes the file that it made unless somebody else has put another one there since.
    void shut();
    void left() { connections_.fetch_sub(1, std::memory_order_relaxed); }

    // As it was given.
    const std::string& path() const { return path_; }

  private:
    AdminSocket(std::string path, int fd, bool made);
    static void on_readable(evutil_socket_t, short, void* socket);
    static void on_retry(evutil_socket_t, short, void* socket);
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
