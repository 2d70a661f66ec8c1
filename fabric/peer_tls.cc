// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/peer_tls.h"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <new>
#include <utility>

#ifdef FARCACHED_OPENSSL
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "base/check.h"
#endif

namespace farcached::fabric {

void PeerTls::use(Loaded loaded) {
    std::lock_guard hold(lock_);
    loaded_ = std::move(loaded);
}

#ifndef FARCACHED_OPENSSL

Result<PeerTls::Loaded> PeerTls::load(const Paths& paths) {
    return system_problem(paths.certificate + ": this build has no OpenSSL, so tcp links cannot use TLS; build it with OpenSSL 3, "
                                              "or remove peer_cert, peer_key and peer_ca");
}

std::unique_ptr<TlsStream> PeerTls::begin(int, const std::string*) const { throw std::bad_alloc(); }
int64_t PeerTls::expires_unix() const { return 0; }
void TlsStream::FreeSsl::operator()(ssl_st*) const {}
TlsStream::Outcome TlsStream::shake_hands() { return Outcome::failed; }
size_t TlsStream::receive(char*, size_t, Outcome& outcome) { return outcome = Outcome::failed, 0; }
size_t TlsStream::send(std::string_view, Outcome& outcome) { return outcome = Outcome::failed, 0; }

#else

namespace {

// Of a peer that is not known yet: OpenSSL allocates what its message announces.
constexpr long peer_chain_bytes_max = 32 << 10;

// The oldest error of this thread, without OpenSSL's numbers; the others are discarded.
std::string library_error() {
    const unsigned long error = ERR_get_error();
    ERR_clear_error();
    if (ERR_SYSTEM_ERROR(error)) return std::strerror(ERR_GET_REASON(error));
    const char* const reason = ERR_reason_error_string(error);
    return reason != nullptr ? reason : "unknown error";
}

Problem refused(const std::string& path, const char* what) {
    return system_problem(path + what + " (" + library_error() + ")");
}

// Instead of a question at the terminal.
int no_password(char*, int, int, void*) { return -1; }

bool demand_host(SSL* ssl, const std::string& host) {
    X509_VERIFY_PARAM* const rules = SSL_get0_param(ssl);
    if (X509_VERIFY_PARAM_set1_ip_asc(rules, host.c_str()) == 1) return true;
    ERR_clear_error();
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(ssl, host.c_str()) == 1 && SSL_set_tlsext_host_name(ssl, host.c_str()) == 1;
}

}  // namespace

void parse_extensions(SSL_CTX* context) {
    const auto* const objects = X509_STORE_get0_objects(SSL_CTX_get_cert_store(context));
    for (int i = 0; i < sk_X509_OBJECT_num(objects); ++i) {
        X509* const certificate = X509_OBJECT_get0_X509(sk_X509_OBJECT_value(objects, i));
        if (certificate != nullptr) X509_get_extension_flags(certificate);
    }
}

Result<PeerTls::Loaded> PeerTls::load(const Paths& paths) {
    ERR_clear_error();
    Loaded context(SSL_CTX_new(TLS_method()), &SSL_CTX_free);
    if (context == nullptr) return refused(paths.certificate, ": OpenSSL has no memory for TLS");
    SSL_CTX* const raw = context.get();
    SSL_CTX_set_min_proto_version(raw, TLS1_3_VERSION);
    SSL_CTX_set_verify(raw, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    SSL_CTX_set_options(raw, SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_mode(raw, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_max_cert_list(raw, peer_chain_bytes_max);
    SSL_CTX_set_session_cache_mode(raw, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(raw, 0);
    SSL_CTX_set_default_passwd_cb(raw, no_password);
    if (SSL_CTX_use_certificate_chain_file(raw, paths.certificate.c_str()) != 1)
        return refused(paths.certificate, ": no certificate can be read");
    // The first call accepts a key of another type than the certificate's.
    if (SSL_CTX_use_PrivateKey_file(raw, paths.key.c_str(), SSL_FILETYPE_PEM) != 1 || SSL_CTX_check_private_key(raw) != 1)
        return refused(paths.key, ": no key of that certificate can be read");
    if (SSL_CTX_load_verify_locations(raw, paths.issuers.c_str(), nullptr) != 1)
        return refused(paths.issuers, ": no issuer's certificate can be read");
    parse_extensions(raw);
    return context;
}

int64_t PeerTls::expires_unix() const {
    std::lock_guard hold(lock_);
    if (loaded_ == nullptr) return 0;
    tm end{};
    const ASN1_TIME* const at = X509_get0_notAfter(SSL_CTX_get0_certificate(loaded_.get()));
    return ASN1_TIME_to_tm(at, &end) == 1 ? int64_t(timegm(&end)) : INT64_MAX;
}

std::unique_ptr<TlsStream> PeerTls::begin(int socket, const std::string* host) const {
    Loaded context;
    {
        std::lock_guard hold(lock_);
        context = loaded_;
    }
    CHECK(context != nullptr);
    ERR_clear_error();
    std::unique_ptr<TlsStream> stream(new TlsStream(SSL_new(context.get())));
    SSL* const ssl = stream->ssl_.get();
    const bool made = ssl != nullptr && SSL_set_fd(ssl, socket) == 1 && (host == nullptr || demand_host(ssl, *host));
    ERR_clear_error();
    if (!made) throw std::bad_alloc();
    if (host != nullptr)
        SSL_set_connect_state(ssl);
    else
        SSL_set_accept_state(ssl);
    return stream;
}

void TlsStream::FreeSsl::operator()(ssl_st* ssl) const { SSL_free(ssl); }

TlsStream::Outcome TlsStream::outcome_of(int result) {
    switch (SSL_get_error(ssl_.get(), result)) {
        case SSL_ERROR_NONE: return Outcome::done;
        case SSL_ERROR_WANT_READ: return Outcome::wants_input;
        case SSL_ERROR_WANT_WRITE: return Outcome::wants_output;
        case SSL_ERROR_ZERO_RETURN: return Outcome::ended;
        case SSL_ERROR_SYSCALL:
            ERR_clear_error();
            return errno == 0 ? Outcome::ended : Outcome::failed;
        default: break;
    }
    failure_ = library_error();
    if (const long verdict = SSL_get_verify_result(ssl_.get()); verdict != X509_V_OK)
        failure_ += std::string(": ") + X509_verify_cert_error_string(verdict);
    return Outcome::failed;
}

TlsStream::Outcome TlsStream::shake_hands() {
    ERR_clear_error();
    errno = 0;
    return outcome_of(SSL_do_handshake(ssl_.get()));
}

size_t TlsStream::receive(char* to, size_t room, Outcome& outcome) {
    size_t all = 0;
    while (all < room) {
        size_t got = 0;
        ERR_clear_error();
        errno = 0;
        const int result = SSL_read_ex(ssl_.get(), to + all, room - all, &got);
        if (result != 1) {
            outcome = outcome_of(result);
            break;
        }
        all += got;
    }
    return all;
}

size_t TlsStream::send(std::string_view bytes, Outcome& outcome) {
    size_t all = 0;
    while (all < bytes.size()) {
        size_t taken = 0;
        ERR_clear_error();
        errno = 0;
        const int result = SSL_write_ex(ssl_.get(), bytes.data() + all, bytes.size() - all, &taken);
        if (result != 1) {
            outcome = outcome_of(result);
            break;
        }
        all += taken;
    }
    return all;
}

#endif

}  // namespace farcached::fabric
