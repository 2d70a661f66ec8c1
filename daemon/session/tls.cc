// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/session/tls.h"

#include <algorithm>
#include <new>
#include <utility>
#include <variant>

#include "conf/permissions.h"
#include "conf/program.h"
#include "daemon/session/session.h"
#include "fabric/peer_tls.h"
#include "process/certificate.h"
#include "process/log.h"
#include "process/node_time.h"

#ifdef FARCACHED_OPENSSL
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>

#include <ctime>

#include "base/check.h"
#endif

namespace farcached::daemon {

void TlsHandshakes::add(Session& session, uint64_t now_ns) {
    TlsSession::Waiting& waiting = session.tls()->waiting;
    waiting = {newest_, nullptr, now_ns};
    (newest_ != nullptr ? newest_->tls()->waiting.newer : oldest_) = &session;
    newest_ = &session;
}

void TlsHandshakes::remove(Session& session) {
    TlsSession::Waiting& waiting = session.tls()->waiting;
    if (waiting.since_ns == 0) return;
    (waiting.older != nullptr ? waiting.older->tls()->waiting.newer : oldest_) = waiting.newer;
    (waiting.newer != nullptr ? waiting.newer->tls()->waiting.older : newest_) = waiting.older;
    waiting = {};
}

void TlsKeys::use(Loaded keys) {
    if (!keys.warning.empty()) process::say(process::Level::warning, keys.warning);
    std::lock_guard hold(lock_);
    keys_ = std::move(keys);
    used_at_ = process::node_now();
}

std::string TlsKeys::refresh() {
    const std::unique_lock<std::mutex> loads = hold_loads();
    conf::TlsSettings settings;
    {
        std::lock_guard hold(lock_);
        settings = keys_.settings;
    }
    if (!settings.enabled) return "Error TLS not enabled";
    Result<Loaded> loaded = load(settings);
    if (auto* problem = std::get_if<Problem>(&loaded)) {
        while (problem->text.ends_with('\n')) problem->text.pop_back();
        return problem->text;
    }
    use(std::get<Loaded>(std::move(loaded)));
    return "OK";
}

bool TlsKeys::enabled() const {
    std::lock_guard hold(lock_);
    return keys_.context != nullptr;
}

NodeSeconds TlsKeys::age_s() const {
    std::lock_guard hold(lock_);
    return process::node_now() - used_at_;
}

int64_t TlsKeys::expires_unix() const {
    std::lock_guard hold(lock_);
    return keys_.expires_unix;
}

#ifndef FARCACHED_OPENSSL

Result<TlsKeys::Loaded> TlsKeys::load(const conf::TlsSettings&) {
    return Problem{conf::exit_usage, "This server is not built with TLS support.\n"};
}

std::shared_ptr<TlsSession> TlsKeys::greet(int, TlsMode, SessionMemory*) const { return nullptr; }

struct TlsSession::Step {};
TlsSession::~TlsSession() = default;
void TlsSession::FreeSsl::operator()(ssl_st*) const {}
bool TlsSession::is_new_session() const { return false; }
std::string TlsSession::client_name() const { return {}; }
bool TlsSession::begin_step() { return false; }
void TlsSession::compute_step() {}
TlsSession::Outcome TlsSession::finish_step(OutBuffer&) { return Outcome::failed; }
void TlsSession::keep(const Context&, std::string_view) {}
TlsSession::Outcome TlsSession::open(const Context&, std::string_view, OutBuffer&, OutBuffer&) { return Outcome::failed; }
size_t TlsSession::seal(std::string_view, size_t, std::span<const OutPiece>, size_t, size_t, OutBuffer&) { return 0; }
bool TlsSession::seal(std::string_view, OutBuffer&) { return false; }
void TlsSession::seal_end(OutBuffer&) {}
void TlsSession::keep_unsent(const Context&, std::string_view) {}
ssize_t TlsSession::send_unsent(int) { return -1; }
size_t TlsSession::held() const { return 0; }
void TlsSession::drop_step() {}
void TlsSession::drop_buffers() {}

#else

// ---- keys ------------------------------------------------------------------------------------------------

namespace {

constexpr size_t record_head_bytes = 5;
constexpr size_t small_record_bytes = 2048, record_bytes_max = 16 << 10;  // of data
constexpr size_t record_body_max = (16 << 10) + 2048;  // of any version
constexpr size_t kept_bytes_max = 16 << 10;            // capacity beyond a record between calls
// Of a client that is not known yet: OpenSSL allocates what these messages announce.
constexpr size_t hello_bytes_max = 32 << 10, client_chain_bytes_max = 32 << 10;

// Errors that a successful call has left would be those of the next. Clearing none takes longer than looking.
void clear_errors() {
    if (ERR_peek_error() != 0) [[unlikely]] ERR_clear_error();
}

const BIO_METHOD* bio_method();  // nullptr: no memory

constexpr int verify_flags[] = {
    SSL_VERIFY_NONE,
    SSL_VERIFY_PEER,
    SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
    SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT | SSL_VERIFY_CLIENT_ONCE,
};
constexpr int versions[] = {TLS1_VERSION, TLS1_1_VERSION, TLS1_2_VERSION, TLS1_3_VERSION};

void set_options(SSL_CTX* context, const conf::TlsSettings& settings) {
    SSL_CTX_set_min_proto_version(context, versions[settings.version_min]);
    SSL_CTX_set_verify(context, verify_flags[settings.verify_mode], nullptr);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_max_cert_list(context, client_chain_bytes_max);
    if (settings.kernel) SSL_CTX_set_options(context, SSL_OP_ENABLE_KTLS);
    if (settings.session_cache) {
        SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_SERVER);
        SSL_CTX_set_num_tickets(context, 1);
        return;
    }
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
    SSL_CTX_set_num_tickets(context, 0);
}

Refusal load_issuers(SSL_CTX* context, const std::string& path) {
    STACK_OF(X509_NAME)* names = nullptr;
    if (SSL_CTX_load_verify_locations(context, path.c_str(), nullptr) == 1) names = SSL_load_client_CA_file(path.c_str());
    if (names == nullptr) return process::tls_problem("Error loading the CA certificate: " + path + " ");
    SSL_CTX_set_client_CA_list(context, names);  // takes the names
    fabric::parse_extensions(context);
    return {};
}

Refusal load_files(SSL_CTX* context, const conf::TlsSettings& settings, TlsKeys::Loaded& loaded) {
    const std::string& key = settings.key_path.empty() ? settings.chain_path : settings.key_path;
    Result<process::Certificate> used = process::use_certificate(context, settings.chain_path, key, int(settings.key_format));
    if (auto* problem = std::get_if<Problem>(&used)) return std::move(*problem);
    loaded.expires_unix = std::get<0>(used).expires_unix;
    loaded.warning = std::move(std::get<0>(used).warning);
    if (!settings.ca_path.empty())
        if (Refusal refusal = load_issuers(context, settings.ca_path)) return refusal;
    if (!settings.ciphers.empty() && SSL_CTX_set_cipher_list(context, settings.ciphers.c_str()) != 1) {
        ERR_clear_error();
        return process::tls_problem("Error setting the provided cipher(s)", settings.ciphers);
    }
    return {};
}

}  // namespace

Result<TlsKeys::Loaded> TlsKeys::load(const conf::TlsSettings& settings) {
    ERR_clear_error();
    Loaded loaded{settings, {SSL_CTX_new(TLS_server_method()), &SSL_CTX_free}, 0, {}};
    if (loaded.context == nullptr || bio_method() == nullptr) return process::tls_problem("Error making the TLS context");
    set_options(loaded.context.get(), settings);
    if (Refusal refusal = load_files(loaded.context.get(), settings, loaded)) return *refusal;
    return loaded;
}

std::shared_ptr<TlsSession> TlsKeys::greet(int socket, TlsMode mode, SessionMemory* memory) const {
    std::shared_ptr<ssl_ctx_st> context;
    {
        std::lock_guard hold(lock_);
        context = keys_.context;
    }
    return std::make_shared<TlsSession>(context.get(), socket, mode, memory);
}

// ---- OpenSSL's view of a connection -------------------------------------------------------------------------

// Bytes for OpenSSL are input_, its bytes go to sealed_. It never waits for room.
struct TlsBio {
    static int read(BIO* bio, char* to, int size) {
        std::string_view& input = of(bio).input_;
        BIO_clear_retry_flags(bio);
        if (input.empty()) {
            BIO_set_retry_read(bio);
            return -1;
        }
        const size_t taken = input.copy(to, size_t(size));
        input.remove_prefix(taken);
        return int(taken);
    }

    static int write(BIO* bio, const char* bytes, int size) {
        TlsSession& session = of(bio);
        BIO_clear_retry_flags(bio);
        try {
            session.sealed_->append({bytes, size_t(size)});
            return size;
        } catch (const std::bad_alloc&) {
            session.starved_ = true;
            return -1;
        }
    }

    // OpenSSL does not tell the kernel of a client's new key (TLS 1.3).
    static void on_message(int sent, int, int type, const void* message, size_t size, SSL*, void* session) {
        if (sent != 0 || type != SSL3_RT_HANDSHAKE || size == 0) return;
        if (*static_cast<const uint8_t*>(message) == SSL3_MT_KEY_UPDATE) static_cast<TlsSession*>(session)->has_new_key_ = true;
    }

    static long control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

    static TlsSession& of(BIO* bio) { return *static_cast<TlsSession*>(BIO_get_data(bio)); }

    // The first load of keys makes it. nullptr: no memory.
    static const BIO_METHOD* method() {
        static const BIO_METHOD* const made = [] {
            const int index = BIO_get_new_index();
            BIO_METHOD* method = index < 0 ? nullptr : BIO_meth_new(index | BIO_TYPE_SOURCE_SINK, "farcached");
            if (method == nullptr) return method;
            BIO_meth_set_read(method, read);
            BIO_meth_set_write(method, write);
            BIO_meth_set_ctrl(method, control);
            return method;
        }();
        return made;
    }
};

void TlsSession::FreeSsl::operator()(ssl_st* ssl) const { SSL_free(ssl); }

namespace {

const BIO_METHOD* bio_method() { return TlsBio::method(); }

// Of a call that returned `result`. The reason is OpenSSL's constant; nullptr: none.
int error_of(const SSL* ssl, int result, const char*& reason) {
    const int error = SSL_get_error(ssl, result);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_ZERO_RETURN || error == SSL_ERROR_WANT_WRITE) return error;
    reason = ERR_reason_error_string(ERR_peek_error());
    ERR_clear_error();
    return error;
}

bool wants_kernel(const SSL* ssl) { return (SSL_get_options(ssl) & SSL_OP_ENABLE_KTLS) != 0; }

}  // namespace

TlsSession::TlsSession(ssl_ctx_st* context, int socket, TlsMode mode, SessionMemory* memory)
    : ssl_(SSL_new(context)), kept_(SessionAllocator<char>(memory)), unsent_(SessionAllocator<char>(memory)) {
    BIO* const bio = ssl_ != nullptr ? BIO_new(TlsBio::method()) : nullptr;
    if (bio == nullptr) {
        ERR_clear_error();
        throw std::bad_alloc();
    }
    BIO_set_data(bio, this);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl_.get(), bio, bio);
    if (socket < 0) SSL_clear_options(ssl_.get(), SSL_OP_ENABLE_KTLS);
    if (wants_kernel(ssl_.get())) {
        SSL_set_msg_callback(ssl_.get(), TlsBio::on_message);
        SSL_set_msg_callback_arg(ssl_.get(), this);
        if (BIO* const direct = BIO_new_socket(socket, BIO_NOCLOSE); direct != nullptr) SSL_set0_wbio(ssl_.get(), direct);
    }
    SSL_set_accept_state(ssl_.get());
    if (mode == TlsMode::unverified) SSL_set_verify(ssl_.get(), SSL_VERIFY_NONE, nullptr);
    if (mode == TlsMode::verified)
        SSL_set_verify(ssl_.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    const unsigned char demands = static_cast<unsigned char>(mode);  // T4
    SSL_set_session_id_context(ssl_.get(), &demands, sizeof demands);
}

struct TlsSession::Step {
    explicit Step(SessionBytes bytes) : input(std::move(bytes)) {}

    SessionBytes input;  // whole records
    OutBuffer sealed;
    int error = SSL_ERROR_NONE;
    const char* reason = nullptr;  // OpenSSL's
};

TlsSession::~TlsSession() = default;

namespace {

struct FreeText {
    void operator()(unsigned char* text) const { OPENSSL_free(text); }
};

// Empty with none, with several, and with one that has a null byte.
std::string common_name(const X509_NAME* subject) {
    const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
    if (at < 0 || X509_NAME_get_index_by_NID(subject, NID_commonName, at) >= 0) return {};
    const X509_NAME_ENTRY* const entry = X509_NAME_get_entry(subject, at);
    unsigned char* text = nullptr;
    const int bytes = ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(entry));
    if (bytes < 0) return {};
    const std::unique_ptr<unsigned char, FreeText> owned(text);
    const std::string name(reinterpret_cast<const char*>(text), size_t(bytes));
    return name.find('\0') == name.npos && name.size() <= conf::identity_bytes_max ? name : std::string();
}

}  // namespace

std::string TlsSession::client_name() const {
    const X509* const certificate = SSL_get0_peer_certificate(ssl_.get());
    if (certificate == nullptr || SSL_get_verify_result(ssl_.get()) != X509_V_OK) return {};
    return common_name(X509_get_subject_name(certificate));
}

bool TlsSession::is_new_session() const {
    const bool may_resume = SSL_CTX_get_session_cache_mode(SSL_get_SSL_CTX(ssl_.get())) != SSL_SESS_CACHE_OFF;
    return may_resume && SSL_session_reused(ssl_.get()) == 0;
}

// ---- received bytes ------------------------------------------------------------------------------------------

namespace {

// The length of the whole records at the front; all of it if it begins like none, which OpenSSL refuses.
size_t whole_records(std::string_view input) {
    constexpr uint8_t first_type = 20, last_type = 23, major_version = 3;
    size_t at = 0;
    while (at < input.size()) {
        const auto byte = [&](size_t i) { return at + i < input.size() ? uint8_t(input[at + i]) : major_version; };
        if (byte(0) < first_type || byte(0) > last_type || byte(1) != major_version) return input.size();
        if (input.size() - at < record_head_bytes) return at;
        const size_t body = size_t(byte(3)) << 8 | byte(4);
        if (body > record_body_max) return input.size();
        if (input.size() - at - record_head_bytes < body) return at;
        at += record_head_bytes + body;
    }
    return at;
}

// Whether the client's first message, which OpenSSL would allocate at once, claims a plausible length. Its head is in the first
// record: no client divides it.
bool is_plausible_hello(std::string_view whole) {
    constexpr uint8_t handshake_type = 22;
    constexpr size_t message_head_bytes = 4;
    if (uint8_t(whole[0]) != handshake_type) return true;  // which OpenSSL refuses
    if (whole.size() < record_head_bytes + message_head_bytes) return false;
    const auto byte = [&](size_t i) { return size_t(uint8_t(whole[record_head_bytes + i])); };
    const size_t record_bytes = size_t(uint8_t(whole[3])) << 8 | uint8_t(whole[4]);
    return record_bytes >= message_head_bytes && (byte(1) << 16 | byte(2) << 8 | byte(3)) <= hello_bytes_max;
}

}  // namespace

void TlsSession::keep(const Context& context, std::string_view bytes) {
    began_ = true;
    append_with_room(context, kept_, bytes);
}

TlsSession::Outcome TlsSession::open(const Context& context, std::string_view bytes, OutBuffer& plain, OutBuffer& sealed) {
    const bool from_kept = !kept_.empty();
    if (from_kept) append_with_room(context, kept_, bytes);
    const std::string_view input = from_kept ? std::string_view(kept_) : bytes;
    const size_t whole = whole_records(input);
    plain.reserve(whole);
    sealed.reserve(1);
    began_ |= !input.empty();
    const Outcome outcome = feed(input.substr(0, whole), plain, sealed);
    if (!from_kept) {
        if (whole < input.size()) append_with_room(context, kept_, input.substr(whole));
        return outcome;
    }
    const size_t rest = kept_.size() - whole;
    if (rest == 0 || (kept_.capacity() > kept_bytes_max + record_body_max && rest <= kept_bytes_max))
        SessionBytes(std::string_view(kept_).substr(whole), kept_.get_allocator()).swap(kept_);
    else
        kept_.erase(0, whole);
    return outcome;
}

// With an RSA key, or one of a larger curve than P-256, the step with the signature takes a millisecond. OpenSSL computes
// quickly what follows this server's Finished. With ssl_kernel_tls OpenSSL sends to the socket, which the worker may close.
bool TlsSession::takes_long() const {
    constexpr int quick_key_bits = 256;
    const EVP_PKEY* const key = SSL_CTX_get0_privatekey(SSL_get_SSL_CTX(ssl_.get()));
    if (key == nullptr || EVP_PKEY_get_bits(key) <= quick_key_bits || wants_kernel(ssl_.get())) return false;
    char none = 0;
    return SSL_get_finished(ssl_.get(), &none, 0) == 0;  // the length: 0 until it is made
}

bool TlsSession::begin_step() {
    if (broken_ || !in_handshake_ || !takes_long()) return false;
    const size_t whole = whole_records(kept_);
    if (whole == 0 || (!greeted_ && !is_plausible_hello(kept_))) return false;
    SessionBytes rest(std::string_view(kept_).substr(whole), kept_.get_allocator());
    auto step = std::make_unique<Step>(SessionBytes(kept_.get_allocator()));
    step->input.swap(kept_);
    step->input.resize(whole);
    kept_.swap(rest);
    step_ = std::move(step);
    greeted_ = true;
    stage_ = Stage::under_way;
    return true;
}

void TlsSession::compute_step() {
    input_ = step_->input;
    sealed_ = &step_->sealed;
    clear_errors();
    if (const int result = SSL_do_handshake(ssl_.get()); result != 1) step_->error = error_of(ssl_.get(), result, step_->reason);
    sealed_ = nullptr;
}

TlsSession::Outcome TlsSession::finish_step(OutBuffer& sealed) {
    stage_ = Stage::none;
    const std::unique_ptr<Step> step = std::move(step_);
    kept_.insert(0, std::exchange(input_, {}));
    sealed.append(step->sealed.own());
    in_handshake_ = step->error != SSL_ERROR_NONE;
    return in_handshake_ ? fail(step->error, step->reason) : Outcome::fine;
}

void TlsSession::drop_step() {
    stage_ = Stage::none;
    input_ = {};
    step_.reset();
}

// A record's data is shorter than the record, so all of it fits into `plain`.
TlsSession::Outcome TlsSession::feed(std::string_view input, OutBuffer& plain, OutBuffer& sealed) {
    if (broken_) return Outcome::failed;
    if (input.empty()) return Outcome::fine;
    if (!std::exchange(greeted_, true) && !is_plausible_hello(input)) return refuse("the client's hello is too long");
    input_ = input;
    sealed_ = &sealed;
    size_t room = input.size();
    clear_errors();
    Outcome outcome = Outcome::fine;
    if (in_handshake_) {
        const int result = SSL_do_handshake(ssl_.get());
        in_handshake_ = result != 1;
        if (in_handshake_)
            outcome = fail(result);
        else
            settle_sender();
    }
    while (!in_handshake_ && outcome == Outcome::fine && (!input_.empty() || SSL_pending(ssl_.get()) > 0)) {
        size_t got = 0;
        const int result = SSL_read_ex(ssl_.get(), plain.reserve(room), room, &got);
        plain.commit(got);
        room -= got;
        if (result == 1) continue;
        outcome = fail(result);
        break;
    }
    input_ = {};
    sealed_ = nullptr;
    if (kernel_seals_ && has_new_key_ && outcome == Outcome::fine) return refuse("a new key, which ssl_kernel_tls cannot use");
    return outcome;
}

TlsSession::Outcome TlsSession::refuse(const char* reason) {
    failure_ = reason;
    broken_ = true;
    return Outcome::failed;
}

// After the handshake, which has left no bytes in the BIO.
void TlsSession::settle_sender() {
    if (!wants_kernel(ssl_.get())) return;
    kernel_seals_ = BIO_get_ktls_send(SSL_get_wbio(ssl_.get())) != 0;
    BIO* const bio = SSL_get_rbio(ssl_.get());
    if (!kernel_seals_ && BIO_up_ref(bio) == 1) SSL_set0_wbio(ssl_.get(), bio);
}

TlsSession::Outcome TlsSession::fail(int result) {
    const char* reason = nullptr;
    const int error = error_of(ssl_.get(), result, reason);
    return fail(error, reason);
}

// The outcome of a call with this error; fine: it needs more input.
TlsSession::Outcome TlsSession::fail(int error, const char* reason) {
    switch (error) {
        case SSL_ERROR_WANT_READ: return Outcome::fine;
        case SSL_ERROR_ZERO_RETURN: return Outcome::ended;
        case SSL_ERROR_WANT_WRITE: return refuse("the socket takes no more, which ssl_kernel_tls does not wait for");
        default: break;
    }
    failure_ = reason != nullptr ? reason : "unknown error";
    broken_ = true;
    return starved_ ? Outcome::no_memory : Outcome::failed;
}

// ---- bytes to send ---------------------------------------------------------------------------------------------

bool TlsSession::seal(std::string_view bytes, OutBuffer& sealed) {
    if (broken_ || in_handshake_) return false;
    if (bytes.empty()) return true;
    sealed.reserve(sealed_bytes_max(bytes.size()));
    sealed_ = &sealed;
    clear_errors();
    // OpenSSL allocates a buffer of this size for each call. A lower maximum lowers the split size, too; a higher one does not
    // raise it.
    const size_t fragment = bytes.size() <= small_record_bytes ? small_record_bytes : record_bytes_max;
    SSL_set_max_send_fragment(ssl_.get(), fragment);
    SSL_set_split_send_fragment(ssl_.get(), fragment);
    size_t written = 0;
    const bool done = SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &written) == 1;
    if (!done) fail(0);
    sealed_ = nullptr;
    return done && written == bytes.size();
}

size_t TlsSession::seal(std::string_view own, size_t start, std::span<const OutPiece> pieces, size_t from, size_t most,
                        OutBuffer& sealed) {
    size_t done = 0;
    bool good = true;
    const auto take = [&](std::string_view part) {
        const size_t skipped = std::min(from, part.size());
        from -= skipped;
        part = part.substr(skipped, most - done);
        good = good && seal(part, sealed);
        if (good) done += part.size();
    };
    for (const OutPiece& piece : pieces) {
        take(own.substr(start, piece.at - start));
        take(piece.bytes.bytes());
        start = piece.at;
        if (done == most || !good) break;
    }
    if (good) take(own.substr(start));
    return good ? done : 0;
}

void TlsSession::seal_end(OutBuffer& sealed) {
    if (broken_ || in_handshake_ || has_unsent()) return;
    sealed_ = &sealed;
    SSL_shutdown(ssl_.get());
    ERR_clear_error();
    sealed_ = nullptr;
}

void TlsSession::keep_unsent(const Context& context, std::string_view sealed) {
    append_with_room(context, unsent_, sealed);
}

ssize_t TlsSession::send_unsent(int socket) {
    const std::string_view rest = std::string_view(unsent_).substr(unsent_start_);
    const ssize_t sent = ::send(socket, rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent <= 0) return sent;
    unsent_start_ += size_t(sent);
    if (has_unsent()) return sent;
    release(unsent_);
    unsent_start_ = 0;
    return sent;
}

size_t TlsSession::held() const {
    const bool has_step = stage_ == Stage::computed || (stage_ == Stage::under_way && in_queue);
    return kept_.capacity() + unsent_.capacity() + (has_step ? step_->input.capacity() : 0);
}

void TlsSession::drop_buffers() {
    if (stage_ == Stage::computed) drop_step();
    broken_ = true;
    unsent_start_ = 0;
    release(kept_);
    release(unsent_);
}

#endif

}  // namespace farcached::daemon
