// SPDX-License-Identifier: BSD-3-Clause
// Crawler: the maintenance thread. It frees expired items in slow passes over the node's pages. It also executes delayed
// flush_alls and sweeps items hidden by a delete by prefix.
//
// Owner: main. Threads: any may call, except for start() and stop().
//
// C1  A pass visits every page in use, one page at a time: other threads wait for at most one page.
// C2  The crawler uses at most 1 / work_share of a processor, at any cache size. A requested pass takes no rest if
//     lru_crawler_sleep is 0.
// C3  A requested pass (`lru_crawler crawl`) precedes a background pass; one pass runs at a time.
// C4  stop() returns within the time of one page.
// C5  A delayed flush happens even while the crawler is disabled. A later flush, immediate or delayed, replaces it.
// C6  Items hidden by a delete by prefix are swept first, even while the crawler is disabled, at half a processor: reads are
//     slower until the sweep ends. A count of a prefix (PrefixCounts) comes next, at the same pace. Sweeps precede it after
//     each millisecond of its work.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

#include "base/function_ref.h"
#include "base/node_clock.h"
#include "node/keys/prefix_counts.h"
#include "node/store/node.h"

namespace farcached::node {

struct CrawlerOptions {
    bool enabled = true;          // no_lru_crawler
    uint32_t sleep_us = 100;      // lru_crawler_sleep: pause after each items_per_rest items
    uint32_t to_crawl = 0;        // lru_crawler_tocrawl: items per class and pass; 0: all
    // Time between background passes: shorter after a pass that removed much, up to rest_max.
    std::chrono::milliseconds rest_min{2'000};
    std::chrono::milliseconds rest_max{20'000};
};

class Crawler {
  public:
    static constexpr uint32_t items_per_rest = 1000;  // as in memcached
    static constexpr uint32_t work_share = 10;        // C2

    // Both outlive this. `now` is the node's clock, callable from any thread.
    Crawler(Node& node, std::function<NodeSeconds()> now, const CrawlerOptions& options);
    ~Crawler();  // stops
    Crawler(const Crawler&) = delete;
    Crawler& operator=(const Crawler&) = delete;

    void start();
    void stop();

    // False: no change.
    bool enable();
    bool disable();
    bool enabled() const;
    void set_sleep(uint32_t microseconds);
    void set_to_crawl(uint32_t items);

    enum class StartResult : uint8_t { ok, busy, disabled };
    // classes: one bit per 1-based class.
    StartResult crawl(uint64_t classes);

    void flush_at(NodeSeconds when);

    uint64_t passes() const { return passes_.load(std::memory_order_relaxed); }  // lru_crawler_starts
    bool running() const { return running_.load(std::memory_order_relaxed); }

  private:
    using Clock = std::chrono::steady_clock;
    using Held = std::unique_lock<std::mutex>;

    struct Pass {
        bool asked = false;
        uint64_t classes = ~UINT64_C(0);
        uint64_t checked = 0, removed = 0;
        std::array<uint64_t, 64> checked_by_class{};
    };

    void run();
    // Called with lock_ held; they release it while they work or wait.
    void wait_for_work(Held& held);
    Clock::time_point next_wake();
    bool flush_if_due(Held& held);
    bool walk(Held& held, PrefixCounts::Walk walk, FunctionRef<void(uint64_t page)> visit, FunctionRef<bool()> at_rest);
    bool sweep_prefixes(Held& held);
    bool count_prefix(Held& held);
    bool serve_prefixes(Held& held);
    bool take_pass(Pass& pass);
    void run_pass(Held& held, Pass& pass);
    void take_rest(Held& held, const Pass& pass, Clock::duration rest);
    bool may_go_on(const Pass& pass) const;
    void schedule_next(const Pass& pass);
    // Called without lock_.
    void sweep(uint64_t page, Pass& pass, uint64_t to_crawl);

    Node& node_;
    const std::function<NodeSeconds()> now_;
    const CrawlerOptions options_;
    std::thread thread_;

    mutable std::mutex lock_;
    std::condition_variable work_;
    bool stopping_ = false;
    bool enabled_;
    uint32_t sleep_us_;
    uint32_t to_crawl_;
    uint64_t asked_classes_ = 0;     // 0: no request
    bool asked_running_ = false;
    NodeSeconds flush_when_ = 0;     // 0: no flush is pending
    uint64_t flushes_before_ = 0;    // the node's count when the flush was scheduled
    std::chrono::milliseconds rest_;
    Clock::time_point next_pass_;
    uint64_t start_page_ = 0;        // of the next pass: with to_crawl, each pass visits other pages

    std::atomic<uint64_t> passes_{0};
    std::atomic<bool> running_{false};
};

}  // namespace farcached::node
