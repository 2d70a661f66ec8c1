// SPDX-License-Identifier: BSD-3-Clause
// Worker: one thread of a load with its connections. Each connection has at most one batch under way. In a closed loop,
// a connection gets its next batch when the last one is answered. In an open loop, a Schedule determines the due
// requests, from a rate and independent of earlier requests; they go to an idle connection or wait for one.
//
// Owner: load.cc; a worker with its schedule is run by one thread at a time.
// A1  Due times depend neither on the time of a call nor on the answers: a worker that falls behind has more requests
//     due.
// A2  Even arrivals of n workers, the i-th starting i / n of an interval later, equal those of one worker at the whole
//     rate.
// K1  load() ends. No batch begins after its window; in an open loop, no request due later is sent.
//     load() gives up after stall_s without a reply, stall_s after the window, or when any worker has a broken connection.
// K2  In an open loop every request due in the window is counted: by its latency since it was due, or as unsent.
// K3  With fill_misses, the next batch of the same connection stores the keys that a batch of gets missed.
#pragma once

#include <atomic>
#include <cmath>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/counters.h"
#include "bench/data.h"
#include "bench/histogram.h"
#include "bench/load/connection.h"
#include "bench/load/options.h"

namespace farcached::bench {

class Schedule {
  public:
    // rate: of all workers together, per second, above 0. worker: its number among `workers`.
    Schedule(uint64_t start_ns, double rate, Arrivals arrivals, uint32_t worker, uint32_t workers, uint64_t seed)
        : start_ns_(start_ns),
          interval_ns_(1e9 / rate),
          arrivals_(arrivals),
          stride_(workers),
          number_(worker),
          random_(mix(seed) + worker) {
        CHECK(rate > 0);
        CHECK(worker < workers);
        if (arrivals == Arrivals::poisson) wait();
        place();
    }

    // The next due time, CLOCK_MONOTONIC.
    uint64_t due_ns() const { return due_ns_; }
    // Advances to the next due time.
    void advance() {
        number_ += stride_;
        if (arrivals_ == Arrivals::poisson) wait();
        place();
    }

  private:
    void wait() { after_ns_ -= std::log(random_.unit()) * interval_ns_ * double(stride_); }
    void place() {
        // Computed from the start each time, so that rounding errors do not add up.
        const double after = arrivals_ == Arrivals::poisson ? after_ns_ : double(number_) * interval_ns_;
        due_ns_ = start_ns_ + uint64_t(after);
    }

    uint64_t start_ns_;
    double interval_ns_;
    Arrivals arrivals_;
    uint64_t stride_, number_;
    double after_ns_ = 0;  // poisson: since the start
    Random random_;
    uint64_t due_ns_ = 0;
};

uint64_t now_ns();  // CLOCK_MONOTONIC

// Shared by all workers of a load; outlives them.
struct Plan {
    explicit Plan(const LoadOptions& load_options);

    const LoadOptions& options;
    RequestWriter writer;
    Values values;
    Distribution distribution;
    std::atomic<bool> stop{false};  // a connection broke, or the user interrupted
};

// The counted replies: those in the window to requests sent in it; in an open loop, those to requests due in it.
struct Window {
    uint64_t from_ns;
    uint64_t to_ns;
    uint64_t requests;  // per worker; 0: no bound
    bool open_loop = false;
};

// The measurements of one worker.
struct Tally {
    Histogram sets, gets, deletes;  // ns from the write of the batch; in an open loop, from the due time
    uint64_t keys_read = 0;  // requested by gets
    uint64_t hits = 0;
    uint64_t last_reply_ns = 0;
    uint64_t late = 0;               // open loop: due requests that found no idle connection
    uint64_t sent_after_max_ns = 0;  // largest delay from due to sent, of any cause
    uint64_t unsent = 0;             // due in the window, and not sent or not answered
    Failures failures;  // at any time, measured or not
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
    // Reads these keys, `times` times.
    void read_all(uint64_t first, uint64_t step, uint32_t times);
    // Sends that many requests of the load, uncounted.
    void warm_up(uint64_t requests);
    void load(const Window& window);
    // Sends the requests of `schedule`, which no other worker uses.
    void load_at_rate(const Window& window, Schedule schedule);

    const Tally& tally() const { return tally_; }

    // Counts since construction; other threads may read them.
    Counter operations, keys_read, hits;

  private:
    template <class Fill>
    void drive(Fill fill);
    template <class Idle>
    void serve(Connection& connection, uint32_t events, Idle& idle);
    template <class Fill>
    void begin_batch(Connection& connection, Fill& fill);
    void send_batch(Connection& connection);
    void add_request(Connection& connection);
    uint64_t draw_key();
    uint64_t draw_read_key();
    bool refill(Connection& connection);
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
    uint64_t drawn_ = 0;          // keys, for shift_requests
    uint64_t once_next_;          // the next key that is requested once
    uint32_t active_ = 0;         // connections with a batch under way
    std::deque<Connection*> free_;  // open loop: idle connections, longest idle first
    uint64_t last_reply_ns_ = 0;
    Window window_{UINT64_MAX, 0, 0};
    Tally tally_;
};

}  // namespace farcached::bench
