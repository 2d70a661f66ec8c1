// SPDX-License-Identifier: BSD-3-Clause
// SourceLink: a worker's connection to the memcached that warm_from names.
//
// Owner: a WarmUp. One thread, the worker's.
//
//     closed --first command--> connecting --> greeting (mn is sent) --MN--> ready
//        ^------------------- any failure, which fails all commands ------------'
//
// L1  Each command's Done runs exactly once: within the call if the link is down, else in ready(), timer_due() or stop().
// L2  Every command is answered within the timeout. One that times out ends the connection, so no late reply meets another command.
// L3  For a second after a failure, commands fail at once.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/engine/readiness.h"
#include "fabric/socket.h"
#include "protocol/source_reply.h"

namespace farcached::daemon {

struct SourceOptions {
    std::string name;  // as configured, for messages
    std::vector<fabric::SocketAddress> addresses;  // at least one
    uint64_t timeout_ns = 0;
    uint64_t value_bytes_max = 0;  // larger values are as absent ones
};

class SourceLink {
  public:
    using Reply = protocol::SourceReply;
    // ok: the source has replied with anything but an error. Its views end with the call.
    using Done = std::function<void(bool ok, const Reply& reply)>;

    // All outlive this.
    SourceLink(const SourceOptions& options, Waits& waits);
    ~SourceLink();
    SourceLink(const SourceLink&) = delete;
    SourceLink& operator=(const SourceLink&) = delete;

    // Throw std::bad_alloc, with no effect.
    void get(std::string_view key, Done done);
    void remove(std::string_view key, Done done);
    void flush(Done done);
    // Sends the commands.
    void end_tick();
    // Fails all commands.
    void stop() { fail(); }
    // On boottime_ns(); UINT64_MAX: never.
    uint64_t timer_at_ns() const { return commands_.empty() ? UINT64_MAX : commands_.front().deadline_ns; }
    void timer_due();

  private:
    enum class State : uint8_t { closed, connecting, greeting, ready };
    struct Command {
        uint64_t deadline_ns;
        Done done;
    };

    bool open();
    template <class Append>
    void ask(Append append, Done&& done);
    void ready();
    bool receive();
    bool take_replies();
    void send();
    void fail();

    const SourceOptions& options_;
    const std::unique_ptr<Readiness> readiness_;
    State state_ = State::closed;
    fabric::Descriptor socket_;
    size_t attempts_ = 0;
    uint64_t again_at_ns_ = 0;  // L3
    std::deque<Command> commands_;
    std::string out_, in_;
    size_t sent_ = 0;        // of out_
    uint64_t skip_ = 0;      // bytes of a value that is too large
};

}  // namespace farcached::daemon
