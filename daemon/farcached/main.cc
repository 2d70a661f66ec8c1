// SPDX-License-Identifier: BSD-3-Clause
// farcached's main: creates the parts of the program in order, and returns its exit status.
//
// Sockets are bound before root is given up. Memory, threads and files follow in the final process, after -d has forked.
#include <cstdlib>
#include <exception>
#include <memory>
#include <span>
#include <system_error>
#include <vector>

#include "base/recorder.h"
#include "conf/addresses.h"
#include "conf/command_line.h"
#include "conf/option.h"
#include "conf/program.h"
#include "daemon/engine/engine.h"
#include "daemon/farcached/admin.h"
#include "daemon/farcached/http_pages.h"
#include "daemon/farcached/live_settings.h"
#include "daemon/farcached/server.h"
#include "daemon/remote/nodes.h"
#include "daemon/stats/embedded.h"
#include "daemon/stats/proxy_events.h"
#include "daemon/stats/watch_hub.h"
#include "process/affinity.h"
#include "process/crash_report.h"
#include "process/fatal.h"
#include "process/http_listener.h"
#include "process/log.h"
#include "process/node_time.h"
#include "process/passed_sockets.h"
#include "process/process.h"
#include "process/reloader.h"
#include "process/service_manager.h"
#include "process/start_guard.h"
#include "process/supervisor.h"
#include "process/system_calls.h"

namespace farcached::daemon {

using process::Identity;
using process::Level;
using process::PidFile;
using process::Signals;
using process::fatal;
using process::or_fatal;

namespace {

// -- The options of each module -------------------------------------------------------------------------

SessionProtocol session_protocol(conf::Protocol protocol) {
    if (protocol == conf::Protocol::text) return SessionProtocol::text;
    if (protocol == conf::Protocol::binary) return SessionProtocol::binary;
    return SessionProtocol::any;
}

ServerOptions server_options(const conf::Settings& settings) {
    const conf::ListenSettings& listen = settings.listen;
    const conf::SessionSettings& session = settings.session;
    ServerOptions options;
    options.admin_path = settings.admin.socket_path;
    for (conf::ListenAddress& address : or_fatal(conf::listen_addresses(listen))) {
        options.tcp.push_back(
            {std::move(address.host), address.port, session_protocol(address.protocol)});
    }
    options.unix_path = listen.unix_path;
    options.unix_mode = listen.unix_mode;
    options.interfaces = listen.interfaces;
    options.backlog = listen.backlog;
    options.protocol = session_protocol(listen.protocol);
    options.threads = session.threads;
    options.worker_cpus = conf::cpus_of(session.worker_cpus);
    or_fatal(process::check_cpus("--worker-cpus", options.worker_cpus));
    options.connections_max = session.connections_max;
    options.reject_over_limit = session.reject_over_limit;
    options.io = session.io;
    const uint64_t buffers = session.buffer_bytes_max;
    const bool embedded = settings.proxy.nodes.empty();
    options.session_bytes_max = buffers != 0 ? buffers : SessionMemory::limit_for(settings.memory.bytes_max, embedded);
    static_cast<WorkerLive&>(options.worker) = worker_options(settings);
    return options;
}

// Sockets passed by the service manager replace those of the options.
void take_passed_sockets(ServerOptions& options) {
    process::PassedSockets passed = or_fatal(process::PassedSockets::of_environment());
    options.admin_passed = or_fatal(process::take_admin(passed));
    if (options.admin_passed.fd >= 0) options.admin_path.clear();
    options.passed = passed.take_rest();
    if (options.passed.empty()) return;
    options.tcp.clear();
    options.unix_path.clear();
    process::say(Level::info, "listening at " + std::to_string(options.passed.size()) +
                                  " sockets from the service manager; -p, -l and -s are ignored");
}

node::Config node_config(const conf::MemorySettings& memory, uint32_t threads) {
    node::Config config;
    config.memory_bytes = memory.bytes_max;
    config.item_bytes_max = memory.item_bytes_max;
    config.growth_factor = memory.growth_factor;
    config.chunk_bytes_min = memory.chunk_bytes_min;
    config.evict = memory.evict;
    config.cas = memory.cas;
    config.huge_pages = memory.huge_pages;
    config.offered = false;
    config.numa_nodes = node::read_numa_nodes();
    config.workers = threads;
    return config;
}

EngineOptions engine_options(const conf::Settings& settings) {
    EngineOptions options;
    options.cas_enabled = settings.memory.cas;
    options.item_bytes_max = settings.memory.item_bytes_max;
    options.flush_enabled = settings.admin.flush;
    options.dump_enabled = settings.admin.dump;
    options.crawler_enabled = settings.crawler.enabled;
    options.watch_enabled = settings.admin.watch;
    options.shutdown_enabled = settings.admin.shutdown;
    options.trace = settings.process.verbosity >= 2;
    options.detail_enabled = settings.admin.detail;
    return options;
}

node::CrawlerOptions crawler_options(const conf::CrawlerSettings& crawler) {
    node::CrawlerOptions options;
    options.enabled = crawler.enabled;
    options.sleep_us = crawler.sleep_us;
    options.to_crawl = crawler.items_max;
    return options;
}

WatchLimits watch_limits(const conf::AdminSettings& admin, uint32_t threads) {
    WatchLimits limits;
    limits.pending_bytes_max = admin.worker_log_bytes * threads;
    limits.watcher_bytes_max = admin.watcher_log_bytes;
    return limits;
}

// -- The process -----------------------------------------------------------------------------------------

void settle(const conf::ProcessSettings& settings, const Identity& identity, const process::ServiceManager& manager) {
    or_fatal(process::drop_privileges(identity, settings.core_dumps));
    if (process::may_leave(settings.daemonize, manager))
        or_fatal(process::go_to_background(settings.core_dumps, settings.verbosity > 0));
    if (!settings.lock_memory) return;
    const std::string warning = process::lock_memory();
    if (!warning.empty()) process::say(Level::warning, warning);
}

// Threads that did start are not joined when another cannot: the process ends at once.
template <class Start>
void start_or_exit(Start start) {
    try {
        start();
    } catch (const std::system_error& error) {
        process::say(Level::error, std::string("failed to start threads: ") + error.what());
        std::_Exit(conf::exit_system);
    }
}

// nullptr: other nodes keep the items.
std::unique_ptr<Embedded> embedded_or_exit(const conf::Settings& settings) {
    if (!settings.proxy.nodes.empty()) return nullptr;
    try {
        return std::make_unique<Embedded>(node_config(settings.memory, settings.session.threads),
                                          crawler_options(settings.crawler), &process::node_now);
    } catch (const std::exception& error) {  // no memory, or more than a node can have
        fatal({conf::exit_system, "failed to get " + std::to_string(settings.memory.bytes_max >> 20) +
                                        " megabytes of memory: " + error.what() + "\n"});
    }
}

// nullptr: only the embedded node.
std::unique_ptr<Nodes> nodes_or_exit(const conf::Settings& settings) {
    if (settings.proxy.nodes.empty()) return nullptr;
    return or_fatal(Nodes::make(settings.proxy, settings.memory));
}

// Threads run already: exits without unwinding.
void limit_or_exit(const conf::Settings& settings, const Server& server) {
    if (!settings.process.drop_privileges) return;
    const conf::Refusal refused =
        process::limit_system_calls({.ring = server.workers_on_ring() != 0, .rdma = uses_rdma(settings.proxy)});
    if (!refused) return;
    process::say(Level::error, refused->text);
    std::_Exit(refused->exit_status);
}

// Carries out one reload.
void reload(process::Reloader& reloader, const Running& running, WatchLog& watch) {
    const auto tell = [&](std::string_view status) {
        if (watch.wants(watch_proxyevents)) watch.proxy_event(reload_line(status));
    };
    tell("start");
    const bool done =
        reloader.reload([&](const conf::Settings& from, const conf::Settings& to) { return change(running, from, to); });
    tell(done ? "done" : "failed");
}

// From here on this is the final process.
void serve(process::Reloader& reloader, Nodes* nodes, Server& server, process::HttpListener* http, Signals& signals,
           process::ServiceManager& manager, process::StartGuard& starting) {
    const conf::Settings settings = reloader.running();
    const std::unique_ptr<Embedded> embedded = embedded_or_exit(settings);
    EngineOptions engine = engine_options(settings);
    WatchHub watch(watch_limits(settings.admin, settings.session.threads));
    AdminOptions shown = admin_options(settings);
    shown.reloader = &reloader;
    AdminImpl admin(embedded.get(), server, watch, engine, shown);

    if (nodes != nullptr) {
        nodes->tell(watch);
        const std::string refused = nodes->open_table(settings.proxy);
        if (!refused.empty()) process::say(Level::warning, refused);
    }

    PidFile pid_file(settings.process.pid_file);
    process::write_port_file(std::getenv("MEMCACHED_PORT_FILENAME"), server.ports());
    if (embedded != nullptr) embedded->node.observe(&watch);
    ServiceStatus status(server, nodes);
    process::Supervisor supervisor(manager, {[&] { return nodes == nullptr || nodes->all_tried(); },
                                             [&] { return status.text(); }});
    or_fatal(process::StartGuard::room_for(settings.session.threads));
    start_or_exit([&] {
        watch.start();
        if (embedded != nullptr) embedded->crawler.start();
        server.start(embedded != nullptr ? &embedded->node : nullptr, nodes, engine, admin, watch);
        limit_or_exit(settings, server);  // before the service manager gets the ready notification
        supervisor.start(server.watched());
    });
    std::unique_ptr<HttpPages> pages;
    if (http != nullptr) {
        pages = std::make_unique<HttpPages>(HttpPages::Parts{embedded.get(), server, watch, http->base(),
                                                             std::string(conf::farcached_version())});
        start_or_exit([&] { http->start([&](const auto& request, auto reply) { pages->answer(request, std::move(reply)); }); });
    }

    starting.over();
    const Running running{embedded.get(), nodes, server, engine, admin};
    signals.wait_for_the_end([&] {
        const process::ServiceManager::Reloading told(manager);
        reload(reloader, running, watch);
    });
    if (pages != nullptr) pages->set_stopping();
    supervisor.stop();
    server.stop();
    if (http != nullptr) http->stop();
    if (embedded != nullptr) embedded->crawler.stop();
    watch.stop();
}

}  // namespace

int run(int argc, char** argv) {
    const std::span<const char* const> words{argv, size_t(argc)};
    const std::vector<conf::Option> table = conf::option_table_with_nodes();
    process::outlive_readers();
    process::StartGuard starting;
    const conf::Settings settings = process::settings_or_exit(conf::parse_command_line(words, table));
    process::set_log(settings.process.log_level, settings.process.log_format);
    process::set_verbosity(settings.process.verbosity);
    Recorder recorder("");  // the main thread's name is the program's
    const Recorder::Running running(recorder);
    process::report_crashes("farcached " + std::string(conf::farcached_version()) + ", as memcached " +
                            std::string(conf::memcached_version), settings.process.crash_request);
    process::Reloader reloader(words, table, conf::farcached_program(), settings);
    process::ServiceManager manager;
    ServerOptions options = server_options(settings);
    take_passed_sockets(options);
    Identity identity = or_fatal(process::find_identity(settings.process.user));
    if (settings.process.drop_privileges) or_fatal(process::check_system_calls());
    if (settings.process.core_dumps) or_fatal(process::raise_core_limit());
    or_fatal(raise_limits(settings));
    const std::unique_ptr<Nodes> nodes = nodes_or_exit(settings);

    Signals signals;
    Server server(options);
    or_fatal(server.listen());
    const std::unique_ptr<process::HttpListener> http = process::listen_http(settings.admin);
    for (const std::string& path : {options.unix_path, options.admin_path})
        if (!path.empty()) process::give_away(path, identity);
    settle(settings.process, identity, manager);
    serve(reloader, nodes.get(), server, http.get(), signals, manager, starting);
    process::say(Level::info, "Exiting normally");
    return conf::exit_ok;
}

}  // namespace farcached::daemon

// jemalloc's settings, found by this name. Workers allocate little: few arenas and short lists of free objects per thread
// suffice, and save a third of a megabyte. MALLOC_CONF in the environment takes precedence.
extern "C" {
extern const char* const malloc_conf;
const char* const malloc_conf = "narenas:4,tcache_nslots_small_max:32";
}

int main(int argc, char** argv) { return farcached::daemon::run(argc, argv); }
