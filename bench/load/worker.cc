// SPDX-License-Identifier: BSD-3-Clause
#include "bench/load/worker.h"

#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "base/check.h"
#include "bench/command.h"

namespace farcached::bench {

namespace {

constexpr int events_max = 128;
constexpr int wait_ms = 50;  // longest delay of a stop request
// Before a request is due, the worker polls this long without sleeping: wakeups are imprecise, and the unit of
// epoll_wait() is a millisecond.
constexpr uint64_t awake_ns = 1'200'000;
constexpr uint32_t preload_pipeline = 32;

}  // namespace

uint64_t now_ns() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return uint64_t(t.tv_sec) * UINT64_C(1'000'000'000) + uint64_t(t.tv_nsec);
}

Plan::Plan(const LoadOptions& load_options)
    : options(load_options),
      writer(options.target.wire, options.mix.key_prefix),
      values(options.mix.values, options.mix.verify),
      distribution(options.mix.keys, options.mix.zipf ? options.mix.theta : 0) {}

Worker::Worker(Plan& plan, uint32_t number, uint32_t connections)
    : plan_(plan),
      random_(mix(plan.options.mix.seed) + number),
      sequence_(uint64_t(number) << 48),
      epoll_fd_(epoll_create1(EPOLL_CLOEXEC)),
      keys_(plan.options.shape.multiget),
      once_next_(plan.options.mix.keys + number) {
    if (epoll_fd_ < 0) throw std::runtime_error(std::string("epoll: ") + std::strerror(errno));
    try {
        for (uint32_t i = 0; i < connections; i++) {
            int fd = connect_to(plan.options.target);
            connections_.push_back(std::make_unique<Connection>(fd, plan.options.target.wire,
                                                                plan.writer, plan.values));
            epoll_event event{};
            event.events = EPOLLIN;
            event.data.ptr = connections_.back().get();
            if (epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) != 0)
                throw std::runtime_error(std::string("epoll: ") + std::strerror(errno));
        }
    } catch (...) {
        close(epoll_fd_);
        throw;
    }
}

Worker::~Worker() { close(epoll_fd_); }

void Worker::preload(uint64_t first, uint64_t step) {
    uint64_t next = first;
    uint64_t keys = plan_.options.mix.keys;
    drive([&](Connection& connection) {
        for (uint32_t i = 0; i < preload_pipeline && next < keys; i++, next += step)
            connection.batch.add_set(connection.out, next, sequence_++);
    });
}

void Worker::read_all(uint64_t first, uint64_t step, uint32_t times) {
    const uint64_t keys = plan_.options.mix.keys;
    uint64_t next = first;
    if (first >= keys) return;
    drive([&](Connection& connection) {
        for (uint32_t i = 0; i < preload_pipeline && times > 0; i++) {
            connection.batch.add_get(connection.out, std::span(&next, 1));
            next += step;
            if (next < keys) continue;
            next = first;
            times--;
        }
    });
}

void Worker::warm_up(uint64_t requests) {
    drive([&](Connection& connection) {
        for (uint32_t i = 0; i < plan_.options.shape.pipeline && requests > 0; i++, requests--) add_request(connection);
    });
}

void Worker::load(const Window& window) {
    window_ = window;
    const uint32_t pipeline = plan_.options.shape.pipeline;
    uint64_t left = window.requests == 0 ? UINT64_MAX : window.requests;
    drive([&](Connection& connection) {
        uint64_t now = now_ns();
        if (now >= window.to_ns) return;
        uint32_t count = uint32_t(std::min<uint64_t>(pipeline, left));
        if (now >= window.from_ns && left != UINT64_MAX) left -= count;
        for (uint32_t i = 0; i < count; i++) add_request(connection);
    });
}

uint64_t Worker::draw_key() {
    const Mix& mix = plan_.options.mix;
    const uint64_t rank = plan_.distribution.rank(random_);
    if (mix.shift_requests == 0) return plan_.distribution.key_of_rank(rank);
    const uint64_t shifts = drawn_++ / mix.shift_requests % mix.shift_parts;
    return plan_.distribution.key_of_rank((rank + shifts * (mix.keys / mix.shift_parts)) % mix.keys);
}

uint64_t Worker::draw_read_key() {
    const Mix& mix = plan_.options.mix;
    if (mix.once_share == 0 || random_.unit() > mix.once_share) return draw_key();
    const uint64_t key = once_next_;
    once_next_ += plan_.options.shape.threads;
    return key;
}

void Worker::add_request(Connection& connection) {
    const Mix& mix = plan_.options.mix;
    if (mix.delete_share > 0 && random_.unit() <= mix.delete_share)
        return connection.batch.add_remove(connection.out, draw_key());
    if (random_.below(uint64_t(mix.sets) + mix.gets) < mix.sets)
        return connection.batch.add_set(connection.out, draw_key(), sequence_++);
    for (uint64_t& key : keys_) key = draw_read_key();
    connection.batch.add_get(connection.out, keys_);
}

// Stores the missed keys. False: none are missing. In an open loop a refill counts as due now.
bool Worker::refill(Connection& connection) {
    if (!plan_.options.mix.fill_misses || connection.batch.missed().empty() || stopped()) return false;
    const std::vector<uint64_t> missed(connection.batch.missed().begin(), connection.batch.missed().end());
    connection.batch.clear();
    connection.due_ns.clear();
    if (window_.open_loop) connection.due_ns.assign(missed.size(), now_ns());
    for (uint64_t key : missed) connection.batch.add_set(connection.out, key, sequence_++);
    send_batch(connection);
    return true;
}

bool Worker::stopped() const { return plan_.stop.load(std::memory_order_relaxed) || interrupted.load(std::memory_order_relaxed); }

void Worker::load_at_rate(const Window& window, Schedule schedule) {
    window_ = window;
    window_.open_loop = true;
    const uint64_t patience_ns = uint64_t(plan_.options.bounds.stall_s * 1e9);
    uint64_t left = window.requests == 0 ? UINT64_MAX : window.requests;
    uint64_t now = now_ns();
    auto idle = [this](Connection& connection) {
        connection.free_at_ns = now_ns();
        free_.push_back(&connection);
    };
    free_.clear();
    for (auto& connection : connections_) free_.push_back(connection.get());
    while (!stopped() && now < window.to_ns + patience_ns) {
        send_due(schedule, left, now);
        const bool all_sent = left == 0 || schedule.due_ns() >= window.to_ns;
        if (all_sent && active_ == 0) break;
        int timeout_ms = wait_ms;
        if (!all_sent && !free_.empty()) {
            const uint64_t ahead_ns = std::max(schedule.due_ns(), now) - now;
            timeout_ms = ahead_ns <= awake_ns ? 0 : int(std::min<uint64_t>((ahead_ns - awake_ns) / 1'000'000 + 1, wait_ms));
        }
        if (!serve_ready(timeout_ms, idle)) break;
        now = now_ns();
        if (active_ > 0 && now - last_reply_ns_ > patience_ns) break_off("no more replies");
    }
    count_unsent(schedule, left);
}

// left: number of requests that may still be due in the window.
void Worker::send_due(Schedule& schedule, uint64_t& left, uint64_t now) {
    while (left > 0 && !free_.empty() && schedule.due_ns() <= now && schedule.due_ns() < window_.to_ns) {
        Connection& connection = *free_.front();
        connection.batch.clear();
        connection.due_ns.clear();
        while (left > 0 && schedule.due_ns() <= now && schedule.due_ns() < window_.to_ns &&
               connection.batch.size() < plan_.options.shape.pipeline) {
            const uint64_t due_ns = schedule.due_ns();
            if (due_ns >= window_.from_ns) {
                if (left != UINT64_MAX) left--;
                // If the longest idle connection was busy then, all were.
                if (due_ns < connection.free_at_ns) tally_.late++;
                tally_.sent_after_max_ns = std::max(tally_.sent_after_max_ns, now - due_ns);
            }
            connection.due_ns.push_back(due_ns);
            add_request(connection);
            schedule.advance();
        }
        free_.pop_front();
        if (active_ == 0) last_reply_ns_ = now;
        send_batch(connection);
    }
}

void Worker::count_unsent(Schedule& schedule, uint64_t left) {
    for (const auto& connection : connections_)
        for (size_t i = connection->batch.answered(); i < connection->batch.size(); i++)
            if (connection->due_ns[i] >= window_.from_ns) tally_.unsent++;
    const uint64_t end_ns = interrupted ? std::min(now_ns(), window_.to_ns) : window_.to_ns;
    for (; left > 0 && schedule.due_ns() < end_ns; schedule.advance()) {
        if (schedule.due_ns() < window_.from_ns) continue;
        tally_.unsent++;
        if (left != UINT64_MAX) left--;
    }
}

// Runs until no connection has a batch under way. fill(connection) adds the next batch, or none.
template <class Fill>
void Worker::drive(Fill fill) {
    const uint64_t stall_ns = uint64_t(plan_.options.bounds.stall_s * 1e9);
    last_reply_ns_ = now_ns();
    active_ = 0;
    auto idle = [&](Connection& connection) { begin_batch(connection, fill); };
    for (auto& connection : connections_) begin_batch(*connection, fill);
    while (active_ > 0 && !stopped()) {
        const uint64_t before_ns = last_reply_ns_;
        if (!serve_ready(wait_ms, idle)) return;
        if (last_reply_ns_ == before_ns && now_ns() - before_ns > stall_ns)
            return break_off("no more replies");
    }
}

// idle(connection): its batch is complete. False: the run was broken off.
template <class Idle>
bool Worker::serve_ready(int timeout_ms, Idle& idle) {
    epoll_event events[events_max];
    const int n = epoll_wait(epoll_fd_, events, events_max, timeout_ms);
    if (n < 0 && errno != EINTR) {
        break_off(std::strerror(errno));
        return false;
    }
    for (int i = 0; i < n; i++)
        serve(*static_cast<Connection*>(events[i].data.ptr), events[i].events, idle);
    return true;
}

template <class Fill>
void Worker::begin_batch(Connection& connection, Fill& fill) {
    connection.batch.clear();
    fill(connection);
    if (connection.batch.size() == 0) return;
    send_batch(connection);
}

void Worker::send_batch(Connection& connection) {
    active_++;
    connection.sent_at_ns = now_ns();
    flush(connection);
}

template <class Idle>
void Worker::serve(Connection& connection, uint32_t events, Idle& idle) {
    if ((events & EPOLLOUT) != 0) flush(connection);
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) == 0) return;
    switch (connection.receive()) {
        case Connection::Io::blocked:
            return;
        case Connection::Io::closed:
            return break_off("the server closed a connection");
        case Connection::Io::good:
            break;
    }
    if (connection.batch.done()) return break_off("the server sent more than was requested");
    take_replies(connection);
    if (!connection.batch.done()) return;
    if (!connection.input().empty()) return break_off("the server sent more than was requested");
    active_--;
    if (!refill(connection)) idle(connection);
}

void Worker::take_replies(Connection& connection) {
    uint64_t at_ns = now_ns();
    last_reply_ns_ = at_ns;
    while (!connection.batch.done()) {
        Batch::Step step = connection.batch.step(connection.input(), tally_.failures);
        if (step.broken) return plan_.stop.store(true);
        if (step.wanted > 0) return connection.expect(step.wanted);
        connection.consumed(step.bytes);
        if (step.answered) count(step.answer, connection.since_ns(), at_ns);
    }
}

void Worker::count(const Answered& answer, uint64_t since_ns, uint64_t at_ns) {
    operations.add(1);
    const bool reading = reads(answer.kind);
    if (reading) {
        keys_read.add(answer.keys);
        hits.add(answer.hits);
    }
    if (since_ns < window_.from_ns) return;
    if (at_ns > window_.to_ns && !window_.open_loop) return;
    (reading ? tally_.gets : answer.kind == RequestKind::set ? tally_.sets : tally_.deletes).add(at_ns - since_ns);
    if (reading) {
        tally_.keys_read += answer.keys;
        tally_.hits += answer.hits;
    }
    tally_.last_reply_ns = at_ns;
}

void Worker::flush(Connection& connection) {
    Connection::Io io = connection.flush();
    if (io == Connection::Io::closed) return break_off("the server closed a connection");
    bool waits = io == Connection::Io::blocked;
    if (waits == connection.waits_to_write) return;
    connection.waits_to_write = waits;
    epoll_event event{};
    event.events = waits ? EPOLLIN | EPOLLOUT : EPOLLIN;
    event.data.ptr = &connection;
    CHECK(epoll_ctl(epoll_fd_, EPOLL_CTL_MOD, connection.fd(), &event) == 0);
}

void Worker::break_off(std::string_view why) {
    tally_.failures.note(&Failures::broken, why, {});
    plan_.stop.store(true);
}

}  // namespace farcached::bench
