// SPDX-License-Identifier: BSD-3-Clause
// `stats settings` of memcached 1.6.45 started without options: names, order and values; and ours. One value differs:
// ext_drop_unread is "no" in memcached.
#pragma once

#include <array>

namespace farcached::test {

struct SettingsLine {
    const char* name;
    const char* value;
};

constexpr std::array<SettingsLine, 78> settings_names = {{
    {"maxbytes", "67108864"},
    {"maxconns", "1024"},
    {"tcpport", "11211"},
    {"udpport", "0"},
    {"inter", "NULL"},
    {"verbosity", "0"},
    {"oldest", "0"},
    {"evictions", "on"},
    {"domain_socket", "NULL"},
    {"umask", "700"},
    {"shutdown_command", "no"},
    {"growth_factor", "1.25"},
    {"chunk_size", "48"},
    {"num_threads", "4"},
    {"num_threads_per_udp", "4"},
    {"stat_key_prefix", ":"},
    {"detail_enabled", "no"},
    {"reqs_per_event", "20"},
    {"cas_enabled", "yes"},
    {"tcp_backlog", "1024"},
    {"binding_protocol", "auto-negotiate"},
    {"auth_enabled_sasl", "no"},
    {"auth_enabled_ascii", "no"},
    {"item_size_max", "1048576"},
    {"maxconns_fast", "yes"},
    {"hashpower_init", "0"},
    {"slab_reassign", "yes"},
    {"slab_automove", "1"},
    {"slab_automove_ratio", "0.80"},
    {"slab_automove_window", "30"},
    {"slab_chunk_max", "524288"},
    {"lru_crawler", "yes"},
    {"lru_crawler_sleep", "100"},
    {"lru_crawler_tocrawl", "0"},
    {"tail_repair_time", "0"},
    {"flush_enabled", "yes"},
    {"dump_enabled", "yes"},
    {"hash_algorithm", "murmur3"},
    {"lru_maintainer_thread", "yes"},
    {"lru_segmented", "yes"},
    {"hot_lru_pct", "20"},
    {"warm_lru_pct", "40"},
    {"hot_max_factor", "0.20"},
    {"warm_max_factor", "2.00"},
    {"temp_lru", "no"},
    {"temporary_ttl", "61"},
    {"idle_timeout", "0"},
    {"watcher_logbuf_size", "262144"},
    {"worker_logbuf_size", "65536"},
    {"read_buf_mem_limit", "0"},
    {"track_sizes", "no"},
    {"inline_ascii_response", "no"},
    {"ext_item_size", "512"},
    {"ext_item_age", "4294967295"},
    {"ext_low_ttl", "0"},
    {"ext_recache_rate", "2000"},
    {"ext_wbuf_size", "4194304"},
    {"ext_compact_under", "0"},
    {"ext_drop_under", "0"},
    {"ext_max_sleep", "1000000"},
    {"ext_max_frag", "0.80"},
    {"slab_automove_freeratio", "0.010"},
    {"ext_drop_unread", "yes"},
    {"ssl_enabled", "no"},
    {"ssl_chain_cert", "(null)"},
    {"ssl_key", "(null)"},
    {"ssl_verify_mode", "0"},
    {"ssl_keyformat", "1"},
    {"ssl_ciphers", "NULL"},
    {"ssl_ca_cert", "NULL"},
    {"ssl_wbuf_size", "16384"},
    {"ssl_session_cache", "no"},
    {"ssl_kernel_tls", "no"},
    {"ssl_min_version", "tlsv1.2"},
    {"num_napi_ids", "(null)"},
    {"memory_file", "(null)"},
    {"client_flags_size", "4"},
    {"io", "libevent"},  // our own
}};

}  // namespace farcached::test
