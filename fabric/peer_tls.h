// SPDX-License-Identifier: BSD-3-Clause
// TLS of tcp links between a proxy and a node, by OpenSSL: TLS 1.3 alone. PeerTls: this process's certificate, its key, and the
// issuers of peers' certificates. TlsStream: the TLS of one connection.
//
// Owner: PeerTls: main; any thread calls it. TlsStream: its channel's thread.
//
// E1  Each end demands a certificate of a trusted issuer. The end that connects also demands that the certificate names the host
//     that it connects to.
// E2  A load that fails changes nothing. A connection keeps the files that it began with.
// E3  The process ignores SIGPIPE: OpenSSL writes to sockets by itself.
// E4  A connection that ends without TLS's own end is closed by the peer. Frames carry their lengths, so a cut one is noticed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/result.h"

struct ssl_ctx_st;
struct ssl_st;

namespace farcached::fabric {

// Parses the extensions of the context's issuers in the thread that loads them. Else libcrypto parses them in the first handshake,
// and shows the result to other threads by an atomic word that TSan does not see. Only with OpenSSL.
void parse_extensions(ssl_ctx_st* context);

class TlsStream {
  public:
    enum class Outcome : unsigned char { done, wants_input, wants_output, ended, failed };

    // Completes the handshake; done: the connection is open. failed: see failure(); errno has the cause if that is empty.
    Outcome shake_hands();
    // Appends up to `room` bytes at `to`, whose number it returns. Fewer: `outcome` has the reason, never done.
    size_t receive(char* to, size_t room, Outcome& outcome);
    // Takes bytes, whose number it returns. Fewer: `outcome` has the reason, never done; the next call begins with the rest.
    size_t send(std::string_view bytes, Outcome& outcome);
    // Why this side or the other refused, as the end of a sentence; empty: the system's error.
    const std::string& failure() const { return failure_; }

  private:
    friend class PeerTls;
    struct FreeSsl {
        void operator()(ssl_st* ssl) const;
    };
    explicit TlsStream(ssl_st* ssl) : ssl_(ssl) {}
    Outcome outcome_of(int result);

    std::unique_ptr<ssl_st, FreeSsl> ssl_;
    std::string failure_;
};

class PeerTls {
  public:
    struct Paths {
        std::string certificate;  // with its chain, PEM
        std::string key;          // PEM, without a password
        std::string issuers;      // whose certificates peers must have, PEM
    };
    using Loaded = std::shared_ptr<ssl_ctx_st>;

    // Reads the files. A problem is a sentence with the file's name.
    static Result<Loaded> load(const Paths& paths);
    // Connections made from now on use it.
    void use(Loaded loaded);
    // End of the validity of this process's certificate, in seconds since 1970; 0: nothing is loaded.
    int64_t expires_unix() const;

    // The accepting end's. Throws std::bad_alloc.
    std::unique_ptr<TlsStream> accept(int socket) const { return begin(socket, nullptr); }
    // The connecting end's. host: the name or address that the peer's certificate must have. Throws std::bad_alloc.
    std::unique_ptr<TlsStream> connect(int socket, const std::string& host) const { return begin(socket, &host); }

  private:
    std::unique_ptr<TlsStream> begin(int socket, const std::string* host) const;

    mutable std::mutex lock_;
    Loaded loaded_;  // under lock_
};

}  // namespace farcached::fabric
