// SPDX-License-Identifier: BSD-3-Clause
#include "proxy/node_clock_estimate.h"

#include <algorithm>

#include "base/check.h"

namespace farcached::proxy {

namespace {

constexpr int64_t second_ns = 1'000'000'000;
constexpr int64_t us_ns = 1000;
constexpr int64_t early_ns_max = 50'000'000;  // hysteresis, so that clock drift does not flip every moment

constexpr int64_t floor_s(int64_t ns) {
    const int64_t cut = ns / second_ns;
    return cut * second_ns > ns ? cut - 1 : cut;
}
constexpr int64_t ceil_s(int64_t ns) { return -floor_s(-ns); }
static_assert(floor_s(-1) == -1);
static_assert(ceil_s(1) == 1);
static_assert(ceil_s(-1) == 0);

NodeSeconds clamped(int64_t seconds) {
    return NodeSeconds(std::clamp<int64_t>(seconds, long_expired, INT64_C(0xffffffff)));
}

// Bounds of the node's clock at the reading: at least floor_of(), less than end_of().
int64_t floor_of(const NodeReading& now) {
    return int64_t(now.seconds) * second_ns + int64_t(now.us.value_or(0)) * us_ns;
}
int64_t end_of(const NodeReading& now) { return floor_of(now) + (now.us.has_value() ? us_ns : second_ns); }

}  // namespace

int64_t NodeClockEstimate::high_ns(int64_t at_ns) const {
    const int64_t since = std::max<int64_t>(at_ns - high_at_ns_, 0);
    return high_ns_ + since + since / clock_rate_error;
}

int64_t NodeClockEstimate::low_ns(int64_t at_ns) const {
    const int64_t since = std::max<int64_t>(at_ns - low_at_ns_, 0);
    return low_ns_ + since - since / clock_rate_error;
}

void NodeClockEstimate::greeted(const NodeReading& now, uint64_t sent_ns, uint64_t received_ns) {
    CHECK(sent_ns <= received_ns);
    high_ns_ = end_of(now);
    high_at_ns_ = int64_t(sent_ns);
    low_ns_ = floor_of(now);
    low_at_ns_ = int64_t(received_ns);
    const int64_t at = low_at_ns_;
    offset_s_ = ceil_s(high_ns(at) - (at - host_zero_ns_));
    settled_ = false;
    right_until_ns_ = right_end(now, sent_ns);
    settle(at, now.us.has_value());
}

uint64_t NodeClockEstimate::right_end(const NodeReading& now, uint64_t sent_ns) {
    if (!now.right_ms.has_value()) return UINT64_MAX;
    const uint64_t left_ns = *now.right_ms * UINT64_C(1'000'000);
    return sent_ns + left_ns - left_ns / uint64_t(clock_rate_error);
}

void NodeClockEstimate::saw(const NodeReading& now, uint64_t sent_ns, uint64_t received_ns) {
    CHECK(sent_ns <= received_ns);
    const int64_t at = int64_t(received_ns);
    const int64_t sent = int64_t(sent_ns);
    const int64_t high = end_of(now);
    const int64_t high_at = high + (at - sent) + (at - sent) / clock_rate_error;
    if (floor_of(now) > high_ns(at) || high_at < low_ns(at)) return greeted(now, sent_ns, received_ns);
    if (high_at < high_ns(at)) {
        high_ns_ = high;
        high_at_ns_ = sent;
    }
    const int64_t low = floor_of(now);
    if (low > low_ns(at)) {
        low_ns_ = low;
        low_at_ns_ = at;
    }
    right_until_ns_ = now.right_ms == 0u ? 0 : std::max(right_until_ns_, right_end(now, sent_ns));
    settle(at, now.us.has_value());
}

void NodeClockEstimate::settle(int64_t at_ns, bool fraction_told) {
    const int64_t host_ns = at_ns - host_zero_ns_;
    const int64_t most_ns = high_ns(at_ns) - host_ns;
    const int64_t least_ns = low_ns(at_ns) - host_ns;
    const int64_t offset_ns = offset_s_ * second_ns;
    const bool close = fraction_told && most_ns - least_ns <= early_ns_max;
    const bool less = ceil_s(most_ns) < offset_s_;
    const bool more = most_ns > offset_ns + early_ns_max && (least_ns > offset_ns || !fraction_told);
    if (less || more || (close && !settled_)) offset_s_ = ceil_s(close ? least_ns : most_ns);
    settled_ = settled_ || close;
}

NodeSeconds NodeClockEstimate::latest(uint64_t at_ns) const { return clamped(ceil_s(high_ns(int64_t(at_ns)))); }

NodeSeconds NodeClockEstimate::earliest(uint64_t at_ns) const {
    return clamped(floor_s(low_ns(int64_t(at_ns))));
}

NodeSeconds NodeClockEstimate::to_node(NodeSeconds host) const {
    if (host <= long_expired) return host;
    return clamped(int64_t(host) + offset_s_);
}

NodeSeconds NodeClockEstimate::to_host(NodeSeconds node) const {
    if (node <= long_expired) return node;
    return clamped(int64_t(node) - offset_s_);
}

}  // namespace farcached::proxy
