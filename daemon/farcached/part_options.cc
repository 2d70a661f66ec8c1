// SPDX-License-Identifier: BSD-3-Clause
#include "daemon/farcached/part_options.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "conf/addresses.h"
#include "conf/exposure.h"
#include "conf/option.h"
#include "process/fatal.h"
#include "process/http_servers.h"
#include "process/kernel_tls.h"
#include "process/log.h"
#include "process/process.h"
#include "process/service_manager.h"

namespace farcached::daemon {

using process::Level;
using process::or_fatal;

namespace {

// Descriptors not for clients (standard streams, listeners, event loops, watchers), with a margin.
constexpr uint64_t files_per_thread = 9;  // two of these for reads of the disk, two for warm_from
constexpr uint64_t files_other = 96 + process::AdminSocket::connections_max + 2 * process::HttpListener::connections_max;
constexpr uint64_t files_per_udp = 2;   // IPv4 and IPv6
constexpr uint64_t files_per_link = 6;  // per connection of a worker to a node
// Nodes that a list may have without a raise of the hard limit, which only root can do.
constexpr uint64_t nodes_expected = 64;

SessionProtocol session_protocol(conf::Protocol chosen, const conf::Settings& settings) {
    const conf::Protocol protocol = conf::protocol_of(settings, chosen);
    if (protocol == conf::Protocol::text) return SessionProtocol::text;
    if (protocol == conf::Protocol::binary) return SessionProtocol::binary;
    return SessionProtocol::any;
}

// Sockets of the service manager have no prefixes: with one that is ignored, clients would get another TLS than demanded.
conf::Refusal check_prefixes(const ServerOptions& options) {
    if (std::ranges::all_of(options.tcp, [&](const ListenAt& at) { return at.tls == options.tls; })) return {};
    return conf::Problem{conf::exit_system,
                         "-l " + options.interfaces +
                             ": notls:, btls: and mtls: have no effect on sockets from the service manager, so clients would "
                             "get the TLS of ssl_verify_mode; remove the prefixes, or disable the socket unit\n"};
}

}  // namespace

// At the start and at reloads: the limit of open files, and the use of verbs by any node.
conf::Refusal raise_limits(const conf::Settings& settings) {
    const uint64_t udp = settings.listen.udp_port == 0 ? 0 : settings.session.threads * files_per_udp;
    const uint64_t nodes = std::max(settings.proxy.nodes.size(), settings.proxy.discovery.source.empty() ? 0 : nodes_expected);
    return process::raise_file_limit(settings.session.connections_max,
                                     settings.session.threads * (files_per_thread + nodes * files_per_link) + files_other + udp);
}

bool uses_rdma(const conf::ProxySettings& settings) {
    if (!settings.discovery.source.empty() && settings.discovery.channel == conf::NodeChannel::verbs) return true;
    return std::any_of(settings.nodes.begin(), settings.nodes.end(),
                       [](const auto& node) { return node.channel == conf::NodeChannel::verbs; });
}

WorkerLive worker_options(const conf::Settings& settings) {
    WorkerLive worker;
    worker.requests_per_event = settings.session.requests_per_event;
    worker.idle_timeout_s = settings.session.idle_timeout_s;
    worker.tls_handshake_timeout_s = settings.tls.handshake_timeout_s;
    worker.udp_amplification = settings.session.udp_amplification;
    worker.permissions = Permissions::of(settings.permissions);
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
    options.tls_sessions = settings.tls.session_cache;
    options.track_sizes = settings.admin.track_sizes;
    options.prefix_delimiter = settings.admin.prefix_delimiter.front();
    options.own_version = conf::farcached_version();
    return options;
}

ServerOptions server_options(const conf::Settings& settings) {
    const conf::ListenSettings& listen = settings.listen;
    const conf::SessionSettings& session = settings.session;
    ServerOptions options;
    options.admin_path = settings.admin.socket_path;
    for (conf::ListenAddress& address : or_fatal(conf::listen_addresses(listen, settings.tls.enabled))) {
        options.tcp.push_back(
            {std::move(address.host), address.port, session_protocol(address.protocol, settings), address.tls});
    }
    for (conf::ListenAddress& address : or_fatal(conf::udp_addresses(listen)))
        options.udp.at.push_back({std::move(address.host), address.port, session_protocol(address.protocol, settings)});
    options.udp.sockets_each = conf::udp_sockets_of_address(settings);
    options.udp.port = listen.udp_port;
    options.udp.interfaces = listen.interfaces;
    options.tls = settings.tls.enabled ? TlsMode::configured : TlsMode::plain;
    options.unix_path = listen.unix_path;
    options.unix_mode = listen.unix_mode;
    options.interfaces = listen.interfaces;
    options.backlog = listen.backlog;
    options.protocol = session_protocol(listen.protocol, settings);
    options.threads = session.threads;
    options.worker_cpus = conf::cpus_of(session.worker_cpus);
    or_fatal(process::check_cpus("--worker-cpus", options.worker_cpus));
    options.connections_max = session.connections_max;
    options.reject_over_limit = session.reject_over_limit;
    options.io = session.io;
    const uint64_t buffers = session.buffer_bytes_max;
    const bool embedded = !settings.proxy.has_nodes();
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
    or_fatal(check_prefixes(options));
    options.tcp.clear();
    options.unix_path.clear();
    process::say(Level::info, "listening at " + std::to_string(options.passed.size()) +
                                  " sockets from the service manager; -p, -l and -s are ignored");
}

namespace {

// "tcp6:[::]:40041" is "tcp:[::]:40041", as places are written.
std::string place_of(std::string_view listener) {
    std::string place(listener);
    if (const size_t at = place.find("6:["); at != place.npos) place.erase(at, 1);
    return place;
}

// "tcp:0.0.0.0:0", with the port that the kernel chose.
std::string bound_place(const std::string& place, const Server& server) {
    if (!place.ends_with(":0")) return place;
    const std::string unbound = place.substr(0, place.size() - 1);
    const size_t all = unbound.find(":*:");
    const std::string transport = unbound.substr(0, all);
    std::string bound = place;
    server.each_listener([&](const ConnectionInfo& one) {
        const std::string at = place_of(one.addr);
        const bool is_any = at.starts_with(transport + ":0.0.0.0:") || at.starts_with(transport + ":[::]:");
        const bool is_it = at.starts_with(unbound) || (all != unbound.npos && is_any);
        if (is_it && bound == place) bound = unbound + at.substr(at.rfind(':') + 1);
    });
    return bound;
}

}  // namespace

void warn_of_open_places(const conf::Settings& settings, const ServerOptions& options, const Server& server) {
    std::vector<conf::ClientPlace> places;
    if (options.passed.empty()) places = conf::client_places(settings);
    for (conf::ClientPlace& one : places) one.place = bound_place(one.place, server);
    for (const process::PassedSocket& socket : options.passed) {
        if (socket.is_unix()) continue;
        const bool verified = settings.tls.enabled && settings.tls.verify_mode >= 2;
        places.push_back({"tcp:" + conf::host_and_port(socket.host, socket.port), socket.host, verified});
    }
    const std::string warning = conf::exposure_warning(settings, places);
    if (!warning.empty()) process::say(Level::warning, warning);
}

void warn_of_kernel_tls(const conf::Settings& settings, const Server& server) {
    if (!settings.tls.enabled || !settings.tls.kernel) return;
    if (server.workers_on_ring() != 0) {
        process::say(Level::warning, "ssl_kernel_tls has no effect with io=uring, so OpenSSL encrypts replies; "
                                     "use io=libevent, or remove ssl_kernel_tls");
        return;
    }
    const std::string why = process::kernel_tls_missing();
    if (why.empty()) return;
    process::say(Level::warning, "ssl_kernel_tls has no effect (" + why + "), so OpenSSL encrypts replies; "
                                 "load the kernel's module (modprobe tls), or remove ssl_kernel_tls");
}

node::Config node_config(const conf::MemorySettings& memory, uint32_t threads, node::MemoryFile* file) {
    node::Config config;
    config.file = file;
    config.memory_bytes = memory.bytes_max;
    config.item_bytes_max = memory.item_bytes_max;
    config.growth_factor = memory.growth_factor;
    config.chunk_bytes_min = memory.chunk_bytes_min;
    config.evict = memory.evict;
    config.policy = PolicyKind::s3fifo;
    config.cas = memory.cas;
    config.huge_pages = memory.huge_pages;
    config.offered = false;
    config.numa_nodes = node::read_numa_nodes();
    config.workers = threads;
    return config;
}

node::DiskConfig disk_config(const conf::DiskSettings& disk) {
    node::DiskConfig config;
    config.bytes = disk.bytes;
    config.segment_bytes = disk.page_bytes;
    config.buffer_bytes = disk.write_buffer_bytes;
    config.threads = disk.threads;
    config.depth = disk.io_depth;
    return config;
}

node::SpillRules spill_rules(const conf::DiskSettings& disk) {
    return {disk.item_bytes_min, disk.recache_rate, disk.drop_unread, disk.item_age_s};
}

EngineOptions engine_options(const conf::Settings& settings, const Passwords* passwords, const Sasl* sasl) {
    EngineOptions options;
    options.passwords = passwords;
    options.sasl = sasl;
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
    return {.enabled = crawler.enabled, .sleep_us = crawler.sleep_us, .to_crawl = crawler.items_max};
}

WatchLimits watch_limits(const conf::AdminSettings& admin, uint32_t threads) {
    return {.pending_bytes_max = admin.worker_log_bytes * threads, .watcher_bytes_max = admin.watcher_log_bytes};
}

}  // namespace farcached::daemon
