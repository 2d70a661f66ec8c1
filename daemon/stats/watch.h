// SPDX-License-Identifier: BSD-3-Clause
// WatchLog: the lines of `watch`. Engines, sessions and the node's observer write lines while there are watchers; the hub
// (daemon/stats/watch_hub.cc) numbers and distributes them.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "base/node_clock.h"
#include "protocol/op.h"

namespace farcached::daemon {

// A watcher's subscriptions; a line belongs to one.
enum WatchFlag : uint32_t {
    watch_fetchers = 1,
    watch_mutations = 2,
    watch_evictions = 4,
    watch_deletions = 8,
    watch_connevents = 16,
    watch_proxyreqs = 64,  // slow requests (slow_log_ms)
    watch_proxyevents = 128,  // changes of nodes and failed requests (daemon/stats/proxy_events.h)
    watch_silent = 32,  // accepted, never written: this daemon has no such events
};

class WatchLog {
  public:
    virtual ~WatchLog() = default;
    // One relaxed load: the only cost without watchers.
    bool wants(WatchFlag flag) const { return (wanted_.load(std::memory_order_relaxed) & flag) != 0; }

    // Call only when wants(); the arguments are copied. Formats: memcached's logger, as in its doc and t/watcher.t, e.g.
    // `type=item_get key=%s status=%s clsid=%u cfd=%d size=%u`.
    virtual void item_get(std::string_view key, std::string_view status, uint8_t size_class, int fd,
                          uint32_t value_len) = 0;
    virtual void item_store(std::string_view key, std::string_view status, std::string_view cmd,
                            int64_t ttl, uint8_t size_class, int fd, uint32_t value_len) = 0;
    virtual void deleted(std::string_view key, std::string_view cmd, uint8_t size_class, int fd,
                         uint32_t value_len) = 0;
    virtual void eviction(std::string_view key, const protocol::ItemMeta& meta, int64_t ttl,
                          NodeSeconds now) = 0;
    virtual void connection(std::string_view line_tail) = 0;  // "type=conn_new rip=..." etc.
    virtual void slow([[maybe_unused]] std::string_view line_tail) {}  // daemon/stats/latency.h, SlowRequest::line()
    virtual void proxy_event([[maybe_unused]] std::string_view line_tail) {}  // daemon/stats/proxy_events.h

  protected:
    std::atomic<uint32_t> wanted_{0};
};

}  // namespace farcached::daemon
