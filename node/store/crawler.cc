// SPDX-License-Identifier: BSD-3-Clause
#include "node/store/crawler.h"

#include <algorithm>

#include "base/check.h"
#include "base/recorder.h"
#include "node/store/pages.h"
#include "node/store/prefix_deletes.h"

namespace farcached::node {

namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// The maximum delay of a delayed flush: before it is due, the thread checks the node's clock this often.
constexpr milliseconds flush_tick{20};

}  // namespace

Crawler::Crawler(Node& node, std::function<NodeSeconds()> now, const CrawlerOptions& options)
    : node_(node),
      now_(std::move(now)),
      options_(options),
      enabled_(options.enabled),
      sleep_us_(options.sleep_us),
      to_crawl_(options.to_crawl),
      rest_(options.rest_min),
      next_pass_(Clock::now() + options.rest_min) {}

Crawler::~Crawler() { stop(); }

// Between start() and stop(), the node notifies the crawler of deletes by prefix.
void Crawler::start() {
    CHECK(!thread_.joinable());
    node_.prefixes().counts().when_asked([this] {
        { std::lock_guard held(lock_); }  // afterwards, the thread either has yet to check or already waits
        work_.notify_all();
    });
    thread_ = std::thread([this] { run(); });
}

void Crawler::stop() {
    node_.prefixes().counts().when_asked({});  // even if the thread could not be created
    if (!thread_.joinable()) return;
    {
        std::lock_guard held(lock_);
        stopping_ = true;
    }
    work_.notify_all();
    thread_.join();
}

// ---- orders -------------------------------------------------------------------------------------------

bool Crawler::enable() {
    {
        std::lock_guard held(lock_);
        if (enabled_) return false;
        enabled_ = true;
        rest_ = options_.rest_min;
        next_pass_ = Clock::now() + rest_;
    }
    work_.notify_all();
    return true;
}

bool Crawler::disable() {
    {
        std::lock_guard held(lock_);
        if (!enabled_) return false;
        enabled_ = false;
        asked_classes_ = 0;
    }
    work_.notify_all();
    return true;
}

bool Crawler::enabled() const {
    std::lock_guard held(lock_);
    return enabled_;
}

void Crawler::set_sleep(uint32_t microseconds) {
    std::lock_guard held(lock_);
    sleep_us_ = microseconds;
}

void Crawler::set_to_crawl(uint32_t items) {
    std::lock_guard held(lock_);
    to_crawl_ = items;
}

Crawler::StartResult Crawler::crawl(uint64_t classes) {
    CHECK(classes != 0);
    {
        std::lock_guard held(lock_);
        if (!enabled_) return StartResult::disabled;
        if (asked_classes_ != 0 || asked_running_) return StartResult::busy;
        asked_classes_ = classes;
        // Set here, so that a client that got OK and waits for the end of the pass does not miss it.
        running_.store(true, std::memory_order_relaxed);
    }
    work_.notify_all();
    return StartResult::ok;
}

void Crawler::flush_at(NodeSeconds when) {
    const uint64_t flushes = node_.flushes();
    {
        std::lock_guard held(lock_);
        node_.announce_flush(when);
        flush_when_ = when;
        flushes_before_ = flushes;
    }
    work_.notify_all();
}

// ---- the thread ---------------------------------------------------------------------------------------

void Crawler::run() {
    Recorder recorder("crawler");
    const Recorder::Running running(recorder);
    Held held(lock_);
    while (!stopping_) {
        Pass pass;
        if (flush_if_due(held)) continue;
        const bool served = serve_prefixes(held);
        if (stopping_) break;
        if (take_pass(pass))
            run_pass(held, pass);
        else if (!served)
            wait_for_work(held);
    }
}

Crawler::Clock::time_point Crawler::next_wake() {
    Clock::time_point wake = enabled_ ? next_pass_ : Clock::time_point::max();
    if (flush_when_ == 0) return wake;
    NodeSeconds now = now_();
    NodeSeconds whole = flush_when_ > now ? flush_when_ - now - 1 : 0;
    Clock::time_point look = Clock::now() + std::max(milliseconds(flush_tick),
                                                     milliseconds(INT64_C(1000) * whole));
    return std::min(wake, look);
}

void Crawler::wait_for_work(Held& held) {
    Clock::time_point wake = next_wake();
    if (wake == Clock::time_point::max())
        work_.wait(held);
    else
        work_.wait_until(held, wake);
}

// Executes a pending flush that is due, without the lock.
bool Crawler::flush_if_due(Held& held) {
    if (flush_when_ == 0) return false;
    NodeSeconds now = now_();
    if (now < flush_when_) return false;
    flush_when_ = 0;
    uint64_t flushes_before = flushes_before_;
    held.unlock();
    if (node_.flushes() == flushes_before) node_.flush_all(now);
    held.lock();
    return true;
}

// Visits all pages once, at half a processor (C6). False: stopped midway. at_rest returns true if it has rested itself.
bool Crawler::walk(Held& held, PrefixCounts::Walk walk, FunctionRef<void(uint64_t page)> visit, FunctionRef<bool()> at_rest) {
    // Not pages().count(): after the limit is lowered, pages above it exist for a while.
    const uint64_t pages = node_.pages().most();
    Clock::time_point worked_from = Clock::now();
    for (uint64_t page = 0; page < pages; page++) {
        held.unlock();
        visit(page);
        held.lock();
        if (stopping_) return false;
        flush_if_due(held);
        const Clock::time_point now = Clock::now();
        if (now - worked_from < milliseconds(1)) continue;
        node_.prefixes().counts().walked(walk, page + 1, pages);
        const Clock::time_point rested = now + (now - worked_from);
        if (!at_rest()) work_.wait_until(held, rested, [&] { return stopping_; });
        worked_from = Clock::now();
    }
    return true;
}

// Sweeps all pages once, if a delete by prefix is unswept.
bool Crawler::sweep_prefixes(Held& held) {
    const uint64_t order = node_.prefixes().unswept();
    if (order == 0) return false;
    const auto sweep = [&](uint64_t page) { node_.pages().sweep(page, now_()); };
    if (!walk(held, PrefixCounts::Walk::sweep, sweep, [] { return false; })) return true;
    held.unlock();
    node_.prefixes().swept(order);
    held.lock();
    return true;
}

// Counts the live items of a prefix, if a count is requested. Sweeps instead of resting if a delete is pending.
bool Crawler::count_prefix(Held& held) {
    const std::string prefix = node_.prefixes().counts().to_count();
    if (prefix.empty()) return false;
    uint64_t items = 0;
    const auto count = [&](uint64_t page) {
        node_.pages().visit(page, now_(), [&](const ItemView& item) { items += item.key.starts_with(prefix); });
    };
    const bool whole = walk(held, PrefixCounts::Walk::count, count, [&] { return sweep_prefixes(held); });
    if (whole) node_.prefixes().counts().counted(items);
    return true;
}

bool Crawler::serve_prefixes(Held& held) {
    const bool swept = sweep_prefixes(held);
    return (!stopping_ && count_prefix(held)) || swept;
}

bool Crawler::take_pass(Pass& pass) {
    if (!enabled_) {
        running_.store(false, std::memory_order_relaxed);
        return false;
    }
    if (asked_classes_ != 0) {
        pass.asked = true;
        pass.classes = asked_classes_;
        asked_classes_ = 0;
        asked_running_ = true;
        return true;
    }
    return Clock::now() >= next_pass_;
}

// A background pass yields to a requested one; disabling ends both.
bool Crawler::may_go_on(const Pass& pass) const {
    if (stopping_ || !enabled_) return false;
    return pass.asked || asked_classes_ == 0;
}

void Crawler::run_pass(Held& held, Pass& pass) {
    passes_.fetch_add(1, std::memory_order_relaxed);
    running_.store(true, std::memory_order_relaxed);
    uint64_t pages = node_.pages().count();
    uint64_t start = pages == 0 ? 0 : start_page_ % pages;
    uint64_t rested_at = 0;
    Clock::time_point worked_from = Clock::now();
    for (uint64_t i = 0; i < pages && may_go_on(pass); i++) {
        uint64_t to_crawl = to_crawl_;
        held.unlock();
        sweep((start + i) % pages, pass, to_crawl);
        held.lock();
        start_page_ = (start + i + 1) % pages;
        flush_if_due(held);
        if (serve_prefixes(held)) worked_from = Clock::now();  // it has rested itself (C6)
        Clock::duration work = Clock::now() - worked_from;
        bool many = pass.checked - rested_at >= items_per_rest;
        if (!many && work < milliseconds(1)) continue;
        Clock::duration rest = std::max<Clock::duration>(microseconds(sleep_us_),
                                                         work * (work_share - 1));
        if (!pass.asked || sleep_us_ != 0) take_rest(held, pass, rest);
        rested_at = pass.checked;
        worked_from = Clock::now();
    }
    if (pass.asked) asked_running_ = false;
    if (!pass.asked) schedule_next(pass);
    // Stays true if the next pass was requested already.
    running_.store(asked_classes_ != 0, std::memory_order_relaxed);
}

// The pause between two parts of a pass. A due flush interrupts it.
void Crawler::take_rest(Held& held, const Pass& pass, Clock::duration rest) {
    Clock::time_point end = Clock::now() + rest;
    while (may_go_on(pass) && Clock::now() < end) {
        if (flush_if_due(held) || serve_prefixes(held)) continue;
        Clock::time_point look = flush_when_ == 0 ? end : Clock::now() + flush_tick;
        work_.wait_until(held, std::min(look, end));
    }
}

// Frequent while many items expire, rare otherwise.
void Crawler::schedule_next(const Pass& pass) {
    bool much = pass.removed * 100 > pass.checked;
    rest_ = much ? std::max(rest_ / 2, options_.rest_min) : std::min(rest_ * 2, options_.rest_max);
    next_pass_ = Clock::now() + rest_;
}

void Crawler::sweep(uint64_t page, Pass& pass, uint64_t to_crawl) {
    const uint32_t size_class = size_class_of(node_, page);
    if (size_class == 0) return;
    if ((pass.classes >> size_class & 1) == 0) return;
    uint64_t& checked = pass.checked_by_class[size_class];
    if (to_crawl != 0 && checked >= to_crawl) return;
    const SweptPage swept = node_.pages().sweep(page, now_(), /* tails= */ !pass.asked);
    checked += swept.checked;
    pass.checked += swept.checked;
    pass.removed += swept.removed;
}

}  // namespace farcached::node
