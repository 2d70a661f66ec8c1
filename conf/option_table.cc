// SPDX-License-Identifier: BSD-3-Clause
// The option table (conf/option.h). Ranges, defaults and the texts of errors are those of memcached 1.6.45, where it has them.
#include <array>

#include "base/check.h"
#include "conf/disk_options.h"
#include "conf/kinds.h"
#include "conf/option.h"
#include "conf/permissions.h"

namespace farcached::conf {

namespace {

using S = Settings;
using M = MemorySettings;
using L = ListenSettings;
using N = SessionSettings;
using P = ProcessSettings;
using A = AdminSettings;
using C = CrawlerSettings;
using T = TlsSettings;

constexpr Where suboption = Where::suboption;
constexpr Where stat = Where::stat;
constexpr Section network = Section::network;
constexpr Section memory = Section::memory;
constexpr Section process = Section::process;
constexpr Section commands = Section::commands;
constexpr Section security = Section::security;
constexpr Section extended = Section::extended;
constexpr Section compat = Section::compat;

constexpr double megabytes_max = 1024.0 * 1024 * 1024;  // 1 PiB: the system sets the practical limit
constexpr double any_i32 = 2147483647.0;

// An -o option with an argument that only `stats settings` shows, under its own name.
constexpr Option compat_option(std::string_view name, std::string_view argument, std::string_view initial, const Kind& kind,
                               std::string_view help, std::string_view refusal = {}) {
    return {.where = suboption, .name = name, .argument = argument, .initial = initial, .kind = kind, .section = compat,
            .stat = name, .refusal = refusal, .help = help};
}

constexpr Kind cluster_list = list_of(checked_text<&S::cluster, &ClusterSettings::members>(is_cluster_list));

constexpr Option table[] = {
    {.flag = 'm', .name = "memory-limit", .argument = "<megabytes>", .initial = "64",
     .kind = counted_in(Unit::megabytes, number<&S::memory, &M::bytes_max>(0, megabytes_max, 1 << 20)),
     .section = memory, .live = true,
     .stat = "maxbytes", .exit_status = exit_usage,
     .refusal = "Invalid memory limit: {} (-m takes megabytes)\n", .refuses_low = true,
     .help = "limit on the memory that items take"},
    {.flag = 'c', .name = "conn-limit", .argument = "<num>", .initial = "1024",
     .kind = number<&S::session, &N::connections_max>(1, any_i32), .section = network, .live = true,
     .stat = "maxconns", .refusal = "Maximum connections must be greater than 0\n", .refuses_low = true,
     .help = "maximum number of client connections;\n"
             "raises the limit on open files to fit"},
    {.flag = 'p', .name = "port", .argument = "<num>", .initial = "11211",
     .kind = tcp_port, .section = network, .stat = "tcpport",
     .exit_status = exit_usage, .refusal = "ERROR: Invalid port number {}.\n",
     .help = "TCP port; 0: none; -1: one that the kernel chooses,\n"
             "written to the file that $MEMCACHED_PORT_FILENAME names"},
    {.flag = 'U', .name = "udp-port", .argument = "<num>", .initial = "0", .kind = udp_port,
     .section = network, .stat = "udpport", .exit_status = exit_usage, .refusal = "ERROR: Invalid port number {}.\n",
     .help = "UDP port; 0: off; -1: one that the kernel chooses. Without\n"
             "-p it is the TCP port, too. A port in -l replaces both.\n"
             "Senders' addresses can be forged: use it only in trusted\n"
             "networks (udp_amplification)"},
    {.flag = 'l', .name = "listen", .argument = "<addr>", .kind = interfaces, .section = network,
     .stat = "inter", .stat_show = show_or_null, .exit_status = exit_usage,
     .refusal = "ERROR: -l needs an address to listen on.\n",
     .allowed = "an address, several with commas between them, or an array of them",
     .help = "listen address (default: all): a host name, an IPv4\n"
             "address or an IPv6 address in brackets, with an optional\n"
             ":port; several with commas, or -l repeated. The prefix\n"
             "proto[ascii|binary]: fixes its protocol; with -Z, notls: is\n"
             "without TLS, btls: without client certificates, mtls: with\n"
             "them. The prefix tag[name]: is accepted"},
    {.flag = 'v', .name = "verbose", .kind = louder, .section = process, .live = true, .stat = "verbosity",
     .help = "verbose log on stderr; -vv and -vvv: more verbose"},
    {.where = stat, .initial = "0", .kind = constant, .stat = "oldest"},
    {.flag = 'M', .name = "disable-evictions", .initial = "no",
     .kind = toggle<&S::memory, &M::evict, false>(), .section = memory, .stat = "evictions",
     .stat_show = show_evictions,
     .help = "no evictions: stores fail with an error when memory is\n"
             "full"},
    {.flag = 's', .name = "unix-socket", .argument = "<path>",
     .kind = text<&S::listen, &L::unix_path>(), .section = network, .stat = "domain_socket",
     .stat_show = show_or_null, .help = "Unix socket to listen on instead of the network"},
    {.flag = 'a', .name = "unix-mask", .argument = "<mode>", .initial = "700", .kind = unix_mode,
     .section = network, .stat = "umask", .exit_status = exit_usage,
     .refusal = "ERROR: Invalid access mode {} (-a takes 0 to 777, in octal).\n",
     .allowed = "a text of octal digits, \"0\" to \"777\"",
     .help = "access mode of the Unix socket, in octal"},
    {.flag = 'A', .name = "enable-shutdown", .initial = "no",
     .kind = toggle<&S::admin, &A::shutdown>(), .section = commands, .live = true, .stat = "shutdown_command",
     .help = "allow clients to stop the server with `shutdown`"},
    {.flag = 'f', .name = "slab-growth-factor", .argument = "<factor>", .initial = "1.25",
     .kind = real<&S::memory, &M::growth_factor>(1, 1e9), .section = memory,
     .stat = "growth_factor", .refusal = "Factor must be greater than 1\n",
     .help = "growth factor from one size class to the next"},
    {.flag = 'n', .name = "slab-min-size", .argument = "<bytes>", .initial = "48",
     .kind = counted_in(Unit::bytes, number<&S::memory, &M::chunk_bytes_min>(1, any_i32)), .section = memory,
     .stat = "chunk_size", .refusal = "Chunk size must be greater than 0\n", .refuses_low = true,
     .help = "space for key and value in the smallest size class"},
    {.flag = 't', .name = "threads", .argument = "<num>", .initial = "4",
     .kind = number<&S::session, &N::threads>(1, 1024), .section = process, .stat = "num_threads",
     .refusal = "Number of threads must be greater than 0\n", .refuses_low = true,
     .help = "number of worker threads; more than cores is slower"},
    {.where = stat, .initial = "4", .kind = constant, .stat = "num_threads_per_udp",
     .stat_show = show_threads_per_udp},
    {.flag = 'D', .argument = "<char>", .initial = ":", .kind = delimiter, .section = commands,
     .key = "prefix-delimiter",
     .stat = "stat_key_prefix", .exit_status = exit_usage,
     .refusal = "ERROR: -D needs a character.\n", .allowed = "a character",
     .help = "delimiter after a key's prefix, for `stats detail`;\n"
             "also turns `stats detail` on"},
    {.where = stat, .initial = "no", .kind = toggle<&S::admin, &A::detail>(), .stat = "detail_enabled"},
    {.flag = 'R', .name = "max-reqs-per-event", .argument = "<num>", .initial = "20",
     .kind = number<&S::session, &N::requests_per_event>(1, any_i32), .section = network, .live = true,
     .stat = "reqs_per_event", .refusal = "Number of requests per event must be greater than 0\n", .refuses_low = true,
     .help = "maximum requests per client per loop iteration"},
    {.flag = 'C', .name = "disable-cas", .initial = "no", .kind = toggle<&S::memory, &M::cas, false>(),
     .section = commands, .stat = "cas_enabled", .help = "disable CAS: items have no CAS unique"},
    {.flag = 'b', .name = "listen-backlog", .argument = "<num>", .initial = "1024",
     .kind = number<&S::listen, &L::backlog>(-1, any_i32), .section = network, .stat = "tcp_backlog",
     .exit_status = exit_usage, .refusal = "ERROR: Invalid listen backlog {}.\n",
     .help = "maximum number of connections waiting to be accepted"},
    {.flag = 'B', .name = "protocol", .argument = "<name>", .initial = "auto", .kind = protocol_name,
     .section = network, .stat = "binding_protocol", .exit_status = exit_usage,
     .refusal = "Invalid value for binding protocol: {}\n -- should be one of auto, binary, or ascii\n",
     .allowed = "auto, binary or ascii",
     .help = "client protocol: ascii, binary, or auto (detected from\n"
             "the first byte of a client)"},
    {.flag = 'S', .name = "enable-sasl", .initial = "no", .kind = sasl_toggle, .section = security,
     .stat = "auth_enabled_sasl", .exit_status = exit_usage, .refusal = "This server is not built with SASL support.\n",
     .help = "clients must authenticate by SASL (libsasl2); binary\n"
             "protocol only. The environment's SASL_CONF_PATH is the\n"
             "folder of memcached.conf, MEMCACHED_SASL_PWDB a file of\n"
             "lines user:password"},
    {.flag = 'Y', .name = "auth-file", .argument = "<path>", .kind = text<&S::session, &N::auth_file>(),
     .section = security, .stat = "auth_enabled_ascii", .stat_show = show_or_no,
     .help = "file of lines user:password. A client must send one of them\n"
             "first, as `user password`, the value of a set or ms; text\n"
             "protocol only. A reload reads the file again"},
    {.flag = 'I', .name = "max-item-size", .argument = "<size>", .initial = "1m", .kind = item_size,
     .section = memory, .stat = "item_size_max", .exit_status = exit_usage,
     .refusal = "Item max size cannot be less than 1024 bytes.\n", .allowed = item_size_allowed,
     .help = "maximum item size including the key: 1k to 1024m, at most\n"
             "half of -m"},
    {.where = suboption, .name = "maxconns_fast", .negatable = true, .initial = "yes",
     .kind = toggle<&S::session, &N::reject_over_limit>(), .section = extended, .live = true, .stat = "maxconns_fast",
     .help = "new clients above the limit of -c get an error and are\n"
             "closed; no_maxconns_fast: they wait to be accepted"},
    {.where = suboption, .name = "hashpower", .argument = "<num>", .initial = "0",
     .kind = compat_number(12, 32), .section = compat, .stat = "hashpower_init",
     .help = "initial size of the hash table, a power of two"},
    {.where = suboption, .name = "slab_reassign", .negatable = true, .initial = "yes",
     .kind = compat_toggle, .section = compat, .stat = "slab_reassign",
     .help = "pages move between size classes (here they always do)"},
    {.where = suboption, .name = "slab_automove", .negatable = true, .argument_optional = true,
     .argument = "<0|1|2>", .initial = "1", .kind = slab_automove, .section = compat,
     .stat = "slab_automove", .refusal = "slab_automove must be between 0 and 2\n",
     .help = "how aggressively pages move"},
    compat_option("slab_automove_ratio", "<ratio>", "0.8", compat_real(0, 1, 2), "ratio of ages that moves a page",
                  "slab_automove_ratio must be > 0 and < 1\n"),
    compat_option("slab_automove_window", "<num>", "30", counted_in(Unit::seconds, compat_number(3, any_u32)),
                  "window of the page mover, in seconds", "slab_automove_window must be > 2\n"),
    compat_option("slab_chunk_max", "<size>", "524288", counted_in(Unit::bytes, compat_number(1, any_u32)),
                  "largest chunk; -I must be a multiple of it"),
    {.where = suboption, .name = "lru_crawler", .negatable = true, .initial = "yes",
     .kind = toggle<&S::crawler, &C::enabled>(), .section = extended, .live = true, .stat = "lru_crawler",
     .help = "background search for expired items"},
    {.where = suboption, .name = "lru_crawler_sleep", .argument = "<us>", .initial = "100",
     .kind = counted_in(Unit::microseconds, number<&S::crawler, &C::sleep_us>(0, 1000000)), .section = extended, .live = true,
     .stat = "lru_crawler_sleep", .refusal = "LRU crawler sleep must be between 0 and 1 second\n",
     .help = "pause between the steps of that search"},
    {.where = suboption, .name = "lru_crawler_tocrawl", .argument = "<num>", .initial = "0",
     .kind = number<&S::crawler, &C::items_max>(0, any_u32), .section = extended, .live = true,
     .stat = "lru_crawler_tocrawl", .refusal = "lru_crawler_tocrawl takes a numeric 32bit value\n",
     .help = "maximum items per size class and search; 0: all"},
    compat_option("tail_repair_time", "<s>", "0", counted_in(Unit::seconds, compat_number(10, any_u32)),
                  "seconds until leaked item references are reclaimed",
                  "Cannot set tail_repair_time to less than 10 seconds\n"),
    {.flag = 'F', .name = "disable-flush-all", .initial = "no",
     .kind = toggle<&S::admin, &A::flush, false>(), .section = commands, .live = true, .stat = "flush_enabled",
     .help = "disable the `flush_all` command"},
    {.flag = 'X', .name = "disable-dumping", .initial = "no",
     .kind = toggle<&S::admin, &A::dump, false>(), .section = commands, .live = true, .stat = "dump_enabled",
     .help = "disable commands that show keys: `lru_crawler metadump`,\n"
             "and `stats` cachedump, detail, hotkeys and slow_log"},
    {.where = suboption, .name = "hash_algorithm", .argument = "<name>", .initial = "murmur3",
     .kind = hash_algorithm, .section = compat, .stat = "hash_algorithm",
     .refusal = "Unknown hash_algorithm option (jenkins, murmur3, xxh3)\n",
     .allowed = "jenkins, murmur3 or xxh3",
     .help = "jenkins, murmur3 or xxh3 (always xxh3 here)"},
    {.where = suboption, .name = "lru_maintainer", .negatable = true, .initial = "yes",
     .kind = compat_toggle, .section = compat, .stat = "lru_maintainer_thread",
     .help = "background thread of the segmented LRU"},
    {.where = stat, .initial = "yes", .kind = constant, .stat = "lru_segmented",
     .stat_show = show_lru_segmented},
    compat_option("hot_lru_pct", "<percent>", "20", compat_number(1, 79), "share of memory for the hot segment",
                  "hot_lru_pct must be > 1 and < 80\n"),
    compat_option("warm_lru_pct", "<percent>", "40", compat_number(1, 79), "share of memory for the warm segment",
                  "warm_lru_pct must be > 1 and < 80\n"),
    compat_option("hot_max_factor", "<factor>", "0.2", compat_real(0, 1e9, 2),
                  "maximum idle time in hot, as a factor of the cold age", "hot_max_factor must be > 0\n"),
    compat_option("warm_max_factor", "<factor>", "2", compat_real(0, 1e9, 2),
                  "maximum idle time in warm, as a factor of the cold age", "warm_max_factor must be > 0\n"),
    {.where = stat, .initial = "no", .kind = compat_toggle, .stat = "temp_lru"},
    compat_option("temporary_ttl", "<s>", "61", temporary_ttl, "TTL below which items have a separate segment"),
    {.where = suboption, .name = "idle_timeout", .argument = "<s>", .initial = "0",
     .kind = counted_in(Unit::seconds, number<&S::session, &N::idle_timeout_s>(0, any_i32)), .section = extended, .live = true,
     .stat = "idle_timeout", .help = "seconds until an idle client is closed; 0: never"},
    {.where = suboption, .name = "watcher_logbuf_size", .argument = "<kilobytes>", .initial = "256",
     .kind = counted_in(Unit::kilobytes, number<&S::admin, &A::watcher_log_bytes>(1, 1 << 20, 1024)), .section = extended,
     .stat = "watcher_logbuf_size", .help = "buffer for the log lines of one `watch` client"},
    {.where = suboption, .name = "worker_logbuf_size", .argument = "<kilobytes>", .initial = "64",
     .kind = counted_in(Unit::kilobytes, number<&S::admin, &A::worker_log_bytes>(1, 1 << 20, 1024)), .section = extended,
     .stat = "worker_logbuf_size", .help = "buffer for log lines not yet sent to `watch` clients"},
    {.where = suboption, .name = "read_buf_mem_limit", .argument = "<megabytes>", .initial = "0",
     .kind = counted_in(Unit::megabytes, number<&S::session, &N::buffer_bytes_max>(0, any_u32, 1 << 20)), .section = extended,
     .stat = "read_buf_mem_limit",
     .help = "memory limit of all client buffers, in addition to -m;\n"
             "0: derived from -m"},
    {.where = suboption, .name = "track_sizes", .initial = "no",
     .kind = toggle<&S::admin, &A::track_sizes>(), .section = extended, .stat = "track_sizes",
     .help = "count item sizes for `stats sizes`"},
    {.where = suboption, .name = "inline_ascii_resp", .negatable = true, .initial = "no",
     .kind = {.set = set_nothing, .show = show_initial}, .section = compat, .stat = "inline_ascii_response",
     .help = "no effect, as in memcached"},
    disk::ext_path(suboption), disk::ext_page_size(suboption), disk::ext_threads(suboption), disk::ext_io_depth(suboption),
    disk::ext_item_size(suboption), disk::ext_item_age(suboption),
    compat_option("ext_low_ttl", "<s>", "0", counted_in(Unit::seconds, compat_number(0, any_u32)), disk::never_compacted),
    disk::ext_recache_rate(suboption), disk::ext_wbuf_size(suboption),
    compat_option("ext_compact_under", "<pages>", "0", compat_number(0, any_u32), disk::never_compacted),
    compat_option("ext_drop_under", "<pages>", "0", compat_number(0, any_u32), disk::never_compacted),
    compat_option("ext_max_sleep", "<us>", "1000000", counted_in(Unit::microseconds, compat_number(0, any_u32)),
                  disk::never_compacted),
    compat_option("ext_max_frag", "<ratio>", "0.8", compat_real(-1, 1e9, 2), disk::never_compacted),
    compat_option("slab_automove_freeratio", "<ratio>", "0.01", compat_real(-1, 1e9, 3),
                  "share of memory to keep free"),
    disk::ext_drop_unread(suboption),
    {.flag = 'Z', .name = "enable-ssl", .initial = "no", .kind = tls_toggle, .section = security,
     .stat = "ssl_enabled", .exit_status = exit_usage, .refusal = "This server is not built with TLS support.\n",
     .help = "TLS for clients at TCP ports; needs -o ssl_chain_cert. The\n"
             "Unix sockets stay plain"},
    {.where = suboption, .name = "ssl_chain_cert", .argument = "<path>", .kind = text<&S::tls, &T::chain_path>(),
     .section = extended, .live = true, .stat = "ssl_chain_cert", .stat_show = show_or_bracketed_null,
     .help = "server certificate, PEM, followed by those of its issuers. A\n"
             "reload and `refresh_certs` read all TLS files again"},
    {.where = suboption, .name = "ssl_key", .argument = "<path>", .kind = text<&S::tls, &T::key_path>(),
     .section = extended, .live = true, .stat = "ssl_key", .stat_show = show_or_bracketed_null,
     .help = "private key of the certificate; default: in the same file"},
    {.where = suboption, .name = "ssl_verify_mode", .argument = "<0|1|2|3>", .initial = "0", .kind = tls_verification,
     .section = extended, .live = true, .stat = "ssl_verify_mode",
     .refusal = "Invalid ssl_verify_mode. Use help to see valid options.\n", .refuses_range = true,
     .help = "client certificates; 0: not requested, 1: verified if sent,\n"
             "2 and 3: required"},
    {.where = suboption, .name = "ssl_keyformat", .argument = "<num>", .initial = "1",
     .kind = number<&S::tls, &T::key_format>(0, any_u32), .section = extended, .live = true, .stat = "ssl_keyformat",
     .help = "format of the private key; 1: PEM, 2: DER"},
    {.where = suboption, .name = "ssl_ciphers", .argument = "<list>", .kind = text<&S::tls, &T::ciphers>(),
     .section = extended, .live = true, .stat = "ssl_ciphers", .stat_show = show_or_null,
     .help = "ciphers of TLS 1.2 and older, as in openssl-ciphers(1)"},
    {.where = suboption, .name = "ssl_ca_cert", .argument = "<path>", .kind = text<&S::tls, &T::ca_path>(),
     .section = extended, .live = true, .stat = "ssl_ca_cert", .stat_show = show_or_null,
     .help = "PEM file of the issuers of valid client certificates"},
    compat_option("ssl_wbuf_size", "<kilobytes>", "16", counted_in(Unit::kilobytes, compat_number(0, 1 << 20, 1024)),
                  "output buffer of a TLS client"),
    {.where = suboption, .name = "ssl_session_cache", .initial = "no", .kind = toggle<&S::tls, &T::session_cache>(),
     .section = extended, .live = true, .stat = "ssl_session_cache",
     .help = "clients may resume TLS sessions, which makes their next\n"
             "handshakes cheap"},
    {.where = suboption, .name = "ssl_kernel_tls", .initial = "no", .kind = toggle<&S::tls, &T::kernel>(),
     .section = extended, .live = true, .stat = "ssl_kernel_tls",
     .help = "the kernel encrypts replies, if it has TLS and the cipher;\n"
             "large values are then sent from their place. No effect with\n"
             "io=uring"},
    {.where = suboption, .name = "ssl_min_version", .argument = "<0|1|2|3>", .initial = "2", .kind = tls_version,
     .section = extended, .live = true, .stat = "ssl_min_version",
     .refusal = "Invalid ssl_min_version. Use help to see valid options.\n", .refuses_range = true,
     .help = "oldest version of TLS: 1.0 to 1.3"},
    {.flag = 'N', .name = "napi-ids", .argument = "<num>", .kind = compat_number(1, any_i32),
     .section = compat, .stat = "num_napi_ids", .stat_show = show_or_bracketed_null,
     .refusal = "Maximum number of NAPI IDs must be greater than 0\n", .refuses_low = true,
     .help = "receive queues of the network card; -t at most"},
    {.flag = 'e', .name = "memory-file", .argument = "<path>", .kind = text<&S::memory, &M::file>(),
     .section = memory, .stat = "memory_file", .stat_show = show_or_bracketed_null,
     .help = "file with the items, which keeps them over a restart, also\n"
             "after a kill. On tmpfs or persistent memory: the cache is\n"
             "as fast as the file's memory. No effect with nodes"},
    {.where = stat, .initial = "4", .kind = constant, .stat = "client_flags_size"},
    {.where = suboption, .name = "io", .argument = "<name>", .initial = "libevent",
     .kind = choice<&S::session, &N::io>(socket_backend_names), .section = extended, .stat = "io", .exit_status = exit_usage,
     .help = "I/O backend of client sockets: libevent, uring (io_uring:\n"
             "fewer system calls; Linux 6.1 or later), or auto. If\n"
             "io_uring is unavailable, libevent is used and the reason is\n"
             "logged (with auto only with -v). `stats` reports the backend\n"
             "in use as farcached_io"},
    // Not in `stats settings` from here on.
    admin_option(network),
    http_option(network),
    http_names_option(network),
    peer_cert_option(Section::nodes), peer_key_option(Section::nodes), peer_ca_option(Section::nodes),
    http_token_file_option(network), http_cert_option(network), http_key_option(network), http_health_option(network),
    insecure_option(network, "accept an address in --http that other machines reach\n"
                             "without a token. No warning about clients without\n"
                             "authentication. For trusted networks only"),
    {.where = suboption, .name = "latency_stats", .negatable = true, .initial = "yes",
     .kind = toggle<&S::admin, &A::latency>(), .section = extended, .live = true,
     .help = "request latency measurement, for `stats latency` and\n"
             "/metrics (default); no_latency_stats: off"},
    {.where = suboption, .name = "slow_log_ms", .argument = "<ms>", .initial = "0",
     .kind = counted_in(Unit::milliseconds, number<&S::admin, &A::slow_log_ms>(0, 600'000)), .section = extended, .live = true,
     .exit_status = exit_usage,
     .help = "minimum duration of requests in `stats slow_log`, which\n"
             "keeps the latest ones and the time spent in each phase;\n"
             "also sent to clients that `watch proxyreqs`. 0: off"},
    {.where = suboption, .name = "hotkeys_sample", .argument = "<num>", .initial = "100",
     .kind = number<&S::admin, &A::hot_keys_one_in>(0, 1'000'000), .section = extended, .live = true,
     .exit_status = exit_usage,
     .help = "sampling of `stats hotkeys`: about one in this many gets\n"
             "and sets; 0: off"},
    {.where = suboption, .name = "ssl_handshake_timeout", .argument = "<s>", .initial = "10",
     .kind = counted_in(Unit::seconds, number<&S::tls, &T::handshake_timeout_s>(1, 3600)), .section = extended, .live = true,
     .exit_status = exit_usage,
     .help = "seconds that a client has for its TLS handshake"},
    {.where = suboption, .name = "udp_amplification", .argument = "<num>", .initial = "1000",
     .kind = number<&S::session, &N::udp_amplification>(1, 65535), .section = extended, .live = true, .exit_status = exit_usage,
     .help = "limit on a reply over UDP: bytes for each byte of its\n"
             "request, with their frame headers; at most 1 MiB. A longer\n"
             "reply is replaced by an error. A forged request makes the\n"
             "server send that much to a third host"},
    {.name = "permissions", .argument = "<id>=<list>", .kind = permissions_kind, .section = security, .live = true,
     .exit_status = exit_usage, .allowed = "a table of identities, each with an array of read, write, admin, stats",
     .help = "classes of commands that a client identity may use: read,\n"
             "write, admin, stats, separated by commas, or none; repeated\n"
             "for several. The identity is the user of -Y or -S, else the\n"
             "CN of the client's certificate, else anonymous; * is for all\n"
             "that are not named. In the file: [permissions] with an array\n"
             "for each. Without it every client may use all commands"},
    {.name = "advertise", .argument = "<host[:port]>",
     .kind = checked_text<&S::cluster, &ClusterSettings::advertise>(is_advertised), .section = network, .live = true,
     .exit_status = exit_usage, .allowed = "HOST or HOST:PORT, with brackets around an IPv6 address",
     .help = "name or address under which clients reach this farcached;\n"
             "the port is that of -p unless given. Clients that ask for\n"
             "the list of the cluster (`config get cluster`) get it,\n"
             "unless cluster_members has the list. Without both,\n"
             "`config` is an unknown command, as in memcached. With\n"
             "--discover etcd:// it is registered there, and the list\n"
             "has all farcached that are"},
    {.name = "cluster-members", .argument = "<list>", .kind = cluster_list, .section = network, .live = true,
     .exit_status = exit_usage,
     .allowed = "HOST:PORT, several with commas between them, or an array of them; each once, with brackets around an IPv6 address",
     .help = "all farcached of a cluster, for clients with the\n"
             "auto-discovery of ElastiCache: the reply to\n"
             "`config get cluster`. Give all of them the same list, in\n"
             "the same order. A reload that changes the list raises its\n"
             "version, and clients take it at their next poll"},
    log_level_option(process), log_format_option(process), crash_request_option(process),
    {.name = "worker-cpus", .argument = "<list>", .kind = checked_text<&S::session, &N::worker_cpus>(is_cpu_list),
     .section = process, .exit_status = exit_usage, .allowed = "numbers of CPUs, 0 to 1023, and ranges of them, as 0-3,8",
     .help = "CPUs of the workers, as in 0-3,8: one for each worker, in\n"
             "order, and repeated if there are more workers; any CPU if\n"
             "not given"},
    {.flag = 'd', .name = "daemon", .initial = "no", .kind = toggle<&S::process, &P::daemonize>(),
     .section = process, .help = "run in the background"},
    {.flag = 'u', .name = "user", .argument = "<name>", .kind = text<&S::process, &P::user>(),
     .section = process, .help = "user to run as (required for root)"},
    {.flag = 'P', .name = "pidfile", .argument = "<path>", .kind = text<&S::process, &P::pid_file>(),
     .section = process, .help = "file to write the process id to"},
    {.flag = 'k', .name = "lock-memory", .initial = "no",
     .kind = toggle<&S::process, &P::lock_memory>(), .section = memory,
     .help = "lock memory: the system never pages it out"},
    {.flag = 'L', .name = "enable-largepages", .initial = "no",
     .kind = toggle<&S::memory, &M::huge_pages>(), .section = memory,
     .help = "use huge pages if available"},
    {.flag = 'r', .name = "enable-coredumps", .initial = "no",
     .kind = toggle<&S::process, &P::core_dumps>(), .section = process,
     .help = "raise the limit on core files"},
    {.flag = 'W', .name = "disable-watch", .initial = "no",
     .kind = toggle<&S::admin, &A::watch, false>(), .section = commands, .live = true, .help = "refuse `watch`"},
    config_option(process), check_config_option(process), print_config_option(process), print_limits_option(process),
    {.name = "memcached-conf", .argument = "<file>",
     .kind = text<&S::process, &P::memcached_conf_path>(), .section = process, .in_file = false,
     .help = "file of flags, one per line, as Debian's\n"
             "/etc/memcached.conf; read before the file of --config and\n"
             "the other options"},
    {.flag = 'o', .name = "extended", .argument = "<list>", .action = Action::extended,
     .section = process, .help = "comma-separated extended options: see below"},
    {.flag = 'h', .name = "help", .action = Action::help, .section = process,
     .help = "print this and exit"},
    {.flag = 'i', .name = "license", .action = Action::license, .section = process,
     .help = "print the licences and exit"},
    {.flag = 'V', .name = "version", .action = Action::version, .section = process,
     .help = "print the version of memcached that farcached emulates,\n"
             "and exit"},
    {.name = "version-full", .action = Action::version_full, .section = process,
     .help = "print farcached's own version too, and exit"},
    {.name = "print-options-man", .action = Action::options_man},
    {.name = "print-config-man", .action = Action::config_man},
    {.name = "print-config-sample", .action = Action::config_sample},
    {.name = "print-completion-bash", .action = Action::completion_bash},
    {.name = "print-completion-zsh", .action = Action::completion_zsh},
    {.where = suboption, .name = "no_hashexpand", .kind = ignored, .section = compat,
     .help = "the hash table keeps its size"},
    {.where = suboption, .name = "slab_sizes", .argument = "<a-b-c>", .kind = ignored, .section = compat,
     .help = "sizes of the size classes"},
    {.where = suboption, .name = "no_chunked_items", .kind = no_chunked_items, .section = compat,
     .help = "no chunked storage of large items"},
    {.where = suboption, .name = "modern", .negatable = true, .kind = modern, .section = compat,
     .help = "memcached's future defaults; no_modern: those of memcached\n"
             "1.4, of which no_maxconns_fast,no_lru_crawler apply here"},
    {.where = suboption, .name = "drop_privileges", .negatable = true, .initial = "no", .kind = drop_privileges,
     .section = extended, .exit_status = exit_usage,
     .help = "seccomp filter once the daemon serves: only the system\n"
             "calls that it needs, io_uring only where it is in use. Any\n"
             "other call fails with EPERM (memcached is killed), and the\n"
             "kernel's audit log names it. Without seccomp support the\n"
             "daemon does not start. no_drop_privileges: no filter\n"
             "(default)"},
    {.where = suboption, .name = "relaxed_privileges", .kind = ignored, .section = compat,
     .help = "a weaker filter; for memcached's own tests"},
    {.where = suboption, .name = "resp_obj_mem_limit", .argument_optional = true,
     .argument = "<megabytes>", .kind = deprecated, .section = compat,
     .refusal = "DEPRECATED: resp_obj_mem_limit no longer used. See read_buf_mem_limit,\n",
     .help = "see read_buf_mem_limit"},
    {.where = suboption, .name = "sock_cookie_id", .argument = "<num>", .kind = ignored,
     .section = compat, .help = "socket mark for a firewall"},
    {.where = suboption, .name = "proxy_config", .argument = "<path>", .kind = unavailable,
     .section = extended, .exit_status = exit_usage,
     .refusal = "proxy_config: memcached's built-in proxy is not implemented.\n",
     .help = "memcached's built-in proxy: not implemented, refused"},
    {.where = suboption, .name = "proxy_arg", .argument = "<text>", .kind = ignored, .section = compat,
     .help = "argument of the proxy's configuration"},
    {.where = suboption, .name = "proxy_uring", .kind = ignored, .section = compat,
     .help = "the proxy uses io_uring"},
};

constexpr size_t count_stats() {
    size_t count = 0;
    for (const Option& option : table) count += !option.stat.empty();
    return count;
}
static_assert(count_stats() == 77 + 1, "as many lines as memcached's `stats settings`, and io");

constexpr std::array<std::string_view, sections_count> titles = {
    "Network and clients",
    "Memory",
    "Nodes: flags and -o options",
    "Process",
    "Commands",
    "Security",
    "Extended options (-o)",
    "Accepted for compatibility with memcached, shown by `stats settings`, without effect",
    "",
};

}  // namespace

std::span<const Option> option_table() { return table; }

std::string_view title(Section section) { return titles[size_t(section)]; }

}  // namespace farcached::conf
