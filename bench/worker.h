// SPDX-License-Identifier: BSD-3-Clause
// Worker: one thread of a load and its connections. Each connection has at most one batch under way.
// In a closed loop it gets the next when all of it is answered. In an open loop a Schedule says what is due, which goes to a
// connection that has nothing under way; where there is none, it waits for one.
//
// Owner: load.cc; run by one thread at a time.
// K1  load() ends: nothing is begun after its window (in an open loop: nothing that was due later), and it gives up when no
//     reply comes for stall_s, so long after the window, or as soon as any worker has met a broken connection.
// K2  In an open loop everything that is due in the window is counted: by its latency, since it was due, or as unsent.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/counters.h"
#include "bench/connection.h"
#include "bench/distribution.h"
#include "bench/histogram.h"
#include "bench/options.h"
#include "bench/schedule.h"

namespace farcached::bench {

uint64_t now_ns();  // CLOCK_MONOTONIC

// What all workers of a load share; outlives them.
struct Plan {
    explicit Plan(const LoadOptions& load_options);

    const LoadOptions& options;
    RequestWriter writer;
    Values values;
    Distribution distribution;
    std::atomic<bool> stop{false};  // a connection broke, or the user wants no more
};

// What counts: replies that arrive in it to requests sent in it; in an open loop, replies to what was due in it.
struct Window {
    uint64_t from_ns;
    uint64_t to_ns;
    uint64_t requests;  // of one worker; 0: no bound
    bool open_loop = false;
};

// What one worker has measured.
struct Tally {
    Histogram sets, gets;    // ns from the write of the batch; in an open loop since it was due
    uint64_t keys_read = 0;  // asked for by gets
    uint64_t hits = 0;
    uint64_t last_reply_ns = 0;
    uint64_t late = 0;               // open loop: found no connection without a batch under way
    uint64_t sent_after_max_ns = 0;  // since it was due, for whatever reason
    uint64_t unsent = 0;             // was due in the window and not sent, or not answered
    Failures failures;  // of any time, measured or not
};

class Worker {
  public:
    // Connects. Throws std::runtime_error.
    Worker(Plan& plan, uint32_t number, uint32_t connections);
    ~Worker();
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    // Stores the keys first, first + step, ... once.
    void preload(uint64_t first, uint64_t step);
    void load(const Window& window);
    // What `schedule` has, which is this worker's alone.
    void load_at_rate(const Window& window, Schedule schedule);

    const Tally& tally() const { return tally_; }

    // Watched by others while this one runs: since it was made.
    Cell operations, keys_read, hits;

  private:
    template <class Fill>
    void drive(Fill fill);
    template <class Idle>
    void serve(Connection& connection, uint32_t events, Idle& idle);
    template <class Fill>
    void begin_batch(Connection& connection, Fill& fill);
    void send_batch(Connection& connection);
    void add_request(Connection& connection);
    template <class Idle>
    bool serve_ready(int timeout_ms, Idle& idle);
    void send_due(Schedule& schedule, uint64_t& left, uint64_t now);
    void count_unsent(Schedule& schedule, uint64_t left);
    bool stopped() const;
    void take_replies(Connection& connection);
    void count(const Answered& answer, uint64_t since_ns, uint64_t at_ns);
    void flush(Connection& connection);
    void break_off(std::string_view why);

    Plan& plan_;
    Random random_;
    uint64_t sequence_;
    int epoll_fd_;
    std::vector<std::unique_ptr<Connection>> connections_;
    std::vector<uint64_t> keys_;  // of the get being written
    uint32_t active_ = 0;         // connections with a batch under way
    std::deque<Connection*> free_;  // open loop: those without one, longest first
    uint64_t last_reply_ns_ = 0;
    Window window_{UINT64_MAX, 0, 0};
    Tally tally_;
};

}  // namespace farcached::bench
