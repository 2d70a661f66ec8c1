// SPDX-License-Identifier: BSD-3-Clause
// Acceptor: the listening sockets, the operator's socket, and the thread that accepts clients from them. Also the text form of
// clients' addresses, for stats and watch lines.
//
// Owner: the Server. Any thread may call left(), limit(), the readers of counters and the function of watched().
// R1  At most connections_max clients at a time. A further one gets an error and is closed, or, without reject_over_limit,
//     waits in the backlog until another leaves.
// R2  The operator's connections (admin_path) do not count towards the limit, and are accepted above it.
// R4  Sockets passed by the service manager stay open: clients that connect while this server stops wait for the next one.
// R5  While accepting_ is false no listener is awaited: a connection's end, a higher limit or retry_event_ resumes.
#pragma once

#include <event2/event.h>
#include <event2/event_struct.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/function_ref.h"
#include "base/peer_address.h"
#include "conf/program.h"
#include "daemon/session/session.h"
#include "daemon/stats/server_view.h"
#include "process/admin_socket.h"
#include "process/log.h"
#include "process/process.h"
#include "process/service_manager.h"
#include "process/supervisor.h"

namespace farcached::daemon {

struct ListenAt {
    std::string host;      // empty: all interfaces, IPv4 and IPv6
    uint16_t port = 0;     // 0: chosen by the kernel
    SessionProtocol protocol = SessionProtocol::any;
    TlsMode tls = TlsMode::plain;
};

struct AcceptOptions {
    std::vector<ListenAt> tcp;
    std::string unix_path;          // not empty: instead of tcp
    uint32_t unix_mode = 0700;
    process::Identity identity;     // the owner of the Unix sockets
    std::string admin_path;         // the operator's Unix socket; empty: none
    std::vector<process::PassedSocket> passed;  // not empty: instead of tcp and unix_path
    process::PassedSocket admin_passed;         // with a descriptor: instead of admin_path
    std::string interfaces;         // the argument of -l, for error messages
    int backlog = 1024;
    SessionProtocol protocol = SessionProtocol::any;
    TlsMode tls = TlsMode::plain;   // of passed TCP sockets
    uint32_t connections_max = 1024;
    bool reject_over_limit = true;
};

class Acceptor {
  public:
    // In the thread; takes ownership of the descriptor.
    using Give = std::function<void(NewConnection)>;

    // options outlive this.
    explicit Acceptor(const AcceptOptions& options)
        : options_(options), connections_max_(options.connections_max), reject_over_limit_(options.reject_over_limit) {}
    ~Acceptor();

    // Binds and listens. Error text and status are memcached's.
    conf::Refusal listen();
    const std::vector<process::BoundPort>& ports() const { return ports_; }
    // Throws std::system_error if the thread cannot start.
    void start(Give give);
    // No more clients connect; each_listener() still has the descriptors. False: not started.
    bool stop();
    // Last of all.
    void remove_unix_socket();

    void limit(uint32_t connections_max, bool reject_over_limit) {
        connections_max_ = connections_max;
        reject_over_limit_ = reject_over_limit;
        waker_->wake();  // the limit may have been raised
    }
    // A connection that was given has ended.
    void left(bool admin);
    process::Watched watched() { return waker_->watched("the thread that accepts"); }
    uint64_t clients() const { return connections_.load(std::memory_order_relaxed); }
    void add_to(ServerNumbers& numbers) const;
    void each_listener(FunctionRef<void(const ConnectionInfo&)> visit) const;

  private:
    struct Listener {
        Acceptor* acceptor = nullptr;
        int fd = -1;
        SessionProtocol protocol = SessionProtocol::any;
        TlsMode tls = TlsMode::plain;
        bool passed = false;             // by the service manager, which owns it
        uint64_t device = 0, inode = 0;  // of a Unix socket that is not passed
        std::string address;
        event readiness{};
    };
    struct FreeBase {
        void operator()(event_base* base) const { event_base_free(base); }
    };

    static void on_accept(evutil_socket_t, short, void* listener);
    static void on_wake(evutil_socket_t, short, void* acceptor);
    static void on_retry(evutil_socket_t, short, void* acceptor);

    conf::Refusal listen_tcp(const ListenAt& at);
    conf::Refusal listen_unix();
    Listener& add_listener(int fd, SessionProtocol protocol, TlsMode tls);
    void accept_some(Listener& listener);
    bool at_limit() const { return !reject_over_limit_ && connections_.load() >= connections_max_; }
    bool admit(int fd);
    void starve(int error);
    void feed();
    void suspend(bool for_a_moment);
    void resume();

    const AcceptOptions& options_;
    Give give_;
    std::vector<process::BoundPort> ports_;
    std::vector<std::unique_ptr<Listener>> listeners_;
    std::unique_ptr<process::AdminSocket> admin_socket_;
    std::unique_ptr<event_base, FreeBase> base_;
    event wake_event_{}, retry_event_{};
    std::optional<process::LoopWaker> waker_;  // from start() on
    std::thread thread_;
    std::atomic<bool> stopping_{false};

    std::atomic<uint32_t> connections_max_;
    std::atomic<bool> reject_over_limit_;
    std::atomic<uint64_t> connections_{0}, total_{0}, rejected_{0};
    std::atomic<uint64_t> disabled_num_{0}, disabled_us_{0};
    std::atomic<bool> accepting_{true};
    uint64_t disabled_since_us_ = 0;
    bool starved_ = false;                 // no descriptor for the last connection
    process::LimitedLines starved_lines_;  // of the beginning and end of that
};

// A connection's remote and local end: "tcp:127.0.0.1:40950", "tcp6:[::1]:40950". Of a Unix socket both are the path of the
// listener: "unix:/path".
std::string describe_peer(int fd, const PeerAddress& peer);
std::string describe_here(int fd);
// " rip=127.0.0.1 rport=40950 transport=tcp" of a described address.
std::string watch_words(const std::string& described);

}  // namespace farcached::daemon
