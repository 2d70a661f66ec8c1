// SPDX-License-Identifier: BSD-3-Clause
// The last ten minutes of a program's requests, for the charts of its status page.
//
// HistoryRing: a point every two seconds, in an array of fixed size. Pure.
// HistorySampler: a timer of the HTTP listener's loop that reads counters of other threads into a ring. Those threads do not wait.
//
// Owner: the page of a program; the listener's thread, or any before it starts.
// G1  A point is the difference of two readings over the time between them. Readings that were left out leave empty points,
//     so that the place of a point is its time.
#pragma once

#include <event2/event.h>
#include <event2/event_struct.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "process/json_text.h"

namespace farcached::http {

// Counters since the start.
struct HistoryReading {
    uint64_t requests = 0;
    uint64_t gets = 0, hits = 0;
    uint64_t gets_one_sided = 0, gets_through_links = 0;  // one-sided ones among those that could be
    std::optional<uint64_t> p99_us = std::nullopt;  // of the requests since the last reading
};

class HistoryRing {
  public:
    static constexpr uint32_t every_s = 2;
    static constexpr size_t points_max = 300;

    // The first reading makes no point.
    void add(uint64_t now_ns, const HistoryReading& reading);
    // An object with an array for each chart, oldest point first; null: nothing to show.
    std::string json() const;

  private:
    struct Point {
        std::optional<float> requests_per_s, hit_ratio, one_sided_share, p99_us;
    };
    void push(const Point& point);
    void add_series(process::JsonText& out, std::string_view name, std::optional<float> Point::*of) const;

    std::array<Point, points_max> points_{};
    size_t next_ = 0, count_ = 0;
    std::optional<HistoryReading> last_;
    uint64_t last_ns_ = 0;
};

class HistorySampler {
  public:
    // `read` is called in the loop's thread; without memory it may throw std::bad_alloc, which leaves the reading out. `base`
    // outlives this; this ends when the loop does not run.
    HistorySampler(event_base* base, std::function<HistoryReading()> read);
    ~HistorySampler();
    HistorySampler(const HistorySampler&) = delete;
    HistorySampler& operator=(const HistorySampler&) = delete;

    std::string json() const { return ring_.json(); }

  private:
    void sample() noexcept;

    const std::function<HistoryReading()> read_;
    HistoryRing ring_;
    event timer_{};
};

}  // namespace farcached::http
