// SPDX-License-Identifier: BSD-3-Clause
// HttpListener: a small HTTP server (libevent's evhttp) with a thread of its own, for whoever looks at a daemon: GET and
// HEAD, one request per connection. What there is to see is its handler's business.
//
// H1  Bounds: connections at a time, bytes of a request, and the time from a connection's opening to its end. Over the first,
//     others wait in the kernel's queue; over the second they are refused; when time is up the connection is cut.
// H2  The handler answers each request at most once, at once or later, in the listener's thread; nobody waits for it but that
//     client, and to a client that has gone nothing is sent.
// H3  Nothing is written to a client that it could take for a page of another kind than it is, or run.
// H4  Out of descriptors, accepting rests for a moment; the daemon's own connections are not affected by more than H1 allows.
//
// Owner: main: listen(), start(), stop(), from one thread. All else is the listener's thread's.
#pragma once

#include <event2/event.h>
#include <event2/event_struct.h>

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "conf/exit_status.h"
#include "conf/settings.h"

struct bufferevent;
struct evconnlistener;
struct evhttp;
struct evhttp_request;

namespace farcached::process {

struct HttpRequest {
    std::string path;    // "/metrics"; what follows a question mark is left out
    std::string accept;  // the header, or empty
};

struct HttpAnswer {
    int status = 200;
    std::string_view type = "text/plain; charset=utf-8";
    std::string body;
    std::vector<std::pair<std::string, std::string>> headers;  // beside those that every answer has
};

class HttpListener {
  public:
    static constexpr uint32_t connections_max = 32;
    using Reply = std::function<void(HttpAnswer)>;
    using Handler = std::function<void(const HttpRequest&, Reply)>;

    // host: a name or an address; "*": all of this host's. Port 0: one that the kernel chooses.
    static std::variant<std::unique_ptr<HttpListener>, conf::Problem> listen(const std::string& host, uint16_t port);
    ~HttpListener();  // stops
    HttpListener(const HttpListener&) = delete;
    HttpListener& operator=(const HttpListener&) = delete;

    uint16_t port() const { return port_; }
    bool ipv6() const { return ipv6_; }
    // Of the thread: the handler's own events may be in it. Made by the first call, in the process that stays.
    event_base* base();

    // Throws std::system_error.
    void start(Handler handler);
    // Requests that were not answered are told that the process ends. The handler is not called after it.
    void stop();

  private:
    struct FreeBase {
        void operator()(event_base* base) const { event_base_free(base); }
    };
    struct Asked {
        evhttp_request* request = nullptr;  // nullptr: answered
    };
    // A connection, until evhttp has ended it; the reference held keeps the address from being another's.
    struct Connection {
        bufferevent* stream;
        uint64_t opened_ns;
    };

    explicit HttpListener(int fd);
    static bufferevent* on_connection(event_base* base, void* listener);
    static void on_request(evhttp_request* request, void* listener);
    static void on_accept_error(evconnlistener* accepting, void*);
    static void on_rested(evutil_socket_t, short, void* accepting);
    static void on_sweep(evutil_socket_t, short, void* listener);
    static void on_wake(evutil_socket_t, short, void* listener);
    void ask(evhttp_request* request);
    void sweep();
    void rest();
    static void send(evhttp_request* request, const HttpAnswer& answer);

    int fd_;  // -1: evhttp's
    uint16_t port_ = 0;
    bool ipv6_ = false;
    Handler handler_;
    std::unique_ptr<event_base, FreeBase> base_;
    evhttp* http_ = nullptr;
    evconnlistener* accepting_ = nullptr;  // http_'s
    event sweep_event_{}, wake_event_{};
    int wake_fd_ = -1;
    bool resting_ = false;
    std::list<Connection> connections_;
    std::list<std::shared_ptr<Asked>> asked_;
    std::thread thread_;
};

// The listener of --http, whose port is in $FARCACHED_HTTP_PORT_FILENAME then; nullptr: there is to be none. Exits with why
// it cannot be had.
std::unique_ptr<HttpListener> listen_http(const conf::AdminSettings& settings);

}  // namespace farcached::process
