// SPDX-License-Identifier: BSD-3-Clause
// FarnodeAdmin: farnode's answers to its operator (--admin): a line protocol in the shape of memcached's text protocol,
// so that nc and farctl can ask.
//
//     stats [group]   STAT <name> <value> lines and END; groups are those of node/node_stats.h, and config
//     reload          asks for a reload of the configuration; `stats config` says what it came to
//     version         VERSION farnode <version>
//     quit            ends the connection
//
// Owner: the thread of its event base.
// D1  A connection holds one reply and what one receive brought, never more: while a reply is not sent nothing is read.
// D2  Who does not take a reply for a while is cut off; who sends a line longer than a command is told so, and closed.
// D3  A few lines at a time: others' connections have their turn.
#pragma once

#include <event2/event.h>
#include <event2/event_struct.h>

#include <list>
#include <memory>
#include <string>
#include <string_view>

#include "base/node_clock.h"
#include "node/node_stats.h"
#include "process/admin_socket.h"
#include "process/reloader.h"

namespace farcached::node {

class FarnodeAdmin {
  public:
    // `base`, `stats` and `reloader` outlive this, which is made before the loop runs and destroyed after it.
    FarnodeAdmin(event_base* base, std::unique_ptr<process::AdminSocket> socket, const NodeStats& stats,
                 const process::Reloader& reloader, NodeReading (*clock)());
    ~FarnodeAdmin();
    FarnodeAdmin(const FarnodeAdmin&) = delete;
    FarnodeAdmin& operator=(const FarnodeAdmin&) = delete;

  private:
    struct Connection;
    static void on_ready(evutil_socket_t, short what, void* connection);
    void enter(int fd);
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
};

}  // namespace farcached::node
