// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/http/history.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <utility>

#include "base/node_clock.h"

namespace farcached::http {

namespace {

constexpr double ns_per_s = 1e9;

uint64_t rise(uint64_t now, uint64_t before) { return now - std::min(now, before); }

std::optional<float> ratio(uint64_t part, uint64_t whole) {
    if (whole == 0) return std::nullopt;
    return float(std::min(1.0, double(part) / double(whole)));
}

}  // namespace

void HistoryRing::push(const Point& point) {
    points_[next_] = point;
    next_ = (next_ + 1) % points_max;
    count_ = std::min(count_ + 1, points_max);
}

void HistoryRing::add(uint64_t now_ns, const HistoryReading& reading) {
    const std::optional<HistoryReading> before = std::exchange(last_, reading);
    const double seconds = double(now_ns - std::exchange(last_ns_, now_ns)) / ns_per_s;
    if (!before.has_value() || seconds <= 0) return;
    const double periods = std::min(std::round(seconds / every_s), double(points_max));
    for (double i = 1; i < periods; i++) push({});
    Point point;
    point.requests_per_s = float(double(rise(reading.requests, before->requests)) / seconds);
    point.hit_ratio = ratio(rise(reading.hits, before->hits), rise(reading.gets, before->gets));
    point.one_sided_share = ratio(rise(reading.gets_one_sided, before->gets_one_sided),
                                  rise(reading.gets_through_links, before->gets_through_links));
    if (reading.p99_us.has_value()) point.p99_us = float(*reading.p99_us);
    push(point);
}

void HistoryRing::add_series(process::JsonText& out, std::string_view name, std::optional<float> Point::*of) const {
    constexpr double precision = 1000;
    out.begin(name, '[');
    for (size_t i = 0; i < count_; i++) {
        const std::optional<float> value = points_[(next_ + points_max - count_ + i) % points_max].*of;
        if (value.has_value())
            out.value(std::round(double(*value) * precision) / precision);
        else
            out.null();
    }
    out.end(']');
}

std::string HistoryRing::json() const {
    process::JsonText out;
    out.begin('{');
    out.add("every_s", every_s);
    out.add("points_max", points_max);
    add_series(out, "requests_per_s", &Point::requests_per_s);
    add_series(out, "hit_ratio", &Point::hit_ratio);
    add_series(out, "one_sided_share", &Point::one_sided_share);
    add_series(out, "p99_us", &Point::p99_us);
    out.end('}');
    return out.text() + "\n";
}

HistorySampler::HistorySampler(event_base* base, std::function<HistoryReading()> read) : read_(std::move(read)) {
    const auto on_time = [](evutil_socket_t, short, void* self) { static_cast<HistorySampler*>(self)->sample(); };
    event_assign(&timer_, base, -1, EV_PERSIST, on_time, this);
    constexpr timeval every{HistoryRing::every_s, 0};
    event_add(&timer_, &every);
    sample();
}

HistorySampler::~HistorySampler() { event_del(&timer_); }

void HistorySampler::sample() noexcept {
    try {
        ring_.add(boottime_ns(), read_());
    } catch (const std::bad_alloc&) {
        (void)0;  // the next reading leaves an empty point
    }
}

}  // namespace farcached::http
