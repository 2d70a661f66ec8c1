// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/farcached/server.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "base/check.h"

namespace farcached::daemon {

namespace {

constexpr size_t sessions_reserved_max = 1 << 16;  // entries; untouched ones take no memory

// By ShownState.
constexpr std::string_view shown_words[] = {"conn_read", "conn_parse_cmd", "conn_nread", "conn_swallow", "conn_mwrite"};

std::string peer_of(const Session& session) {
    return session.state.own ? "own" : describe_peer(session.state.fd, session.address);
}

}  // namespace

Server::Server(const ServerOptions& options)
    : options_(options),
      acceptor_(options_),
      session_memory_(options.session_bytes_max),
      hot_keys_one_in_(options.worker.hot_keys_one_in) {
    (void)process::node_now();
}

// UDP follows TCP, as in memcached's file of ports.
conf::Refusal Server::listen() {
    if (conf::Refusal refusal = acceptor_.listen()) return refusal;
    ports_ = acceptor_.ports();
    return udp_.bind(options_.udp, ports_);
}

void Server::start(node::Node* node, Nodes* nodes, const EngineOptions& engine, Admin& admin, WatchHub& watch) {
    watch_ = &watch;
    nodes_ = nodes;
    sessions_.reserve(std::min<size_t>(options_.connections_max, sessions_reserved_max));
    WorkerOptions worker_options = options_.worker;
    worker_options.ring = try_ring();
    worker_options.memory = &session_memory_;
    if (nodes != nullptr) {
        room_ = std::make_unique<Mailroom>(options_.threads);
        nodes->wake_with([room = room_.get()] { room->wake_all(); });
    }
    for (uint32_t i = 0; i < options_.threads; i++) {
        worker_options.number = i;
        worker_options.udp = udp_.of_worker(i, options_.threads);
        if (!options_.worker_cpus.empty()) worker_options.cpu = int(options_.worker_cpus[i % options_.worker_cpus.size()]);
        workers_.push_back(
            std::make_unique<Worker>(node, nodes, room_.get(), engine, admin, watch, *this, worker_options));
    }
    const auto refused = std::find_if(workers_.begin(), workers_.end(),
                                      [&](const auto& worker) { return worker_options.ring && !worker->on_ring(); });
    if (refused != workers_.end()) tell_fallback((*refused)->ring_refusal());
    for (auto& worker : workers_) worker->start();
    acceptor_.start([this](NewConnection connection) {
        hand_over(*workers_[next_worker_++ % workers_.size()], std::move(connection));
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

Server::Change Server::make_change(const LiveOptions& options) const {
    Change change{options, std::make_shared<std::counting_semaphore<>>(0), {}};
    for (size_t i = 0; i < workers_.size(); i++)
        change.of_workers.emplace_back().push_back({options.worker, [applied = change.applied] { applied->release(); }});
    return change;
}

bool Server::carry_out(Change&& change) noexcept {
    constexpr auto patience = std::chrono::seconds(5);
    hot_keys_one_in_ = change.options.worker.hot_keys_one_in;
    acceptor_.limit(change.options.connections_max, change.options.reject_over_limit);
    for (size_t i = 0; i < workers_.size(); i++) workers_[i]->inbox().change(std::move(change.of_workers[i]));
    const auto until = std::chrono::steady_clock::now() + patience;
    return std::ranges::all_of(workers_, [&](const auto&) { return change.applied->try_acquire_until(until); });
}

void Server::stop() {
    if (!acceptor_.stop()) return;
    for (auto& worker : workers_) worker->inbox().stop();
    for (auto& worker : workers_) worker->join();
    acceptor_.remove_unix_socket();
}

std::vector<process::Watched> Server::watched() {
    std::vector<process::Watched> all;
    all.push_back(acceptor_.watched());
    for (size_t i = 0; i < workers_.size(); i++) all.push_back(workers_[i]->inbox().watched("worker " + std::to_string(i)));
    return all;
}

void Server::serve_own(int fd) {
    hand_over(*workers_.front(), {fd, SessionProtocol::text, {}, TlsMode::plain, /* admin= */ false, /* own= */ true});
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
    if (why == SessionEnd::tls_failed || why == SessionEnd::tls_timeout) tell_tls_failure(session, why);
    if (why == SessionEnd::became_watcher || !watch_->wants(watch_connevents)) return;
    tell_watchers([&] {
        return "type=conn_close" + watch_words(peer_of(session)) + " reason=" + std::string(session_end_text(why)) +
               " cfd=" + std::to_string(session.state.fd);
    });
}

void Server::tell_tls_failure(const Session& session, SessionEnd why) noexcept {
    if (!process::is_said(process::Level::info)) return;
    try {
        const std::string_view reason = session.tls()->failure();
        const std::string_view shown = reason.empty() ? session_end_texts[size_t(why)].help : reason;
        tls_lines_.say(process::Level::info, "a client's TLS failed: " + std::string(shown), {{"client", peer_of(session)}});
    } catch (const std::bad_alloc&) {
        process::lose_line();
    }
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
        if (!own) acceptor_.left(admin);
    }
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
    acceptor_.add_to(numbers);
    // Per worker: its loop, its wake-up, with nodes that of its desk, with warm_from two connections; standard streams.
    numbers.reserved_fds += workers_.size() * ((nodes_ != nullptr ? 3 : 2) + (options_.worker.warm != nullptr ? 2 : 0)) + 3;
    udp_.add_to(numbers);
    numbers.read_buf_bytes = session_memory_.used();
    numbers.read_buf_bytes_max = session_memory_.limit();
    if (options_.worker.tls != nullptr) numbers.tls = {options_.worker.tls->age_s(), options_.worker.tls->expires_unix()};
    if (nodes_ != nullptr) numbers.peer_certificate_expires = nodes_->channels().peer_certificate_expires();
    std::lock_guard hold(lock_);
    numbers.connection_structures += sessions_.size();
    for (const Session* session : sessions_) {
        const ShownState state = session->shown.load(std::memory_order_relaxed);
        if (state == ShownState::writing) numbers.response_count++;
        if (state == ShownState::receiving_value) numbers.read_buf_count++;
    }
    return numbers;
}

void Server::each_connection(FunctionRef<void(const ConnectionInfo&)> visit) const {
    acceptor_.each_listener(visit);
    const NodeSeconds at = process::node_now();
    udp_.each(at, visit);
    std::lock_guard hold(lock_);
    for (const Session* session : sessions_) {
        NodeSeconds last = session->last_command.load(std::memory_order_relaxed);
        const ShownState state = session->shown.load(std::memory_order_relaxed);
        const std::string here = session->state.own ? "own" : describe_here(session->state.fd);
        visit({session->state.fd, peer_of(*session), here, shown_words[size_t(state)], at > last ? at - last : 0});
    }
}

void Server::each_close_reason(
    FunctionRef<void(std::string_view name, uint64_t count)> visit) const {
    for (size_t i = 0; i < ends_.size(); i++)
        visit(session_end_name(SessionEnd(i)), ends_[i].load(std::memory_order_relaxed));
}

}  // namespace farcached::daemon
