// SPDX-License-Identifier: BSD-3-Clause
#include "node/farnode_loop.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>

#include "base/check.h"

namespace farcached::node {

struct Loop::Connection {
    Loop& loop;
    // The channel goes first: while it lives it may tell the service.
    std::unique_ptr<NodeService> service;
    std::unique_ptr<fabric::Channel> channel;
    event readable{}, writable{}, greeting_due{};
    bool awaits_room = false;  // writable is watched
    bool wants_turn = false;   // it is in wanting_
    bool introduced = false;   // it was said who it is
    Connections::iterator self{};
};

namespace {

timeval timeval_of(uint32_t ms) { return {time_t(ms / 1000), suseconds_t(ms % 1000 * 1000)}; }

void say_end(const fabric::Channel& channel, const NodeService& service, process::LimitedLines& lines) {
    if (!process::is_said(process::Level::info) || !service.close_wanted()) return;
    const std::string name = channel.describe() + ": ";
    const std::string peer = service.peer().empty() ? "who did not greet" : "proxy " + service.peer();
    std::string why = service.end_text();
    if (why.starts_with(name)) why.erase(0, name.size());  // a channel's own sentence
    lines.say(process::Level::info, name + peer + ": " + why, {{"end", service_end_name(service.end())}});
}

}  // namespace

EventBase make_event_base() {
    EventBase base(event_base_new());
    if (base == nullptr) throw std::system_error(errno, std::generic_category(), "event_base_new");
    return base;
}

Loop::Loop(ServiceShared& shared) : shared_(shared), base_(make_event_base()) {
    wake_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (wake_fd_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
    event_assign(&wake_event_, base_.get(), wake_fd_, EV_READ | EV_PERSIST, on_wake, this);
    event_add(&wake_event_, nullptr);
    event_assign(&deadline_event_, base_.get(), -1, 0, on_deadline, this);
}

Loop::~Loop() {
    CHECK(!thread_.joinable());
    while (!connections_.empty()) remove(connections_.front());
    base_.reset();
    close(wake_fd_);
}

void Loop::start() { thread_ = std::thread(&Loop::run, this); }

void Loop::join() {
    if (thread_.joinable()) thread_.join();
}

void Loop::wake() {
    const uint64_t one = 1;
    (void)!write(wake_fd_, &one, sizeof one);
}

void Loop::give(Arrival arrival) {
    {
        std::lock_guard hold(lock_);
        arriving_.push_back(std::move(arrival));
    }
    wake();
}

void Loop::stop(protocol::Goodbye why, uint32_t patience_ms) {
    {
        std::lock_guard hold(lock_);
        order_ = StopOrder{why, patience_ms};
    }
    wake();
}

// ---- the thread ---------------------------------------------------------------------------------------

void Loop::run() {
    const Recorder::Running running(recorder_);
    bool busy = false;
    for (;;) {
        if (stopping_ && (connections_.empty() || given_up_)) return;
        active_.clear();
        event_base_loop(base_.get(), busy ? EVLOOP_ONCE | EVLOOP_NONBLOCK : EVLOOP_ONCE);
        go_on();
        busy = !wanting_.empty() || linger();
    }
}

void Loop::on_wake(evutil_socket_t fd, short, void* argument) {
    uint64_t count = 0;
    (void)!read(fd, &count, sizeof count);
    Loop& loop = *static_cast<Loop*>(argument);
    loop.pulse_.answer();
    loop.take_orders();
}

void Loop::on_ready(evutil_socket_t, short, void* argument) {
    Connection& connection = *static_cast<Connection*>(argument);
    connection.loop.turn(connection);
}

void Loop::take_orders() {
    std::vector<Arrival> arriving;
    std::optional<StopOrder> order;
    {
        std::lock_guard hold(lock_);
        arriving.swap(arriving_);
        order = std::exchange(order_, std::nullopt);
    }
    for (Arrival& arrival : arriving) open(std::move(arrival));
    if (order) begin_stop(order->why, order->patience_ms);
}

void Loop::open(Arrival arrival) {
    connections_.push_back({*this, std::move(arrival.service), std::move(arrival.channel)});
    Connection& connection = connections_.back();
    connection.self = std::prev(connections_.end());
    connection.service->record_in(recorder_);
    connection.service->attach(*connection.channel, arrival.access);
    const int fd = connection.channel->fd();
    recorder_.note("opened connection", fd);
    event_assign(&connection.readable, base_.get(), fd, EV_READ | EV_PERSIST, on_ready, &connection);
    event_assign(&connection.writable, base_.get(), fd, EV_WRITE | EV_PERSIST, on_ready, &connection);
    event_add(&connection.readable, nullptr);
    evtimer_assign(&connection.greeting_due, base_.get(), on_greeting_due, &connection);
    const timeval due = timeval_of(shared_.limits.greeting_ms);
    event_add(&connection.greeting_due, &due);
    turn(connection);
}

void Loop::on_greeting_due(evutil_socket_t, short, void* argument) {
    Connection& connection = *static_cast<Connection*>(argument);
    connection.service->greeting_is_due();
    connection.loop.settle(connection);
}

void Loop::turn(Connection& connection) {
    const std::string& peer = connection.service->peer();
    const int fd = connection.channel->fd();
    recorder_.note("turn of connection", fd);
    recorder_.take(fd, peer.empty() ? "a proxy that has not greeted" : std::string_view(peer), {});
    connection.service->turn();
    recorder_.put_down();
    if (active_.size() < 2 && std::find(active_.begin(), active_.end(), &connection) == active_.end())
        active_.push_back(&connection);
    settle(connection);
}

// After whatever may have changed it. The connection may be gone behind this.
void Loop::settle(Connection& connection) {
    const NodeService& service = *connection.service;
    if (!connection.introduced && !service.peer().empty() && process::is_said(process::Level::info)) {
        connection.introduced = true;
        arrivals_.say(process::Level::info, connection.channel->describe() + ": proxy " + service.peer());
    }
    if (service.close_wanted()) return remove(connection);
    const bool awaits_room = connection.channel->wants_write();
    if (awaits_room != connection.awaits_room) {
        connection.awaits_room = awaits_room;
        if (awaits_room)
            event_add(&connection.writable, nullptr);
        else
            event_del(&connection.writable);
    }
    if (!service.turn_wanted() || connection.wants_turn) return;
    connection.wants_turn = true;
    wanting_.push_back(&connection);
}

void Loop::remove(Connection& connection) {
    say_end(*connection.channel, *connection.service, ends_[size_t(connection.service->end())]);
    recorder_.note("ended connection", connection.channel->fd());
    event_del(&connection.readable);
    event_del(&connection.writable);
    event_del(&connection.greeting_due);
    std::erase(wanting_, &connection);
    std::erase(active_, &connection);
    connections_.erase(connection.self);
}

// Those that wanted another turn when the others had theirs.
void Loop::go_on() {
    std::vector<Connection*> wanting;
    wanting.swap(wanting_);
    for (Connection* connection : wanting) connection->wants_turn = false;
    for (Connection* connection : wanting) turn(*connection);
}

bool Loop::linger() {
    if (active_.size() != 1) return false;
    Connection& connection = *active_.front();
    if (!connection.channel->linger()) return false;
    turn(connection);
    return true;
}

// ---- the end --------------------------------------------------------------------------------------------

void Loop::begin_stop(protocol::Goodbye why, uint32_t patience_ms) {
    stopping_ = true;
    for (auto at = connections_.begin(); at != connections_.end();) {
        Connection& connection = *at++;
        connection.service->stop(why);
        settle(connection);
    }
    const timeval patience = timeval_of(patience_ms);
    event_add(&deadline_event_, &patience);
}

void Loop::on_deadline(evutil_socket_t, short, void* argument) {
    Loop& loop = *static_cast<Loop*>(argument);
    loop.given_up_ = true;
    while (!loop.connections_.empty()) {
        Connection& connection = loop.connections_.front();
        connection.service->give_up();
        loop.remove(connection);
    }
}

}  // namespace farcached::node
