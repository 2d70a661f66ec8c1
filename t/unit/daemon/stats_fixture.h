// SPDX-License-Identifier: BSD-3-Clause
// Fixture of the admin side's tests: a small real node, a server that is only numbers, a clock that the test moves, and
// the text of a reply.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "daemon/farcached/admin.h"
#include "t/lib/tap.h"

namespace fixture {

using namespace farcached;

class FakeServer final : public daemon::ServerView {
  public:
    std::atomic<NodeSeconds> clock{100};
    daemon::WorkerCounters workers[2];
    proxy::LocalGetCounters locals[2];
    daemon::ServerNumbers fixed;
    std::vector<daemon::ConnectionInfo> connections;
    uint64_t client_quit = 0;
    std::string shut;
    daemon::NodesView* behind = nullptr;

    daemon::NodesView* nodes() const override { return behind; }
    NodeSeconds now() const override { return clock.load(); }
    int64_t started_unix() const override { return 1'700'000'000; }
    uint32_t worker_count() const override { return 2; }
    const daemon::WorkerCounters& worker_counters(uint32_t worker) const override {
        return workers[worker];
    }
    const proxy::LocalGetCounters* local_counters(uint32_t worker) const override {
        return &locals[worker];
    }
    daemon::ServerNumbers numbers() const override { return fixed; }
    void each_connection(FunctionRef<void(const daemon::ConnectionInfo&)> visit) const override {
        for (const daemon::ConnectionInfo& connection : connections) visit(connection);
    }
    void each_close_reason(FunctionRef<void(std::string_view, uint64_t)> visit) const override {
        visit("client_quit", client_quit);
    }
    void shut_down(bool graceful) override { shut = graceful ? "graceful" : "now"; }
};

inline node::Config small_node() {
    node::Config config;
    config.memory_bytes = UINT64_C(16) << 20;
    config.workers = 2;
    return config;
}

inline std::vector<daemon::Setting> few_settings() {
    return {{"maxbytes", "16777216"},      {"verbosity", "0"},        {"detail_enabled", "no"},
            {"slab_reassign", "yes"},      {"slab_automove", "1"},    {"slab_automove_ratio", "0.80"},
            {"slab_automove_window", "30"}, {"slab_automove_freeratio", "0.010"},
            {"lru_crawler", "yes"},        {"lru_crawler_sleep", "100"}, {"lru_crawler_tocrawl", "0"},
            {"lru_maintainer_thread", "yes"}, {"lru_segmented", "yes"}, {"hot_lru_pct", "20"},
            {"warm_lru_pct", "40"},        {"hot_max_factor", "0.20"}, {"warm_max_factor", "2.00"},
            {"temp_lru", "no"},            {"temporary_ttl", "61"},   {"ext_item_size", "512"},
            {"ext_max_frag", "0.80"},      {"ext_drop_unread", "no"}};
}

// Polls until `done` holds; false after ten seconds.
template <class Done>
bool until(Done done) {
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!done()) {
        if (std::chrono::steady_clock::now() > end) return false;
        std::this_thread::yield();
    }
    return true;
}

struct Rig {
    FakeServer server;
    std::atomic<uint64_t> looks{0};   // of the crawler at the clock
    daemon::Embedded embedded;
    node::Node& node = embedded.node;
    node::Crawler& crawler = embedded.crawler;
    daemon::WatchHub watch{daemon::WatchLimits{}};
    daemon::EngineOptions options;
    std::unique_ptr<daemon::AdminImpl> admin;

    explicit Rig(node::CrawlerOptions crawl = {}, bool track_sizes = false)
        : embedded(small_node(), crawl, [this] { looks++; return server.now(); }) {
        daemon::AdminOptions admin_options;
        admin_options.settings = few_settings();
        admin_options.track_sizes = track_sizes;
        admin_options.own_version = "0.0.1";
        admin = std::make_unique<daemon::AdminImpl>(&embedded, server, watch, options,
                                                    std::move(admin_options));
    }

    void store(std::string_view key, std::string_view value, NodeSeconds exptime = 0) {
        protocol::StoreOp op;
        op.key = node.key(key);
        op.value = value;
        op.exptime = exptime;
        CHECK(node.store(op, server.now()).status == protocol::StoreReply::Status::stored);
    }
    std::string stats(std::string_view args) {
        OutBuffer out;
        admin->stats_text(args, "", out);
        return std::string(out.data(), out.size());
    }
    std::string tune(std::string_view line) {
        OutBuffer out;
        admin->tune(line, out);
        return std::string(out.data(), out.size());
    }
    // One value of a group; empty if it is not there.
    std::string stat(std::string_view name, std::string_view group = "") {
        std::string found;
        admin->stats_binary(group, "", [&](std::string_view n, std::string_view v) {
            if (n == name) found = std::string(v);
        });
        return found;
    }
};

}  // namespace fixture
