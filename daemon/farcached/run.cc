// SPDX-License-Identifier: BSD-3-Clause
// farcached's start: creates the parts of the program in order, and returns its exit status.
//
// Sockets are bound before root is given up. Memory, threads and files follow in the final process, after -d has forked.
#include "daemon/farcached/run.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "base/function_ref.h"
#include "base/recorder.h"
#include "conf/addresses.h"
#include "conf/command_line.h"
#include "conf/disk_options.h"
#include "conf/option.h"
#include "conf/program.h"
#include "conf/settings.h"
#include "daemon/engine/engine.h"
#include "daemon/farcached/admin.h"
#include "daemon/farcached/announcement.h"
#include "daemon/farcached/discovered.h"
#include "daemon/farcached/files.h"
#include "daemon/farcached/http_pages.h"
#include "daemon/farcached/part_options.h"
#include "daemon/farcached/server.h"
#include "daemon/remote/cluster_view.h"
#include "daemon/remote/nodes.h"
#include "daemon/stats/stats_sample.h"
#include "daemon/stats/watch_hub.h"
#include "daemon/steps/warm_up.h"
#include "node/store/away_items.h"
#include "node/store/restart.h"
#include "process/crash_report.h"
#include "process/fatal.h"
#include "process/http_servers.h"
#include "process/log.h"
#include "process/node_time.h"
#include "process/process.h"
#include "process/reloader.h"
#include "process/service_manager.h"
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

std::unique_ptr<node::Restart> restart_or_exit(const std::string& path, const process::ServiceManager& manager) {
    const node::RunClock clock{process::node_zero_ns() / 1'000'000'000, process::node_started_unix()};
    const auto progress = [&manager](const std::string& text) { process::say_restart_progress(manager, text); };
    try {
        return std::make_unique<node::Restart>(path, clock, process::say_restart, progress);
    } catch (const std::exception& error) {
        fatal({conf::exit_system, "-e " + std::string(error.what()) + "\n"});
    }
}

// nullptr: no values are on a disk.
std::unique_ptr<node::DiskStore> disk_or_exit(const conf::Settings& settings, const Files& files, const node::Restart& restart) {
    if (files.disk.empty()) return nullptr;
    node::DiskConfig config = disk_config(settings.disk);
    config.path = files.disk;
    config.former_store = restart.former_disk();
    if (!settings.memory.evict) process::say(Level::warning, conf::disk::nothing_moves("ext_path"));
    config.say = [](const std::string& text) { process::say(Level::warning, text); };
    try {
        return or_fatal(node::DiskStore::open(config));
    } catch (const std::exception& error) {
        fatal({conf::exit_system, "ext_path: " + std::string(error.what()) + "\n"});
    }
}

// nullptr: other nodes keep the items.
std::unique_ptr<Embedded> embedded_or_exit(const conf::Settings& settings, node::Restart& restart, node::DiskStore* disk) {
    if (settings.proxy.has_nodes()) return nullptr;
    const auto make = [&] {
        node::Config config = node_config(settings.memory, settings.session.threads, restart.file());
        config.disk = disk;
        config.spill = spill_rules(settings.disk);
        return std::make_unique<Embedded>(config, crawler_options(settings.crawler), &process::node_now);
    };
    try {
        std::unique_ptr<Embedded> embedded = restart.made(make);
        if (const NodeSeconds flush = restart.carry_out(embedded->node, settings.session.threads, process::node_now()))
            embedded->crawler.flush_at(flush);
        return embedded;
    } catch (const std::exception& error) {  // no memory, or more than a node can have
        fatal({conf::exit_system, "failed to get " + std::to_string(settings.memory.bytes_max >> 20) +
                                        " megabytes of memory: " + error.what() + "\n"});
    }
}

Nodes::Made make_nodes(const conf::Settings& settings, const Files& files, std::shared_ptr<const protocol::AuthKey> key) {
    const PeerTrust trust{settings.peer_tls.enabled() ? &files.peers : nullptr, std::move(key)};
    return Nodes::make(settings.proxy, settings.memory, fabric::look_up, trust);
}

// nullptr: only the embedded node.
std::unique_ptr<Nodes> nodes_or_exit(const conf::Settings& settings, const Files& files,
                                     std::shared_ptr<const protocol::AuthKey> key) {
    if (settings.proxy.nodes.empty()) return nullptr;
    return or_fatal(make_nodes(settings, files, std::move(key)));
}

// nullptr: without warm_from. It waits for name servers.
std::unique_ptr<WarmSource> warm_source_or_exit(const conf::Settings& settings, const protocol::AuthKey* key) {
    const std::string& name = settings.proxy.warm_source.address;
    if (name.empty()) return nullptr;
    if (key != nullptr && key->role() == protocol::AuthRole::reader)
        fatal({conf::exit_system, "warm_from: with a key of role reader nothing can be stored; give a key of role proxy\n"});
    SourceOptions options;
    std::string host;
    uint16_t port = 0;
    or_fatal(conf::parse_host_and_port(name, "", 1, host, port));
    auto found = fabric::look_up(host, port);
    if (const auto* why = std::get_if<std::string>(&found))
        fatal({conf::exit_system, "warm_from: " + name + ": " + *why + "; correct the name, or remove the option\n"});
    options.name = name;
    options.addresses = std::get<0>(std::move(found));
    options.timeout_ns = settings.proxy.warm_source.timeout_ms * UINT64_C(1'000'000);
    options.value_bytes_max = settings.memory.item_bytes_max;
    return std::make_unique<WarmSource>(std::move(options));
}

// 0: none.
uint16_t tcp_port(const Server& server) {
    for (const process::BoundPort& bound : server.ports())
        if (std::string_view(bound.transport) == "TCP") return bound.port;
    return 0;
}

// At the start and at reloads. It waits for name servers, for a bounded time.
std::vector<ClusterView::Member> cluster_members(const conf::ClusterSettings& settings, const Server& server) {
    std::vector<std::string> unknown;
    std::vector<ClusterView::Member> members = members_of(settings, tcp_port(server), unknown);
    for (const std::string& one : unknown) process::say(Level::warning, one);
    return members;
}

// As a version it is above those of earlier runs, and of other farcached that have an older list.
uint64_t time_of_day() { return uint64_t(std::time(nullptr)); }

// nullptr: it is registered nowhere.
std::unique_ptr<Announcement> announcement_or_exit(const conf::Settings& settings, const Server& server, ClusterView& cluster) {
    if (!Announcement::wanted(settings)) return nullptr;
    const EtcdAccess access = or_fatal(etcd_access(settings.proxy, settings.proxy.discovery.source));
    return std::make_unique<Announcement>(settings, access, tcp_port(server), cluster);
}

// Threads run already: exits without unwinding.
void limit_or_exit(const conf::Settings& settings, const Server& server) {
    if (!settings.process.drop_privileges) return;
    const conf::Refusal refused =
        process::limit_system_calls({.ring = server.workers_on_ring() != 0 || !settings.disk.path.empty(),
                                     .rdma = uses_rdma(settings.proxy)});
    if (!refused) return;
    process::say(Level::error, refused->text);
    std::_Exit(refused->exit_status);
}

// -- Reloads ---------------------------------------------------------------------------------------------

// All outlive the calls.
struct Running {
    Embedded* embedded;  // nullptr in front of nodes
    Nodes* nodes;  // nullptr with an embedded node
    Server& server;
    EngineOptions& engine;
    AdminImpl& admin;
    Files& files;
    ClusterView& cluster;
    Announcement* announcement;  // nullptr: this farcached is registered nowhere
    Discovered* discovered;  // nullptr: without --discover

    conf::Settings with_list(const conf::Settings& settings) const {
        return discovered == nullptr ? settings : discovered->with_list(settings);
    }
};

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

void change_spill(const Running& running, const conf::DiskSettings& from, const conf::DiskSettings& to) {
    if (running.embedded == nullptr) return;
    node::SpillRules& rules = running.embedded->node.away().rules();
    if (from.item_bytes_min != to.item_bytes_min) rules.value_bytes_min = to.item_bytes_min;
    if (from.recache_rate != to.recache_rate) rules.recache_rate = to.recache_rate;
    if (from.drop_unread != to.drop_unread) rules.drop_unread = to.drop_unread;
    if (from.item_age_s != to.item_age_s) rules.idle_s = to.item_age_s;
}

void change_commands(EngineOptions& engine, const conf::AdminSettings& from, const conf::AdminSettings& to) {
    if (from.flush != to.flush) engine.flush_enabled = to.flush;
    if (from.dump != to.dump) engine.dump_enabled = to.dump;
    if (from.watch != to.watch) engine.watch_enabled = to.watch;
    if (from.shutdown != to.shutdown) engine.shutdown_enabled = to.shutdown;
}

enum class ListOfCluster { kept, looked_up };

// From main's thread. Returns the errors, a line each; then nothing is changed. Applies only options that differ: values set by
// commands stay until their option changes. Waits, for a bounded time, until all workers have applied them; before, use_keys() of
// `files` lets a worker in `refresh_certs` go on.
std::vector<std::string> change(const Running& running, const conf::Settings& from, const conf::Settings& to, NewFiles& files,
                                ListOfCluster list) {
    // All that can be refused comes first.
    if (from.cluster.advertise != to.cluster.advertise && (Announcement::wanted(from) || Announcement::wanted(to)))
        return {"advertise: with --discover etcd:// it cannot be changed while farcached runs; restart to apply"};
    if (!process::system_calls_cover({.rdma = uses_rdma(to.proxy)}))
        return {"node: with drop_privileges, verbs nodes cannot be added to a process that was started without one; "
                "restart to apply"};
    std::shared_ptr<const NodeSet> set;
    if (running.nodes != nullptr) {
        Nodes::Prepared prepared = running.nodes->prepare(to.proxy, fabric::look_up, files.node_key());
        if (const auto* problem = std::get_if<conf::Problem>(&prepared)) return lines_of(*problem);
        set = std::get<std::shared_ptr<const NodeSet>>(std::move(prepared));
    }
    Server::Change of_workers =
        running.server.make_change({to.session.connections_max, to.session.reject_over_limit, worker_options(to)});
    std::optional<std::vector<ClusterView::Member>> members;
    if (list == ListOfCluster::looked_up && !Announcement::gives_list(to)) members = cluster_members(to.cluster, running.server);
    const AdminOptions shown_before = admin_options(from), shown = admin_options(to);
    if (conf::Refusal refusal = raise_limits(to)) return lines_of(*refusal);
    const bool resize = running.embedded != nullptr && from.memory.bytes_max != to.memory.bytes_max;
    if (resize && !running.embedded->node.set_memory_limit(to.memory.bytes_max, process::node_now()))
        return {"memory_limit: " + std::to_string(to.memory.bytes_max >> 20) +
                " megabytes are outside the range reserved at the start; a restart applies them"};

    if (running.nodes != nullptr) {
        const std::string refused = running.nodes->pointers().open(to.proxy, *set);  // before a worker takes the set
        if (!refused.empty()) process::say(process::Level::warning, refused);
        running.nodes->use(std::move(set));
    }
    change_crawler(running, from.crawler, to.crawler);
    change_spill(running, from.disk, to.disk);
    change_commands(running.engine, from.admin, to.admin);
    if (running.announcement != nullptr) running.announcement->use_list(Announcement::gives_list(to));
    if (members.has_value()) running.cluster.set(*std::move(members), time_of_day());
    running.admin.change(shown_before, shown);
    if (from.process.verbosity != to.process.verbosity) {
        running.engine.trace = to.process.verbosity >= 2;
        process::set_verbosity(to.process.verbosity);
    }
    process::set_log(to.process.log_level, to.process.log_format);
    if (!from.tls.kernel) warn_of_kernel_tls(to, running.server);
    files.use_keys();
    if (!running.server.carry_out(std::move(of_workers)))
        process::say(process::Level::warning, "reload: a worker is busy and applies it later");
    return {};
}

// After another list of nodes (--discover), from main's thread. False: the newest list cannot be used now. It does not look up the
// members of the cluster: a name server that is down would delay the end of a dead node.
bool take_list(const Running& running, const conf::Settings& settings) {
    const std::shared_ptr<const Found> found = running.discovered == nullptr ? nullptr : running.discovered->newer();
    if (found == nullptr) return true;
    try {
        const conf::Settings next = Discovered::with(settings, *found);
        NewFiles files(running.files);
        files.keep_node_key(running.nodes->set()->options.key);
        std::vector<std::string> refused = conf::check_nodes(next.proxy);
        if (refused.empty()) refused = change(running, running.with_list(settings), next, files, ListOfCluster::kept);
        if (refused.empty()) running.discovered->use(found);
        else running.discovered->refuse(*found, refused);
        return refused.empty();
    } catch (const std::bad_alloc&) {
        process::lose_line();
        return false;
    }
}

// False: refused.
bool try_reload(process::Reloader& reloader, const Running& running, process::HttpServers& http) {
    NewFiles files(running.files);
    process::HttpServers::NewFiles of_http(http);
    std::vector<std::string> refused = files.load();
    if (refused.empty()) refused = of_http.load();
    if (!refused.empty()) {
        reloader.refuse(refused);
        return false;
    }
    const auto load = [&](const conf::Settings& next, conf::Settings& wanted) {
        return files.load_keys(reloader.running(), next, wanted);
    };
    const auto apply = [&](const conf::Settings& from, const conf::Settings& to) {
        return change(running, running.with_list(from), running.with_list(to), files, ListOfCluster::looked_up);
    };
    bool done = reloader.reload(apply, load);
    // Without a changed option nothing was applied; a new key reaches the nodes all the same.
    if (done && running.nodes != nullptr && !same_key(running.nodes->set()->options.key, files.node_key())) {
        const conf::Settings same = running.with_list(reloader.running());
        refused = change(running, same, same, files, ListOfCluster::kept);
        if (!refused.empty()) reloader.refuse(refused);
        done = refused.empty();
    }
    if (done) {
        files.use();
        of_http.use();
    }
    return done;
}

void reload(process::Reloader& reloader, const Running& running, process::HttpServers& http, WatchLog& watch) {
    const auto show = [&](std::string_view status) {
        if (watch.wants(watch_proxyevents)) watch.proxy_event(reload_line(status));
    };
    try {
        show("start");
        show(try_reload(reloader, running, http) ? "done" : "failed");
    } catch (const std::bad_alloc&) {
        reloader.starved();
    }
}

// From here on this is the final process.
void serve(process::Reloader& reloader, const conf::Settings& settings, Files& files, Nodes* nodes, Discovered* discovered,
           Server& server, process::HttpServers& http, Signals& signals, process::ServiceManager& manager,
           process::StartGuard& starting) {
    const std::unique_ptr<node::Restart> restart = restart_or_exit(files.memory, manager);
    const std::unique_ptr<node::DiskStore> disk = disk_or_exit(settings, files, *restart);
    const std::unique_ptr<Embedded> embedded = embedded_or_exit(settings, *restart, disk.get());
    ClusterView cluster;
    if (!Announcement::gives_list(settings)) cluster.set(cluster_members(settings.cluster, server), time_of_day());
    const std::unique_ptr<Announcement> announcement = announcement_or_exit(settings, server, cluster);
    EngineOptions engine = engine_options(settings, files.list(), files.sasl.get());
    engine.cluster = &cluster;
    WatchHub watch(watch_limits(settings.admin, settings.session.threads));
    AdminOptions shown = admin_options(settings);
    shown.reloader = &reloader;
    shown.keys = &files.keys;
    shown.discovered = discovered;
    shown.cluster = &cluster;
    AdminImpl admin(embedded.get(), server, watch, engine, shown);

    if (nodes != nullptr) {
        nodes->log().use(watch);
        const std::string refused = nodes->pointers().open(settings.proxy, *nodes->set());
        if (!refused.empty()) process::say(Level::warning, refused);
    }

    PidFile pid_file(settings.process.pid_file);
    process::write_port_file(std::getenv("MEMCACHED_PORT_FILENAME"), server.ports());
    if (embedded != nullptr) embedded->node.observe(&watch);
    ServiceStatus status(server, nodes);
    process::Supervisor supervisor(manager, {[&] { return nodes == nullptr || nodes->all_tried(); },
                                             [&] { return status.text(); },
                                             [&] { return status.started(http.place()); }});
    const uint32_t per_worker = settings.tls.enabled ? 2 : 1;  // with the one for handshakes
    or_fatal(process::StartGuard::room_for(settings.session.threads * per_worker));
    std::unique_ptr<HttpPages> pages;
    start_or_exit([&] {
        if (http.listen())
            pages = std::make_unique<HttpPages>(HttpPages::Parts{embedded.get(), server, watch, http,
                                                                 std::string(conf::farcached_version()), discovered});
        watch.start();
        if (embedded != nullptr) embedded->crawler.start();
        server.start(embedded != nullptr ? &embedded->node : nullptr, nodes, engine, admin, watch);
        if (announcement != nullptr) announcement->start();
        limit_or_exit(settings, server);  // before the service manager gets the ready notification
        supervisor.start(server.watched());
    });
    start_or_exit([&] { http.start([&](const auto& request, auto reply) { pages->answer(request, std::move(reply)); }); });

    starting.over();
    warn_of_kernel_tls(settings, server);
    const Running running{embedded.get(), nodes, server, engine, admin, files, cluster, announcement.get(), discovered};
    const auto reload_all = [&] {
        const process::ServiceManager::Reloading told(manager);
        reload(reloader, running, http, watch);
    };
    signals.wait_for_the_end(reload_all, [&] { return take_list(running, reloader.running()); });
    if (pages != nullptr) pages->set_stopping();
    if (announcement != nullptr) announcement->stop();  // before the connections end
    supervisor.stop();
    server.stop();
    http.stop();
    if (embedded != nullptr) embedded->crawler.stop();
    watch.stop();
    if (disk != nullptr) (void)disk->flush();  // it has told of errors
    restart->stop(process::node_now());
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
    options.identity = or_fatal(process::find_identity(settings.process.user));
    if (settings.process.drop_privileges) or_fatal(process::check_system_calls());
    if (settings.process.core_dumps) or_fatal(process::raise_core_limit());
    or_fatal(raise_limits(settings));
    Files files;
    const std::shared_ptr<const protocol::AuthKey> node_key = files.node_key_or_exit(settings);
    std::unique_ptr<Nodes> nodes = nodes_or_exit(settings, files, node_key);

    Signals signals;
    const std::unique_ptr<WarmSource> warm_source = warm_source_or_exit(settings, node_key.get());
    options.worker.warm = warm_source.get();
    options.worker.tls = settings.tls.enabled ? &files.keys : nullptr;
    Server server(options);
    or_fatal(server.listen());
    process::HttpServers http(settings.admin);
    warn_of_open_places(settings, options, server);
    files.find_or_exit(settings);
    settle(settings.process, options.identity, manager);
    conf::Settings with_nodes = settings;
    std::unique_ptr<Discovered> discovered;  // of the final process: it has a thread
    if (!settings.proxy.discovery.source.empty()) {
        start_or_exit([&] { discovered = std::make_unique<Discovered>(settings); });
        const auto prepare = [&](const conf::Settings& next) -> std::vector<std::string> {
            if (const conf::Refusal refused = raise_limits(next)) return lines_of(*refused);
            Nodes::Made made = make_nodes(next, files, node_key);
            if (const auto* problem = std::get_if<conf::Problem>(&made)) return lines_of(*problem);
            nodes = std::get<0>(std::move(made));
            with_nodes = next;
            return {};
        };
        if (!discovered->wait_for_list(signals, manager, settings, prepare)) return conf::exit_ok;
        nodes->look_with([&discovered](uint64_t epoch) { discovered->ask_soon(epoch); });
    }
    serve(reloader, with_nodes, files, nodes.get(), discovered.get(), server, http, signals, manager, starting);
    process::say(Level::info, "Exiting normally");
    return conf::exit_ok;
}

}  // namespace farcached::daemon
