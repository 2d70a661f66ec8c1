// SPDX-License-Identifier: BSD-3-Clause
#include "bench/worker.h"

#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "base/check.h"

namespace farcached::bench {

namespace {

constexpr int events_max = 128;
constexpr int wait_ms = 50;  // how late a worker may notice that it is to stop
constexpr uint32_t preload_pipeline = 32;
constexpr double connect_wait_s = 5;

}  // namespace

uint64_t now_ns() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return uint64_t(t.tv_sec) * UINT64_C(1'000'000'000) + uint64_t(t.tv_nsec);
}

Plan::Plan(const LoadOptions& load_options)
    : options(load_options),
      writer(options.target.wire, options.mix.key_prefix),
      values(options.mix.value_bytes_min, options.mix.value_bytes_max, options.mix.verify),
      distribution(options.mix.keys, options.mix.zipf ? options.mix.theta : 0) {}

Worker::Worker(Plan& plan, uint32_t number, uint32_t connections)
    : plan_(plan),
      random_(mix(plan.options.mix.seed) + number),
      sequence_(uint64_t(number) << 48),
      epoll_fd_(epoll_create1(EPOLL_CLOEXEC)),
      keys_(plan.options.shape.multiget) {
    if (epoll_fd_ < 0) throw std::runtime_error(std::string("epoll: ") + std::strerror(errno));
    try {
        for (uint32_t i = 0; i < connections; i++) {
            int fd = connect_to(plan.options.target, connect_wait_s);
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

void Worker::load(const Window& window) {
    window_ = window;
    const Mix& mix = plan_.options.mix;
    const uint32_t pipeline = plan_.options.shape.pipeline;
    const uint64_t parts = uint64_t(mix.sets) + mix.gets;
    uint64_t left = window.requests == 0 ? UINT64_MAX : window.requests;
    drive([&](Connection& connection) {
        uint64_t now = now_ns();
        if (now >= window.to_ns) return;
        uint32_t count = uint32_t(std::min<uint64_t>(pipeline, left));
        if (now >= window.from_ns && left != UINT64_MAX) left -= count;
        for (uint32_t i = 0; i < count; i++) {
            if (random_.below(parts) < mix.sets) {
                connection.batch.add_set(connection.out, plan_.distribution.key(random_),
                                         sequence_++);
                continue;
            }
            for (uint64_t& key : keys_) key = plan_.distribution.key(random_);
            connection.batch.add_get(connection.out, keys_);
        }
    });
}

// Until no connection has a batch under way. fill(connection) adds the next batch, or nothing.
template <class Fill>
void Worker::drive(Fill fill) {
    const uint64_t stall_ns = uint64_t(plan_.options.bounds.stall_s * 1e9);
    last_reply_ns_ = now_ns();
    active_ = 0;
    for (auto& connection : connections_) begin_batch(*connection, fill);
    epoll_event events[events_max];
    while (active_ > 0 && !plan_.stop.load(std::memory_order_relaxed)) {
        int n = epoll_wait(epoll_fd_, events, events_max, wait_ms);
        if (n < 0 && errno != EINTR) return break_off(std::strerror(errno));
        for (int i = 0; i < n; i++)
            serve(*static_cast<Connection*>(events[i].data.ptr), events[i].events, fill);
        if (n <= 0 && now_ns() - last_reply_ns_ > stall_ns)
            return break_off("no more replies come");
    }
}

template <class Fill>
void Worker::begin_batch(Connection& connection, Fill& fill) {
    connection.batch.clear();
    fill(connection);
    if (connection.batch.size() == 0) return;
    active_++;
    connection.sent_at_ns = now_ns();
    flush(connection);
}

template <class Fill>
void Worker::serve(Connection& connection, uint32_t events, Fill& fill) {
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
    if (connection.batch.done()) return break_off("the server sent more than was asked for");
    take_replies(connection);
    if (!connection.batch.done()) return;
    if (!connection.input().empty()) return break_off("the server sent more than was asked for");
    active_--;
    begin_batch(connection, fill);
}

void Worker::take_replies(Connection& connection) {
    uint64_t at_ns = now_ns();
    last_reply_ns_ = at_ns;
    while (!connection.batch.done()) {
        Batch::Step step = connection.batch.step(connection.input(), tally_.failures);
        if (step.broken) return plan_.stop.store(true);
        if (step.wanted > 0) return connection.expect(step.wanted);
        connection.consumed(step.bytes);
        if (step.answered) count(step.answer, connection.sent_at_ns, at_ns);
    }
}

void Worker::count(const Answered& answer, uint64_t sent_at_ns, uint64_t at_ns) {
    operations.add(1);
    bool reading = answer.asked != Asked::set;
    if (reading) {
        keys_read.add(answer.keys);
        hits.add(answer.hits);
    }
    if (sent_at_ns < window_.from_ns) return;
    if (at_ns > window_.to_ns) return;
    (reading ? tally_.gets : tally_.sets).add(at_ns - sent_at_ns);
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
