// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/farcached/server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <list>
#include <new>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/recorder.h"
#include "daemon/session/listen.h"
#include "daemon/session/ring_io.h"
#include "process/node_time.h"

namespace farcached::daemon {

using process::node_now;
using process::node_started_unix;

namespace {

constexpr int accepts_per_readiness = 64;
constexpr size_t sessions_reserved_max = 1 << 16;  // entries; untouched ones take no memory
constexpr timeval retry_after{0, 10'000};
constexpr std::string_view too_many = "ERROR Too many open connections\r\n";

uint64_t clock_us() {
    auto since = std::chrono::steady_clock::now().time_since_epoch();
    return uint64_t(std::chrono::duration_cast<std::chrono::microseconds>(since).count());
}

std::string_view words_of(ShownState state) {
    switch (state) {
        case ShownState::waiting: return "conn_read";
        case ShownState::parsing: return "conn_parse_cmd";
        case ShownState::receiving_value: return "conn_nread";
        case ShownState::swallowing: return "conn_swallow";
        case ShownState::writing: return "conn_mwrite";
    }
    return "conn_read";
}

std::string peer_of(const Session& session) {
    return session.state.own ? "own" : describe_peer(session.state.fd, session.address);
}

// Waits for several events, for a bounded time.
class Countdown {
  public:
    explicit Countdown(size_t count) : left_(count) {}
    void one_less() {
        std::lock_guard hold(lock_);
        if (--left_ == 0) none_.notify_all();
    }
    bool wait_for_none(std::chrono::seconds patience) {
        std::unique_lock hold(lock_);
        return none_.wait_for(hold, patience, [&] { return left_ == 0; });
    }

  private:
    std::mutex lock_;
    std::condition_variable none_;
    size_t left_;
};

}  // namespace

Server::Server(const ServerOptions& options)
    : options_(options),
      session_memory_(options.session_bytes_max),
      connections_max_(options.connections_max),
      reject_over_limit_(options.reject_over_limit),
      hot_keys_one_in_(options.worker.hot_keys_one_in) {
    (void)node_now();
}

Server::~Server() {
    admin_socket_.reset();
    base_.reset();
    for (auto& listener : listeners_)
        if (listener->fd >= 0) ::close(listener->fd);
    if (wake_fd_ >= 0) ::close(wake_fd_);
}

conf::Refusal Server::listen() {
    if (options_.admin_passed.fd >= 0) {
        admin_socket_ = process::AdminSocket::adopt(options_.admin_passed);
    } else if (!options_.admin_path.empty()) {
        auto made = process::AdminSocket::listen(options_.admin_path);
        if (auto* problem = std::get_if<conf::Problem>(&made)) return *problem;
        admin_socket_ = std::move(std::get<0>(made));
    }
    for (const process::PassedSocket& socket : options_.passed) {
        const Listening one = listen_on_passed(socket);
        if (!socket.is_unix()) ports_.push_back({one.ipv6, one.port});
        add_listener(one, options_.protocol);
    }
    if (!options_.passed.empty()) return {};
    if (!options_.unix_path.empty()) return listen_unix();
    for (const ListenAt& at : options_.tcp)
        if (conf::Refusal refusal = listen_tcp(at)) return refusal;
    return {};
}

conf::Refusal Server::listen_tcp(const ListenAt& at) {
    auto result = listen_on_tcp(at.host, at.port, options_.backlog, options_.interfaces);
    if (auto* problem = std::get_if<conf::Problem>(&result)) return *problem;
    for (Listening& one : std::get<std::vector<Listening>>(result)) {
        ports_.push_back({one.ipv6, one.port});
        add_listener(one, at.protocol);
    }
    return {};
}

conf::Refusal Server::listen_unix() {
    auto result = listen_on_unix(options_.unix_path, options_.unix_mode, options_.backlog);
    if (auto* problem = std::get_if<conf::Problem>(&result)) return *problem;
    unix_socket_ = std::get<Listening>(result);
    add_listener(unix_socket_, options_.protocol);
    return {};
}

void Server::add_listener(const Listening& socket, SessionProtocol protocol) {
    auto listener = std::make_unique<Listener>();
    listener->server = this;
    listener->fd = socket.fd;
    listener->protocol = protocol;
    listener->passed = socket.passed;
    listener->address = socket.address;
    listeners_.push_back(std::move(listener));
}

void Server::start(node::Node* node, Nodes* nodes, const EngineOptions& engine, Admin& admin, WatchHub& watch) {
    watch_ = &watch;
    nodes_ = nodes;
    sessions_.reserve(std::min<size_t>(connections_max_, sessions_reserved_max));
    base_.reset(event_base_new());
    if (base_ == nullptr) throw std::system_error(errno, std::generic_category(), "event_base_new");
    wake_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (wake_fd_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
    event_assign(&wake_event_, base_.get(), wake_fd_, EV_READ | EV_PERSIST, on_wake, this);
    event_add(&wake_event_, nullptr);
    event_assign(&retry_event_, base_.get(), -1, 0, on_retry, this);
    for (auto& listener : listeners_) {
        event_assign(&listener->readiness, base_.get(), listener->fd, EV_READ | EV_PERSIST, on_accept,
                     listener.get());
        event_add(&listener->readiness, nullptr);
    }
    if (admin_socket_ != nullptr) admin_socket_->open(base_.get(), [this](int fd) { enter_operator(fd); });
    WorkerOptions worker_options = options_.worker;
    worker_options.ring = try_ring();
    worker_options.memory = &session_memory_;
    for (uint32_t i = 0; i < options_.threads; i++) {
        worker_options.number = i;
        if (!options_.worker_cpus.empty()) worker_options.cpu = int(options_.worker_cpus[i % options_.worker_cpus.size()]);
        workers_.push_back(
            std::make_unique<Worker>(node, nodes, engine, admin, watch, *this, worker_options));
    }
    const auto refused = std::find_if(workers_.begin(), workers_.end(),
                                      [&](const auto& worker) { return worker_options.ring && !worker->on_ring(); });
    if (refused != workers_.end()) tell_fallback((*refused)->ring_refusal());
    for (auto& worker : workers_) worker->start();
    thread_ = std::thread([this] {
        Recorder recorder("accept");
        const Recorder::Running running(recorder);
        event_base_dispatch(base_.get());
    });
}

// True: each worker gets a ring.
bool Server::try_ring() {
    if (options_.io == SocketBackend::libevent) return false;
    const std::string refusal = daemon::try_ring();
    if (!refusal.empty()) tell_fallback(refusal);
    return refusal.empty();
}

void Server::tell_fallback(std::string_view why) {
    const auto level = options_.io == SocketBackend::automatic ? process::Level::info : process::Level::warning;
    process::say(level, "io=" + std::string(socket_backend_names[size_t(options_.io)]) + ": no io_uring (" + std::string(why) +
                            "): using libevent for client sockets");
}

uint32_t Server::workers_on_ring() const {
    return uint32_t(std::count_if(workers_.begin(), workers_.end(), [](const auto& worker) { return worker->on_ring(); }));
}

// The new options, with all the memory that the change needs.
class Server::Change {
  public:
    LiveOptions options;
    std::shared_ptr<Countdown> waiting;
    std::vector<std::list<Inbox::Change>> of_workers;  // one each
};

void Server::FreeChange::operator()(Change* change) const { delete change; }

Server::OwnedChange Server::make_change(const LiveOptions& options) const {
    OwnedChange change(new Change);
    change->options = options;
    change->waiting = std::make_shared<Countdown>(workers_.size());
    for (size_t i = 0; i < workers_.size(); i++)
        change->of_workers.emplace_back().push_back({options.worker, [waiting = change->waiting] { waiting->one_less(); }});
    return change;
}

bool Server::carry_out(OwnedChange change) noexcept {
    constexpr auto patience = std::chrono::seconds(5);
    connections_max_ = change->options.connections_max;
    reject_over_limit_ = change->options.reject_over_limit;
    hot_keys_one_in_ = change->options.worker.hot_keys_one_in;
    wake();  // the limit may have been raised
    for (size_t i = 0; i < workers_.size(); i++) workers_[i]->inbox().change(std::move(change->of_workers[i]));
    return change->waiting->wait_for_none(patience);
}

void Server::stop() {
    if (!thread_.joinable()) return;
    stopping_ = true;
    wake();
    thread_.join();
    if (admin_socket_ != nullptr) admin_socket_->shut();
    // No more clients connect; `stats conns` shows the descriptors as long as workers run.
    for (auto& listener : listeners_)
        if (!listener->passed) ::shutdown(listener->fd, SHUT_RDWR);  // R4
    for (auto& worker : workers_) worker->inbox().stop();
    for (auto& worker : workers_) worker->join();
    if (unix_socket_.fd >= 0) remove_unix_socket(options_.unix_path, unix_socket_);
}

void Server::wake() {
    uint64_t one = 1;
    (void)!write(wake_fd_, &one, sizeof one);
}

std::vector<process::Watched> Server::watched() {
    std::vector<process::Watched> all;
    all.push_back({"the thread that accepts", &heartbeat_, [this] { wake(); }});
    for (size_t i = 0; i < workers_.size(); i++) {
        Inbox& inbox = workers_[i]->inbox();
        all.push_back({"worker " + std::to_string(i), &inbox.heartbeat(), [&inbox] { inbox.wake(); }});
    }
    return all;
}

void Server::on_wake(evutil_socket_t fd, short, void* argument) {
    Server& server = *static_cast<Server*>(argument);
    uint64_t count = 0;
    (void)!read(fd, &count, sizeof count);
    server.heartbeat_.answer();
    if (server.stopping_)
        event_base_loopbreak(server.base_.get());
    else
        server.resume();
}

void Server::on_retry(evutil_socket_t, short, void* argument) {
    static_cast<Server*>(argument)->resume();
}

void Server::on_accept(evutil_socket_t, short, void* argument) {
    Listener& listener = *static_cast<Listener*>(argument);
    listener.server->accept_some(listener);
}

void Server::accept_some(Listener& listener) {
    for (int i = 0; i < accepts_per_readiness; i++) {
        // The limit may be lower than the number of connections after a reload.
        if (!reject_over_limit_ && connections_.load() >= connections_max_) return suspend(false);
        sockaddr_storage address{};
        socklen_t size = sizeof address;
        int fd = accept4(listener.fd, reinterpret_cast<sockaddr*>(&address), &size,
                         SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
                const int error = errno;
                // accept4() takes a descriptor before it checks for a waiting client.
                pollfd waiting{listener.fd, POLLIN, 0};
                if (poll(&waiting, 1, 0) != 1) return;
                starve(error);
                suspend(true);
            }
            return;
        }
        if (starved_) feed();
        if (!admit(fd)) continue;
        total_.fetch_add(1, std::memory_order_relaxed);
        if (address.ss_family != AF_UNIX) {
            int on = 1;
            (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
            (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
        }
        hand_over(*workers_[next_worker_++ % workers_.size()], {fd, listener.protocol, peer_address(address)});
        if (!reject_over_limit_ && connections_.load() >= connections_max_) {
            suspend(false);
            return;
        }
    }
}

void Server::enter_operator(int fd) {
    hand_over(*workers_[next_worker_++ % workers_.size()], {fd, SessionProtocol::text, {}, /* admin= */ true});
}

void Server::serve_own(int fd) {
    hand_over(*workers_.front(), {fd, SessionProtocol::text, {}, /* admin= */ false, /* own= */ true});
}

// Counts the connection, or rejects it with an error (R1).
bool Server::admit(int fd) {
    if (connections_.fetch_add(1) < connections_max_) return true;
    connections_.fetch_sub(1);
    rejected_.fetch_add(1, std::memory_order_relaxed);
    (void)send(fd, too_many.data(), too_many.size(), MSG_NOSIGNAL);
    ::close(fd);
    return false;
}

// Clients wait in the backlog until a descriptor is free.
void Server::starve(int error) {
    if (std::exchange(starved_, true)) return;
    try {
        starved_lines_.say(process::Level::warning,
                           std::string("accepting clients is suspended: ") + std::strerror(error) +
                               "; raise the limit on open files (LimitNOFILE), or lower conn-limit",
                           {{"clients", std::to_string(clients())}});
    } catch (const std::bad_alloc&) {
        process::lose_line();
    }
}

void Server::feed() {
    starved_ = false;
    starved_lines_.say(process::Level::notice, "accepting clients again");
}

void Server::suspend(bool for_a_moment) {
    if (accepting_.exchange(false)) {
        disabled_num_.fetch_add(1, std::memory_order_relaxed);
        disabled_since_us_ = clock_us();
        for (auto& listener : listeners_) event_del(&listener->readiness);
    }
    if (for_a_moment) {
        event_add(&retry_event_, &retry_after);
        return;
    }
    resume();  // a connection may have ended since
}

// Does nothing at the limit: the next end of a connection calls again.
void Server::resume() {
    if (!reject_over_limit_ && connections_.load() >= connections_max_) return;
    if (accepting_.exchange(true)) return;
    disabled_us_.fetch_add(clock_us() - disabled_since_us_, std::memory_order_relaxed);
    for (auto& listener : listeners_) event_add(&listener->readiness, nullptr);
}

void Server::opened(Session& session) {
    {
        std::lock_guard hold(lock_);
        session.place = uint32_t(sessions_.size());
        sessions_.push_back(&session);
    }
    if (!watch_->wants(watch_connevents)) return;
    tell_watchers([&] {
        return "type=conn_new" + watch_words(peer_of(session)) + " cfd=" + std::to_string(session.state.fd);
    });
}

// Without memory only the watch line is lost.
template <class Line>
void Server::tell_watchers(Line&& line) noexcept {
    try {
        watch_->connection(line());
    } catch (const std::bad_alloc&) {
        (void)0;
    }
}

void Server::closed(Session& session, SessionEnd why) noexcept {
    {
        std::lock_guard hold(lock_);
        CHECK(sessions_[session.place] == &session);
        sessions_.back()->place = session.place;
        sessions_[session.place] = sessions_.back();
        sessions_.pop_back();
    }
    ends_[size_t(why)].fetch_add(1, std::memory_order_relaxed);
    if (why == SessionEnd::became_watcher || !watch_->wants(watch_connevents)) return;
    tell_watchers([&] {
        return "type=conn_close" + watch_words(peer_of(session)) + " reason=" + std::string(session_end_text(why)) +
               " cfd=" + std::to_string(session.state.fd);
    });
}

// The log line needs memory, too: without it only the counter remains.
void Server::not_opened() noexcept {
    ends_[size_t(SessionEnd::no_memory)].fetch_add(1, std::memory_order_relaxed);
    no_memory_lines_.say(process::Level::warning,
                         "no memory for a connection; closing it; lower the memory limit, or raise the "
                         "memory limit of the process");
}

// From any accepting thread. Closes the descriptor if there is no memory to hand it over.
void Server::hand_over(Worker& to, NewConnection connection) noexcept {
    const int fd = connection.fd;
    const bool own = connection.own, admin = connection.admin;
    try {
        to.inbox().give(std::move(connection));
    } catch (const std::bad_alloc&) {
        ::close(fd);
        not_opened();
        if (!own) descriptor_closed(admin);
    }
}

void Server::descriptor_closed(bool admin) {
    if (admin) return admin_socket_->left();
    connections_.fetch_sub(1);
    if (!accepting_.load()) wake();
}

NodeSeconds Server::now() const { return node_now(); }
int64_t Server::started_unix() const { return node_started_unix(); }

const WorkerCounters& Server::worker_counters(uint32_t worker) const {
    return workers_[worker]->counters();
}

const proxy::LocalGetCounters* Server::local_counters(uint32_t worker) const {
    return workers_[worker]->local_counters();
}

const LatencyCounters* Server::latency_counters(uint32_t worker) const {
    const Latencies& latencies = workers_[worker]->latencies();
    return latencies.enabled() ? &latencies.counters() : nullptr;
}

void Server::each_slow(FunctionRef<void(const SlowRequest&)> visit) const {
    for (const auto& worker : workers_) worker->latencies().each_slow(visit);
}

ServerNumbers Server::numbers() const {
    ServerNumbers numbers;
    numbers.total_connections = total_.load(std::memory_order_relaxed);
    numbers.rejected_connections = rejected_.load(std::memory_order_relaxed);
    numbers.listen_disabled_num = disabled_num_.load(std::memory_order_relaxed);
    numbers.time_in_listen_disabled_us = disabled_us_.load(std::memory_order_relaxed);
    numbers.curr_connections = connections_.load(std::memory_order_relaxed);
    numbers.connections_max = connections_max_.load(std::memory_order_relaxed);
    numbers.accepting_conns = accepting_.load(std::memory_order_relaxed);
    // Per worker: its loop, its event descriptor; the acceptor's two; standard streams.
    numbers.reserved_fds = workers_.size() * 2 + 2 + 3 + listeners_.size();
    numbers.read_buf_bytes = session_memory_.used();
    numbers.read_buf_bytes_max = session_memory_.limit();
    std::lock_guard hold(lock_);
    numbers.connection_structures = sessions_.size() + listeners_.size();
    for (const Session* session : sessions_) {
        const ShownState state = session->shown.load(std::memory_order_relaxed);
        if (state == ShownState::writing) numbers.response_count++;
        if (state == ShownState::receiving_value) numbers.read_buf_count++;
    }
    return numbers;
}

void Server::each_connection(FunctionRef<void(const ConnectionInfo&)> visit) const {
    for (const auto& listener : listeners_)
        visit({listener->fd, listener->address, "", "conn_listening", node_now()});
    const NodeSeconds at = node_now();
    std::lock_guard hold(lock_);
    for (const Session* session : sessions_) {
        NodeSeconds last = session->last_command.load(std::memory_order_relaxed);
        const ShownState state = session->shown.load(std::memory_order_relaxed);
        const std::string here = session->state.own ? "own" : describe_here(session->state.fd);
        visit({session->state.fd, peer_of(*session), here, words_of(state), at > last ? at - last : 0});
    }
}

void Server::each_close_reason(
    FunctionRef<void(std::string_view name, uint64_t count)> visit) const {
    for (size_t i = 0; i < ends_.size(); i++)
        visit(session_end_name(SessionEnd(i)), ends_[i].load(std::memory_order_relaxed));
}

}  // namespace farcached::daemon
