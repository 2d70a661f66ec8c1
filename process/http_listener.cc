// SPDX-License-Identifier: BSD-3-Clause
#include "process/http_listener.h"

#include <arpa/inet.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <system_error>

#include "base/check.h"
#include "base/node_clock.h"
#include "base/recorder.h"
#include "conf/addresses.h"
#include "process/fatal.h"
#include "process/process.h"
#include "process/socket_holder.h"

#ifdef FARCACHED_OPENSSL
#include <event2/bufferevent_ssl.h>
#include <openssl/ssl.h>
#endif

namespace farcached::process {

namespace {

bool is_address(int family, std::string_view text) {
    unsigned char bytes[16];
    return inet_pton(family, std::string(text).c_str(), bytes) == 1;
}

bool is_port(std::string_view text) { return text.find_first_not_of("0123456789") == text.npos; }

}  // namespace

std::vector<std::string> own_host_names(const std::string& http_host, std::string_view http_names) {
    std::vector<std::string> names = {"localhost"};
    const auto add = [&](std::string_view list) {
        for (std::string& name : conf::host_names_of(list)) names.push_back(std::move(name));
    };
    char own[256] = "";
    if (gethostname(own, sizeof own - 1) == 0) add(own);
    add(http_host);
    add(http_names);
    return names;
}

bool is_own_host(std::string_view host, std::span<const std::string> names) {
    if (host.starts_with('[')) {
        const size_t end = host.find(']');
        if (end == host.npos) return false;
        const std::string_view behind = host.substr(end + 1);
        if (!behind.empty() && !(behind.starts_with(':') && is_port(behind.substr(1)))) return false;
        return is_address(AF_INET6, host.substr(1, end - 1));
    }
    if (const size_t colon = host.find(':'); colon != host.npos) {
        if (!is_port(host.substr(colon + 1))) return false;
        host = host.substr(0, colon);
    }
    if (is_address(AF_INET, host)) return true;
    const std::string asked = conf::host_name_of(host);
    return !asked.empty() && std::find(names.begin(), names.end(), asked) != names.end();
}

namespace {

constexpr int http_backlog = 64;
constexpr ev_ssize_t header_bytes_max = 8 << 10;
constexpr ev_ssize_t body_bytes_max = 1 << 10;  // no valid request has a body
constexpr size_t unread_bytes_max = 64 << 10;   // received and not parsed, per connection
constexpr int silence_s = 5;                    // between bytes, in either direction
constexpr uint64_t request_ns = UINT64_C(2'000'000'000);  // from opening to a complete request
constexpr uint64_t life_ns = UINT64_C(15'000'000'000);
constexpr uint64_t young_ns = UINT64_C(50'000'000);  // a younger connection is never ended (H5)
constexpr timeval sweep_after{0, 200'000}, next_turn{0, 0}, full_after{0, 25'000};
constexpr uint32_t accepted_per_turn = 8;
constexpr ev_uint16_t methods = EVHTTP_REQ_GET | EVHTTP_REQ_HEAD | EVHTTP_REQ_POST | EVHTTP_REQ_PUT | EVHTTP_REQ_DELETE |
                                EVHTTP_REQ_OPTIONS | EVHTTP_REQ_TRACE | EVHTTP_REQ_CONNECT | EVHTTP_REQ_PATCH;

Problem refusal(const std::string& option, const std::string& host, uint16_t port, const std::string& why) {
    return {conf::exit_system, option + " " + conf::host_and_port(host, port) + ": " + why + "\n"};
}

// A listening socket; -1 and errno on failure.
int bind_one(const addrinfo& at) {
    const int fd = socket(at.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    const int on = 1, off = 0;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (at.ai_family == AF_INET6) (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, at.ai_addr, at.ai_addrlen) == 0)
        if (::listen(fd, http_backlog) == 0) return fd;
    const int error = errno;
    close(fd);
    errno = error;
    return -1;
}

struct FreeAddresses {
    void operator()(addrinfo* list) const { freeaddrinfo(list); }
};

// "/metrics?x=1" -> "/metrics"
std::string path_of(const char* uri) {
    const std::string_view text = uri == nullptr ? "" : uri;
    return std::string(text.substr(0, text.find_first_of("?#")));
}

// H8
bool is_health_path(std::string_view path) { return path == "/healthz" || path == "/readyz"; }

// Callbacks are removed once evhttp released the stream.
bool is_over(bufferevent* stream) {
    bufferevent_data_cb read = nullptr, write = nullptr;
    bufferevent_event_cb event = nullptr;
    bufferevent_getcb(stream, &read, &write, &event, nullptr);
    return read == nullptr && write == nullptr && event == nullptr;
}

}  // namespace

Result<std::unique_ptr<HttpListener>> HttpListener::listen(const std::string& option, const std::string& host, uint16_t port,
                                                           Options options) {
    addrinfo wanted{};
    wanted.ai_socktype = SOCK_STREAM;
    wanted.ai_flags = AI_PASSIVE;
    addrinfo* found = nullptr;
    const std::string service = std::to_string(port);
    const int failed = getaddrinfo(host == "*" ? nullptr : host.c_str(), service.c_str(), &wanted, &found);
    if (failed != 0) return refusal(option, host, port, gai_strerror(failed));
    const std::unique_ptr<addrinfo, FreeAddresses> addresses(found);
    int fd = -1;
    std::string why;
    // For "*", IPv6 first, which accepts IPv4 too.
    for (const int family : {AF_INET6, AF_INET}) {
        for (const addrinfo* at = found; at != nullptr && fd < 0; at = at->ai_next) {
            if (at->ai_family != family) continue;
            fd = bind_one(*at);
            if (fd < 0) why = bind_error(errno, at->ai_addr);
        }
    }
    if (fd < 0) return refusal(option, host, port, why);
    return std::unique_ptr<HttpListener>(new HttpListener(fd, std::move(options)));
}

HttpListener::HttpListener(int fd, Options options) : fd_(fd), options_(std::move(options)) {
    sockaddr_storage bound{};
    socklen_t size = sizeof bound;
    (void)getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size);
    ipv6_ = bound.ss_family == AF_INET6;
    port_ = ntohs(ipv6_ ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                        : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
}

event_base* HttpListener::base() {
    if (base_ != nullptr) return base_.get();
    if (wake_fd_ < 0) wake_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (wake_fd_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
    base_.reset(event_base_new());
    if (base_ == nullptr) throw std::bad_alloc();
    return base_.get();
}

HttpListener::~HttpListener() {
    stop();
    base_.reset();
    if (fd_ >= 0) close(fd_);
    if (wake_fd_ >= 0) close(wake_fd_);
}

void HttpListener::start(Handler handler) {
    CHECK(http_ == nullptr);
    handler_ = std::move(handler);
    const auto on_wake = [](evutil_socket_t, short, void* self) {
        event_base_loopbreak(static_cast<HttpListener*>(self)->base_.get());
    };
    const auto on_sweep = [](evutil_socket_t, short, void* self) { static_cast<HttpListener*>(self)->sweep(); };
    const auto on_next_turn = [](evutil_socket_t, short, void* self) { static_cast<HttpListener*>(self)->accept_again(); };
    event_base* const loop = base();
    event_assign(&wake_event_, loop, wake_fd_, EV_READ | EV_PERSIST, on_wake, this);
    event_add(&wake_event_, nullptr);
    event_assign(&sweep_event_, base_.get(), -1, 0, on_sweep, this);
    event_assign(&accept_event_, base_.get(), -1, 0, on_next_turn, this);
    http_ = evhttp_new(base_.get());
    if (http_ == nullptr) throw std::bad_alloc();
    evhttp_set_timeout(http_, silence_s);
    evhttp_set_max_headers_size(http_, header_bytes_max);
    evhttp_set_max_body_size(http_, body_bytes_max);
    evhttp_set_allowed_methods(http_, methods);
    evhttp_set_bevcb(http_, on_connection, this);
    evhttp_set_gencb(http_, on_request, this);
    connections_.reserve(connections_max);
    accepting_ = evconnlistener_new(base_.get(), nullptr, nullptr, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 0, fd_);
    if (accepting_ == nullptr) throw std::bad_alloc();
    fd_ = -1;
    evconnlistener_set_error_cb(accepting_, on_accept_error);
    CHECK(evhttp_bind_listener(http_, accepting_) != nullptr);
    thread_ = std::thread([this] {
        Recorder recorder(options_.thread);
        const Recorder::Running running(recorder);
        event_base_dispatch(base_.get());
    });
}

void HttpListener::stop() {
    if (thread_.joinable()) {
        const uint64_t one = 1;
        (void)!write(wake_fd_, &one, sizeof one);
        thread_.join();
    }
    if (http_ == nullptr) return;
    // Requests of closed connections are freed by their answer, the rest with their connections.
    for (const auto& asked : asked_)
        if (asked->request != nullptr) send(std::exchange(asked->request, nullptr), {503, {}, "stopping\n", {}});
    asked_.clear();
    event_del(&sweep_event_);
    event_del(&accept_event_);
    event_del(&wake_event_);
    evhttp_free(std::exchange(http_, nullptr));
    for (const Connection& one : connections_) bufferevent_decref(one.stream);
    connections_.clear();
    handler_ = nullptr;
}

bufferevent* HttpListener::new_stream(event_base* base) const {
#ifdef FARCACHED_OPENSSL
    if (const std::shared_ptr<ssl_ctx_st> context = options_.access == nullptr ? nullptr : options_.access->tls()) {
        SSL* const ssl = SSL_new(context.get());
        if (ssl == nullptr) return nullptr;
        SSL_up_ref(ssl);  // libevent's versions differ in whether a failed call frees it
        bufferevent* const stream =
            bufferevent_openssl_socket_new(base, -1, ssl, BUFFEREVENT_SSL_ACCEPTING, BEV_OPT_CLOSE_ON_FREE);
        SSL_free(ssl);
        if (stream == nullptr) return nullptr;
        bufferevent_openssl_set_allow_dirty_shutdown(stream, 1);
        return stream;
    }
#endif
    return bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
}

// True: OpenSSL had no memory for this connection.
bool HttpListener::lacks_tls([[maybe_unused]] evhttp_request* request) const {
#ifdef FARCACHED_OPENSSL
    if (options_.access == nullptr || options_.access->tls() == nullptr) return false;
    return bufferevent_openssl_get_ssl(evhttp_connection_get_bufferevent(evhttp_request_get_connection(request))) == nullptr;
#else
    return false;
#endif
}

// H1. Called for each connection that evhttp accepts.
bufferevent* HttpListener::on_connection(event_base* base, void* argument) {
    HttpListener& listener = *static_cast<HttpListener*>(argument);
    // evhttp would close the descriptor while the stream, kept by the reference, still reads from it. The number may
    // then belong to a worker's client, whose bytes would be lost. So the stream closes it, with its last reference.
    if (listener.connections_.size() == listener.connections_.capacity()) return nullptr;  // not while accepting pauses
    bufferevent* stream = listener.new_stream(base);
    // For nullptr evhttp makes a stream of its own, so this makes one without TLS. Its requests are refused (lacks_tls()).
    if (stream == nullptr) stream = bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
    if (stream == nullptr) return nullptr;
    bufferevent_setwatermark(stream, EV_READ, 0, unread_bytes_max);
    bufferevent_incref(stream);
    listener.connections_.push_back({stream, boottime_ns()});
    if (++listener.accepted_in_turn_ >= accepted_per_turn || listener.connections_.size() >= connections_max) listener.rest();
    if (event_pending(&listener.sweep_event_, EV_TIMEOUT, nullptr) == 0)
        event_add(&listener.sweep_event_, &sweep_after);
    return stream;
}

// H4. The unused argument is evhttp's.
void HttpListener::on_accept_error(evconnlistener* accepting, void*) {
    const auto on_rested = [](evutil_socket_t, short, void* self) { evconnlistener_enable(static_cast<evconnlistener*>(self)); };
    evconnlistener_disable(accepting);
    event_base_once(evconnlistener_get_base(accepting), -1, EV_TIMEOUT, on_rested, accepting, &sweep_after);
}

void HttpListener::rest() {
    evconnlistener_disable(accepting_);
    event_add(&accept_event_, &next_turn);
}

// H5. Since then the loop has read from every connection accepted before.
void HttpListener::accept_again() {
    release_ended();
    if (connections_.size() >= connections_max) end_older_incomplete();
    if (connections_.size() >= connections_max) {
        event_add(&accept_event_, &full_after);
        return;
    }
    accepted_in_turn_ = 0;
    evconnlistener_enable(accepting_);
}

void HttpListener::end_older_incomplete() {
    const uint64_t now_ns = boottime_ns();
    const auto may_end = [&](const Connection& one) { return !one.requested && now_ns - one.opened_ns >= young_ns; };
    auto ending = (std::count_if(connections_.begin(), connections_.end(), may_end) + 1) / 2;
    for (Connection& one : connections_) {
        if (ending == 0) break;
        if (!may_end(one)) continue;
        ending--;
        bufferevent_trigger_event(one.stream, BEV_EVENT_READING | BEV_EVENT_TIMEOUT, 0);  // evhttp frees it
    }
    release_ended();
}

void HttpListener::release_ended() {
    for (auto at = connections_.begin(); at != connections_.end();) {
        if (!is_over(at->stream)) {
            at++;
            continue;
        }
        bufferevent_decref(at->stream);
        at = connections_.erase(at);
    }
}

void HttpListener::sweep() {
    release_ended();
    const uint64_t now_ns = boottime_ns();
    for (const Connection& one : connections_) {
        // evhttp sees the end and frees the connection.
        const uint64_t limit_ns = one.requested ? life_ns : request_ns;
        if (now_ns - one.opened_ns > limit_ns) ::shutdown(bufferevent_getfd(one.stream), SHUT_RDWR);
    }
    if (!connections_.empty()) event_add(&sweep_event_, &sweep_after);
}

void HttpListener::on_request(evhttp_request* request, void* argument) {
    HttpListener& listener = *static_cast<HttpListener*>(argument);
    try {
        listener.ask(request);
    } catch (const std::bad_alloc&) {  // before ask() gave it to the handler
        starve(request);
    }
}

std::optional<HttpAnswer> HttpListener::refusal_of(evhttp_request* request, std::string_view path) {
    if (lacks_tls(request)) return HttpAnswer{503, {}, "out of memory for TLS; try again\n", {}};
    const evhttp_cmd_type method = evhttp_request_get_command(request);
    if (method != EVHTTP_REQ_GET && method != EVHTTP_REQ_HEAD)
        return HttpAnswer{405, {}, "only GET and HEAD are served here\n", {{"Allow", "GET, HEAD"}}};
    // H6. Only old programs send no Host; browsers always do.
    const evkeyvalq* headers = evhttp_request_get_input_headers(request);
    const char* host = evhttp_find_header(headers, "Host");
    if (!options_.any_host && host != nullptr && !is_own_host(host, options_.names))
        return HttpAnswer{
            403, {}, "the Host header names another host; use an IP address or localhost, or add the name to --http-names\n", {}};
    if (options_.access == nullptr || !options_.access->needs_token() || is_health_path(path)) return {};
    const char* authorization = evhttp_find_header(headers, "Authorization");
    if (options_.access->allows(authorization)) return {};
    tell_unauthorized(request, authorization != nullptr);
    return HttpAnswer{401,
                      {},
                      "this page needs a token: send the header Authorization: Bearer TOKEN, or in a browser the token as the "
                      "password of any user (--http-token-file)\n",
                      {{"WWW-Authenticate", "Bearer realm=\"farcached\""}, {"WWW-Authenticate", "Basic realm=\"farcached\""}}};
}

// A browser's first request has no header: it asks its user after the answer.
void HttpListener::tell_unauthorized(evhttp_request* request, bool has_header) {
    unauthorized_.fetch_add(1, std::memory_order_relaxed);
    const Level level = has_header ? Level::warning : Level::info;
    if (!is_said(level)) return;
    char* address = nullptr;
    ev_uint16_t port = 0;
    evhttp_connection_get_peer(evhttp_request_get_connection(request), &address, &port);
    const std::string of = std::string("http: a request of ") + (address == nullptr ? "an unknown peer" : address);
    unauthorized_lines_.say(
        level, of + (has_header ? " has no valid token and was refused; give its sender a line of the file of --http-token-file"
                                : " has no token and was refused; give its sender a line of the file of --http-token-file"));
}

void HttpListener::ask(evhttp_request* request) {
    const bufferevent* stream = evhttp_connection_get_bufferevent(evhttp_request_get_connection(request));
    for (Connection& one : connections_) one.requested = one.requested || one.stream == stream;
    HttpRequest asked;
    asked.path = path_of(evhttp_request_get_uri(request));
    if (const std::optional<HttpAnswer> refusal = refusal_of(request, asked.path)) return send(request, *refusal);
    const char* accept = evhttp_find_header(evhttp_request_get_input_headers(request), "Accept");
    if (accept != nullptr) asked.accept = accept;
    std::erase_if(asked_, [](const auto& one) { return one->request == nullptr; });
    asked_.push_back(std::make_shared<Asked>());
    const std::shared_ptr<Asked> one = asked_.back();
    Reply reply = [one](const HttpAnswer& answer) {
        if (one->request != nullptr) send(std::exchange(one->request, nullptr), answer);  // H2
    };
    one->request = request;
    try {
        handler_(asked, std::move(reply));
    } catch (const std::bad_alloc&) {
        if (one->request != nullptr) starve(std::exchange(one->request, nullptr));
    }
}

// H7
void HttpListener::starve(evhttp_request* request) noexcept { evhttp_send_reply(request, 503, "Out Of Memory", nullptr); }

void HttpListener::send(evhttp_request* request, const HttpAnswer& answer) noexcept {
    try {
        add_headers(request, answer);
    } catch (const std::bad_alloc&) {
        return starve(request);
    }
    evbuffer* body = evbuffer_new();
    CHECK(body != nullptr);
    if (evhttp_request_get_command(request) != EVHTTP_REQ_HEAD) evbuffer_add(body, answer.body.data(), answer.body.size());
    evhttp_send_reply(request, answer.status, nullptr, body);
    evbuffer_free(body);
}

void HttpListener::add_headers(evhttp_request* request, const HttpAnswer& answer) {
    evkeyvalq* headers = evhttp_request_get_output_headers(request);
    const std::string type(answer.type.empty() ? HttpAnswer().type : answer.type);
    evhttp_add_header(headers, "Content-Type", type.c_str());
    evhttp_add_header(headers, "X-Content-Type-Options", "nosniff");
    evhttp_add_header(headers, "Cache-Control", "no-store");
    evhttp_add_header(headers, "Connection", "close");
    bool has_policy = false;
    for (const auto& [name, value] : answer.headers) {
        has_policy = has_policy || name == "Content-Security-Policy";
        evhttp_add_header(headers, name.c_str(), value.c_str());
    }
    if (!has_policy) evhttp_add_header(headers, "Content-Security-Policy", "default-src 'none'");
    evhttp_add_header(headers, "Content-Length", std::to_string(answer.body.size()).c_str());
}

}  // namespace farcached::process
