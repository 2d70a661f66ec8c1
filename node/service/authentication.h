// SPDX-License-Identifier: BSD-3-Clause
// Authentication of a proxy's connection (S16; protocol/auth.h draws the greeting), and the keys that a node accepts.
//
// KeyRing: any thread; one lock. Authentication: owned by a Greeting (greeting.h), in the connection's thread.
// Z1  Between hello and proof the node holds the two frames' bytes, and sends nothing but a nonce.
// Z2  An unknown name, a wrong proof and a wrong role get the same answer, after the same work. Only counters distinguish them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/out_buffer.h"
#include "node/service/service_counters.h"
#include "protocol/auth.h"
#include "protocol/frame.h"
#include "protocol/frame_request.h"
#include "protocol/handshake.h"

namespace farcached::node {

class KeyRing {
  public:
    // The first call, before any connection, demands proofs from then on.
    void use(std::shared_ptr<const protocol::AuthKeys> keys);
    // nullptr: no proxy authenticates.
    std::shared_ptr<const protocol::AuthKeys> keys() const;
    bool demanded() const { return demanded_.load(std::memory_order_relaxed); }

    // Connections by key, "role:name", for statistics.
    using InUse = std::map<std::string, uint64_t>;
    InUse::iterator entered(const protocol::AuthKey& key);
    void left(InUse::iterator key) noexcept;
    // visit(name and role, number of connections)
    template <class Visit>
    void each_in_use(Visit visit) const {
        std::lock_guard hold(lock_);
        for (const auto& [name, count] : in_use_) visit(name, count);
    }

  private:
    mutable std::mutex lock_;
    std::shared_ptr<const protocol::AuthKeys> keys_;  // under lock_, as in_use_
    InUse in_use_;
    std::atomic<bool> demanded_{false};
};

// May a proxy with a key of that role make this request?
bool allows(protocol::AuthRole role, const protocol::RequestOp& op);

class Authentication {
  public:
    explicit Authentication(KeyRing& ring) : ring_(ring) {}
    ~Authentication();
    Authentication(const Authentication&) = delete;
    Authentication& operator=(const Authentication&) = delete;

    bool demanded() const { return ring_.demanded(); }
    // Appends the challenge for this hello.
    void challenge(const protocol::Frame& hello, OutBuffer& out);
    // Checks the proxy's proof. A malformed frame is `bad`.
    enum class Outcome : uint8_t { proved, bad, key_unknown, proof_wrong, role_wrong };
    Outcome take(const protocol::Frame& proof, protocol::FrameError& error);
    // The key that was proved; nullptr: none.
    const std::shared_ptr<const protocol::AuthKey>& key() const { return key_; }
    // As protocol::append_proved_welcome(). Forgets the greeting.
    bool welcome(OutBuffer& out, const protocol::Welcome& welcome, std::string_view grant);
    // The key is no longer on the ring.
    bool is_revoked() const;

  private:
    KeyRing& ring_;
    std::string hello_, challenge_, proof_;  // whole frames
    std::shared_ptr<const protocol::AuthKey> key_;
    std::optional<KeyRing::InUse::iterator> entered_;  // none: not yet
};

}  // namespace farcached::node
