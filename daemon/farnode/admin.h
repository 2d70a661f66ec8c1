// SPDX-License-Identifier: BSD-3-Clause
// FarnodeAdmin: farnode's admin socket (--admin): a line protocol in the style of memcached's text protocol, usable with nc and
// farctl.
//
//     stats [group]   STAT <name> <value> lines and END; groups are those of node/service/node_stats.h, and config
//     reload          starts a reload of the configuration; `stats config` shows the result
//     version         VERSION farnode <version>
//     quit            closes the connection
//
// Owner: the thread of its event base.
// D1  A connection holds at most one reply and the bytes of one receive: while a reply is unsent, nothing is read.
// D2  A client that does not read a reply in time is disconnected. A line longer than any command gets an error, and the
//     connection closes.
// D3  A connection executes a few lines at a time, then others run.
#pragma once

#include <event2/event.h>

#include <list>
#include <memory>
#include <string>
#include <string_view>

#include "base/node_clock.h"
#include "node/service/node_stats.h"
#include "process/admin_socket.h"
#include "process/log.h"
#include "process/reloader.h"

namespace farcached::node {

class FarnodeAdmin {
  public:
    // `base`, `stats` and `reloader` outlive this. This is made before the loop runs and destroyed after it.
    FarnodeAdmin(event_base* base, std::unique_ptr<process::AdminSocket> socket, const NodeStats& stats,
                 const process::Reloader& reloader, NodeReading (*clock)());
    ~FarnodeAdmin();
    FarnodeAdmin(const FarnodeAdmin&) = delete;
    FarnodeAdmin& operator=(const FarnodeAdmin&) = delete;

  private:
    struct Connection;
    static void on_ready(evutil_socket_t, short what, void* connection);
    void enter(int fd);
    void say_no_memory() noexcept;
    bool receive(Connection& connection);
    void serve(Connection& connection);
    void execute(std::string_view line, Connection& connection);
    bool send_output(Connection& connection);
    void wait_for(Connection& connection, short what);
    void remove(Connection& connection);
    void append_stats(std::string_view group, std::string& out) const;

    event_base* const base_;
    const std::unique_ptr<process::AdminSocket> socket_;
    const NodeStats& stats_;
    const process::Reloader& reloader_;
    NodeReading (*const clock_)();
    std::list<Connection> connections_;
    process::LimitedLines no_memory_lines_;
};

}  // namespace farcached::node
