// SPDX-License-Identifier: BSD-3-Clause
// Fuzz target: what a TLS client sends, in any pieces (daemon/session/tls.h). The input's first byte chooses version, damage and
// key, the next three the damage, and the others are the client's data and the sizes of the pieces. The session opens exactly the
// data, and the client gets it back; after damage, the session opens a prefix of the data. With another first byte the input
// itself is what the client sends. With the second key the handshake's steps take long: they are computed as for another thread.
#include <cstddef>
#include <cstdint>

#ifndef FARCACHED_OPENSSL

extern "C" int LLVMFuzzerTestOneInput(const uint8_t*, size_t) { return 0; }

#else

#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

#include "base/check.h"
#include "daemon/session/tls.h"
#include "t/unit/daemon/text_fixture.h"

namespace {

using namespace farcached;
using daemon::TlsSession;
using Outcome = TlsSession::Outcome;

struct Release {
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
    void operator()(SSL* ssl) const { SSL_free(ssl); }
};

enum class Key : uint8_t { quick, slow };

// With a key and a certificate of its own.
SSL_CTX* server_context(Key which) {
    const auto make = [](const char* curve) {
        std::unique_ptr<SSL_CTX, Release> context(SSL_CTX_new(TLS_server_method()));
        EVP_PKEY* const key = EVP_EC_gen(curve);
        X509* const certificate = X509_new();
        CHECK(key != nullptr);
        CHECK(certificate != nullptr);
        constexpr long year_s = 365 * 86'400;
        X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
        X509_gmtime_adj(X509_getm_notAfter(certificate), year_s);
        X509_set_pubkey(certificate, key);
        CHECK(X509_sign(certificate, key, EVP_sha256()) != 0);
        CHECK(SSL_CTX_use_certificate(context.get(), certificate) == 1);
        CHECK(SSL_CTX_use_PrivateKey(context.get(), key) == 1);
        SSL_CTX_set_mode(context.get(), SSL_MODE_RELEASE_BUFFERS);
        X509_free(certificate);
        EVP_PKEY_free(key);
        return context;
    };
    static const std::unique_ptr<SSL_CTX, Release> quick = make("P-256"), slow = make("P-384");
    return (which == Key::quick ? quick : slow).get();
}

class Client {
  public:
    explicit Client(int version) : ssl_(SSL_new(context())) {
        SSL_set_max_proto_version(ssl_.get(), version);
        SSL_set_bio(ssl_.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
        SSL_set_connect_state(ssl_.get());
    }
    // True: the handshake is over.
    bool greet() { return SSL_do_handshake(ssl_.get()) == 1; }
    void write(std::string_view data) {
        if (!data.empty()) CHECK(SSL_write(ssl_.get(), data.data(), int(data.size())) == int(data.size()));
    }
    void receive(std::string_view bytes) {
        if (!bytes.empty()) CHECK(BIO_write(SSL_get_rbio(ssl_.get()), bytes.data(), int(bytes.size())) == int(bytes.size()));
    }
    std::string read() {
        std::string got;
        char some[4096];
        for (int size; (size = SSL_read(ssl_.get(), some, sizeof some)) > 0;) got.append(some, size_t(size));
        return got;
    }
    std::string records() {
        std::string all(BIO_pending(SSL_get_wbio(ssl_.get())), '\0');
        if (!all.empty()) BIO_read(SSL_get_wbio(ssl_.get()), all.data(), int(all.size()));
        return all;
    }

  private:
    static SSL_CTX* context() {
        static const std::unique_ptr<SSL_CTX, Release> made(SSL_CTX_new(TLS_client_method()));
        return made.get();
    }
    std::unique_ptr<SSL, Release> ssl_;
};

struct Damage {
    bool wanted = false;
    size_t at = 0;  // byte of all that the client sends
    char change = 1;
};

// Passes the client's bytes to a session in pieces, as Sessions does.
class Server {
  public:
    Server(Key key, std::string_view sizes, Damage damage)
        : tls_(server_context(key), -1, TlsMode::configured, nullptr), sizes_(sizes), damage_(damage) {}

    // False: the session has failed.
    bool pass(std::string bytes) {
        if (damage_.wanted && damage_.at >= passed_ && damage_.at - passed_ < bytes.size()) {
            bytes[damage_.at - passed_] = char(bytes[damage_.at - passed_] ^ damage_.change);
            damaged_ = true;
        }
        passed_ += bytes.size();
        for (size_t at = 0; at < bytes.size();) {
            const size_t size = std::min(bytes.size() - at, next_size());
            if (!pass_piece(std::string_view(bytes).substr(at, size))) return false;
            at += size;
        }
        return true;
    }
    std::string take_sealed() {
        const std::string taken(sealed_.own());
        sealed_.clear(0);
        return taken;
    }
    void seal(std::string_view data) { CHECK(tls_.seal(data, sealed_)); }
    std::string_view plain() const { return plain_.own(); }
    bool damaged() const { return damaged_; }
    size_t steps() const { return steps_; }  // that took long
    size_t kept() const { return tls_.kept(); }

  private:
    bool pass_piece(std::string_view piece) {
        if (tls_.in_handshake()) {
            tls_.keep(context(), piece);
            piece = {};
            if (!compute_steps()) return false;
        }
        const Outcome outcome = tls_.open(context(), piece, plain_, sealed_);
        CHECK(outcome != Outcome::no_memory);
        return outcome == Outcome::fine;
    }
    bool compute_steps() {
        while (tls_.in_handshake() && tls_.begin_step()) {
            steps_++;
            tls_.compute_step();
            tls_.step_computed();
            CHECK(tls_.held() != 0);
            if (tls_.finish_step(sealed_) != Outcome::fine) return false;
        }
        return true;
    }
    size_t next_size() {
        if (sizes_.empty()) return 1000;
        const size_t size = uint8_t(sizes_[turn_++ % sizes_.size()]);
        return size < 200 ? size + 1 : size * 97;
    }
    static const daemon::Context& context() {
        static fixture::Talk talk(fixture::small_config());
        return talk.context;
    }

    TlsSession tls_;
    OutBuffer plain_, sealed_;
    std::string_view sizes_;
    Damage damage_;
    size_t turn_ = 0, passed_ = 0, steps_ = 0;
    bool damaged_ = false;
};

void talk(int version, Key key, Damage damage, std::string_view data) {
    constexpr int flights_max = 6;
    Client client(version);
    Server server(key, data, damage);
    bool over = false;
    for (int i = 0; i < flights_max && !over; i++) {
        over = client.greet();
        if (!server.pass(client.records())) {
            CHECK(server.damaged());
            return;
        }
        client.receive(server.take_sealed());
    }
    if (!over) {
        CHECK(server.damaged());
        return;
    }
    CHECK((server.steps() != 0) == (key == Key::slow));
    std::string all;
    for (size_t i = 0; i < data.size() && i < 8; i++) {
        const std::string_view part = data.substr(i * data.size() / 8);
        client.write(part);
        all += part;
        if (!server.pass(client.records())) break;
    }
    CHECK(all.starts_with(server.plain()));
    if (server.damaged()) return;
    CHECK(server.plain() == all);
    CHECK(server.kept() == 0);
    server.seal(all);
    client.receive(server.take_sealed());
    CHECK(client.read() == all);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
    const std::string_view input(reinterpret_cast<const char*>(bytes), size);
    if (size < 4 || bytes[0] > 7) {
        for (const Key key : {Key::quick, Key::slow}) {
            Server server(key, {}, {});
            (void)server.pass(std::string(input));
            CHECK(server.plain().empty());
        }
        return 0;
    }
    const char change = char(bytes[3] == 0 ? 1 : bytes[3]);
    const Damage damage{(bytes[0] & 2) != 0, size_t(bytes[1]) | size_t(bytes[2]) << 8, change};
    const Key key = (bytes[0] & 4) != 0 ? Key::slow : Key::quick;
    talk((bytes[0] & 1) != 0 ? TLS1_3_VERSION : TLS1_2_VERSION, key, damage, input.substr(4));
    return 0;
}

#endif
