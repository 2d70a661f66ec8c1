// SPDX-License-Identifier: BSD-3-Clause
#include "conf/check_settings.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/limits.h"
#include "conf/addresses.h"
#include "conf/advertise.h"
#include "conf/disk_options.h"
#include "conf/etcd_url.h"
#include "conf/exposure.h"
#include "conf/kinds.h"

namespace farcached::conf {

Refusal check_item_size(const Settings& settings) {
    if (settings.memory.item_bytes_max <= settings.memory.bytes_max / 2) return {};
    return Problem{exit_usage, "Cannot set item size limit higher than 1/2 of memory max.\n"};
}

Refusal check_peer_tls(const Settings& settings) {
    const PeerTlsSettings& tls = settings.peer_tls;
    const bool none = tls.certificate_path.empty() && tls.key_path.empty() && tls.issuers_path.empty();
    const bool all = !tls.certificate_path.empty() && !tls.key_path.empty() && !tls.issuers_path.empty();
    if (none || all) return {};
    return Problem{exit_usage, "TLS between peers needs --peer-cert, --peer-key and --peer-ca, and one is missing; give all three, "
                               "or none.\n"};
}

// Both sockets would use the same path.
Refusal check_admin_path(const Settings& settings, std::string_view other_path, std::string_view other_option) {
    const std::string& path = settings.admin.socket_path;
    if (path.empty() || path != other_path) return {};
    return Problem{exit_usage, "--admin and " + std::string(other_option) + " name the same path: " + path + "\n"};
}

Refusal check_http_options(const AdminSettings& settings) {
    const auto refused = [](const std::string& why) { return Problem{exit_usage, why + "\n"}; };
#ifndef FARCACHED_OPENSSL
    if (!settings.http_cert.empty())
        return refused("--http-cert: this program is built without OpenSSL; build it with OpenSSL, or omit the option");
#endif
    if (!settings.http_key.empty() && settings.http_cert.empty())
        return refused("--http-key has no effect without --http-cert; give the file of the certificate chain, too");
    if (settings.http_host.empty() && !(settings.http_token_file.empty() && settings.http_cert.empty()))
        return refused("--http-token-file and --http-cert protect --http, which is not given; give it, or omit them");
    return {};
}

namespace {

Refusal check_chunk_size(const Settings& settings) {
    uint64_t item = settings.memory.item_bytes_max;
    // Only if given: memcached adapts its default to any -I.
    std::string chunk_text = compat_value(settings, "slab_chunk_max");
    if (chunk_text == "524288" || chunk_text == "1048576") return {};
    uint64_t chunk = std::stoull(chunk_text);
    if (chunk > item || item % chunk != 0) {
        return Problem{exit_usage, "-I (item_size_max: " + std::to_string(item) +
                                       ") must be evenly divisible by slab_chunk_max (bytes: " +
                                       chunk_text + ")\n"};
    }
    return {};
}

// Eviction is a setting of the node, which owns the memory.
Refusal check_evictions(const Settings& settings) {
    if (settings.memory.evict || !settings.proxy.has_nodes()) return {};
    return Problem{exit_usage, "-M (--disable-evictions): items are in the nodes; give it to each farnode instead\n"};
}

Refusal check_sources(const Settings& settings) {
    const ProxySettings& proxy = settings.proxy;
    const bool maps = proxy.discovery.shm && !proxy.discovery.source.empty();
    if (maps && !is_etcd_url(proxy.discovery.source))
        return Problem{exit_usage, "discover_shm: DNS does not name the sockets of nodes; give --discover etcd://HOST:PORT/PREFIX, "
                                   "or remove the option\n"};
    if (maps && !settings.peer_tls.certificate_path.empty() && proxy.auth_key_file.empty())
        return Problem{exit_usage, "discover_shm and --peer-cert: a node proves no certificate over shm, so any process of this "
                                   "user could pose as one; give --auth-key-file, or remove discover_shm\n"};
    if (proxy.nodes.empty() || proxy.discovery.source.empty()) return {};
    return Problem{exit_usage, "--discover and --node both name the nodes; give either a source of the list (--discover), or each "
                               "node (--node, [[node]])\n"};
}

// A copy is only as good as the list of nodes that all processes have (daemon/steps/replicas.h).
Refusal check_replicas(const ProxySettings& settings) {
    if (settings.replicas.count < 2) return {};
    if (!is_etcd_url(settings.discovery.source))
        return Problem{exit_usage, "replicas=2: only etcd tells all processes in one order which nodes there are; give --discover "
                                   "etcd://HOST:PORT/PREFIX, or remove the option\n"};
    if (settings.failover)
        return Problem{exit_usage, "replicas=2: the copy stands in for a lost node, and failover would send its keys to others; "
                                   "remove one of the two\n"};
    if (settings.distribution != Distribution::ketama && settings.distribution != Distribution::ketama_weighted)
        return Problem{exit_usage, "replicas=2: the copy is on the next node of a ring; give distribution=ketama or "
                                   "ketama_weighted\n"};
    if (!settings.warm_source.address.empty())
        return Problem{exit_usage, "replicas=2: items of warm_from are stored on one node; remove the option until the cache "
                                   "is warm\n"};
    return {};
}

Refusal check_listens(const Settings& settings) {
    auto addresses = listen_addresses(settings.listen, settings.tls.enabled);
    if (auto* problem = std::get_if<Problem>(&addresses)) return std::move(*problem);
    return {};
}

// Of -B, or of a listener.
bool chooses(const Settings& settings, Protocol protocol) {
    if (settings.listen.protocol == protocol) return true;
    const auto addresses = listen_addresses(settings.listen, settings.tls.enabled);
    const auto* all = std::get_if<std::vector<ListenAddress>>(&addresses);
    if (all == nullptr) return false;
    return std::ranges::any_of(*all, [&](const ListenAddress& one) { return one.protocol == protocol; });
}

Refusal check_sasl(const Settings& settings) {
    if (!settings.session.sasl) return {};
    if (!chooses(settings, Protocol::text) && !settings.listen.auto_given) return {};
    return Problem{exit_usage, "ERROR: You cannot allow the ASCII protocol while using SASL.\n"};
}

// -S alone makes the protocol binary.
Refusal check_passwords(const Settings& settings) {
    if (settings.session.auth_file.empty()) return {};
    if (!settings.session.sasl && !chooses(settings, Protocol::binary)) return {};
    return Problem{exit_usage, "ERROR: You cannot allow the BINARY protocol while using ascii authentication tokens.\n"};
}

// memcached loads what OpenSSL calls (null); the error names the option instead.
Refusal check_tls(const Settings& settings) {
    if (!settings.tls.enabled) return {};
    if (settings.listen.port == 0) return Problem{exit_usage, "ERROR: You cannot enable SSL without a TCP port.\n"};
    if (!settings.tls.chain_path.empty()) return {};
    return Problem{exit_usage, "Error loading the certificate chain: -Z (--enable-ssl) needs -o ssl_chain_cert=<path>\n"};
}

// A datagram's sender proves nothing: options that identify clients exclude UDP.
Refusal check_udp(const Settings& settings) {
    if (settings.listen.udp_port == 0) return {};
    const struct {
        bool given;
        const char* refusal;
    } identify[] = {
        {!settings.session.auth_file.empty(), "Cannot use UDP with ascii authentication enabled (-U 0 to disable)\n"},
        {settings.session.sasl, "ERROR: Cannot enable UDP while using binary SASL authentication.\n"},
        {settings.tls.enabled, "Cannot use UDP with TLS enabled: datagrams are not encrypted (-U 0 to disable)\n"},
    };
    for (const auto& one : identify)
        if (one.given) return Problem{exit_usage, one.refusal};
    auto addresses = udp_addresses(settings.listen);
    if (auto* problem = std::get_if<Problem>(&addresses)) return std::move(*problem);
    return {};
}

// ssl_ options that differ from the default.
bool has_tls_options(const TlsSettings& tls) {
    return !tls.chain_path.empty() || !tls.key_path.empty() || !tls.ca_path.empty() || tls.verify_mode != 0;
}

bool requires_client_certificates(const Settings& settings) {
    if (!settings.tls.enabled) return false;
    const auto addresses = listen_addresses(settings.listen, true);
    const auto* all = std::get_if<std::vector<ListenAddress>>(&addresses);
    if (all == nullptr) return false;
    return std::ranges::any_of(*all, [&](const ListenAddress& one) {
        return one.tls == TlsMode::verified || (one.tls == TlsMode::configured && settings.tls.verify_mode >= 2);
    });
}

Refusal check_lru_shares(const Settings& settings) {
    if (compat_real_value(settings, "hot_lru_pct") + compat_real_value(settings, "warm_lru_pct") <= 80) return {};
    return Problem{exit_usage, "hot_lru_pct + warm_lru_pct cannot be more than 80% combined\n"};
}

Refusal check_napi_ids(const Settings& settings) {
    if (compat_real_value(settings, "num_napi_ids") <= settings.session.threads) return {};
    return Problem{exit_usage, "Number of napi_ids(" + compat_value(settings, "num_napi_ids") +
                                   ") cannot be greater than number of threads(" +
                                   std::to_string(settings.session.threads) + ")\n"};
}

// The port of --advertise is that of TCP.
Refusal check_advertised(const Settings& settings) {
    const std::optional<ClientAddress> own = advertised_of(settings.cluster.advertise);
    const bool has_tcp = settings.listen.unix_path.empty() && settings.listen.port != 0;
    if (!own.has_value() || own->port != 0 || has_tcp) return {};
    return Problem{exit_usage, "--advertise " + settings.cluster.advertise +
                                   " needs a port: with -s or -p 0 this farcached has none to take in its place\n"};
}

}  // namespace

std::vector<Conflict> check_settings(const Settings& settings) {
    std::vector<Conflict> conflicts = disk::check(settings);
    const auto add = [&](Refusal refusal, std::vector<std::string_view> keys) {
        if (refusal) conflicts.push_back({std::move(*refusal), std::move(keys)});
    };
    add(check_admin_path(settings, settings.listen.unix_path, "-s"), {"admin", "unix-socket"});
    add(check_item_size(settings), {"max-item-size", "memory-limit"});
    add(check_evictions(settings), {"disable-evictions"});
    add(check_sources(settings), {"discover"});
    add(check_replicas(settings.proxy), {"replicas"});
    add(check_discover_access(settings.proxy, settings.proxy.discovery.source),
        {"discover-user", "discover-password-file", "discover-ca"});
    add(check_chunk_size(settings), {"slab_chunk_max", "max-item-size"});
    add(check_lru_shares(settings), {"hot_lru_pct", "warm_lru_pct"});
    add(check_napi_ids(settings), {"napi-ids", "threads"});
    add(check_listens(settings), {"listen"});
    add(check_peer_tls(settings), {"peer-cert", "peer-key", "peer-ca"});
    add(check_tls(settings), {"enable-ssl", "ssl_chain_cert", "port"});
    add(check_sasl(settings), {"protocol", "listen", "enable-sasl"});
    add(check_passwords(settings), {"auth-file", "protocol", "enable-sasl"});
    add(check_http_place(settings), {"http"});
    add(check_http_options(settings.admin), {"http-key", "http-token-file", "http-cert"});
    add(check_advertised(settings), {"advertise", "port", "unix-socket"});
    add(check_udp(settings), {"udp-port", "auth-file", "enable-sasl", "enable-ssl", "listen"});
    return conflicts;
}

std::string conflict_text(const Conflict& conflict, const Origins& origins) {
    for (std::string_view key : conflict.keys) {
        const auto at = origins.find(key);
        if (at == origins.end() || at->second.empty()) continue;
        return at->second + ": " + conflict.problem.text;
    }
    return conflict.problem.text;
}

std::string remarks(const Settings& settings) {
    std::string text;
    if (settings.session.threads > limits::workers_max) {
        text += "WARNING: Setting a high number of workerthreads is not recommended.\n"
                " Set this value to the number of cores in your machine or less.\n";
    }
    if (settings.listen.port == 0 && settings.listen.udp_port == 0 && settings.listen.unix_path.empty()) {
        text += "WARNING: Listening on nothing: -p 0 and no -s.\n";
    }
    if (!settings.tls.enabled && has_tls_options(settings.tls)) {
        text += "WARNING: The ssl_ options have no effect without -Z (--enable-ssl).\n";
    }
    if (requires_client_certificates(settings) && settings.tls.ca_path.empty()) {
        text += "WARNING: Client certificates are required, but no client has a valid one without ssl_ca_cert.\n";
    }
    return text;
}

// ---- reload -------------------------------------------------------------------------------------------------
namespace {

bool can_change(const Option& option, const Settings& running, const Settings& wanted) {
    if (option.kind.value != Value::tables) return is_live(option);
    return running.proxy.nodes.empty() == wanted.proxy.nodes.empty();
}

}  // namespace

ReloadPlan plan_reload(std::span<const Option> table, const Program& program, const Settings& running,
                       const Settings& wanted, const Origins& origins) {
    ReloadPlan plan;
    plan.settings = running;
    for (const Option& option : table) {
        if (!is_key(option) || written(option, running) == written(option, wanted)) continue;
        const bool changes = can_change(option, running, wanted);
        (changes ? plan.changed : plan.waiting).emplace_back(file_key(option));
        if (changes) copy_value(option, wanted, plan.settings);
    }
    // Live changes may conflict with settings that wait for a restart.
    for (const Conflict& conflict : program.check(plan.settings)) plan.errors.push_back(conflict_text(conflict, origins));
    for (const std::string& complaint : check_nodes(plan.settings.proxy)) plan.errors.push_back(complaint);
    for (std::string& error : plan.errors) {
        while (error.ends_with('\n')) error.pop_back();
        error += " (some keys keep their values until a restart)";
    }
    return plan;
}

// ---- resource limits ----------------------------------------------------------------------------------------
namespace {

using namespace reckoned;

uint64_t items_bytes(const MemorySettings& settings, uint64_t chunk_bytes) {
    const uint64_t rounded = (header_bytes + chunk_bytes + slot_step_bytes - 1) / slot_step_bytes * slot_step_bytes;
    const uint64_t slot_bytes = std::max(rounded, slot_bytes_min);
    // With huge pages, descriptors of all possible slots are resident.
    const uint64_t slot_bytes_described = settings.huge_pages ? slot_bytes_min : slot_bytes;
    return settings.bytes_max + settings.bytes_max / slot_bytes_described * descriptor_bytes +
           settings.bytes_max / slot_bytes * index_bytes;
}

uint64_t process_of(const Settings& settings) {
    const uint64_t worker_bytes = thread_bytes + (settings.listen.udp_port != 0 ? udp_bytes : 0);
    return process_bytes + settings.memory.bytes_max / buffers_share + settings.session.threads * worker_bytes;
}

uint64_t disk_of(const Settings& settings) {
    const DiskSettings& disk = settings.disk;
    if (disk.path.empty()) return 0;
    return disk_buffers * disk.write_buffer_bytes + settings.session.threads * disk_reads_bytes +
           disk.bytes / disk.page_bytes * segment_bytes;
}

// Threads that read, the kernel's for io_uring or our own, and one that writes.
uint64_t disk_tasks_of(const Settings& settings) {
    if (settings.disk.path.empty()) return 0;
    return settings.session.threads * settings.disk.io_depth + settings.disk.threads + 1;
}

uint64_t whole_mib(uint64_t bytes) { return (bytes + mib - 1) / mib * mib; }

}  // namespace

ResourceLimits farcached_limits(const Settings& settings) {
    const uint64_t threads = settings.session.threads;
    const uint64_t nodes = settings.proxy.has_nodes() ? std::max<uint64_t>(settings.proxy.nodes.size(), nodes_min) : 0;
    uint64_t bytes = items_bytes(settings.memory, settings.memory.chunk_bytes_min) + process_of(settings) +
                     disk_of(settings) + settings.session.connections_max * socket_bytes;
    if (nodes != 0)
        bytes += settings.proxy.pointer_table.entries * table_entry_bytes +
                 threads * (pools_bytes + nodes * (link_bytes + report_keys_bytes));
    const uint64_t ring = settings.session.io == SocketBackend::libevent ? 0 : tasks_of_ring;
    const uint64_t handshakes = settings.tls.enabled ? 1 : 0;  // a worker's thread for them
    return {whole_mib(bytes), threads * (1 + ring + handshakes) + nodes + tasks_beside + disk_tasks_of(settings)};
}

ResourceLimits farnode_limits(const Settings& settings) {
    uint64_t bytes = items_bytes(settings.memory, chunk_bytes_of_nodes) + process_of(settings) +
                     disk_of(settings) + settings.session.connections_max * link_bytes;
    if (!settings.node.verbs_host.empty()) {
        const uint64_t more_slots = std::max(settings.node.rfp_slots, slots_of_link) - slots_of_link;
        bytes += fetch_pool_bytes + settings.session.connections_max * more_slots * 2 * limits::rfp_slot_bytes;
    }
    if (settings.node.access_tracking == AccessTracking::atomic)
        bytes += settings.memory.bytes_max / slot_bytes_min * counters_bytes;
    return {whole_mib(bytes), settings.session.threads + tasks_beside + disk_tasks_of(settings)};
}

std::string limits_text(const ResourceLimits& limits) {
    return "MemoryMax=" + std::to_string(limits.memory_bytes) + "\nTasksMax=" + std::to_string(limits.tasks) + "\n";
}

}  // namespace farcached::conf
