// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/stats/latency.h"

#include <new>
#include <utility>

#include "daemon/stats/dump.h"

namespace farcached::daemon {

namespace {

std::string us_text(uint64_t ns) { return std::to_string(ns / 1000); }

uint64_t between(uint64_t from_ns, uint64_t to_ns) { return to_ns > from_ns ? to_ns - from_ns : 0; }

}  // namespace

// ---- sums -------------------------------------------------------------------------------------------

uint64_t LatencyTotals::One::count() const {
    uint64_t sum = 0;
    for (uint64_t one : counts) sum += one;
    return sum;
}

uint64_t LatencyTotals::One::quantile_us(double share) const {
    const double wanted = share * double(count());
    double below = 0;
    for (size_t i = 0; i < counts.size(); i++) {
        if (counts[i] == 0 || below + double(counts[i]) < wanted) {
            below += double(counts[i]);
            continue;
        }
        const double from = i == 0 ? 0 : double(LatencyHistogram::bound_us(i - 1));
        const double to = double(LatencyHistogram::bound_us(std::min(i, LatencyHistogram::bounds - 1)));
        return uint64_t(from + std::max(0.0, to - from) * (wanted - below) / double(counts[i]) + 0.5);
    }
    return 0;
}

void LatencyTotals::add(const LatencyCounters& counters) {
    for (size_t way = 0; way < of.size(); way++)
        for (size_t verb = 0; verb < verbs_measured; verb++) {
            const LatencyHistogram& from = counters.of[way][verb];
            One& to = of[way][verb];
            for (size_t i = 0; i < to.counts.size(); i++) to.counts[i] += from.counts[i].get();
            to.sum_ns += from.sum_ns.get();
        }
}

void LatencyTotals::subtract(const LatencyTotals& earlier) {
    for (size_t way = 0; way < of.size(); way++)
        for (size_t verb = 0; verb < verbs_measured; verb++) {
            const One& from = earlier.of[way][verb];
            One& to = of[way][verb];
            for (size_t i = 0; i < to.counts.size(); i++) less(to.counts[i], from.counts[i]);
            less(to.sum_ns, from.sum_ns);
        }
}

// ---- a worker's -------------------------------------------------------------------------------------

void Latencies::change(const LatencyOptions& options) {
    if (unfinished()) finish(boottime_ns());
    enabled_ = options.enabled;
    slow_ns_ = options.slow_ns;
    now_ns_ = boottime_ns();
    batch_bytes_ = 0;
    gets_seen_ = counters_.get_cmds.get();
    at_once_ = {};
}

void Latencies::finish(uint64_t now_ns) {
    const uint64_t took_ns = between(now_ns_, now_ns);
    const uint64_t gets = gets_at_once(), sets = at_once_[size_t(Verb::set)];
    if (gets != 0) counters_of(Way::local, Verb::get).add(took_ns, gets);
    if (sets != 0) counters_of(Way::local, Verb::set).add(took_ns, sets);
    if (batch_bytes_ != 0 && slow_ns_ != 0 && took_ns >= slow_ns_) {
        SlowRequest slow;
        slow.ended_ns = now_ns;
        slow.took_ns = took_ns;
        slow.requests = uint32_t(counters_.requests.get() - requests_seen_);
        slow.verb = sets == 0 && gets != 0 ? Verb::get : gets == 0 && sets != 0 ? Verb::set : Verb::other;
        slow.way = way_names[size_t(Way::local)];
        slow.fd = batch_fd_;
        const std::string_view first(batch_.data(), batch_bytes_);
        if (slow.requests != 0) keep(slow, {}, first.substr(0, first.find_first_of("\r\n")));
    }
    batch_bytes_ = 0;
    gets_seen_ = counters_.get_cmds.get();
    at_once_ = {};
}

void Latencies::keep_slow(const Later& later, int fd, std::string_view node, std::string_view key) {
    SlowRequest slow;
    slow.ended_ns = now_ns_;
    slow.took_ns = between(later.received_ns, now_ns_);
    if (later.asked_ns != 0) slow.queue_ns = between(later.received_ns, later.asked_ns);
    const uint64_t asked_ns = std::max(later.received_ns, later.asked_ns);
    const uint64_t answered_ns = later.answered_ns == 0 ? now_ns_ : later.answered_ns;
    slow.answer_ns = between(asked_ns, answered_ns);
    slow.reply_ns = between(std::max(answered_ns, asked_ns), now_ns_);
    slow.verb = later.verb;
    slow.way = later.available ? way_names[size_t(later.way)] : "none";
    slow.fd = fd;
    keep(slow, node, key);
}

// Without memory it is counted, but not listed.
void Latencies::keep(SlowRequest& slow, std::string_view node, std::string_view what) noexcept {
    counters_.slow_requests.add(slow.requests);
    slow.worker = worker_;
    try {
        slow.node = node;
        slow.what = what;
        if (watch_.wants(watch_proxyreqs)) watch_.slow(slow.line());
        std::lock_guard hold(lock_);
        if (slow_.size() >= slow_kept) slow_.pop_front();
        slow_.push_back(std::move(slow));
    } catch (const std::bad_alloc&) {
        (void)0;  // counted above
    }
}

void Latencies::each_slow(FunctionRef<void(const SlowRequest&)> visit) const {
    std::lock_guard hold(lock_);
    for (const SlowRequest& one : slow_) visit(one);
}

std::span<const SlowRequest::Word> SlowRequest::words() {
    static constexpr Word rows[] = {
        {"took_us", "microseconds from receiving the request to writing its reply",
         [](const SlowRequest& slow) { return us_text(slow.took_ns); }},
        {"queue_us", "of these, until it was sent to its node: waiting for room, or for another request of its key",
         [](const SlowRequest& slow) { return us_text(slow.queue_ns); }},
        {"answer_us", "until its reply arrived: network and waiting at the node",
         [](const SlowRequest& slow) { return us_text(slow.answer_ns); }},
        {"reply_us", "until its reply was written: waiting for replies to earlier requests",
         [](const SlowRequest& slow) { return us_text(slow.reply_ns); }},
        {"op", "get, set or other", [](const SlowRequest& slow) { return std::string(verb_names[size_t(slow.verb)]); }},
        {"path", "as in stats latency; none: no reply", [](const SlowRequest& slow) { return std::string(slow.way); }},
        {"node", "its node; -: none", [](const SlowRequest& slow) { return slow.node.empty() ? "-" : slow.node; }},
        {"requests", "number of requests: those answered at once are measured in batches per session",
         [](const SlowRequest& slow) { return std::to_string(slow.requests); }},
        {"worker", "the worker thread, from 0", [](const SlowRequest& slow) { return std::to_string(slow.worker); }},
        {"cfd", "the descriptor of the client's connection, as in stats conns",
         [](const SlowRequest& slow) { return std::to_string(slow.fd); }},
        {"key", "the key, as in watch; of a batch, the first one", [](const SlowRequest& slow) { return word_encoded(slow.what); }},
    };
    return rows;
}

std::string SlowRequest::line() const {
    std::string text;
    for (const Word& word : words()) text.append(text.empty() ? "" : " ").append(word.name).append("=").append(word.of(*this));
    return text;
}

}  // namespace farcached::daemon
