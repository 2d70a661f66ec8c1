// SPDX-License-Identifier: BSD-3-Clause
// farnode's start: builds the program in order, and returns its exit status.
//
// Addresses are bound before the process gives up root. The memory, the lock on its name and the socket of that name belong to
// the final user. With -d, the child process that stays creates them.
#include "daemon/farnode/run.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <filesystem>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "base/broken.h"
#include "base/recorder.h"
#include "conf/addresses.h"
#include "conf/advertise.h"
#include "conf/command_line.h"
#include "conf/disk_options.h"
#include "conf/exposure.h"
#include "conf/option.h"
#include "conf/program.h"
#include "daemon/discovery/etcd_client.h"
#include "daemon/farnode/admin.h"
#include "daemon/farnode/http_pages.h"
#include "daemon/farnode/registration.h"
#include "daemon/farnode/server.h"
#include "daemon/farnode/spill_link.h"
#include "daemon/http/shared_pages.h"
#include "daemon/remote/auth_file.h"
#include "fabric/owner.h"
#include "fabric/peer_tls.h"
#include "fabric/verbs/verbs_device.h"
#include "node/peer/peer_store.h"
#include "node/service/connection.h"
#include "node/service/node_stats.h"
#include "node/store/crawler.h"
#include "node/store/impl.h"
#include "node/store/node.h"
#include "node/store/restart.h"
#include "process/admin_socket.h"
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
#include "protocol/spilled.h"

namespace farcached::node {

namespace {

using process::Level;
using process::Signals;
using process::fatal;
using process::or_fatal;
using AdminSocket = std::unique_ptr<process::AdminSocket>;
constexpr uint64_t files_per_connection = 6;  // socket, poller, and the event descriptors of both ends of a channel
constexpr uint64_t files_at_door = uint64_t(Seats::door_max_default) * 2;  // socket and poller
constexpr uint64_t files_other = 256 + files_at_door + 2 * process::HttpListener::connections_max;
constexpr uint64_t files_of_peer = 8;        // of --spill-to: the link's descriptors and events
constexpr uint64_t files_per_thread = 2;     // for reads of values in tiers
constexpr uint32_t patience_ms = 1000;           // for proxies to disconnect when the node stops
constexpr uint32_t patience_graceful_ms = 10'000;

AdminSocket listen_admin(const std::string& path, const process::Identity& identity,
                         const process::PassedSocket& passed) {
    if (passed.fd >= 0) return process::AdminSocket::adopt(passed);
    if (path.empty()) return nullptr;
    return or_fatal(process::AdminSocket::listen(path, identity));
}

// -- Files ---------------------------------------------------------------------------------------------------

using Keys = std::shared_ptr<const protocol::AuthKeys>;

// nullptr: no keys.
Result<Keys> read_keys(const std::string& path, bool spills) {
    if (path.empty()) return nullptr;
    auto read = daemon::read_auth_keys(path);
    const auto* keys = std::get_if<Keys>(&read);
    if (keys != nullptr && spills && (*keys)->first(protocol::AuthRole::proxy) == nullptr)
        return system_problem("--auth-key-file " + path + ": it has no key of role proxy, which --spill-to needs");
    return read;
}

struct Files {
    std::string memory, disk, auth_keys;  // absolute; empty: none
    Keys keys;                            // of auth_keys, at the start
    fabric::PeerTls::Paths peer_paths;    // as they
    fabric::PeerTls peers;                // TLS of tcp links, if there are paths
    std::optional<daemon::EtcdAccess> etcd;  // where this node registers; nothing: nowhere

    // How this node and the node of --spill-to know each other.
    daemon::PeerTrust of_peer() const {
        return {tls(), keys != nullptr ? keys->first(protocol::AuthRole::proxy) : nullptr};
    }
    const fabric::PeerTls* tls() const { return peer_paths.certificate.empty() ? nullptr : &peers; }
};

std::string absolute(const std::string& path) { return path.empty() ? path : std::filesystem::absolute(path).string(); }

// Absolute, because -d changes the folder.
void find_files(const conf::Settings& settings, Files& files) {
    files.memory = absolute(settings.memory.file);
    files.disk = absolute(settings.disk.path);
    const conf::PeerTlsSettings& tls = settings.peer_tls;
    files.peer_paths = {absolute(tls.certificate_path), absolute(tls.key_path), absolute(tls.issuers_path)};
    if (files.tls() != nullptr) files.peers.use(or_fatal(daemon::load_peer_tls(files.peer_paths)));
    files.auth_keys = absolute(settings.node.auth_key_file);
    files.keys = or_fatal(read_keys(files.auth_keys, !settings.node.spill_to.name.empty()));
}

void warn_of_peer_tls(const conf::NodeSettings& settings, const Files& files, const TcpListeners& listeners) {
    const conf::NodeSpec& peer = settings.spill_to;
    const bool spills_over_tcp = !peer.name.empty() && peer.channel == conf::NodeChannel::tcp;
    if (files.tls() == nullptr || !listeners.empty() || spills_over_tcp) return;
    process::say(Level::warning, "--peer-cert has no effect: links over shm and RDMA are not encrypted, and this node has none "
                                 "over tcp; use --tcp, or remove peer_cert");
}

// As the final user, who reads the files for each new token and connection.
void find_etcd(const conf::Settings& settings, Files& files) {
    if (settings.node.registration.source.empty()) return;
    files.etcd = or_fatal(daemon::etcd_access(settings.proxy, settings.node.registration.source));
}

// Of sockets from the service manager, which replace --tcp.
conf::Refusal check_places(const conf::Settings& settings, const std::vector<process::PassedSocket>& passed) {
    for (const process::PassedSocket& socket : passed) {
        if (socket.is_unix()) continue;
        const std::string place = process::describe(socket) + " at " + conf::host_and_port(socket.host, socket.port);
        if (const conf::Refusal refused = conf::check_node_place(settings, conf::NodeChannel::tcp, place, socket.host))
            return conf::Problem{conf::exit_system, refused->text};  // as for its other faults
    }
    return {};
}

// -- Configuration ---------------------------------------------------------------------------------------

// The start of this run's CAS values. A client may keep a CAS value across a restart of the node, so no two runs may share values.
// That holds if no run issues more than a million values per second on average and no clock is set back. The values fit into 53
// bits.
uint64_t uniques_above() { return realtime_us(); }

SpillRules spill_rules(const conf::Settings& settings) {
    const conf::DiskSettings& disk = settings.disk;
    return {disk.item_bytes_min, disk.recache_rate, disk.drop_unread, disk.item_age_s, settings.node.spill_share_percent / 100.0};
}

Config node_config(const conf::Settings& settings, MemoryFile* file) {
    Config config;
    config.file = file;
    config.cas_above = uniques_above();
    config.cas_by_clock = !settings.node.registration.source.empty();
    config.memory_bytes = settings.memory.bytes_max;
    config.evict = settings.memory.evict;
    config.item_bytes_max = settings.memory.item_bytes_max;
    config.huge_pages = settings.memory.huge_pages;
    config.numa_nodes = read_numa_nodes();
    config.workers = settings.session.threads;
    config.policy = settings.node.policy;
    config.lease.enabled = settings.node.lease;
    config.lease.term_ms = settings.node.lease_ms;
    config.lease.term_ms_min = settings.node.lease_ms_min;
    config.lease.term_ms_max = settings.node.lease_ms_max;
    config.lease.dead_share = settings.node.dead_share_percent / 100.0;
    if (!settings.node.verbs_host.empty()) {
        config.grows = false;  // all pages are registered, and thus locked
        config.count_reads = settings.node.access_tracking == AccessTracking::atomic;
        const uint32_t term_ms = LeaseTerms(config.policy, config.lease).longest_ms();
        const uint32_t grace_ms = fabric::verbs_grace_ms(fabric::VerbsConfig(), term_ms);
        config.lease.grace_ms = std::max(config.lease.grace_ms, grace_ms);
    }
    return config;
}

fabric::VerbsConfig verbs_config(const conf::NodeSettings& settings) {
    fabric::VerbsConfig config;
    config.rpc = settings.rpc;
    config.slots = settings.rfp_slots;
    config.look_us_max = settings.rfp_awake_us;
    return config;
}

std::unique_ptr<Restart> restart_or_exit(const std::string& path, const process::ServiceManager& manager) {
    const RunClock clock{process::node_zero_ns() / 1'000'000'000, process::node_started_unix()};
    const auto progress = [&manager](const std::string& text) { process::say_restart_progress(manager, text); };
    try {
        return std::make_unique<Restart>(path, clock, process::say_restart, progress);
    } catch (const std::exception& error) {
        fatal("-e " + std::string(error.what()));
    }
}

// path: absolute; empty: no values are on a disk, nullptr.
std::unique_ptr<DiskStore> disk_or_exit(const conf::Settings& settings, const std::string& path, const Restart& restart) {
    if (path.empty()) return nullptr;
    if (!settings.memory.evict) process::say(Level::warning, conf::disk::nothing_moves("ext_path"));
    const conf::DiskSettings& disk = settings.disk;
    DiskConfig config;
    config.path = path;
    config.bytes = disk.bytes;
    config.segment_bytes = disk.page_bytes;
    config.buffer_bytes = disk.write_buffer_bytes;
    config.threads = disk.threads;
    config.depth = disk.io_depth;
    config.former_store = restart.former_disk();
    config.say = [](const std::string& text) { process::say(Level::warning, text); };
    try {
        return or_fatal(DiskStore::open(config));
    } catch (const std::exception& error) {
        fatal(std::string("ext_path: ") + error.what());
    }
}

// nullptr: no value goes to another node.
std::unique_ptr<PeerStore> peer_or_exit(const conf::Settings& settings) {
    if (settings.node.spill_to.name.empty()) return nullptr;
    if (!settings.memory.evict) process::say(Level::warning, conf::disk::nothing_moves("--spill-to"));
    try {
        return std::make_unique<PeerStore>();
    } catch (const std::exception& error) {
        fatal(std::string("--spill-to: ") + error.what());
    }
}

// After this, no proxy READs a value on the peer that a former run of this node permitted (S15): that run ended before this began.
std::unique_ptr<SpillLink> link_or_exit(PeerStore* peer, const conf::Settings& settings, const Node& node,
                                        const daemon::PeerTrust& trust) {
    if (peer == nullptr) return nullptr;
    std::this_thread::sleep_for(std::chrono::milliseconds(protocol::spilled_term_ms_max + 1));
    return or_fatal(SpillLink::make(*peer, settings, node.view().header->incarnation, trust));
}

std::unique_ptr<Node> node_or_exit(const conf::Settings& settings, Restart& restart, PeerStore* peer, DiskStore* disk) {
    const auto make = [&] {
        Config config = node_config(settings, restart.file());
        config.peer = peer;
        config.disk = disk;
        config.spill = spill_rules(settings);
        return std::make_unique<Node>(config);
    };
    try {
        return restart.made(make);
    } catch (const std::exception& error) {
        fatal("failed to get " + std::to_string(settings.memory.bytes_max >> 20) +
                " megabytes of memory: " + error.what());
    }
}

// "host-11300", or "node" if that is not a valid name.
std::string made_up_name(const TcpListeners& listeners) {
    char host[256] = "";
    if (listeners.empty()) return "node";
    if (gethostname(host, sizeof host - 1) != 0) return "node";
    const std::string name = std::string(host) + "-" + std::to_string(listeners.front()->address().port());
    return conf::is_node_name(name) ? name : "node";
}

NodeFacts facts_of(const conf::Settings& settings, const TcpListeners& listeners) {
    NodeFacts facts;
    facts.name = settings.node.name.empty() ? made_up_name(listeners) : settings.node.name;
    facts.started_unix = process::node_started_unix();
    facts.connections_max = settings.session.connections_max;
    return facts;
}

// "3 connections of proxies, 41200 items in 12 of 64 MB".
std::string right_text(const FarnodeServer& server) {
    const uint64_t now_ns = boottime_ns();
    if (!server.right().serves(now_ns) && server.right().is_silent()) return "; etcd does not answer: requests are refused";
    if (!server.right().serves(now_ns)) return "; not registered in etcd: requests are refused";
    return server.right().left_ms(now_ns) == 0u ? "; etcd does not answer: memory is not read one-sided" : "";
}

std::string status_text(const Node& node, const FarnodeServer& server) {
    const uint64_t connections = server.connections();
    const Stats stats = node.stats(process::node_now());
    return std::to_string(connections) + (connections == 1 ? " connection" : " connections") + " of proxies, " +
           std::to_string(stats.items) + (stats.items == 1 ? " item" : " items") + " in " +
           std::to_string(stats.bytes >> 20) + " of " + std::to_string(stats.memory_limit_bytes >> 20) + " MB" +
           right_text(server);
}

// The line of a start.
std::string started_text(const NodeFacts& facts, const FarnodeServer& server, const conf::Settings& settings) {
    return "farnode " + std::string(conf::farcached_version()) + ", node " + facts.name + ": listening at " + server.places() +
           "; " + std::to_string(settings.session.threads) + (settings.session.threads == 1 ? " thread; " : " threads; ") +
           std::to_string(settings.memory.bytes_max >> 20) + " MB";
}

conf::Refusal raise_limits(const conf::Settings& settings) {
    return process::raise_file_limit(settings.session.connections_max,
                                     settings.session.connections_max * (files_per_connection - 1) +
                                         settings.session.threads * files_per_thread + files_of_peer + files_other);
}

// The grace after a lease was fixed at the start, from the longest term then.
std::vector<std::string> check_terms(const Node& node, const conf::Settings& to) {
    if (to.node.verbs_host.empty()) return {};
    LeaseConfig lease = node.config().lease;
    lease.term_ms = to.node.lease_ms;
    lease.term_ms_min = to.node.lease_ms_min;
    lease.term_ms_max = to.node.lease_ms_max;
    const uint32_t longest_ms = LeaseTerms(node.config().policy, lease).longest_ms();
    if (fabric::verbs_grace_ms(fabric::VerbsConfig(), longest_ms) <= lease.grace_ms) return {};
    return {"lease_ms_max: over RDMA leases of " + std::to_string(longest_ms) + " ms need a longer grace than the " +
            std::to_string(lease.grace_ms) + " ms that this node was started with; a restart applies them"};
}

// Applies the settings that a reload may change; a Reloader::Apply. Steps that can fail come first.
std::vector<std::string> change(Node& node, NodeFacts& facts, FarnodeServer& server, const conf::Settings& from,
                                const conf::Settings& to) {
    if (conf::Refusal refusal = raise_limits(to)) return {refusal->text.substr(0, refusal->text.find('\n'))};
    if (std::vector<std::string> refused = check_terms(node, to); !refused.empty()) return refused;
    if (from.memory.bytes_max != to.memory.bytes_max &&
        !node.set_memory_limit(to.memory.bytes_max, process::node_now()))
        return {"memory_limit: " + std::to_string(to.memory.bytes_max >> 20) +
                " megabytes are outside the range reserved at the start; a restart applies them"};
    facts.connections_max = to.session.connections_max;
    node.set_lease_terms(to.node.lease_ms, to.node.lease_ms_min, to.node.lease_ms_max);
    node.away().rules() = spill_rules(to);
    server.change(to.node.greeting_timeout_ms, to.node.report_share_percent / 100.0, to.memory.bytes_max);
    process::set_verbosity(to.process.verbosity);
    process::set_log(to.process.log_level, to.process.log_format);
    return {};
}

// All outlive the calls.
struct Running {
    Node& node;
    NodeFacts& facts;
    FarnodeServer& server;
    Files& files;
    SpillLink* to_peer;  // nullptr: none
    process::HttpServers& http;
    NodeRegistration* registration;  // nullptr: none
};

void reload(process::Reloader& reloader, const Running& running) try {
    Files& files = running.files;
    process::HttpServers::NewFiles of_http(running.http);
    if (const std::vector<std::string> refused = of_http.load(); !refused.empty()) return reloader.refuse(refused);
    Result<Keys> read = read_keys(files.auth_keys, running.to_peer != nullptr);
    if (const auto* problem = std::get_if<Problem>(&read))
        return reloader.refuse({problem->text + "; the former keys stay in use"});
    const Keys keys = std::get<Keys>(std::move(read));
    fabric::PeerTls::Loaded peers;
    if (files.tls() != nullptr) {
        Result<fabric::PeerTls::Loaded> loaded = daemon::load_peer_tls(files.peer_paths);
        if (const auto* problem = std::get_if<Problem>(&loaded)) return reloader.refuse({problem->text});
        peers = std::get<0>(std::move(loaded));
    }
    const bool done = reloader.reload([&](const conf::Settings& from, const conf::Settings& to) {
        return change(running.node, running.facts, running.server, from, to);
    });
    if (!done) return;
    of_http.use();
    if (running.registration != nullptr) running.registration->change_weight(reloader.running().node.registration.weight);
    if (peers != nullptr) files.peers.use(std::move(peers));
    if (keys == nullptr) return;
    running.server.use_keys(keys);
    if (running.to_peer != nullptr) running.to_peer->use_key(keys->first(protocol::AuthRole::proxy));
} catch (const std::bad_alloc&) {
    reloader.starved();
}

// -- The process --------------------------------------------------------------------------------------------

// nullptr: no name, so no access by shared memory.
std::unique_ptr<fabric::NameLock> take_name(const std::string& path) {
    if (path.empty()) return nullptr;
    auto name = fabric::NameLock::take(path);
    if (const auto* problem = std::get_if<Problem>(&name)) fatal(problem->text);
    return std::get<0>(std::move(name));
}

ServiceLimits limits_of(const conf::NodeSettings& settings) {
    ServiceLimits limits;
    limits.greeting_ms = settings.greeting_timeout_ms;
    limits.report_share = settings.report_share_percent / 100.0;
    return limits;
}

// Runs after threads have started, so exits without unwinding.
void limit_or_exit(const conf::Settings& settings) {
    if (!settings.process.drop_privileges) return;
    const conf::Refusal refused =
        process::limit_system_calls({.ring = !settings.disk.path.empty(), .rdma = !settings.node.verbs_host.empty()});
    if (!refused) return;
    process::say(Level::error, refused->text);
    std::_Exit(refused->exit_status);
}

// The memory that proxies may reach over RDMA. fetches: nullptr without RDMA.
fabric::VerbsOffer offer_of(Node& node, FetchPool* fetches, bool withholds) {
    fabric::VerbsOffer offer{&node.impl().region};
    offer.withholds = withholds;
    if (const ReadCounters* counters = node.impl().arena.read_counters()) {
        offer.counters = counters->words();
        offer.counters_bytes = counters->bytes();
    }
    if (fetches != nullptr) offer.landing = {fetches->data(), fetches->size()};
    return offer;
}

uint16_t port_of(const auto& listeners) { return listeners.empty() ? 0 : listeners.front()->address().port(); }

// nullptr: the node registers nowhere.
std::unique_ptr<NodeRegistration> register_node(const std::optional<daemon::EtcdAccess>& etcd, const conf::Settings& settings,
                                                const NodeFacts& facts, FarnodeServer& server, Node& node,
                                                uint64_t former_incarnation, const conf::Advertised& addresses) {
    if (!etcd.has_value()) return nullptr;
    return std::make_unique<NodeRegistration>(*etcd, settings, facts, server, node, former_incarnation, addresses);
}

FarnodeServer::Options options_of(const conf::Settings& settings, FetchPool* fetches) {
    const conf::RegistrationSettings& registration = settings.node.registration;
    const bool needs_right = registration.fence != conf::DiscoverFence::off && !registration.source.empty();
    return {settings.session.threads, fetches, limits_of(settings.node), needs_right};
}

std::vector<process::Watched> watched_of(FarnodeServer& server, SpillLink* to_peer) {
    std::vector<process::Watched> all = server.watched();
    if (to_peer != nullptr) all.push_back(to_peer->watched());
    return all;
}

// Runs in the final process, as the final user.
void serve(process::Reloader& reloader, Files& files, TcpListeners listeners, AdminSocket admin,
           process::HttpServers& http, process::Background& background, Signals& signals, process::ServiceManager& manager,
           process::StartGuard& starting) {
    const conf::Settings settings = reloader.running();
    std::unique_ptr<fabric::NameLock> name = take_name(settings.node.shm_path);
    const std::unique_ptr<Restart> restart = restart_or_exit(files.memory, manager);
    const std::unique_ptr<DiskStore> disk = disk_or_exit(settings, files.disk, *restart);
    const std::unique_ptr<PeerStore> peer = peer_or_exit(settings);
    const std::unique_ptr<Node> owned = node_or_exit(settings, *restart, peer.get(), disk.get());
    Node& node = *owned;
    const std::unique_ptr<SpillLink> to_peer = link_or_exit(peer.get(), settings, node, files.of_peer());
    const NodeSeconds flush_at = restart->carry_out(node, settings.session.threads, process::node_now());
    fabric::Region& region = node.impl().region;
    NodeFacts facts = facts_of(settings, listeners);
    NodeStats stats(node, facts.name, process::node_now(), files.tls());
    fabric::VerbsDevices devices(verbs_config(settings.node), [](const std::string& text) { process::say(Level::warning, text); });
    std::unique_ptr<FetchPool> fetches;
    if (!settings.node.verbs_host.empty()) fetches = std::make_unique<FetchPool>(fetch_pool_bytes);
    VerbsListeners over_rdma = or_fatal(listen_verbs(settings.node, offer_of(node, fetches.get(), files.keys != nullptr), devices));
    const uint16_t tcp_port = http::tcp_port(write_ports(listeners, over_rdma));
    const conf::Advertised addresses = conf::advertised_of(settings.node, port_of(listeners), port_of(over_rdma));

    std::unique_ptr<fabric::Owner> owner;
    std::unique_ptr<FarnodeServer> server;
    CrawlerOptions crawling;
    crawling.enabled = broken::faults.sweeps;
    Crawler crawler(node, process::node_now, crawling);
    std::unique_ptr<FarnodeHttp> pages;
    process::Supervisor supervisor(manager, {[] { return true; }, [&] { return status_text(node, *server); },
                                             [&] { return started_text(facts, *server, settings); }});
    or_fatal(process::StartGuard::room_for(settings.session.threads));
    server = std::make_unique<FarnodeServer>(node, stats, facts, process::node_reading, options_of(settings, fetches.get()));
    for (auto& listener : listeners) server->add(std::move(listener), protocol::RegionAccess::none);
    for (auto& listener : over_rdma) server->add(std::move(listener), protocol::RegionAccess::rdma_read);
    if (name != nullptr) {
        owner = std::make_unique<fabric::Owner>(region.header(), std::move(name));
        server->add(or_fatal(listen_shm(settings.node, *owner, region, files.keys != nullptr)), protocol::RegionAccess::mapped);
    }
    if (flush_at != 0) server->schedule_flush(flush_at, process::node_now());
    if (admin != nullptr) server->add_admin(std::move(admin), reloader);
    if (http.listen())
        pages = std::make_unique<FarnodeHttp>(FarnodeHttp::Parts{node, stats, facts, process::node_reading, http, tcp_port});
    if (files.keys != nullptr) server->use_keys(files.keys);
    server->start();
    crawler.start();
    if (to_peer != nullptr) to_peer->start();
    const auto registration = register_node(files.etcd, settings, facts, *server, node, restart->former_incarnation(), addresses);
    limit_or_exit(settings);  // before readiness is reported
    http.start([&](const auto& request, const auto& reply) { pages->answer(request, reply); });
    supervisor.start(watched_of(*server, to_peer.get()));
    const process::PidFile pid_file(settings.process.pid_file);
    starting.over();
    background.ready(/* keep_output= */ settings.process.verbosity > 0);

    const bool graceful = signals.wait_for_the_end([&] {
        const process::ServiceManager::Reloading told(manager);
        reload(reloader, {node, facts, *server, files, to_peer.get(), http, registration.get()});
    });
    if (pages != nullptr) pages->set_stopping();
    if (registration != nullptr) registration->stop(restart->file() != nullptr && !graceful);  // before the connections end
    supervisor.stop();
    server->stop(graceful ? protocol::Goodbye::draining : protocol::Goodbye::stopping,
                 graceful ? patience_graceful_ms : patience_ms);
    http.stop();
    crawler.stop();
    if (to_peer != nullptr) to_peer->stop();
    if (disk != nullptr) (void)disk->flush();  // it has told of errors
    restart->stop(process::node_now());
}

}  // namespace

int run(int argc, char** argv) {
    const std::span<const char* const> words{argv, size_t(argc)};
    const std::span<const conf::Option> table = conf::node_option_table();
    process::outlive_readers();
    process::StartGuard starting;
    const conf::Settings settings =
        process::settings_or_exit(conf::parse_command_line(words, table, conf::farnode_program()));
    process::set_log(settings.process.log_level, settings.process.log_format);
    process::set_verbosity(settings.process.verbosity);
    Recorder recorder("");  // named after the program
    const Recorder::Running running(recorder);
    process::report_crashes("farnode " + std::string(conf::farcached_version()), settings.process.crash_request);
    (void)process::node_now();  // starts the clock
    process::Reloader reloader(words, {table.begin(), table.end()}, conf::farnode_program(), settings);
    process::ServiceManager manager;
    process::PassedSockets passed = or_fatal(process::PassedSockets::of_environment());
    const process::PassedSocket passed_admin = or_fatal(process::take_admin(passed));
    const process::Identity identity = or_fatal(process::find_identity(settings.process.user));
    if (settings.process.drop_privileges) or_fatal(process::check_system_calls());
    or_fatal(raise_limits(settings));
    Signals signals;
    Files files;
    find_files(settings, files);
    process::Background background;
    if (process::may_leave(settings.process.daemonize, manager)) or_fatal(background.start());
    const std::vector<process::PassedSocket> sockets = passed.take_rest();
    or_fatal(check_places(settings, sockets));
    TcpListeners listeners = or_fatal(listen_tcp(settings.node, sockets, files.tls()));
    warn_of_peer_tls(settings.node, files, listeners);
    AdminSocket admin = listen_admin(settings.admin.socket_path, identity, passed_admin);
    process::HttpServers http(settings.admin);
    or_fatal(process::drop_privileges(identity, /* core_dumps= */ false));
    find_etcd(settings, files);
    serve(reloader, files, std::move(listeners), std::move(admin), http, background, signals, manager, starting);
    process::say(Level::info, "Exiting normally");
    return conf::exit_ok;
}

}  // namespace farcached::node
