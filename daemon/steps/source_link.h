// SPDX-License-Identifier: BSD-3-Clause
// SourceLink: a worker's connection to the memcached that warm_from names. A worker has two: for gets, and for changes, which do
// not wait behind large values.
//
// Owner: a WarmUp. One thread, the worker's. WarmSource is shared by all workers.
//
//     closed --a command--> connecting --> greeting (mn is sent) --MN--> ready
//        ^-------------------------- any failure -------------------------'
//
// L1  Each command is answered exactly once: within the call if the link rests, else in ready(), timer_due() or stop().
// L2  A command is answered within the timeout, or within that time after the last reply to an earlier one. Meanwhile commands
//     without a reply go out again over the next connection: each may be executed twice.
// L3  A reply counts only for a command that was sent, of its kind, with its number. Any other ends the connection.
// L4  Once the source has greeted a worker at an address, all workers use that address only: a name may stand for several servers.
// L5  The link for gets rests for a second after a timeout or after tries in vain: its commands fail at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
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

// Of all workers; any thread.
class WarmSource {
  public:
    explicit WarmSource(SourceOptions options) : options_(std::move(options)) {}

    const SourceOptions& options() const { return options_; }
    // L4. The index of the address for the next try.
    size_t address(size_t attempt) const;
    // False: another address was greeted first.
    bool greeted(size_t address) noexcept;
    // Logs it, once until the source greets again.
    void failed(std::string_view why) noexcept;

  private:
    static constexpr size_t none = SIZE_MAX;

    const SourceOptions options_;
    std::atomic<size_t> pinned_ = none;
    std::atomic<bool> told_ = false;
};

class SourceLink {
  public:
    enum class Kind : uint8_t { get, remove, flush };
    using Reply = protocol::SourceReply;
    class Sink {
      public:
        // ok: the source has executed it. The reply's views end with the call.
        virtual void source_answered(uint64_t number, bool ok, const Reply& reply) noexcept = 0;

      protected:
        ~Sink() = default;
    };

    // All outlive this. rests: L5.
    SourceLink(WarmSource& source, Waits& waits, Sink& sink, bool rests);
    ~SourceLink();
    SourceLink(const SourceLink&) = delete;
    SourceLink& operator=(const SourceLink&) = delete;

    // number: of the caller, for the answer. Throws std::bad_alloc, with no effect.
    void ask(Kind kind, std::string_view key, uint64_t number);
    // Sends the commands.
    void end_tick();
    // Fails all commands.
    void stop();
    // On boottime_ns(); UINT64_MAX: never.
    uint64_t timer_at_ns() const;
    void timer_due();

  private:
    enum class State : uint8_t { closed, connecting, greeting, ready };
    struct Command {
        Kind kind;
        uint64_t number;
        uint64_t deadline_ns;
        std::string text;
    };

    uint64_t first_deadline_ns() const;
    void open();
    void ready();
    bool receive();
    bool take_replies();
    bool take(const Reply& reply);
    bool send_text(std::string_view text, size_t& sent);
    void send();
    void disconnect() noexcept;
    void failed(const char* why) noexcept;
    void fail_first() noexcept;
    void fail_all() noexcept;

    WarmSource& source_;
    Sink& sink_;
    const bool rests_;
    const std::unique_ptr<Readiness> readiness_;
    State state_ = State::closed;
    fabric::Descriptor socket_;
    size_t address_ = 0;         // of the connection
    size_t attempts_ = 0;
    size_t tries_ = 0;           // since the last reply
    uint64_t again_at_ns_ = 0;   // before that no connection is made; with rests_, commands fail at once
    uint64_t greet_by_ns_ = 0;   // else the next address is tried
    uint64_t replied_ns_ = 0;    // L2
    std::deque<Command> commands_;
    size_t sent_ = 0;            // commands sent over this connection, from the front
    size_t sent_bytes_ = 0;      // of the next one, or of the greeting
    std::string in_;
    uint64_t skip_ = 0;          // bytes of a value that is too large
};

}  // namespace farcached::daemon
