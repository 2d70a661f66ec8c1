// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/farnode/server.h"

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/node_clock.h"
#include "base/recorder.h"
#include "conf/program.h"
#include "fabric/socket.h"
#include "node/store/away_items.h"
#include "process/process.h"
#include "process/socket_holder.h"

namespace farcached::node {

namespace {

constexpr timeval flush_tick{0, 20'000};  // maximum delay of a scheduled flush without requests
constexpr int accepts_per_readiness = 64;
constexpr uint32_t leaving_max = 256;  // ousted connections that have not ended yet; above this, accepting pauses
constexpr timeval accept_again{0, 5'000};

}  // namespace

FarnodeServer::FarnodeServer(Node& node, NodeStats& stats, const NodeFacts& facts,
                             NodeReading (*clock)(), const Options& options)
    : flushes_(node, [this] { waker_.wake(); }),
      shared_{node, flushes_, stats, facts, clock, options.limits, options.fetches},
      facts_(facts),
      stats_(stats),
      base_(make_event_base()) {
    if (options.needs_right) shared_.right.limit();
    event_assign(&wake_event_, base_.get(), waker_.fd(), EV_READ | EV_PERSIST, on_wake, this);
    event_add(&wake_event_, nullptr);
    event_assign(&flush_event_, base_.get(), -1, EV_PERSIST, on_flush_tick, this);
    event_assign(&accept_again_, base_.get(), -1, 0, on_accept_again, this);
    shared_.budget.change(peer_budget_bytes(node.config().memory_bytes, node.config().item_bytes_max));
    for (uint32_t i = 0; i < options.threads; i++) {
        loops_.push_back(std::make_unique<Loop>(shared_));
        stats.include(loops_.back()->counters());
    }
    stats.include(counters_);
    stats.include(shared_.keys);
    stats.include(shared_.proxies);
    stats.include(shared_.right, shared_.list);
}

FarnodeServer::~FarnodeServer() {
    CHECK(!thread_.joinable());
    admin_.reset();
    base_.reset();
}

void FarnodeServer::add(std::unique_ptr<fabric::ChannelListener> listener,
                        protocol::RegionAccess access) {
    listeners_.push_back({*this, std::move(listener), access});
    Listener& added = listeners_.back();
    event_assign(&added.readable, base_.get(), added.listener->fd(), EV_READ | EV_PERSIST, on_accept,
                 &added);
    event_add(&added.readable, nullptr);
}

void FarnodeServer::add_admin(std::unique_ptr<process::AdminSocket> socket, const process::Reloader& reloader) {
    admin_ = std::make_unique<FarnodeAdmin>(base_.get(), std::move(socket), stats_, reloader, shared_.clock);
}

void FarnodeServer::change(uint32_t greeting_ms, double report_share, uint64_t memory_bytes) {
    shared_.budget.change(peer_budget_bytes(memory_bytes, shared_.node.config().item_bytes_max));
    shared_.limits.greeting_ms = greeting_ms;
    shared_.limits.report_share = report_share;
    shared_.report_quotas.change(report_share_of(shared_.node, report_share));
}

void FarnodeServer::use_keys(std::shared_ptr<const protocol::AuthKeys> keys) {
    shared_.keys.use(std::move(keys));
    for (auto& loop : loops_) loop->inbox().keys_changed();
}

void FarnodeServer::start() {
    for (auto& loop : loops_) loop->start();
    thread_ = std::thread([this] {
        Recorder recorder("accept");
        const Recorder::Running running(recorder);
        event_base_dispatch(base_.get());
    });
}

uint64_t FarnodeServer::connections() const {
    uint64_t opened = 0, over = 0;
    for (const auto& loop : loops_) {
        over += loop->counters().connections_over.get();
        opened += loop->counters().connections_opened.get();
    }
    return opened > over ? opened - over : 0;
}

std::string FarnodeServer::places() const {
    std::string text;
    for (const Listener& one : listeners_) text += (text.empty() ? "" : ", ") + one.listener->describe();
    return text;
}

std::vector<process::Watched> FarnodeServer::watched() {
    std::vector<process::Watched> all;
    all.push_back(waker_.watched("the thread that accepts"));
    for (size_t i = 0; i < loops_.size(); i++) all.push_back(loops_[i]->inbox().watched("loop " + std::to_string(i)));
    return all;
}

void FarnodeServer::end_steps() {
    for (auto& loop : loops_) loop->inbox().pass();
    const uint64_t now_ns = boottime_ns();
    const uint64_t last_ns = shared_.node.away().stop_subleases(now_ns);
    if (last_ns > now_ns) std::this_thread::sleep_for(std::chrono::nanoseconds(last_ns - now_ns));
    shared_.node.away().resume_subleases();
}

void FarnodeServer::stop(protocol::Goodbye why, uint32_t patience_ms) {
    if (!thread_.joinable()) return;
    stopping_ = true;
    waker_.wake();
    thread_.join();
    for (Listener& one : listeners_) event_del(&one.readable);
    listeners_.clear();
    admin_.reset();
    for (auto& loop : loops_) loop->inbox().stop(why, patience_ms);
    for (auto& loop : loops_) loop->join();
}

void FarnodeServer::on_wake(evutil_socket_t, short, void* argument) {
    FarnodeServer& server = *static_cast<FarnodeServer*>(argument);
    server.waker_.take();
    if (server.stopping_)
        event_base_loopbreak(server.base_.get());
    else if (server.flushes_.scheduled() != 0)
        event_add(&server.flush_event_, &flush_tick);
}

void FarnodeServer::on_flush_tick(evutil_socket_t, short, void* argument) {
    FarnodeServer& server = *static_cast<FarnodeServer*>(argument);
    server.flushes_.due(server.shared_.clock().seconds);
    if (server.flushes_.scheduled() == 0) event_del(&server.flush_event_);
}

void FarnodeServer::on_accept(evutil_socket_t, short, void* argument) {
    Listener& listener = *static_cast<Listener*>(argument);
    listener.server.accept_from(listener);
}

void FarnodeServer::tell_turned_away(Listener& by) {
    const uint64_t count = by.listener->turned_away() - by.turned_away;
    by.turned_away += count;
    counters_.connections_turned_away.add(count);
    turned_away_lines_.say(process::Level::warning,
                           by.listener->describe() + ": no descriptor for a connection; closing it; raise the limit on "
                           "open files (LimitNOFILE) or end connections");
}

// Pauses accepting while connections exceed the seats, the door and leaving_max: ousted ones wait for their loops.
bool FarnodeServer::must_wait() {
    if (shared_.seats.present() < uint64_t(facts_.connections_max) + Seats::door_max_default + leaving_max) return false;
    rest();
    return true;
}

void FarnodeServer::rest() {
    for (Listener& one : listeners_) event_del(&one.readable);
    event_add(&accept_again_, &accept_again);
}

void FarnodeServer::on_accept_again(evutil_socket_t, short, void* argument) {
    FarnodeServer& server = *static_cast<FarnodeServer*>(argument);
    if (server.must_wait()) return;
    for (Listener& one : server.listeners_) event_add(&one.readable, nullptr);
}

void FarnodeServer::accept_from(Listener& from) try {
    for (int i = 0; i < accepts_per_readiness; i++) {
        if (must_wait()) return;
        Loop& loop = *loops_[next_loop_ % loops_.size()];
        Arrival arrival{loop.make_service(), nullptr, from.access};
        arrival.channel = from.listener->accept(*arrival.service);
        if (from.listener->turned_away() != from.turned_away) tell_turned_away(from);
        if (arrival.channel == nullptr) return;
        next_loop_++;
        arrival.service->arrive(arrival.channel->source());
        loop.inbox().give(std::move(arrival));
    }
} catch (const std::bad_alloc&) {  // the accepted socket is closed; others wait in the kernel's queue
    counters_.ends[size_t(ServiceEnd::no_memory)].add(1);
    rest();
}

namespace {

using fabric::SocketAddress;

constexpr int backlog = 1024;

Problem problem(const std::string& sentence) { return {conf::exit_system, sentence + "\n"}; }

// The addresses of a host name; "*": all addresses of this host.
Result<std::vector<SocketAddress>> addresses_of(const std::string& option, const std::string& host, uint16_t port) {
    auto found = fabric::look_up(host == "*" ? "" : host, port);
    if (auto* why = std::get_if<std::string>(&found))
        return problem(option + " " + host + ":" + std::to_string(port) + ": the host is not known (" + *why + ")");
    return std::get<std::vector<SocketAddress>>(std::move(found));
}

// Listens on as many addresses as possible, at least one.
template <class Listener, class Listen>
Result<std::vector<std::unique_ptr<Listener>>> listen_at_each(const std::vector<SocketAddress>& addresses, Listen listen) {
    std::vector<std::unique_ptr<Listener>> listeners;
    std::string error;
    for (const SocketAddress& address : addresses) {
        Result<std::unique_ptr<Listener>> listener = listen(address);
        if (auto* made = std::get_if<0>(&listener)) {
            listeners.push_back(std::move(*made));
        } else {
            error = std::get<Problem>(listener).text;
            // Other errors may mean an address family that this host lacks.
            if (error.ends_with(std::strerror(EADDRINUSE)))
                return problem(error + process::holder_words(process::tcp_holder(address.get())));
        }
    }
    if (listeners.empty()) return problem(error);
    return listeners;
}

}  // namespace

Result<TcpListeners> listen_tcp(const conf::NodeSettings& settings, const std::vector<process::PassedSocket>& passed,
                                const fabric::PeerTls* tls) {
    const fabric::TcpOptions options{.tls = tls};
    TcpListeners adopted;
    for (const process::PassedSocket& socket : passed) {
        if (socket.is_unix())
            return problem(process::describe(socket) + " is a Unix socket: proxies connect over TCP, or at the path of --shm, " +
                           "which the node creates itself");
        adopted.push_back(fabric::TcpListener::adopt(fabric::Descriptor(socket.fd), options));
    }
    if (!adopted.empty()) return adopted;
    if (settings.tcp_host.empty()) return TcpListeners();
    auto found = addresses_of("--tcp", settings.tcp_host, settings.tcp_port);
    if (auto* unknown = std::get_if<Problem>(&found)) return *unknown;
    return listen_at_each<fabric::TcpListener>(std::get<0>(found), [&](const SocketAddress& address) {
        return fabric::TcpListener::listen(address, backlog, options);
    });
}

Result<VerbsListeners> listen_verbs(const conf::NodeSettings& settings, const fabric::VerbsOffer& offer,
                                    fabric::VerbsDevices& devices) {
    if (settings.verbs_host.empty()) return VerbsListeners();
    auto found = addresses_of("--verbs", settings.verbs_host, settings.verbs_port);
    if (auto* unknown = std::get_if<Problem>(&found)) return *unknown;
    return listen_at_each<fabric::VerbsListener>(std::get<0>(found), [&](const SocketAddress& address) {
        return fabric::VerbsListener::listen(address, offer, devices, backlog);
    });
}

Result<std::unique_ptr<fabric::ChannelListener>> listen_shm(const conf::NodeSettings& settings, const fabric::Owner& owner,
                                                            const fabric::Region& region, bool authenticates) {
    fabric::ShmOptions options;
    options.withholds = authenticates;
    options.group = settings.shm_group;
    auto listener = fabric::ShmListener::listen(owner, &region, options, backlog);
    if (const auto* no = std::get_if<Problem>(&listener)) return problem(no->text);
    return std::get<0>(std::move(listener));
}

std::vector<process::BoundPort> write_ports(const TcpListeners& tcp, const VerbsListeners& verbs) {
    std::vector<process::BoundPort> ports;
    auto add = [&](const SocketAddress& address, const char* transport) {
        ports.push_back({address.storage.ss_family == AF_INET6, address.port(), transport});
    };
    for (const auto& one : tcp) add(one->address(), "TCP");
    for (const auto& one : verbs) add(one->address(), "VERBS");
    process::write_port_file(std::getenv("FARNODE_PORT_FILENAME"), ports);
    return ports;
}

}  // namespace farcached::node
