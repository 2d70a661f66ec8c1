// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/farcached/live_settings.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <variant>

#include "conf/option.h"
#include "conf/program.h"
#include "process/http_listener.h"
#include "process/log.h"
#include "process/node_time.h"
#include "process/process.h"
#include "process/system_calls.h"

namespace farcached::daemon {

namespace {

// Descriptors not for clients (standard streams, listeners, event loops, watchers), with a margin.
constexpr uint64_t files_per_thread = 4;
constexpr uint64_t files_other = 96 + process::AdminSocket::connections_max + process::HttpListener::connections_max;
constexpr uint64_t files_per_link = 6;  // per connection of a worker to a node

std::vector<std::string> lines_of(const conf::Problem& problem) {
    std::string text = problem.text;
    while (text.ends_with('\n')) text.pop_back();
    return {text};
}

void change_crawler(const Running& running, const conf::CrawlerSettings& from, const conf::CrawlerSettings& to) {
    if (running.embedded == nullptr) {  // commands are refused, with the reason
        running.engine.crawler_enabled = to.enabled;
        return;
    }
    node::Crawler& crawler = running.embedded->crawler;
    if (from.sleep_us != to.sleep_us) crawler.set_sleep(to.sleep_us);
    if (from.items_max != to.items_max) crawler.set_to_crawl(to.items_max);
    if (from.enabled == to.enabled) return;
    if (!to.enabled) crawler.disable();
    else if (!crawler.enabled()) (void)crawler.enable();
    running.engine.crawler_enabled = crawler.enabled();
}

void change_commands(EngineOptions& engine, const conf::AdminSettings& from, const conf::AdminSettings& to) {
    if (from.flush != to.flush) engine.flush_enabled = to.flush;
    if (from.dump != to.dump) engine.dump_enabled = to.dump;
    if (from.watch != to.watch) engine.watch_enabled = to.watch;
    if (from.shutdown != to.shutdown) engine.shutdown_enabled = to.shutdown;
}

}  // namespace

conf::Refusal raise_limits(const conf::Settings& settings) {
    return process::raise_file_limit(
        settings.session.connections_max,
        settings.session.threads * (files_per_thread + settings.proxy.nodes.size() * files_per_link) + files_other);
}

bool uses_rdma(const conf::ProxySettings& settings) {
    return std::any_of(settings.nodes.begin(), settings.nodes.end(),
                       [](const auto& node) { return node.channel == conf::NodeChannel::verbs; });
}

WorkerLive worker_options(const conf::Settings& settings) {
    WorkerLive worker;
    worker.requests_per_event = settings.session.requests_per_event;
    worker.idle_timeout_s = settings.session.idle_timeout_s;
    worker.hot_keys_one_in = settings.admin.hot_keys_one_in;
    worker.latency.slow_ns = settings.admin.slow_log_ms * UINT64_C(1'000'000);
    worker.latency.enabled = settings.admin.latency || settings.admin.slow_log_ms != 0;
    return worker;
}

AdminOptions admin_options(const conf::Settings& settings) {
    AdminOptions options;
    conf::settings_stats(settings, [&](std::string_view name, std::string_view value) {
        options.settings.push_back({std::string(name), std::string(value)});
    });
    options.max_connections = settings.session.connections_max;
    options.maxconns_fast = settings.session.reject_over_limit;
    options.idle_timeout = settings.session.idle_timeout_s != 0;
    options.track_sizes = settings.admin.track_sizes;
    options.prefix_delimiter = settings.admin.prefix_delimiter.front();
    options.own_version = conf::farcached_version();
    return options;
}

std::vector<std::string> change(const Running& running, const conf::Settings& from, const conf::Settings& to) {
    // All that can be refused comes first.
    if (!process::system_calls_cover({.rdma = uses_rdma(to.proxy)}))
        return {"node: with drop_privileges, verbs nodes cannot be added to a process that was started without one; "
                "restart to apply"};
    std::shared_ptr<const NodeSet> set;
    if (running.nodes != nullptr) {
        Nodes::Prepared prepared = running.nodes->prepare(to.proxy);
        if (const auto* problem = std::get_if<conf::Problem>(&prepared)) return lines_of(*problem);
        set = std::get<std::shared_ptr<const NodeSet>>(std::move(prepared));
    }
    LiveOptions live;
    live.connections_max = to.session.connections_max;
    live.reject_over_limit = to.session.reject_over_limit;
    live.worker = worker_options(to);
    Server::Change of_workers = running.server.make_change(live);
    const AdminOptions shown_before = admin_options(from), shown = admin_options(to);
    if (conf::Refusal refusal = raise_limits(to)) return lines_of(*refusal);
    const bool resize = running.embedded != nullptr && from.memory.bytes_max != to.memory.bytes_max;
    if (resize && !running.embedded->node.set_memory_limit(to.memory.bytes_max, process::node_now()))
        return {"memory-limit: " + std::to_string(to.memory.bytes_max >> 20) +
                " megabytes are outside the range reserved at the start; a restart applies them"};

    if (running.nodes != nullptr) {
        const std::string refused = running.nodes->open_table(to.proxy, *set);  // before a worker takes the set
        if (!refused.empty()) process::say(process::Level::warning, refused);
        running.nodes->use(std::move(set));
    }
    change_crawler(running, from.crawler, to.crawler);
    change_commands(running.engine, from.admin, to.admin);
    running.admin.change(shown_before, shown);
    if (from.process.verbosity != to.process.verbosity) {
        running.engine.trace = to.process.verbosity >= 2;
        process::set_verbosity(to.process.verbosity);
    }
    process::set_log(to.process.log_level, to.process.log_format);
    if (!running.server.carry_out(std::move(of_workers)))
        process::say(process::Level::warning, "reload: a worker is busy and applies it later");
    return {};
}

}  // namespace farcached::daemon
