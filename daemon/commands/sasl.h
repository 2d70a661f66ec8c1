// SPDX-License-Identifier: BSD-3-Clause
// SASL of binary clients (-S), by libsasl2. Sasl: the library, which has one state per process. SaslExchange: one client's attempt
// to authenticate, from AUTH to its last STEP.
//
// Owner: Sasl: main; it outlives the exchanges. SaslExchange: its session; one thread at a time.
// Threads: the library is called by main at the start and at the end, and by all workers in between.
//
// A1  The library reads passwords at each attempt: a changed file takes effect without a reload. Authenticated sessions stay.
// A2  Without memory the functions throw std::bad_alloc. No exception passes through the library.
// A3  An exchange counts charged_bytes in SessionMemory, so clients that begin and never end are bounded (S10).
// A4  No response and no password is logged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "daemon/commands/passwords.h"
#include "daemon/engine/session_memory.h"
#include "process/log.h"

struct sasl_conn;

namespace farcached::daemon {

class SaslExchange {
  public:
    enum class Outcome : uint8_t { authenticated, goes_on, refused };
    static constexpr size_t mechanism_bytes_max = 32;      // memcached's
    static constexpr size_t response_bytes_max = 64 << 10;  // a Kerberos ticket is the longest
    static constexpr size_t charged_bytes = 16 << 10;      // more than the library takes (docs/results.md)

    // memory: nullptr: uncounted. Throws SessionMemorySpent, too. host: outlives this.
    SaslExchange(const std::string& host, SessionMemory* memory);
    ~SaslExchange();
    SaslExchange(const SaslExchange&) = delete;
    SaslExchange& operator=(const SaslExchange&) = delete;

    // Separated by spaces; empty: none. The view is valid until the next call.
    std::string_view mechanisms();
    Outcome start(std::string_view mechanism, std::string_view response);
    Outcome step(std::string_view response);
    // After goes_on: the client's; valid until the next call.
    std::string_view challenge() const { return challenge_; }
    // After authenticated: the client's name, without the realm of this host; valid until the exchange ends.
    std::string_view user() const;
    // After refused: the library's reason, for the log.
    std::string reason() const;

  private:
    Outcome settle(int result);

    struct Charge {
        explicit Charge(SessionMemory* of) : memory(of) {
            if (memory != nullptr && !memory->take(charged_bytes)) throw SessionMemorySpent();
        }
        ~Charge() {
            if (memory != nullptr) memory->give_back(charged_bytes);
        }
        SessionMemory* const memory;
    };

    const Charge charge_;
    const std::string_view host_;  // the library's realm of users without one; empty: not known
    sasl_conn* connection_ = nullptr;
    std::string_view challenge_;
    bool nameless_ = false;  // the mechanism's name is impossible
};

class Sasl {
  public:
    // Before threads run, at most once in a process. The error names what is missing. The environment's SASL_CONF_PATH has the
    // folders of memcached.conf, MEMCACHED_SASL_PWDB a file of user:password.
    static Result<std::unique_ptr<Sasl>> start();
    ~Sasl();
    Sasl(const Sasl&) = delete;
    Sasl& operator=(const Sasl&) = delete;

    std::unique_ptr<SaslExchange> begin(SessionMemory* memory) const { return std::make_unique<SaslExchange>(host_, memory); }

    const FailedLogins failed{};

  private:
    friend struct SaslCallbacks;
    Sasl();
    Refusal find_config();
    void complain_of_passwords(const std::string& what) const;

    std::string host_;
    std::string config_folders_;  // with colons between them
    std::string passwords_path_;  // absolute; empty: none
    // Unreadable passwords, and the library's: a flood of one kind hides no other.
    mutable process::LimitedLines complaints_, lines_;
};

}  // namespace farcached::daemon
