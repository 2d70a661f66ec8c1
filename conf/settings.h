// SPDX-License-Identifier: BSD-3-Clause
// Settings: all values of the command line, one small struct for each module that reads it.
//
// Owner: main, in its thread. A value: a module copies what it needs later.
//
// I1  Members hold no defaults: the option tables (conf/*option_table.cc) have them, and conf::defaults() applies them. Any
//     other Settings is all zeros until defaults() or parse_command_line() fills it.
// I2  A module gets its own struct, or values that main derives from it, never all of Settings.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/command_class.h"
#include "base/placement_words.h"
#include "base/policy_kind.h"
#include "base/rpc_mode.h"
#include "base/shared_epoch.h"
#include "conf/words.h"

namespace farcached::conf {

enum class Protocol : uint8_t { any, text, binary };

struct MemorySettings {
    uint64_t bytes_max = 0;
    uint64_t item_bytes_max = 0;
    double growth_factor = 0;
    uint32_t chunk_bytes_min = 0;
    bool evict = false;
    bool cas = false;
    bool huge_pages = false;
    std::string file;            // keeps the items over a restart; empty: none
};

// The disk tier: a file to which values of evicted items move. Their keys stay in memory.
struct DiskSettings {
    std::string path;                 // empty: no disk tier, and no other member matters
    uint64_t bytes = 0;               // of the file; at least two pages
    uint64_t page_bytes = 0;          // of a segment, which is dropped as a whole; a multiple of write_buffer_bytes
    uint64_t write_buffer_bytes = 0;  // of one write; at least MemorySettings::item_bytes_max
    uint32_t threads = 0;             // that read and write
    uint32_t io_depth = 0;            // maximum reads in progress per thread
    uint32_t item_bytes_min = 0;      // smallest item that moves
    uint32_t item_age_s = 0;          // idle time after which a value moves before its eviction; UINT32_MAX: never
    uint32_t recache_rate = 0;        // one in so many reads brings the value back to memory; 0: none
    bool drop_unread = false;         // evicted values never read since they were stored are dropped
};

struct ListenSettings {
    int32_t port = 0;            // 0: no TCP; -1: chosen by the kernel
    bool port_given = false;     // else a port of UDP is that of TCP, too
    int32_t udp_port = 0;        // 0: no UDP; -1: chosen by the kernel
    std::string interfaces;      // as given, several joined by commas; empty: all
    std::string unix_path;       // not empty: no TCP, no UDP
    uint32_t unix_mode = 0;
    int32_t backlog = 0;
    Protocol protocol = Protocol::any;
    bool auto_given = false;     // -B auto, not in a file of --config: with -S it is refused, while the default is binary
};

struct SessionSettings {
    uint32_t connections_max = 0;
    bool reject_over_limit = false;   // otherwise accepting pauses until a connection ends
    uint32_t threads = 0;
    uint32_t requests_per_event = 0;
    uint32_t idle_timeout_s = 0;      // 0: none
    uint32_t udp_amplification = 0;   // bytes of a reply over UDP for each byte of its request
    uint64_t buffer_bytes_max = 0;    // of all clients together; 0: derived from the memory limit
    std::string auth_file;            // passwords of text clients; empty: none are needed
    bool sasl = false;                // binary clients authenticate by SASL, and there are no others
    SocketBackend io = SocketBackend::libevent;
    std::string worker_cpus;          // conf/option.h; empty: any
};

// TLS of clients' connections. Numbers are memcached's.
struct TlsSettings {
    bool enabled = false;
    std::string chain_path;            // certificate chain, PEM
    std::string key_path;              // empty: the key is in the file of the chain
    std::string ca_path;               // issuers of client certificates; empty: none
    std::string ciphers;               // up to TLS 1.2; empty: OpenSSL's
    uint32_t key_format = 0;           // 1: PEM, 2: DER
    uint32_t verify_mode = 0;          // client certificates; 0: none, 1: requested, 2 and 3: required
    uint32_t version_min = 0;          // 0 to 3: TLS 1.0 to 1.3
    uint32_t handshake_timeout_s = 0;
    bool session_cache = false;
    bool kernel = false;

    bool operator==(const TlsSettings&) const = default;
};

struct ProcessSettings {
    bool daemonize = false;
    bool lock_memory = false;
    bool core_dumps = false;
    bool drop_privileges = false;  // forbid system calls that the daemon does not need
    bool insecure = false;       // listen beyond this host without authentication
    bool crash_request = false;  // crash reports show bytes of the current request
    uint32_t verbosity = 0;
    LogLevel log_level = LogLevel::error;
    LogFormat log_format = LogFormat::text;
    std::string user;
    std::string pid_file;
    std::string config_path;     // read before the command line; empty: none
    std::string memcached_conf_path;  // a file of flags, read before config_path; empty: none
};

struct AdminSettings {
    bool shutdown = false;
    bool flush = false;
    bool dump = false;
    bool watch = false;
    bool detail = false;
    bool track_sizes = false;
    std::string socket_path;             // of the admin Unix socket; empty: none
    std::string http_host;               // a name, an address without brackets, "*": all; empty: no HTTP
    uint16_t http_port = 0;              // 0: chosen by the kernel
    std::string http_names;              // a list for own_host_names(); empty: none
    std::string http_token_file;         // tokens of HTTP clients; empty: they need none
    std::string http_cert;               // certificate chain of HTTP, PEM; empty: HTTP without TLS
    std::string http_key;                // its key; empty: in the file of the chain
    std::string health_host;             // as http_host, of --http-health
    uint16_t health_port = 0;
    std::string prefix_delimiter;        // one character
    uint64_t watcher_log_bytes = 0;
    uint64_t worker_log_bytes = 0;
    bool latency = false;                // histograms of request latency
    uint32_t slow_log_ms = 0;            // threshold for listing slow requests; 0: off
    uint32_t hot_keys_one_in = 0;        // sampling of keys of gets and sets: one in so many; 0: off
};

// The classes of commands of each client identity (base/command_class.h). Empty: every client may use all.
struct PermissionSettings {
    std::map<std::string, CommandClasses, std::less<>> classes_of;

    // Of a client's identity, or of anonymous_identity.
    CommandClasses of(std::string_view identity) const;
};

// The farcached that clients may use, for their `config get cluster`.
struct ClusterSettings {
    std::string advertise;  // of this one: "host:port", or "host" for the port of -p; empty: none
    std::string members;    // all of a static cluster, "host:port,..."; empty: this one alone, if it has an address
};

// The background sweep of expired items.
struct CrawlerSettings {
    bool enabled = false;
    uint32_t sleep_us = 0;       // pause between batches
    uint32_t items_max = 0;      // per size class and pass; 0: all
};

// memcached options without effect here: `stats settings` shows them. Keyed by the shown name, or by the option's own if none
// is shown; the value as shown.
using CompatSettings = std::map<std::string, std::string, std::less<>>;
// ---- of a farcached with nodes ------------------------------------------------------------------------------
enum class NodeChannel : uint8_t { shm, tcp, verbs };

// The Unix socket of --shm of a node that etcd lists.
struct NodeSocket {
    std::string path;          // empty: none, or not on this host
    std::string identity;      // by socket_identity() (base/host.h)
    uint64_t incarnation = 0;  // of the node's memory

    bool operator==(const NodeSocket&) const = default;
};

// What a farnode needs its registration in etcd for (S17).
enum class DiscoverFence : uint8_t {
    off,
    on,      // one-sided reads
    strict,  // all requests
};

// One node as configured. conf/addresses.h has the table of its keys.
struct NodeSpec {
    std::string name;                 // unique; letters, digits and ._-
    NodeChannel channel = NodeChannel::shm;
    std::string path;                 // shm: its Unix socket
    std::string host;                 // tcp, verbs: a name or an address, without brackets
    std::vector<std::string> addresses;  // of the host, as the source of the list found them; empty: the host is looked up
    uint16_t port = 0;                // tcp, verbs: not 0
    uint32_t weight = 1;              // 1 to limits::node_weight_max; of etcd also 0: it gets no keys
    std::string hash_as;              // "host:port" for hashing; empty: the name
    std::string zone;                 // that it registered; empty: none
    NodeSocket socket;                // preferred to host and port; the node's identity is still these
    std::string origin;               // place in the configuration, for messages: "file:12:1", "--node a=shm:/x"
};

// A list of nodes that the next one replaced at that revision of etcd.
struct FormerList {
    uint64_t ended = 0;
    uint64_t ended_ns = 0;  // when this process learned of it; CLOCK_BOOTTIME
    std::vector<NodeSpec> nodes;
};
struct FormerLists {
    explicit FormerLists(std::vector<FormerList> former, uint64_t before = 0)
        : lists(std::move(former)), lists_before(before) {}

    const std::vector<FormerList> lists;  // without a gap, the newest first
    // How many lists of etcd came before, since this process began to follow it. If two lists differ by more than one, others may
    // have been in between.
    const uint64_t lists_before;
    std::atomic<bool> over = false;       // there may be a gap between the newest and the next list; set once, from any thread
};

// How a GET without a remote pointer finds its item.
enum class PointerMiss : uint8_t {
    rpc,     // by RPC
    index,   // reads the node's published index, and uses RPC only on a miss there
};

// How a farcached finds its list of nodes, and registers itself. Access to etcd is also that of a farnode.
struct DiscoverySettings {
    std::string source;                      // of the list of nodes (conf/discover.h); empty: static
    NodeChannel channel = NodeChannel::tcp;  // to nodes found by DNS; never shm
    bool shm = false;                        // maps the memory of nodes on this host; with etcd
    uint32_t timeout_s = 0;                  // wait for the first list
    uint32_t member_ttl_s = 0;               // of this farcached's own registration in etcd
    std::string dns_server;                  // HOST:PORT; empty: the system's
    std::string ca;                          // issuers of etcd's certificates; empty: the system's
    std::string user;                        // of etcd; empty: none
    std::string password_file;               // empty: as user
};

// Copies of items on a second node (daemon/steps/replicas.h).
struct ReplicaSettings {
    uint32_t count = 1;    // nodes that have an item
    std::string prefixes;  // with copies: only of keys that begin with one; commas between; empty: of all
    bool reads = false;    // both nodes serve very hot keys
};

// The table of remote pointers that the processes of a host share (proxy/pointer_table.h).
struct PointerTableSettings {
    std::string path;      // a POSIX shared-memory name
    uint64_t entries = 0;  // a power of two
};

// A memcached whose items move to the nodes.
struct WarmSourceSettings {
    std::string address;      // HOST:PORT; empty: none
    uint32_t timeout_ms = 0;  // of a command to it
};

struct ProxySettings {
    std::vector<NodeSpec> nodes;             // static, or of the list that --discover found; those with weight 0 come last
    SharedEpoch list_epoch;                  // of that list; no option
    std::shared_ptr<const FormerLists> former_lists;  // before it; nullptr: none is known; no option
    DiscoverySettings discovery;
    Distribution distribution = Distribution::ketama;
    KeyHash hash = KeyHash::automatic;
    std::string hash_tag;                    // two characters; empty: keys are hashed whole
    bool shm_group = false;                  // also accept nodes over shm of this process's group
    bool local_read = false;                 // read the index of a node whose region is mapped
    PointerMiss pointer_miss = PointerMiss::rpc;
    AccessTracking access_tracking = AccessTracking::automatic;
    RpcMode rpc = RpcMode::automatic;        // way of requests over RDMA
    uint32_t rfp_fetch_bytes = 0;            // of a READ of a reply; 0: adaptive
    uint32_t links_per_node = 0;             // of all workers, over tcp and verbs; 0: one for each worker
    uint32_t report_interval_ms = 0;         // between reports of accesses, if reports are sent
    uint32_t report_items = 0;               // keys classified for reports
    PointerTableSettings pointer_table;
    uint32_t node_timeout_ms = 0;            // timeout of a request to a node
    bool failover = false;                   // keys of a node that is down move along the ring
    uint32_t failover_ttl_s = 0;             // longest time to live of items that are stored meanwhile; 0: no limit
    std::string auth_key_file;               // of keys that nodes and this process prove; empty: none
    ReplicaSettings replicas;
    uint32_t warm_up_s = 0;                  // misses ask the second or the former node for so long after a change of the list
    std::string zone;                        // of this process; copies in it are preferred to items elsewhere; empty: none
    WarmSourceSettings warm_source;

    // False: the node in this process keeps the items.
    bool has_nodes() const { return !nodes.empty() || !discovery.source.empty(); }
};

// ---- of a farnode -------------------------------------------------------------------------------------------
// A farnode's registration in etcd.
struct RegistrationSettings {
    std::string source;     // etcd (conf/etcd_url.h); empty: none. Access: as of DiscoverySettings
    std::string advertise;  // addresses that it registers (conf/advertise.h); empty: those it listens at
    uint32_t weight = 0;    // registered, as zone is; 0: other nodes get the keys
    std::string zone;       // empty: none
    uint32_t ttl_s = 0;     // of the registration
    DiscoverFence fence = DiscoverFence::on;
};

struct NodeSettings {
    std::string name;            // empty: generated
    std::string shm_path;        // of the Unix socket; empty: none
    bool shm_group = false;      // also admit proxies of this process's group
    std::string tcp_host;        // a name or an address without brackets, "*": all; empty: no TCP
    uint16_t tcp_port = 0;       // 0: chosen by the kernel
    std::string verbs_host;      // as tcp_host, on an RDMA device; empty: no RDMA
    uint16_t verbs_port = 0;
    RpcMode rpc = RpcMode::automatic;  // the most that it offers to proxies over RDMA
    uint32_t rfp_slots = 0;      // for requests of each connection, and as many for replies
    uint32_t rfp_awake_us = 0;   // longest look at the slots after a reply
    uint32_t greeting_timeout_ms = 0;
    std::string auth_key_file;   // of keys that proxies and this node prove; empty: none
    PolicyKind policy = PolicyKind::s3fifo;
    uint32_t lease_ms = 0;       // the term of all leases, where there is one
    uint32_t lease_ms_min = 0;   // of leases by popularity
    uint32_t lease_ms_max = 0;
    bool lease = false;
    AccessTracking access_tracking = AccessTracking::none;
    uint32_t dead_share_percent = 6;
    uint32_t report_share_percent = 0;
    NodeSpec spill_to;           // gets values of evicted items; without a name: none
    uint32_t spill_share_percent = 0;  // of memory, for values of other nodes
    RegistrationSettings registration;
};

// TLS of tcp links between proxies and nodes, and to the node of --spill-to. All paths are empty, or none is.
struct PeerTlsSettings {
    std::string certificate_path;  // with its chain
    std::string key_path;
    std::string issuers_path;      // of peers' certificates

    bool enabled() const { return !certificate_path.empty(); }
};

struct Settings {
    MemorySettings memory;
    DiskSettings disk;
    ListenSettings listen;
    SessionSettings session;
    TlsSettings tls;
    ProcessSettings process;
    AdminSettings admin;
    PermissionSettings permissions;
    ClusterSettings cluster;
    CrawlerSettings crawler;
    ProxySettings proxy;
    NodeSettings node;
    PeerTlsSettings peer_tls;
    CompatSettings compat;
};

// The settings of farcached's empty command line.
Settings defaults();

}  // namespace farcached::conf
