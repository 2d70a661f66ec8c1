// SPDX-License-Identifier: BSD-3-Clause
// HttpListener: a small HTTP server (libevent's evhttp) with its own thread, for monitoring: GET and HEAD, one request
// per connection. Its handler provides the pages.
//
// H1  Bounds: number of connections, bytes of a request, time from a connection's opening to its complete request, and
//     to its end. A larger request is refused; a connection past its time is cut.
// H2  The handler answers each request at most once, at once or later, in the listener's thread. Only that client waits
//     for it. Answers to closed connections are discarded.
// H3  Headers forbid a client to take an answer for another kind of page, or to run it.
// H4  Without descriptors, accepting pauses for a moment; the listener takes no more descriptors from the daemon's
//     connections than H1 allows.
// H5  Incomplete requests do not keep other clients out. When all connections are in use, the older half of those
//     without a complete request for 50 ms ends. Before that, the loop reads from each connection once, since it
//     accepts few per iteration. If none can end, new connections wait in the kernel's queue.
// H6  A request whose Host header names another host is refused.
// H7  Without memory for a request, its answer is 503.
// H8  With an HttpAccess that has TLS, H1's times include the handshake. With tokens, a request without one gets 401, except for
//     /healthz and /readyz.
//
// Owner: main, for listen(), start() and stop(), from one thread. All else runs in the listener's thread.
#pragma once

#include <event2/event.h>
#include <event2/event_struct.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "conf/program.h"
#include "conf/settings.h"
#include "process/http_access.h"
#include "process/log.h"

// Checks an HTTP request's Host header against DNS rebinding. The owner of a foreign name can point it to this host.
// Pages of that name must not read the answers; browsers send the name. Pure functions, except own_host_names().
// Owner: none; any thread.
namespace farcached::process {

// "localhost", the kernel's name of this host, the host of --http if it is a name, and the names of --http-names.
std::vector<std::string> own_host_names(const std::string& http_host, std::string_view http_names);

// Is `host` ("name", "name:80", "192.0.2.1", "[::1]:80") an IP address or one of the names?
bool is_own_host(std::string_view host, std::span<const std::string> names);

}  // namespace farcached::process

struct bufferevent;
struct evconnlistener;
struct evhttp;
struct evhttp_request;

namespace farcached::process {

struct HttpRequest {
    std::string path;    // "/metrics"; without the query
    std::string accept;  // the header, or empty
};

struct HttpAnswer {
    int status = 200;
    std::string_view type = "text/plain; charset=utf-8";
    std::string body;
    std::vector<std::pair<std::string, std::string>> headers;  // in addition to those of every answer
};

class HttpListener {
  public:
    static constexpr uint32_t connections_max = 32;
    using Reply = std::function<void(HttpAnswer)>;
    using Handler = std::function<void(const HttpRequest&, Reply)>;

    struct Options {
        std::vector<std::string> names;      // from own_host_names()
        bool any_host = false;               // ignores Host headers: its pages are for everyone
        std::unique_ptr<HttpAccess> access;  // nullptr: neither tokens nor TLS
        const char* thread = "http";
    };
    // option: "--http", for messages. host: a name or an address; "*": all addresses. Port 0: the kernel chooses.
    static Result<std::unique_ptr<HttpListener>> listen(const std::string& option, const std::string& host, uint16_t port,
                                                        Options options);
    ~HttpListener();  // calls stop()
    HttpListener(const HttpListener&) = delete;
    HttpListener& operator=(const HttpListener&) = delete;

    uint16_t port() const { return port_; }
    bool ipv6() const { return ipv6_; }
    HttpAccess* access() { return options_.access.get(); }
    // Requests that were refused for lack of a valid token. Any thread.
    uint64_t unauthorized() const { return unauthorized_.load(std::memory_order_relaxed); }
    // The thread's event loop; the handler may add its own events. The first call opens its descriptors, in the process
    // that stays, and before the first client, who might take the last one. Throws std::system_error.
    event_base* base();

    // Throws std::system_error.
    void start(Handler handler);
    // Answers all open requests with 503. The handler is not called afterwards.
    void stop();

  private:
    struct FreeBase {
        void operator()(event_base* base) const { event_base_free(base); }
    };
    struct Asked {
        evhttp_request* request = nullptr;  // nullptr: answered
    };
    // A connection, until evhttp ends it; the reference held keeps its address from being reused.
    struct Connection {
        bufferevent* stream;
        uint64_t opened_ns;
        bool requested = false;  // its request is complete
    };

    HttpListener(int fd, Options options);
    static bufferevent* on_connection(event_base* base, void* listener);
    static void on_request(evhttp_request* request, void* listener);
    static void on_accept_error(evconnlistener* accepting, void*);
    void ask(evhttp_request* request);
    bufferevent* new_stream(event_base* base) const;
    bool lacks_tls(evhttp_request* request) const;
    std::optional<HttpAnswer> refusal_of(evhttp_request* request, std::string_view path);
    void tell_unauthorized(evhttp_request* request, bool has_header);
    void sweep();
    void rest();
    void accept_again();
    void end_older_incomplete();
    void release_ended();
    static void send(evhttp_request* request, const HttpAnswer& answer) noexcept;
    static void add_headers(evhttp_request* request, const HttpAnswer& answer);
    static void starve(evhttp_request* request) noexcept;

    int fd_;  // -1: owned by evhttp
    uint16_t port_ = 0;
    bool ipv6_ = false;
    const Options options_;
    std::atomic<uint64_t> unauthorized_{0};
    LimitedLines unauthorized_lines_;
    Handler handler_;
    std::unique_ptr<event_base, FreeBase> base_;
    evhttp* http_ = nullptr;
    evconnlistener* accepting_ = nullptr;  // owned by http_
    event sweep_event_{}, wake_event_{}, accept_event_{};
    int wake_fd_ = -1;
    uint32_t accepted_in_turn_ = 0;
    std::vector<Connection> connections_;  // in the order of opening; connections_max reserved
    std::list<std::shared_ptr<Asked>> asked_;
    std::thread thread_;
};

}  // namespace farcached::process
