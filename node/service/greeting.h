// SPDX-License-Identifier: BSD-3-Clause
// Greeting: the node's side of the greeting. It checks a proxy's hello, demands the proof of a key (authentication.h), and
// welcomes or refuses the proxy. It owns what the proxy sent and proved, and the connection's entry in the ProxyBook.
//
// Owner: a NodeService (service.h), in the connection's thread.
//
//   hello() --> ProofFollows --proof()--> Welcome: the connection is open
//      |              |                      ^
//      +--------------+----------------------+--> End: the refusal is appended, the connection ends
//
// P1  The Connection gets its access, limits and role here. They change only before the welcome.
// P2  A connection has its seat and its entry in the ProxyBook before the welcome is sent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "base/counters.h"
#include "node/service/authentication.h"
#include "node/service/connection.h"
#include "node/service/proxy_book.h"
#include "node/service/service_counters.h"
#include "protocol/frame.h"
#include "protocol/handshake.h"

namespace farcached::node {

class Greeting {
  public:
    // The connection outlives this.
    explicit Greeting(Connection& connection);

    struct ProofFollows {};
    struct End {
        ServiceEnd why;
        std::string text;
    };
    // Welcome: as it was sent. FrameError: the frame was malformed.
    using Outcome = std::variant<ProofFollows, protocol::Welcome, End, protocol::FrameError>;
    // The first frame; then the proof, if it follows.
    Outcome hello(const protocol::Frame& frame);
    Outcome proof(const protocol::Frame& frame);
    // The proxy's grant of its memory: once after the welcome, from a proxy that may have the node's memory.
    protocol::FrameError grant(const protocol::Frame& frame);
    // The proxy named this epoch of the list of nodes.
    void name(uint64_t epoch) { entry_.name(epoch); }

    // The key that the proxy proved; nullptr: none.
    const protocol::AuthKey* key() const { return authentication_.key().get(); }
    // That key is no longer accepted.
    bool is_revoked() const { return authentication_.is_revoked(); }
    // The proxy's name, for logs; empty before the greeting.
    const std::string& peer() const { return peer_; }
    // Welcomed, with an older protocol version: reads nothing one-sided (S18).
    bool two_sided() const { return two_sided_; }
    uint32_t version() const { return connection_.limits.version; }  // agreed version

  private:
    bool ignores_right(uint32_t version) const;
    Outcome demand_proof(const protocol::Frame& frame, const protocol::Welcome& agreed);
    Outcome welcome();
    std::optional<std::string> send(const protocol::Welcome& welcome);
    Outcome fail_authentication(Counter& why, std::string text);
    Outcome refuse(const protocol::Refuse& why);

    Connection& connection_;
    ProxyBook::Entry entry_;
    Authentication authentication_;
    protocol::Hello hello_;  // until the welcome
    std::string peer_;
    bool two_sided_ = false;
    bool grant_taken_ = false;
};

}  // namespace farcached::node
