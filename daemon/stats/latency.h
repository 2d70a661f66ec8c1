// SPDX-License-Identifier: BSD-3-Clause
// Latencies: the latencies of a worker's requests, by the way of their answers, and a short list of the slowest.
//
// Requests have no clock readings of their own. A worker reads the clock when a session has received bytes, and at the end of a
// tick with immediate answers. Bytes received between two readings count from the first. Immediate answers count to the second,
// later ones to the reading before their reply is written. So the requests of a batch share one latency: that of the batch.
//
// Owner: one worker's thread; any thread may read the histograms (base/counters.h) and call each_slow().
// Y1  A request is counted at most once: when it was answered. Requests that nodes did not answer are in no histogram.
// Y2  The list of slow requests is short; new ones replace the oldest. Its lock is taken for slow requests, and by readers.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "base/counters.h"
#include "base/function_ref.h"
#include "base/node_clock.h"
#include "base/stat_row.h"
#include "daemon/stats/watch_hub.h"
#include "daemon/stats/worker_counters.h"

namespace farcached::daemon {

// The ways of answers.
//
//        name         help
#define WAYS(X)                                                                                            \
    X(local, "answered in this process: by the embedded node, or from the mapped memory of a node")        \
    X(one_sided, "answered by a one-sided read through a remote pointer")                                  \
    X(index, "answered by one-sided reads of the node's index and the item")                               \
    X(two_sided, "answered by the node, which was asked")                                                  \
    X(disk, "answered in this process, with a value that was read from the disk")

enum class Way : uint8_t {
#define X(name, help) name,
    WAYS(X)
#undef X
        count
};
constexpr std::array<std::string_view, size_t(Way::count)> way_names = {
#define X(name, help) #name,
    WAYS(X)
#undef X
};

// Histograms cover get and set; any request can be slow.
enum class Verb : uint8_t { get, set, other };
constexpr size_t verbs_measured = 2;
constexpr std::array<std::string_view, 3> verb_names = {"get", "set", "other"};

// True: requests of this kind can have this way. A store is never one-sided.
constexpr bool can_be(Way way, Verb verb, bool nodes) {
    if (way == Way::disk) return !nodes && verb == Verb::get;
    if (!nodes) return way == Way::local;
    return verb == Verb::get || way == Way::two_sided;
}

// Counts by powers of two of a microsecond: up to 1, 2, 4, ... about 8 million, and above.
struct LatencyHistogram {
    static constexpr size_t bounds = 24;
    static constexpr uint64_t bound_us(size_t i) { return UINT64_C(1) << i; }
    std::array<Counter, bounds + 1> counts;
    Counter sum_ns;

    void add(uint64_t ns, uint64_t times) {
        const uint64_t us = (ns + 999) / 1000;
        const size_t at = us == 0 ? 0 : size_t(std::bit_width(us - 1));
        counts[at < bounds ? at : bounds].add(times);
        sum_ns.add(ns * times);
    }
};

struct LatencyCounters {
    std::array<std::array<LatencyHistogram, verbs_measured>, size_t(Way::count)> of;
};

struct LatencyTotals {
    struct One {
        std::array<uint64_t, LatencyHistogram::bounds + 1> counts{};
        uint64_t sum_ns = 0;

        uint64_t count() const;
        uint64_t mean_us() const { return count() == 0 ? 0 : sum_ns / 1000 / count(); }
        // Upper bound of a share of the requests, interpolated within a power of two. 0 if there are none.
        uint64_t quantile_us(double share) const;
    };
    std::array<std::array<One, verbs_measured>, size_t(Way::count)> of{};

    void add(const LatencyCounters& counters);
    void subtract(const LatencyTotals& earlier);
    // visit(verb's name, way's name, One) for what requests can have, with nodes or without. Most have no disk.
    template <class Visit>
    void each(bool nodes, Visit visit) const {
        for (size_t way = 0; way < of.size(); way++)
            for (size_t verb = 0; verb < verbs_measured; verb++)
                if (can_be(Way(way), Verb(verb), nodes) && (Way(way) != Way::disk || of[way][verb].count() != 0))
                    visit(verb_names[verb], way_names[way], of[way][verb]);
    }
};

// A slow request. For immediate answers a whole batch, which begins with `what`.
struct SlowRequest {
    uint64_t ended_ns = 0;       // CLOCK_BOOTTIME
    uint64_t took_ns = 0;        // of this, where known:
    uint64_t queue_ns = 0;       // until the node was asked
    uint64_t answer_ns = 0;      // until its answer
    uint64_t reply_ns = 0;       // until the reply was written
    uint32_t requests = 1;
    uint32_t worker = 0;
    Verb verb = Verb::other;
    std::string_view way;        // of way_names, or "none": no answer
    std::string node;            // empty: no node was asked
    int fd = -1;                 // of the client's connection
    std::string what;            // the key; of a batch its beginning

    using Word = StatRow<std::string (*)(const SlowRequest&)>;
    static std::span<const Word> words();
    // "took_us=... queue_us=... answer_us=...", all on one line.
    std::string line() const;
};

struct LatencyOptions {
    bool enabled = true;
    uint64_t slow_ns = 0;  // 0: no list
};

class Latencies {
  public:
    static constexpr size_t slow_kept = 64;  // of a worker

    // counters and watch outlive this. embedded: all gets are answered at once.
    Latencies(const LatencyOptions& options, WorkerCounters& counters, WatchLog& watch, uint32_t worker, bool embedded)
        : enabled_(options.enabled),
          slow_ns_(options.slow_ns),
          counters_(counters),
          watch_(watch),
          worker_(worker),
          embedded_(embedded) {}
    Latencies(const Latencies&) = delete;
    Latencies& operator=(const Latencies&) = delete;

    bool enabled() const { return enabled_; }  // any thread
    bool lists_slow() const { return slow_ns_ != 0; }

    // By the worker, between requests: the options take effect. Counts and the list stay.
    void change(const LatencyOptions& options);

    // A clock reading: bytes were received, or answers are about to be processed.
    void reading(uint64_t now_ns) {
        if (unfinished()) finish(now_ns);
        now_ns_ = now_ns;
    }
    uint64_t now_ns() const { return now_ns_; }
    // End of the tick: reads the clock if there were immediate answers since the last reading.
    void end_tick() {
        if (unfinished()) finish(boottime_ns());
    }
    void at_once(Verb verb) { at_once_[size_t(verb)]++; }
    // Before received requests are executed, if lists_slow(). The first of several that share a reading stands for them.
    void begin_batch(int fd, std::string_view input) {
        if (batch_bytes_ != 0 || input.empty()) return;
        batch_bytes_ = uint32_t(std::min(input.size(), batch_.size()));
        std::memcpy(batch_.data(), input.data(), batch_bytes_);
        batch_fd_ = fd;
        requests_seen_ = counters_.requests.get();
    }

    // A later answer, just before its reply is written. Times of 0 are unknown.
    struct Later {
        Verb verb;
        Way way;
        bool available;
        uint64_t received_ns, asked_ns, answered_ns;
    };
    bool is_slow(const Later& later) const {
        return lists_slow() && later.received_ns != 0 && now_ns_ - later.received_ns >= slow_ns_;
    }
    void answered(const Later& later) {
        if (!later.available || later.verb == Verb::other || later.received_ns == 0) return;
        counters_of(later.way, later.verb).add(now_ns_ - later.received_ns, 1);
    }
    void keep_slow(const Later& later, int fd, std::string_view node, std::string_view key);

    const LatencyCounters& counters() const { return latency_; }
    // Any thread. The latest comes last.
    void each_slow(FunctionRef<void(const SlowRequest&)> visit) const;

  private:
    LatencyHistogram& counters_of(Way way, Verb verb) { return latency_.of[size_t(way)][size_t(verb)]; }
    uint64_t gets_at_once() const {
        return embedded_ ? counters_.get_cmds.get() - gets_seen_ : at_once_[size_t(Verb::get)];
    }
    bool unfinished() const {
        return enabled_ && (gets_at_once() != 0 || at_once_[size_t(Verb::set)] != 0 || batch_bytes_ != 0);
    }
    void finish(uint64_t now_ns);
    void keep(SlowRequest& slow, std::string_view node, std::string_view what) noexcept;

    Adjustable<bool> enabled_;
    uint64_t slow_ns_;
    WorkerCounters& counters_;
    WatchLog& watch_;
    const uint32_t worker_;
    const bool embedded_;
    LatencyCounters latency_;
    uint64_t now_ns_ = 0;
    uint64_t gets_seen_ = 0, requests_seen_ = 0;
    std::array<uint64_t, 3> at_once_{};
    std::array<char, 64> batch_;  // its beginning
    uint32_t batch_bytes_ = 0;    // 0: no batch
    int batch_fd_ = -1;

    mutable std::mutex lock_;
    std::deque<SlowRequest> slow_;  // under lock_
};

}  // namespace farcached::daemon
