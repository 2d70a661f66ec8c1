// SPDX-License-Identifier: BSD-3-Clause
// Worker: one thread of a load and its connections. Each connection has at most one batch under way
// and gets the next when all of it is answered (a closed loop).
//
// Owner: load.cc; run by one thread at a time.
// K1  run() ends: nothing is begun after its window, and it gives up when no reply comes for
// stall_s, or as
//     soon as any worker has met a broken connection.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/counters.h"
#include "bench/connection.h"
#include "bench/distribution.h"
#include "bench/histogram.h"
#include "bench/options.h"

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

// When the replies count that arrive.
struct Window {
    uint64_t from_ns;
    uint64_t to_ns;
    uint64_t requests;  // of one worker; 0: no bound
};

// What one worker has measured.
struct Tally {
    Histogram sets, gets;    // ns from the write of the batch
    uint64_t keys_read = 0;  // asked for by gets
    uint64_t hits = 0;
    uint64_t last_reply_ns = 0;
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

    const Tally& tally() const { return tally_; }

    // Watched by others while this one runs: since it was made.
    Cell operations, keys_read, hits;

  private:
    template <class Fill>
    void drive(Fill fill);
    template <class Fill>
    void serve(Connection& connection, uint32_t events, Fill& fill);
    template <class Fill>
    void begin_batch(Connection& connection, Fill& fill);
    void take_replies(Connection& connection);
    void count(const Answered& answer, uint64_t sent_at_ns, uint64_t at_ns);
    void flush(Connection& connection);
    void break_off(std::string_view why);

    Plan& plan_;
    Random random_;
    uint64_t sequence_;
    int epoll_fd_;
    std::vector<std::unique_ptr<Connection>> connections_;
    std::vector<uint64_t> keys_;  // of the get being written
    uint32_t active_ = 0;         // connections with a batch under way
    uint64_t last_reply_ns_ = 0;
    Window window_{UINT64_MAX, 0, 0};
    Tally tally_;
};

}  // namespace farcached::bench
