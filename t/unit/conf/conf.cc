// SPDX-License-Identifier: BSD-3-Clause
// The option table and the command line: every flag and every -o suboption of memcached 1.6.45, its effect on the
// settings, and every refusal.
#include <algorithm>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "conf/command_line.h"
#include "conf/help.h"
#include "conf/option.h"
#include "conf/program.h"
#include "t/lib/tap.h"
#include "t/unit/conf/words.h"

using namespace farcached::conf;
using farcached::test::settings_names;

namespace {

CommandLine parse(const std::vector<std::string>& words) {
    std::vector<const char*> argv = {"farcached"};
    for (const std::string& word : words) argv.push_back(word.c_str());
    return parse_command_line(argv);
}

std::vector<std::string> split(std::string_view text) {
    std::vector<std::string> words;
    while (!text.empty()) {
        size_t end = text.find(' ');
        if (end != 0) words.emplace_back(text.substr(0, end));
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    }
    return words;
}

std::string stat_of(const Settings& settings, std::string_view wanted) {
    std::string found = "(no such name)";
    settings_stats(settings, [&](std::string_view name, std::string_view value) {
        if (name == wanted) found = value;
    });
    return found;
}

// The lines of `stats settings` that differ from the default, as "name value, name value".
std::string differences(const Settings& settings) {
    std::string text;
    settings_stats(settings, [&](std::string_view name, std::string_view value) {
        if (stat_of(defaults(), name) == value) return;
        text += (text.empty() ? "" : ", ") + std::string(name) + " " + std::string(value);
    });
    return text;
}

struct Accepted {
    const char* words;
    const char* differences;  // in `stats settings`
};

// Each flag in both spellings; each suboption.
const Accepted accepted[] = {
    {"-p 5000", "tcpport 5000"},
    {"-p5000", "tcpport 5000"},
    {"--port=5000", "tcpport 5000"},
    {"--port 0", "tcpport 0"},
    {"-p -1", "tcpport -1"},
    {"-U 0", ""},
    {"--udp-port=0", ""},
    {"-U 5000", "tcpport 5000, udpport 5000"},
    {"-U -1", "tcpport -1, udpport -1"},
    {"-p 11211 -U 5000", "udpport 5000"},
    {"-U 5000 -p 11211", "udpport 5000"},
    {"-p 0 --udp-port=5000", "tcpport 0, udpport 5000"},
    {"-U 5000 -U 0 -p 11211", ""},
    {"-o udp_amplification=1", ""},
    {"-s /tmp/x", "domain_socket /tmp/x"},
    {"--unix-socket=/tmp/x", "domain_socket /tmp/x"},
    {"-a 755", "umask 755"},
    {"-a 0770", "umask 770"},
    {"--unix-mask=0", "umask 0"},
    {"-A", "shutdown_command yes"},
    {"--enable-shutdown", "shutdown_command yes"},
    {"-l 127.0.0.1", "inter 127.0.0.1"},
    {"--listen=127.0.0.1", "inter 127.0.0.1"},
    {"-l 127.0.0.1 -l [::1]:5", "inter 127.0.0.1,[::1]:5, num_threads_per_udp 1"},
    {"-d", ""},
    {"--daemon", ""},
    {"-r", ""},
    {"--enable-coredumps", ""},
    {"-u nobody", ""},
    {"--user=nobody", ""},
    {"-m 100", "maxbytes 104857600"},
    {"--memory-limit=100", "maxbytes 104857600"},
    {"-M", "evictions off"},
    {"--disable-evictions", "evictions off"},
    {"-c 9", "maxconns 9"},
    {"--conn-limit=100000", "maxconns 100000"},
    {"-k", ""},
    {"--lock-memory", ""},
    {"-v", "verbosity 1"},
    {"-vv", "verbosity 2"},
    {"-v -vv", "verbosity 3"},
    {"--verbose", "verbosity 1"},
    {"-P /tmp/p", ""},
    {"--pidfile=/tmp/p", ""},
    {"-f 1.5", "growth_factor 1.50"},
    {"--slab-growth-factor=2", "growth_factor 2.00"},
    {"-n 100", "chunk_size 100"},
    {"--slab-min-size=1", "chunk_size 1"},
    {"-L", ""},
    {"--enable-largepages", ""},
    {"-D |", "stat_key_prefix |, detail_enabled yes"},
    {"-D :", "detail_enabled yes"},
    {"-t 8", "num_threads 8, num_threads_per_udp 8"},
    {"--threads=1", "num_threads 1, num_threads_per_udp 1"},
    {"-R 1", "reqs_per_event 1"},
    {"--max-reqs-per-event=100", "reqs_per_event 100"},
    {"-C", "cas_enabled no"},
    {"--disable-cas", "cas_enabled no"},
    {"-b 8675", "tcp_backlog 8675"},
    {"--listen-backlog=0", "tcp_backlog 0"},
    {"-B ascii", "binding_protocol ascii"},
    {"-B binary", "binding_protocol binary"},
    {"-B auto", ""},
    {"--protocol=ascii", "binding_protocol ascii"},
    {"-I 1k", "item_size_max 1024"},
    {"-I 1024", "item_size_max 1024"},
    {"-I 512K", "item_size_max 524288"},
    {"-I 2m", "item_size_max 2097152"},
    {"-I 32M", "item_size_max 33554432"},
    {"--max-item-size=2097152", "item_size_max 2097152"},
    {"-m 2048 -I 1024m", "maxbytes 2147483648, item_size_max 1073741824"},
    {"-I 512k -o slab_chunk_max=16", "item_size_max 524288, slab_chunk_max 16"},
    {"-I 1024 -o slab_chunk_max=1", "item_size_max 1024, slab_chunk_max 1"},
    {"-F", "flush_enabled no"},
    {"--disable-flush-all", "flush_enabled no"},
    {"-X", "dump_enabled no"},
    {"--disable-dumping", "dump_enabled no"},
    {"-W", ""},
    {"--disable-watch", ""},
    {"-N 2", "num_napi_ids 2"},
    {"--napi-ids=4", "num_napi_ids 4"},
    {"-o modern", ""},
    {"--extended=modern", ""},
    {"--disable-wat", ""},            // abbreviated
    {"-CMF", "evictions off, cas_enabled no, flush_enabled no"},
    {"-o maxconns_fast", ""},
    {"-o no_maxconns_fast", "maxconns_fast no"},
    {"-o hashpower=20", "hashpower_init 20"},
    {"-o no_hashexpand", ""},
    {"-o slab_reassign", ""},
    {"-o no_slab_reassign", "slab_reassign no"},
    {"-o slab_automove", ""},
    {"-o slab_automove=0", "slab_automove 0"},
    {"-o slab_automove=2", "slab_automove 2"},
    {"-o no_slab_automove", "slab_automove 0"},
    {"-o slab_automove_ratio=0.5", "slab_automove_ratio 0.50"},
    {"-o slab_automove_window=3", "slab_automove_window 3"},
    {"-o slab_automove_freeratio=0.5", "slab_automove_freeratio 0.500"},
    {"-o tail_repair_time=20", "tail_repair_time 20"},
    {"-o hash_algorithm=jenkins", "hash_algorithm jenkins"},
    {"-o hash_algorithm=murmur3", ""},
    {"-o hash_algorithm=xxh3", "hash_algorithm xxh3"},
    {"-o lru_crawler", ""},
    {"-o no_lru_crawler", "lru_crawler no"},
    {"-o lru_crawler_sleep=50", "lru_crawler_sleep 50"},
    {"-o lru_crawler_tocrawl=10", "lru_crawler_tocrawl 10"},
    {"-o lru_maintainer", ""},
    {"-o no_lru_maintainer", "lru_maintainer_thread no, lru_segmented no"},
    {"-o hot_lru_pct=10", "hot_lru_pct 10"},
    {"-o warm_lru_pct=30", "warm_lru_pct 30"},
    {"-o hot_max_factor=0.5", "hot_max_factor 0.50"},
    {"-o warm_max_factor=3", "warm_max_factor 3.00"},
    {"-o temporary_ttl=10", "temp_lru yes, temporary_ttl 10"},
    {"-o temporary_ttl=61", "temp_lru yes"},
    {"-o idle_timeout=10", "idle_timeout 10"},
    {"-o watcher_logbuf_size=8", "watcher_logbuf_size 8192"},
    {"-o worker_logbuf_size=8", "worker_logbuf_size 8192"},
    {"-o slab_sizes=100-200", ""},
    {"-o slab_chunk_max=16", "slab_chunk_max 16"},
    {"-o track_sizes", "track_sizes yes"},
    {"-o inline_ascii_resp", ""},
    {"-o no_inline_ascii_resp", ""},
    {"-o no_modern", "maxconns_fast no, slab_reassign no, slab_automove 0, slab_chunk_max 1048576, "
                     "lru_crawler no, hash_algorithm jenkins, lru_maintainer_thread no, lru_segmented no"},
    {"-o no_chunked_items", "slab_chunk_max 1048576"},
    {"-o drop_privileges", ""},
    {"-o no_drop_privileges", ""},
    {"-o resp_obj_mem_limit", ""},
    {"-o resp_obj_mem_limit=10", ""},
    {"-o read_buf_mem_limit=10", "read_buf_mem_limit 10485760"},
    {"-o sock_cookie_id=5", ""},
    {"-o ssl_chain_cert=c", "ssl_chain_cert c"},
    {"-o ssl_key=k", "ssl_key k"},
    {"-o ssl_verify_mode=1", "ssl_verify_mode 1"},
    {"-o ssl_verify_mode=2", "ssl_verify_mode 3"},
    {"-o ssl_verify_mode=3", "ssl_verify_mode 7"},
    {"-o ssl_keyformat=2", "ssl_keyformat 2"},
    {"-o ssl_ciphers=a:b", "ssl_ciphers a:b"},
    {"-o ssl_ca_cert=ca", "ssl_ca_cert ca"},
    {"-o ssl_wbuf_size=10", "ssl_wbuf_size 10240"},
    {"-o ssl_wbuf_size=0", "ssl_wbuf_size 0"},
    {"-o ssl_session_cache", "ssl_session_cache yes"},
    {"-o ssl_kernel_tls", "ssl_kernel_tls yes"},
    {"-o ssl_min_version=3", "ssl_min_version tlsv1.3"},
    {"-o ext_page_size=8", ""},
    {"-o ext_wbuf_size=8", "ext_wbuf_size 8388608"},
    {"-o ext_threads=8", ""},
    {"-o ext_io_depth=8", ""},
    {"-o ext_item_size=600", "ext_item_size 600"},
    {"-o ext_item_age=5", "ext_item_age 5"},
    {"-o ext_low_ttl=5", "ext_low_ttl 5"},
    {"-o ext_drop_unread", ""},
    {"-o no_ext_drop_unread", "ext_drop_unread no"},
    {"-o ext_path=/f:64G", ""},
    {"-o ext_path=/f:128m", ""},
    {"-o ext_path=/f:8191P", ""},
    {"-o ext_path=/a:b:1T", ""},
    {"-o ext_path=/f:16m,ext_page_size=8", ""},
    {"-e /e -o ext_path=/f:1g", "memory_file /e"},
    {"-o ext_wbuf_size=3", "ext_wbuf_size 3145728"},  // without a file any
    {"-o ext_recache_rate=5", "ext_recache_rate 5"},
    {"-o ext_compact_under=5", "ext_compact_under 5"},
    {"-o ext_drop_under=5", "ext_drop_under 5"},
    {"-o ext_max_frag=0.5", "ext_max_frag 0.50"},
    {"-o ext_max_sleep=50", "ext_max_sleep 50"},
    {"-o proxy_arg=x", ""},
    {"-o proxy_uring", ""},
    {"-o relaxed_privileges", ""},
    {"-o no_lru_crawler,idle_timeout=5,track_sizes", "lru_crawler no, idle_timeout 5, track_sizes yes"},
    {"-o idle_timeout=5 -o idle_timeout=6", "idle_timeout 6"},
    {"-o lru_crawler,", ""},
};

void test_accepted() {
    for (const Accepted& one : accepted) {
        CommandLine line = parse(split(one.words));
        tap::is(line.exit_status ? line.err : differences(line.settings), one.differences,
                std::string("accepted: ") + one.words);
    }
}

struct Refused {
    const char* words;
    int exit_status;
    const char* err;
};

#define EXT_PATH_ACTION "; give a file and its size, as in ext_path=/d/file:64G (M, G, T or P)\n"
#define EXT_PATH_TWICE "ext_path is given twice, but one file is supported; give one, on a volume of all disks\n"

const Refused refused[] = {
    {"--foo", 1, "Illegal argument \"?\"\n"},
    {"--conn-limt=5", 1, "did you mean --conn-limit?\nIllegal argument \"?\"\n"},
    {"--idle-timeout 5", 1, "did you mean -o idle_timeout?\nIllegal argument \"?\"\n"},
    {"-o conn_limit=5", 1, "did you mean --conn-limit?\nIllegal suboption \"conn_limit=5\"\n"},
    {"--conn-limit", 1, "Illegal argument \"?\"\n"},  // its value is missing
    {"stray -C words", 64, "'stray' is not an option\n"},
    {"-t 2 more", 64, "'more' is not an option\n"},
    {"-- -t", 64, "'-t' is not an option\n"},
    {"-z", 1, "Illegal argument \"?\"\n"},
    {"-p", 1, "Illegal argument \"?\"\n"},
    {"--dis", 1, "Illegal argument \"?\"\n"},
    {"-p 99999", 64, "ERROR: Invalid port number 99999.\n"},
    {"-p 65536", 64, "ERROR: Invalid port number 65536.\n"},
    {"-p -2", 64, "ERROR: Invalid port number -2.\n"},
    {"-p x", 64, "ERROR: Invalid port number x.\n"},
    {"-U 65536", 64, "ERROR: Invalid port number 65536.\n"},
    {"-U -2", 64, "ERROR: Invalid port number -2.\n"},
    {"-U x", 64, "ERROR: Invalid port number x.\n"},
    {"-U 5 -Y /p", 64, "Cannot use UDP with ascii authentication enabled (-U 0 to disable)\n"},
    {"-o udp_amplification=0", 64, "could not parse argument to udp_amplification: '0' is out of range: 1 to 65535\n"},
    {"-o udp_amplification=65536", 64, "could not parse argument to udp_amplification: '65536' is out of range: 1 to 65535\n"},
    {"-a 9", 64, "ERROR: Invalid access mode 9 (-a takes 0 to 777, in octal).\n"},
    {"-a 1777", 64, "ERROR: Invalid access mode 1777 (-a takes 0 to 777, in octal).\n"},
    {"-s /a --admin /a", 64, "--admin and -s name the same path: /a\n"},
    {"-m x", 64, "Invalid memory limit: x (-m takes megabytes)\n"},
    {"-m -5", 64, "Invalid memory limit: -5 (-m takes megabytes)\n"},
    {"-m 1", 64, "Cannot set item size limit higher than 1/2 of memory max.\n"},
    {"-m 0", 64, "Cannot set item size limit higher than 1/2 of memory max.\n"},
    {"-I 33m", 64, "Cannot set item size limit higher than 1/2 of memory max.\n"},
    {"-m 4096 -I 1025m", 64, "Cannot set item size limit higher than 1024 mb.\n"},
    {"-I 512", 64, "Item max size cannot be less than 1024 bytes.\n"},
    {"-I 1023", 64, "Item max size cannot be less than 1024 bytes.\n"},
    {"-I 10g", 64, "Item max size cannot be less than 1024 bytes.\n"},
    {"-I 2000000000", 64, "Cannot set item size limit higher than 1024 mb.\n"},
    {"-I -5", 64, "Item max size cannot be less than 1024 bytes.\n"},
    {"-I 99999999999999999999m", 64, "Cannot set item size limit higher than 1024 mb.\n"},
    {"-t 99999999999999999999", 1, "-t, --threads: '99999999999999999999' is out of range: 1 to 1024\n"},
    {"-t 1025", 1, "-t, --threads: '1025' is out of range: 1 to 1024\n"},
    {"-m 2000000g", 64, "-m, --memory-limit: '2000000g' is out of range: 0 to 1073741824 megabytes\n"},
    {"-c 0", 1, "Maximum connections must be greater than 0\n"},
    {"-c -1", 1, "Maximum connections must be greater than 0\n"},
    {"-c x", 1, "Maximum connections must be greater than 0\n"},
    {"-t 0", 1, "Number of threads must be greater than 0\n"},
    {"-t x", 1, "Number of threads must be greater than 0\n"},
    {"-f 1", 1, "Factor must be greater than 1\n"},
    {"-f 0.5", 1, "Factor must be greater than 1\n"},
    {"-f nan", 1, "Factor must be greater than 1\n"},
    {"-f inf", 1, "Factor must be greater than 1\n"},
    {"-n 0", 1, "Chunk size must be greater than 0\n"},
    {"-n -1", 1, "Chunk size must be greater than 0\n"},
    {"-R 0", 1, "Number of requests per event must be greater than 0\n"},
    {"-R -1", 1, "Number of requests per event must be greater than 0\n"},
    {"-b x", 64, "ERROR: Invalid listen backlog x.\n"},
    {"-B foo", 64,
     "Invalid value for binding protocol: foo\n -- should be one of auto, binary, or ascii\n"},
    {"-B asciifoo", 64,
     "Invalid value for binding protocol: asciifoo\n -- should be one of auto, binary, or ascii\n"},
    {"-N 0", 1, "Maximum number of NAPI IDs must be greater than 0\n"},
    {"-N 5", 64, "Number of napi_ids(5) cannot be greater than number of threads(4)\n"},
#ifdef FARCACHED_LIBSASL2
    {"-S -B ascii", 64, "ERROR: You cannot allow the ASCII protocol while using SASL.\n"},
    {"-S -B auto", 64, "ERROR: You cannot allow the ASCII protocol while using SASL.\n"},
    {"-S -l proto[ascii]:127.0.0.1", 64, "ERROR: You cannot allow the ASCII protocol while using SASL.\n"},
    {"-S -U 5", 64, "ERROR: Cannot enable UDP while using binary SASL authentication.\n"},
    {"-S -Y /x", 64, "ERROR: You cannot allow the BINARY protocol while using ascii authentication tokens.\n"},
#else
    {"-S", 64, "This server is not built with SASL support.\n"},
#endif
    {"-Y /x -B binary", 64, "ERROR: You cannot allow the BINARY protocol while using ascii authentication tokens.\n"},
#ifdef FARCACHED_OPENSSL
    {"-Z", 64, "Error loading the certificate chain: -Z (--enable-ssl) needs -o ssl_chain_cert=<path>\n"},
    {"-Z -o ssl_chain_cert=c -U 5", 64,
     "Cannot use UDP with TLS enabled: datagrams are not encrypted (-U 0 to disable)\n"},
    {"-Z -o ssl_chain_cert=c -p 0", 64, "ERROR: You cannot enable SSL without a TCP port.\n"},
#else
    {"-Z", 64, "This server is not built with TLS support.\n"},
#endif
    {"-o proxy_config=/x", 64, "proxy_config: memcached's built-in proxy is not implemented.\n"},
    {"-o foo", 1, "Illegal suboption \"foo\"\n"},
    {"-o foo=bar", 1, "Illegal suboption \"foo=bar\"\n"},
    {"-o foo,bar", 1, "Illegal suboption \"foo\"\n"},
    {"-o lru_crawler,,modern", 1, "Illegal suboption \"\"\n"},
    {"-o no_idle_timeout", 1, "did you mean -o idle_timeout?\nIllegal suboption \"no_idle_timeout\"\n"},
    {"-o idle_timeout", 1, "Missing idle_timeout argument\n"},
    {"-o hashpower", 1, "Missing hashpower argument\n"},
    {"-o ssl_key", 1, "Missing ssl_key argument\n"},
    {"-o slab_sizes", 1, "Missing slab_sizes argument\n"},
    {"-o slab_chunk_max=100", 64,
     "-I (item_size_max: 1048576) must be evenly divisible by slab_chunk_max (bytes: 100)\n"},
    {"-o slab_chunk_max=0", 1,
     "could not parse argument to slab_chunk_max: '0' is out of range: 1 to 4294967295 bytes\n"},
    {"-o hashpower=5", 1, "could not parse argument to hashpower: '5' is out of range: 12 to 32\n"},
    {"-o slab_automove=3", 1, "slab_automove must be between 0 and 2\n"},
    {"-o slab_automove=x", 1, "slab_automove must be between 0 and 2\n"},
    {"-o slab_automove_ratio=2", 1, "slab_automove_ratio must be > 0 and < 1\n"},
    {"-o slab_automove_ratio=1", 1, "slab_automove_ratio must be > 0 and < 1\n"},
    {"-o slab_automove_window=1", 1, "slab_automove_window must be > 2\n"},
    {"-o tail_repair_time=5", 1, "Cannot set tail_repair_time to less than 10 seconds\n"},
    {"-o hash_algorithm=foo", 1, "Unknown hash_algorithm option (jenkins, murmur3, xxh3)\n"},
    {"-o lru_crawler_sleep=1000001", 1, "LRU crawler sleep must be between 0 and 1 second\n"},
    {"-o lru_crawler_tocrawl=-1", 1, "lru_crawler_tocrawl takes a numeric 32bit value\n"},
    {"-o hot_lru_pct=80", 1, "hot_lru_pct must be > 1 and < 80\n"},
    {"-o warm_lru_pct=x", 1, "warm_lru_pct must be > 1 and < 80\n"},
    {"-o hot_lru_pct=50,warm_lru_pct=50", 64, "hot_lru_pct + warm_lru_pct cannot be more than 80% combined\n"},
    {"-o hot_max_factor=0", 1, "hot_max_factor must be > 0\n"},
    {"-o warm_max_factor=x", 1, "warm_max_factor must be > 0\n"},
    {"-o ssl_verify_mode=7", 1, "Invalid ssl_verify_mode. Use help to see valid options.\n"},
    {"-o ssl_min_version=9", 1, "Invalid ssl_min_version. Use help to see valid options.\n"},
    {"--admin 127.0.0.1:0", 64,
     "could not parse argument to admin: found '127.0.0.1:0'; allowed: the path of a Unix socket, 1 to 107 printable bytes; it "
     "listens at no address (./NAME:NUMBER for a file of such a name)\n"},
    {"--admin [::1]:9000", 64,
     "could not parse argument to admin: found '[::1]:9000'; allowed: the path of a Unix socket, 1 to 107 printable bytes; it "
     "listens at no address (./NAME:NUMBER for a file of such a name)\n"},
    {"-o ssl_min_version=x", 1, "could not parse argument to ssl_min_version: 'x' is not a number from 0 to 3\n"},
    {"-o ssl_verify_mode=x", 1, "could not parse argument to ssl_verify_mode: 'x' is not a number from 0 to 3\n"},
    {"-o ssl_wbuf_size=-1", 1,
     "could not parse argument to ssl_wbuf_size: '-1' is out of range: 0 to 1048576 kilobytes\n"},
    {"-o idle_timeout=-1", 1,
     "could not parse argument to idle_timeout: '-1' is out of range: 0 to 2147483647 seconds\n"},
    {"-o ext_threads=x", 1, "could not parse argument to ext_threads: 'x' is not a number from 1 to 64\n"},
    {"-o ext_page_size=0", 1,
     "could not parse argument to ext_page_size: '0' is out of range: 1 to 1024 megabytes\n"},
    {"-o ext_path", 1, "Missing ext_path argument\n"},
    {"-o ext_path=", 1, "ext_path '' has no size" EXT_PATH_ACTION},
    {"-o ext_path=/f", 1, "ext_path '/f' has no size" EXT_PATH_ACTION},
    {"-o ext_path=:1G", 1, "ext_path ':1G' has no file" EXT_PATH_ACTION},
    {"-o ext_path=/f:", 1, "ext_path '/f:' has a size that is not a number with a unit" EXT_PATH_ACTION},
    {"-o ext_path=/f:64", 1, "ext_path '/f:64' has a size that is not a number with a unit" EXT_PATH_ACTION},
    {"-o ext_path=/f:64k", 1, "ext_path '/f:64k' has a size that is not a number with a unit" EXT_PATH_ACTION},
    {"-o ext_path=/f:64GB", 1, "ext_path '/f:64GB' has a size that is not a number with a unit" EXT_PATH_ACTION},
    {"-o ext_path=/f:-1G", 1, "ext_path '/f:-1G' has a size that is not a number with a unit" EXT_PATH_ACTION},
    {"-o ext_path=/f:G", 1, "ext_path '/f:G' has a size that is not a number with a unit" EXT_PATH_ACTION},
    {"-o ext_path=/f:8192P", 1, "ext_path '/f:8192P' has a size that is not a number with a unit" EXT_PATH_ACTION},
    {"-o ext_path=/f:5G:compact", 1,
     "ext_path '/f:5G:compact' has a size that is not a number with a unit" EXT_PATH_ACTION},
    {"-o ext_path=/f:1G,ext_path=/g:1G", 1, EXT_PATH_TWICE},
    {"-o ext_path=/f:1G -o ext_path=/f:1G", 1, EXT_PATH_TWICE},
    {"-o ext_path=/f:127M", 64,
     "ext_path: 127M is less than two pages of ext_page_size (64M), so each new page would drop all values; give at least "
     "128M, or a smaller ext_page_size\n"},
    {"-o ext_path=/f:0G,ext_page_size=1024", 64,
     "ext_path: 0M is less than two pages of ext_page_size (1G), so each new page would drop all values; give at least "
     "2G, or a smaller ext_page_size\n"},
    {"-o ext_path=/f:1G,ext_wbuf_size=5", 64,
     "ext_page_size (64M) is not a multiple of ext_wbuf_size (5M), so the last write would not fit into its page; give a "
     "divisor as ext_wbuf_size\n"},
    {"-o ext_path=/f:1G,ext_page_size=2", 64,
     "ext_page_size (2M) is not a multiple of ext_wbuf_size (4M), so the last write would not fit into its page; give a "
     "divisor as ext_wbuf_size\n"},
    {"-I 8m -o ext_path=/f:1G", 64,
     "-I (item_size_max: 8388608) cannot be larger than ext_wbuf_size: 4194304; raise ext_wbuf_size, or lower -I\n"},
    {"-e /f -o ext_path=/f:1G", 64,
     "-e and ext_path name the same file, /f, and each would overwrite the other's data; give two files\n"},
    {"-C -o foo -V", 1, "Illegal suboption \"foo\"\n"},  // in the order of the words
};

void test_refused() {
    for (const Refused& one : refused) {
        CommandLine line = parse(split(one.words));
        tap::is(line.exit_status.value_or(-1), one.exit_status, std::string("status of ") + one.words);
        tap::is(line.err, one.err, std::string("text of ") + one.words);
    }
    tap::ok(!parse({"", "-t", "2", ""}).exit_status, "empty words are none");
    tap::is(parse({"-t", "2", "", "more"}).err, "'more' is not an option\n", "words behind them are");
    tap::is(parse({"-l", ""}).exit_status.value_or(-1), 64, "-l with an empty address");
    tap::is(parse({"-D", ""}).exit_status.value_or(-1), 64, "-D with an empty delimiter");
}

void test_warnings() {
    tap::is(parse({"-m", "64"}).err, "", "no warning for what is right");
    tap::is(parse({"-m", "100x"}).err, "WARNING: -m, --memory-limit: '100x' is read as 100\n",
            "-m 100x is megabytes, with a warning");
    const CommandLine cut = parse({"-f", "1.5x", "-I", "2000000x", "-c", "100k", "-b", "1000k", "-R", "5k", "-t", "2x"});
    tap::is(cut.err, "WARNING: -f, --slab-growth-factor: '1.5x' is read as 1.5\n"
            "WARNING: -I, --max-item-size: '2000000x' is read as 2000000\n"
            "WARNING: -c, --conn-limit: '100k' is read as 100\n"
            "WARNING: -b, --listen-backlog: '1000k' is read as 1000\n"
            "WARNING: -R, --max-reqs-per-event: '5k' is read as 5\n"
            "WARNING: -t, --threads: '2x' is read as 2\n", "so are the numbers of other flags");
    tap::ok(!cut.exit_status && cut.settings.memory.item_bytes_max == 2'000'000 && cut.settings.memory.growth_factor == 1.5,
            "and they are in use");
    tap::is(parse({"-o", "slab_automove_ratio=0.5x"}).exit_status.value_or(-1), 1, "not so the ratios of -o");
    tap::is(parse({"-m", "100m"}).err, "", "m is a unit");
    tap::is(stat_of(parse({"-m", "100m"}).settings, "maxbytes"), "104857600", "and works");
    tap::ok(parse({"-t", "65"}).err.starts_with("WARNING: Setting a high number of workerthreads"),
            "-t 65 is not recommended");
    tap::ok(!parse({"-p", "0"}).err.empty(), "listening on nothing is remarked");
    tap::is(parse({"-p", "0", "-s", "/x"}).err, "", "a Unix socket is something");
    tap::ok(parse({"-o", "ssl_key=k"}).err.find("have no effect without -Z") != std::string::npos, "a key without TLS is remarked");
    tap::ok(parse({"-o", "resp_obj_mem_limit"}).err.starts_with("DEPRECATED: resp_obj_mem_limit"),
            "resp_obj_mem_limit is deprecated");
}

void test_stats() {
    std::vector<std::string> names;
    settings_stats(defaults(), [&](std::string_view name, std::string_view) { names.emplace_back(name); });
    tap::is(names.size(), settings_names.size(), "`stats settings` has 78 lines, one of them ours");
    for (size_t i = 0; i < settings_names.size() && i < names.size(); i++) {
        tap::is(names[i], settings_names[i].name, "line " + std::to_string(i + 1));
        tap::is(stat_of(defaults(), names[i]), settings_names[i].value,
                "default of " + names[i]);
    }
    tap::is(stat_of(parse({}).settings, "inter"), "NULL", "an empty command line is the defaults");
}

void test_fields() {
    Settings s = parse(split("-d -r -k -L -W -M -u me -P /p -c 5 -o no_maxconns_fast,idle_timeout=7,"
                             "track_sizes,watcher_logbuf_size=2")).settings;
    tap::ok(s.process.daemonize && s.process.core_dumps && s.process.lock_memory, "-d -r -k");
    tap::ok(s.memory.huge_pages && !s.memory.evict && s.memory.cas, "-L -M, no -C");
    tap::ok(!s.admin.watch && s.admin.flush && s.admin.dump && !s.admin.shutdown, "-W");
    tap::is(s.process.user, "me", "-u");
    tap::is(s.process.pid_file, "/p", "-P");
    tap::is(s.session.connections_max, 5u, "-c");
    tap::ok(!s.session.reject_over_limit, "no_maxconns_fast");
    tap::is(s.session.idle_timeout_s, 7u, "idle_timeout");
    tap::ok(s.admin.track_sizes, "track_sizes");
    tap::is(s.admin.watcher_log_bytes, uint64_t(2048), "watcher_logbuf_size");
    tap::is(s.listen.unix_mode, 0700u, "the Unix socket's default mode");
    tap::ok(defaults().admin.watch && !defaults().admin.detail, "defaults of what is not shown");
    const DiskSettings none = defaults().disk;
    tap::ok(none.path.empty() && none.page_bytes == 64u << 20 && none.write_buffer_bytes == 4u << 20 && none.threads == 1 &&
                none.io_depth == 32 && none.item_bytes_min == 512 && none.item_age_s == UINT32_MAX && none.recache_rate == 2000 &&
                none.drop_unread,
            "no disk tier, and its defaults");
    const DiskSettings disk = parse(split("-o ext_path=/a:b:3g,ext_page_size=32,ext_wbuf_size=8,ext_threads=2,ext_io_depth=64,"
                                          "ext_item_size=1,ext_item_age=2,ext_recache_rate=0,no_ext_drop_unread")).settings.disk;
    tap::ok(disk.path == "/a:b" && disk.bytes == UINT64_C(3) << 30 && disk.page_bytes == 32u << 20 &&
                disk.write_buffer_bytes == 8u << 20 && disk.threads == 2 && disk.io_depth == 64 && disk.item_bytes_min == 1 &&
                disk.item_age_s == 2 && disk.recache_rate == 0 && !disk.drop_unread,
            "ext_path and the options beside it");
    tap::is(parse({"-D", "ab"}).settings.admin.prefix_delimiter, "a", "-D takes one character");
}

void test_answers() {
    tap::is(parse({"-V"}).out, "memcached 1.6.45\n", "-V");
    tap::is(parse({"--version"}).out, "memcached 1.6.45\n", "--version");
    tap::is(parse({"-V"}).exit_status.value_or(-1), 0, "-V exits with 0");
    tap::is(parse({"-V", "-z"}).exit_status.value_or(-1), 0, "-V ends the parsing");
    const std::string versions = "memcached 1.6.45\nfarcached " + std::string(farcached_version()) + "\n";
    tap::ok(parse({"--version-full"}).out.starts_with(versions), "--version-full");
    tap::is(parse({"-h"}).out, help_text(option_table()), "-h");
    tap::is(parse({"--help"}).exit_status.value_or(-1), 0, "--help exits with 0");
    tap::ok(parse({"-i"}).out.find("BSD 3-Clause") != std::string::npos, "-i names the licence");
    tap::is(parse({"--license"}).out, license_text(), "--license");
    tap::is(parse({"--print-options-man"}).out, options_man(option_table()), "--print-options-man");
}

void test_texts() {
    std::string help = help_text(option_table()), man = options_man(option_table());
    std::set<std::string> seen;
    for (const Option& option : option_table()) {
        if (option.where == Where::stat || option.section == Section::hidden) continue;
        std::string name = spelled(option);
        tap::ok(!option.help.empty(), name + " has help");
        std::string word = option.name.empty() ? name : std::string(option.name);
        tap::ok(help.find(word) != std::string::npos, name + " is in --help");
        tap::ok(seen.insert(name).second, name + " is declared once");
    }
    tap::ok(help.find("-p, --port=<num>") != std::string::npos, "a flag's usage");
    tap::ok(help.find("(default: 11211)") != std::string::npos, "a flag's default");
    tap::ok(help.find("[no_]lru_crawler") != std::string::npos, "a suboption with an opposite");
    tap::ok(help.find("print-options-man") == std::string::npos, "what is hidden stays so");
    tap::ok(man.find(".B \\-p, \\-\\-port=<num>\n") != std::string::npos, "a flag in the man page");
    size_t longest = 0, start = 0;
    for (size_t end = help.find('\n'); end != std::string::npos; end = help.find('\n', start)) {
        longest = std::max(longest, end - start);
        start = end + 1;
    }
    tap::ok(longest < 90, "help is narrower than 90 columns");
    tap::note("longest line of help: %zu", longest);
}

}  // namespace

int main() {
    test_accepted();
    test_refused();
    test_warnings();
    test_stats();
    test_fields();
    test_answers();
    test_texts();
    return tap::done();
}
