// SPDX-License-Identifier: BSD-3-Clause
// AdminImpl: what the protocol engines ask of the daemon (daemon/engine.h, Admin): statistics, tuning,
// delayed flushes, shutdown.
//
// Any worker may call at any time. Nothing here does I/O; locks are held for copies only. `stats sizes` and
// `stats cachedump` walk the cache's pages in the calling worker: the operator asked for it.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/crawler.h"
#include "daemon/detail.h"
#include "daemon/engine.h"
#include "daemon/server_view.h"
#include "daemon/stats.h"
#include "daemon/stats_sample.h"
#include "daemon/stats_settings.h"
#include "daemon/watch_hub.h"
#include "node/node.h"

namespace farcached::daemon {

struct AdminOptions {
    std::vector<Setting> settings;   // `stats settings` as it is at the start, in memcached's order
    uint64_t max_connections = 1024;
    bool maxconns_fast = true;
    bool idle_timeout = false;       // there is one
    bool track_sizes = false;        // -o track_sizes: stats sizes may walk the cache
    char prefix_delimiter = ':';     // -D
    std::string own_version;
};

class AdminImpl final : public Admin {
  public:
    // All outlive this. engine_options.detail_enabled is turned on and off by `stats detail`,
    // crawler_enabled by `lru_crawler`.
    AdminImpl(node::Node& node, ServerView& server, WatchHub& watch, Crawler& crawler,
              EngineOptions& engine_options, AdminOptions options);

    void stats_text(std::string_view args, OutBuffer& out) override;
    bool stats_binary(std::string_view group, StatWriter::Emit emit) override;
    void verbosity(uint32_t level) override;
    void tune(std::string_view line, OutBuffer& out) override;
    void flush_at(NodeSeconds when) override;
    void flushed(NodeSeconds when) override;
    void drain(std::string_view node, bool on, OutBuffer& out) override;
    void shutdown(bool graceful) override;
    void detail_get(std::string_view key, bool hit) override;
    void detail_set(std::string_view key) override;
    void detail_delete(std::string_view key) override;

  private:
    // One of the groups that are nothing but names and values; false if there is none of that name.
    bool write_group(std::string_view group, StatWriter out);
    Sample sample() const;
    void reset();
    void turn_detail(bool on);
    void stats_detail(std::string_view what, OutBuffer& out);
    void stats_cachedump(std::string_view size_class, std::string_view items_max, OutBuffer& out);

    node::Node& node_;
    ServerView& server_;
    WatchHub& watch_;
    Crawler& crawler_;
    EngineOptions& engine_options_;
    const AdminOptions options_;
    SettingsTable settings_;
    PrefixStats prefixes_;

    mutable std::mutex lock_;
    std::unique_ptr<const Sample> baseline_;  // at the last reset; none yet: nullptr
};

}  // namespace farcached::daemon
