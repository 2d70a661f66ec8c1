// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/farnode/loop.h"

#include <algorithm>
#include <new>
#include <cerrno>
#include <system_error>

#include "base/check.h"
#include "base/prefetch.h"

namespace farcached::node {

struct Loop::Connection {
    Loop& loop;
    // Declared first, so destroyed after the channel, which may call it.
    std::unique_ptr<NodeService> service;
    std::unique_ptr<fabric::Channel> channel;
    event readable{}, writable{}, due{};
    bool awaits_room = false;  // `writable` is registered
    bool wants_turn = false;   // in wanting_
    bool introduced = false;   // its proxy was logged
    bool looks = false;        // in looking_
    Connections::iterator self{};
};

namespace {

constexpr int look_rounds = 16;  // if no connection wants another step

timeval timeval_of(uint32_t ms) { return {time_t(ms / 1000), suseconds_t(ms % 1000 * 1000)}; }

void say_end(const fabric::Channel& channel, const NodeService& service, process::LimitedLines& lines) {
    const ServiceEnd end = service.end();
    const bool refused = service.close_wanted() && (end == ServiceEnd::authentication || end == ServiceEnd::tls);
    const process::Level level = refused ? process::Level::warning : process::Level::info;
    if (!process::is_said(level) || !service.close_wanted()) return;
    const std::string name = channel.describe() + ": ";
    const std::string& proxy = service.greeting().peer();
    const std::string peer = proxy.empty() ? "without a greeting" : "proxy " + proxy;
    std::string why = service.end_text();
    if (why.starts_with(name)) why.erase(0, name.size());  // the prefix of the channel's own message
    lines.say(level, name + peer + ": " + why, {{"end", service_end_name(service.end())}});
}

}  // namespace

EventBase make_event_base() {
    EventBase base(event_base_new());
    if (base == nullptr) throw std::system_error(errno, std::generic_category(), "event_base_new");
    return base;
}

Loop::Loop(ServiceShared& shared) : shared_(shared), base_(make_event_base()) {
    active_.reserve(2);
    event_assign(&wake_event_, base_.get(), inbox_.fd(), EV_READ | EV_PERSIST, on_wake, this);
    event_add(&wake_event_, nullptr);
    event_assign(&deadline_event_, base_.get(), -1, 0, on_deadline, this);
    if (!shared.node.config().has_tiers()) return;
    away_ = std::make_unique<AwayValues>(shared.node);
    event_assign(&away_event_, base_.get(), away_->fd(), EV_READ | EV_PERSIST, on_away, this);
    event_add(&away_event_, nullptr);
}

Loop::~Loop() {
    CHECK(!thread_.joinable());
    while (!connections_.empty()) remove(connections_.front());
    if (away_ != nullptr) event_del(&away_event_);
    base_.reset();
    (void)inbox_.take();  // services that came too late use away_
}

void Loop::start() { thread_ = std::thread(&Loop::run, this); }

void Loop::join() {
    if (thread_.joinable()) thread_.join();
}

// ---- the thread ---------------------------------------------------------------------------------------

void Loop::run() {
    const Recorder::Running running(recorder_);
    bool busy = false;
    for (;;) {
        if (stopping_ && (connections_.empty() || given_up_)) break;
        active_.clear();
        event_base_loop(base_.get(), busy ? EVLOOP_ONCE | EVLOOP_NONBLOCK : EVLOOP_ONCE);
        go_on();
        busy = linger();
    }
    inbox_.shut();
}

void Loop::on_wake(evutil_socket_t, short, void* argument) {
    Loop& loop = *static_cast<Loop*>(argument);
    LoopInbox::Orders orders = loop.inbox_.take();
    for (Arrival& arrival : orders.arriving) loop.open(std::move(arrival));
    if (orders.stop) loop.begin_stop(orders.stop->why, orders.stop->patience_ms);
    loop.end_ousted();
    loop.end_revoked();
}

void Loop::on_away(evutil_socket_t, short, void* argument) {
    Loop& loop = *static_cast<Loop*>(argument);
    loop.away_->ready(loop.shared_.clock().seconds);
    for (auto at = loop.connections_.begin(); at != loop.connections_.end();) {
        Connection& connection = *at++;
        if (connection.service->take_late_replies()) loop.turn(connection);
    }
}

void Loop::on_ready(evutil_socket_t, short, void* argument) {
    Connection& connection = *static_cast<Connection*>(argument);
    connection.loop.turn(connection);
}

// Closes the connection if memory is short.
void Loop::open(Arrival arrival) {
    try {
        const size_t count = connections_.size();
        for (std::vector<Connection*>* list : {&wanting_, &going_on_, &looking_})
            if (list->capacity() <= count) list->reserve(std::max<size_t>(16, 2 * count));
        begin(std::move(arrival));
    } catch (const std::bad_alloc&) {
        counters_.ends[size_t(ServiceEnd::no_memory)].add(1);
        say_no_memory();
        return;
    }
    turn(connections_.back());
}

// Appends to connections_. Throws std::bad_alloc without adding it.
void Loop::begin(Arrival arrival) {
    Connections made;  // one element
    made.push_back({*this, std::move(arrival.service), std::move(arrival.channel)});
    Connection& connection = made.back();
    connection.self = made.begin();
    connection.service->record_in(recorder_);
    connection.service->attach(*connection.channel, arrival.access);
    connections_.splice(connections_.end(), made);
    const int fd = connection.channel->fd();
    recorder_.note("opened connection", fd);
    event_assign(&connection.readable, base_.get(), fd, EV_READ | EV_PERSIST, on_ready, &connection);
    event_assign(&connection.writable, base_.get(), fd, EV_WRITE | EV_PERSIST, on_ready, &connection);
    event_add(&connection.readable, nullptr);
    evtimer_assign(&connection.due, base_.get(), on_due, &connection);
    const timeval greeting = timeval_of(shared_.limits.greeting_ms);
    event_add(&connection.due, &greeting);
}

void Loop::say_no_memory() noexcept {
    try {
        no_memory_lines_.say(process::Level::warning,
                             "no memory for a connection; closing it; lower the memory limit, or raise the "
                             "memory limit of the process");
    } catch (const std::bad_alloc&) {
        (void)0;  // the counter shows it
    }
}

// Runs one step of a connection; a failed allocation ends the connection.
template <class Do>
void Loop::with_memory(Connection& connection, Do&& body) noexcept {
    try {
        body();
    } catch (const std::bad_alloc&) {
        connection.service->starve();
        say_no_memory();
    }
}

// The greeting deadline; later calls check for silence.
void Loop::on_due(evutil_socket_t, short, void* argument) {
    Connection& connection = *static_cast<Connection*>(argument);
    uint32_t again_ms = 0;
    connection.loop.with_memory(connection, [&] {
        connection.service->greeting_is_due();
        again_ms = connection.service->silence_is_due();
    });
    if (again_ms != 0) {
        const timeval again = timeval_of(again_ms);
        event_add(&connection.due, &again);
    }
    connection.loop.settle(connection);
}

void Loop::end_ousted() {
    if (!inbox_.take_ousted()) return;
    for (auto at = connections_.begin(); at != connections_.end();) {
        Connection& connection = *at++;
        if (connection.service->is_ousted()) turn(connection);
    }
}

// A proof is checked by the ring's present keys, so after this loop no connection has a removed one.
void Loop::end_revoked() {
    if (!inbox_.take_keys_changed()) return;
    for (auto at = connections_.begin(); at != connections_.end();) {
        Connection& connection = *at++;
        with_memory(connection, [&] { connection.service->check_key(); });
        settle(connection);
    }
}

void Loop::turn(Connection& connection) {
    const std::string& peer = connection.service->greeting().peer();
    const int fd = connection.channel->fd();
    recorder_.note("turn of connection", fd);
    recorder_.take(fd, peer.empty() ? "a proxy that has not greeted" : std::string_view(peer), {});
    with_memory(connection, [&] { connection.service->turn(); });
    recorder_.put_down();
    if (active_.size() < 2 && std::find(active_.begin(), active_.end(), &connection) == active_.end())
        active_.push_back(&connection);
    settle(connection);
}

void Loop::introduce(Connection& connection) {
    const Greeting& proxy = connection.service->greeting();
    connection.introduced = true;
    const std::string by = proxy.key() == nullptr ? "" : ", by its " + proxy.key()->describe();
    if (process::is_said(process::Level::info))
        arrivals_.say(process::Level::info, connection.channel->describe() + ": proxy " + proxy.peer() + by);
    if (!proxy.two_sided() || older_told_ == proxy.peer()) return;
    older_told_ = proxy.peer();
    older_.say(process::Level::notice, connection.channel->describe() + ": proxy " + proxy.peer() +
                                           " is of an older version (it speaks protocol version " +
                                           std::to_string(proxy.version()) + ", this farnode " +
                                           std::to_string(protocol::protocol_version) +
                                           "): every GET is an RPC until its farcached is updated");
}

// Called after any change of the connection. May remove it.
void Loop::settle(Connection& connection) {
    const NodeService& service = *connection.service;
    const bool known = !service.greeting().peer().empty() && !service.is_proving();
    if (!connection.introduced && known) with_memory(connection, [&] { introduce(connection); });
    if (service.close_wanted()) return remove(connection);
    const bool awaits_room = connection.channel->wants_write();
    if (awaits_room != connection.awaits_room) {
        connection.awaits_room = awaits_room;
        if (awaits_room)
            event_add(&connection.writable, nullptr);
        else
            event_del(&connection.writable);
    }
    if (!connection.looks && connection.channel->looks()) {
        connection.looks = true;
        looking_.push_back(&connection);
    }
    if (!service.turn_wanted() || connection.wants_turn) return;
    connection.wants_turn = true;
    wanting_.push_back(&connection);
}

void Loop::remove(Connection& connection) {
    with_memory(connection, [&] { say_end(*connection.channel, *connection.service, ends_[size_t(connection.service->end())]); });
    recorder_.note("ended connection", connection.channel->fd());
    event_del(&connection.readable);
    event_del(&connection.writable);
    event_del(&connection.due);
    std::erase(wanting_, &connection);
    std::erase(active_, &connection);
    std::erase(looking_, &connection);
    connections_.erase(connection.self);
}

// Runs the connections that wanted another step, after all others had theirs.
void Loop::go_on() {
    going_on_.clear();
    going_on_.swap(wanting_);
    for (Connection* connection : going_on_) connection->wants_turn = false;
    for (Connection* connection : going_on_) turn(*connection);
}

// True: do not sleep.
bool Loop::linger() {
    const bool wanted = !wanting_.empty();
    if (!looking_.empty()) return look(wanted ? 1 : look_rounds) || wanted;
    if (wanted) return true;
    if (active_.size() != 1) return false;
    Connection& connection = *active_.front();
    if (!connection.channel->linger()) return false;
    turn(connection);
    return true;
}

// Rounds over the connections that look for input, until one has some; the next call goes on behind it. The last look at each
// comes after its time: what arrives later comes with an event.
bool Loop::look(int rounds) {
    for (int round = 0; round < rounds; round++) {
        for (size_t left = looking_.size(); left > 0 && !looking_.empty(); left--) {
            look_next_ %= looking_.size();
            Connection& connection = *looking_[look_next_];
            connection.looks = connection.channel->looks();
            if (connection.looks)
                look_next_++;
            else
                looking_.erase(looking_.begin() + ptrdiff_t(look_next_));
            if (!connection.channel->has_input()) continue;
            turn(connection);
            return true;
        }
        pause_briefly();
    }
    return !looking_.empty();
}

// ---- stopping -------------------------------------------------------------------------------------------

void Loop::begin_stop(protocol::Goodbye why, uint32_t patience_ms) {
    stopping_ = true;
    for (auto at = connections_.begin(); at != connections_.end();) {
        Connection& connection = *at++;
        with_memory(connection, [&] { connection.service->stop(why); });
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
        loop.with_memory(connection, [&] { connection.service->give_up(); });
        loop.remove(connection);
    }
}

}  // namespace farcached::node
