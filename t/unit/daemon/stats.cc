// SPDX-License-Identifier: BSD-3-Clause
// `stats` and its groups: names, order, sums over workers, the effect of a reset.
#include <algorithm>

#include "daemon/stats/stats.h"
#include "t/unit/daemon/stats_fixture.h"

using namespace farcached;
using fixture::Rig;

namespace {

// memcached 1.6.45, in its order, without TLS, proxy and extstore; idle_kicks only with idle_timeout.
constexpr const char* general_names =
    "pid uptime time version libevent pointer_size rusage_user rusage_system max_connections "
    "curr_connections total_connections rejected_connections connection_structures response_obj_oom "
    "response_obj_count response_obj_bytes read_buf_count read_buf_bytes read_buf_bytes_free "
    "read_buf_oom reserved_fds cmd_get cmd_set cmd_flush cmd_touch cmd_meta get_hits get_misses "
    "get_expired get_flushed delete_misses delete_hits incr_misses incr_hits decr_misses decr_hits "
    "cas_misses cas_hits cas_badval touch_hits touch_misses store_too_large store_no_memory auth_cmds "
    "auth_errors bytes_read bytes_written limit_maxbytes accepting_conns listen_disabled_num "
    "time_in_listen_disabled_us threads conn_yields hash_power_level hash_bytes hash_is_expanding "
    "slab_reassign_rescues slab_reassign_chunk_rescues slab_reassign_inline_reclaim "
    "slab_reassign_busy_items slab_reassign_busy_deletes slab_reassign_busy_nomem "
    "slab_reassign_last_busy_status slab_reassign_running slabs_moved lru_crawler_running "
    "lru_crawler_starts lru_maintainer_juggles malloc_fails log_worker_dropped log_worker_written "
    "log_watcher_skipped log_watcher_sent log_watchers unexpected_napi_ids round_robin_fallback bytes "
    "curr_items total_items slab_global_page_pool expired_unfetched evicted_unfetched evicted_active "
    "evictions reclaimed crawler_reclaimed crawler_items_checked lrutail_reflocked moves_to_cold "
    "moves_to_warm moves_within_lru direct_reclaims lru_bumps_dropped farcached_version farcached_io";

// The names of `STAT name value` lines, joined by blanks; "bad line: ..." if one is not of that form.
std::string names_of(std::string_view reply) {
    std::string names;
    while (!reply.empty() && reply != "END\r\n") {
        size_t end = reply.find("\r\n");
        if (end == std::string_view::npos) return "no end of line";
        std::string_view line = reply.substr(0, end);
        reply.remove_prefix(end + 2);
        daemon::LineWords words(line);
        if (words[0] != "STAT" || words.size() != 3) return "bad line: " + std::string(line);
        if (!names.empty()) names += ' ';
        names += words[1];
    }
    return names;
}

constexpr auto ignore = [](std::string_view, std::string_view) {};

void general() {
    Rig rig;
    tap::is(names_of(rig.stats("")), general_names, "stats: 93 names of memcached, then our own");
    daemon::GeneralOptions other = {7, false, true, /* tls_sessions= */ true, ""};
    std::string names;
    daemon::Sample sample;
    sample.server.tls = {5, 0};
    daemon::write_general(daemon::StatWriter([&](std::string_view name, std::string_view) {
        names.append(name).append(" ");
    }), sample, other);
    tap::ok(names.find("rejected_connections") == std::string::npos, "no rejected_connections without maxconns_fast");
    tap::ok(names.find("auth_errors idle_kicks bytes_read") != std::string::npos, "idle_kicks with idle_timeout");
    tap::ok(names.find("log_watchers ssl_new_sessions ssl_handshake_errors ssl_proto_errors time_since_server_cert_refresh "
                       "unexpected_napi_ids") != std::string::npos, "with TLS, its statistics");
    tap::is(rig.stat("version"), "1.6.45", "the version that clients decide by");
    tap::is(rig.stat("uptime"), "100", "uptime is the node's clock");
    tap::is(rig.stat("time"), "1700000100", "time is Unix time");
}

void sums_and_reset() {
    Rig rig;
    rig.server.workers[0].get_cmds.add(3);
    rig.server.workers[1].get_cmds.add(4);
    rig.server.workers[0].classes[1].get_hits.add(2);
    rig.server.workers[1].classes[5].get_hits.add(3);
    rig.server.workers[1].get_misses.add(2);
    rig.server.locals[0].local_hits.add(5);
    rig.server.client_quit = 6;
    rig.server.fixed.total_connections = 9;
    rig.server.fixed.curr_connections = 2;
    rig.store("a", "x");
    tap::is(rig.stat("cmd_get"), "7", "a counter is the sum over workers");
    tap::is(rig.stat("get_hits"), "5", "a counter per class is the sum over workers and classes");
    tap::is(rig.stat("local_hits", "proxy"), "5", "stats proxy: lock-free reads");
    tap::is(rig.stat("close_client_quit", "proxy"), "6", "stats proxy: why sessions ended");
    tap::is(rig.stat("total_items"), "1", "total_items");
    tap::is(rig.stats("reset now"), "RESET\r\n", "stats reset");
    tap::is(rig.stat("cmd_get"), "0", "after a reset a counter is zero");
    tap::is(rig.stat("get_hits"), "0", "so is one per class");
    tap::is(rig.stat("total_items"), "0", "so is one of the node");
    tap::is(rig.stat("total_connections"), "0", "so is one of the server");
    tap::is(rig.stat("local_hits", "proxy"), "0", "so is one of our own");
    tap::is(rig.stat("close_client_quit", "proxy"), "0", "so is a close reason");
    tap::is(rig.stat("curr_items"), "1", "a gauge stays");
    tap::is(rig.stat("curr_connections"), "2", "and another");
    rig.server.workers[0].get_cmds.add(1);
    tap::is(rig.stat("cmd_get"), "1", "and counting goes on");
    tap::ok(rig.admin->stats_binary("reset", "", ignore) == daemon::StatsFound::found, "binary: reset");
    tap::is(rig.stat("cmd_get"), "0", "binary: it was one");
}

// A group from numbers that are written down here.
void slabs_and_items() {
    daemon::Sample sample;
    sample.node.classes.resize(64);
    node::ClassStats& small = sample.node.classes[2];
    small.slot_bytes = 128;
    small.pages = 3;
    small.slots_used = 700;
    small.slots_total = 1536;
    small.age_oldest_s = 12;
    small.evicted = 4;
    small.kept = 5;
    node::ClassStats& large = sample.node.classes[63];
    large.pages = 20;
    large.slots_used = 2;
    large.slots_total = 2;
    sample.node.pages_used = 23;
    sample.classes[2].get_hits = 8;
    std::string text;
    auto emit = [&](std::string_view name, std::string_view value) {
        text.append(name).append("=").append(value).append(" ");
    };
    daemon::write_slabs(daemon::StatWriter(emit), sample);
    tap::is(text,
            "2:chunk_size=128 2:chunks_per_page=512 2:total_pages=3 2:total_chunks=1536 2:used_chunks=700 "
            "2:free_chunks=836 2:free_chunks_end=0 2:get_hits=8 2:cmd_set=0 2:delete_hits=0 2:incr_hits=0 "
            "2:decr_hits=0 2:cas_hits=0 2:cas_badval=0 2:touch_hits=0 63:chunk_size=65536 "
            "63:chunks_per_page=1 63:total_pages=20 63:total_chunks=20 63:used_chunks=20 63:free_chunks=0 "
            "63:free_chunks_end=0 63:get_hits=0 63:cmd_set=0 63:delete_hits=0 63:incr_hits=0 "
            "63:decr_hits=0 63:cas_hits=0 63:cas_badval=0 63:touch_hits=0 active_slabs=2 "
            "total_malloced=1507328 ",
            "stats slabs");
    text.clear();
    sample.node.classes[63].slots_used = 0;
    daemon::write_items(daemon::StatWriter(emit), sample, true);
    tap::is(text,
            "items:2:number=700 items:2:number_hot=0 items:2:number_warm=0 items:2:number_cold=700 "
            "items:2:number_temp=0 items:2:age_hot=0 items:2:age_warm=0 items:2:age=12 "
            "items:2:mem_requested=0 items:2:evicted=4 items:2:evicted_nonzero=0 items:2:evicted_time=0 "
            "items:2:outofmemory=0 items:2:tailrepairs=0 items:2:reclaimed=0 items:2:expired_unfetched=0 "
            "items:2:evicted_unfetched=0 items:2:evicted_active=0 items:2:crawler_reclaimed=0 "
            "items:2:crawler_items_checked=0 items:2:lrutail_reflocked=0 items:2:moves_to_cold=0 "
            "items:2:moves_to_warm=0 items:2:moves_within_lru=5 items:2:direct_reclaims=0 "
            "items:2:hits_to_hot=0 items:2:hits_to_warm=0 items:2:hits_to_cold=8 items:2:hits_to_temp=0 ",
            "stats items, with a temporary LRU");
}

void small_groups() {
    Rig rig;
    tap::is(rig.stats("items"), "END\r\n", "stats items of an empty cache");
    tap::is(rig.stats("slabs"), "STAT active_slabs 0\r\nSTAT total_malloced 0\r\nEND\r\n",
            "stats slabs of an empty cache");
    tap::is(rig.stats("sizes"), "STAT sizes_status disabled\r\nEND\r\n", "stats sizes without track_sizes");
    tap::is(rig.stats("extstore"), "END\r\n", "stats extstore");
    for (const char* unknown : {"foo", "sizes_enable", "malloc", "noreply", "prox", "settingss"})
        tap::is(rig.stats(unknown), "ERROR\r\n", std::string("stats ") + unknown);
    rig.server.connections = {{23, "tcp:127.0.0.1:11211", "", "conn_listening", 9},
                              {24, "tcp:127.0.0.1:36226", "tcp:127.0.0.1:11211", "conn_read", 0}};
    tap::is(rig.stats("conns"),
            "STAT 23:addr tcp:127.0.0.1:11211\r\nSTAT 23:state conn_listening\r\n"
            "STAT 23:secs_since_last_cmd 9\r\nSTAT 24:addr tcp:127.0.0.1:36226\r\n"
            "STAT 24:listen_addr tcp:127.0.0.1:11211\r\nSTAT 24:state conn_read\r\n"
            "STAT 24:secs_since_last_cmd 0\r\nEND\r\n",
            "stats conns");
    Rig sized({}, true);
    sized.store("a", "1");
    sized.store("b", "2");
    sized.store("c", std::string(100, 'x'));
    tap::is(sized.stats("sizes"), "STAT 64 2\r\nSTAT 160 1\r\nEND\r\n", "stats sizes with track_sizes");
}

void cachedump() {
    Rig rig;
    tap::is(rig.stats("cachedump"), "CLIENT_ERROR bad command line\r\n", "stats cachedump");
    tap::is(rig.stats("cachedump 1"), "CLIENT_ERROR bad command line\r\n", "stats cachedump 1");
    tap::is(rig.stats("cachedump x 1"), "CLIENT_ERROR bad command line format\r\n", "stats cachedump x 1");
    tap::is(rig.stats("cachedump 1 -1"), "CLIENT_ERROR bad command line format\r\n", "stats cachedump 1 -1");
    tap::is(rig.stats("cachedump 64 1"), "CLIENT_ERROR Illegal slab id\r\n", "stats cachedump 64 1");
    tap::is(rig.stats("cachedump 63 1"), "END\r\n", "stats cachedump 63 1: none there");
    rig.store("foo", "bar", 250);
    tap::is(rig.stats("cachedump 1 0"), "ITEM foo [3 b; 1700000250 s]\r\nEND\r\n", "an item that expires");
    rig.store("foo", "bar");
    tap::is(rig.stats("cachedump 1 1"), "ITEM foo [3 b; 0 s]\r\nEND\r\n", "one that does not");
    rig.store("a b", "x");
    rig.store("z", "x");
    std::string two = rig.stats("cachedump 1 0");
    tap::ok(two.find("a b") == std::string::npos, "a key with a blank is left out");
    tap::is(std::count(two.begin(), two.end(), '\n'), 3, "the other two and END are there");
    std::string one = rig.stats("cachedump 1 1");
    tap::is(std::count(one.begin(), one.end(), '\n'), 2, "one item when one was requested");
    rig.options.dump_enabled = false;
    tap::is(rig.stats("cachedump 1 1"), "CLIENT_ERROR stats cachedump not allowed\r\n", "-X: cachedump");
    tap::is(rig.stats("detail on"), "CLIENT_ERROR stats detail not allowed\r\n", "-X: detail");
}

void cachedump_limit() {
    Rig rig;
    std::string tail(200, 'k');
    for (int i = 0; i < 16000; i++) rig.store(std::to_string(100000 + i) + tail, "x");
    size_t longest = 0;
    for (int id = 1; id < 63; id++)
        longest = std::max(longest, rig.stats("cachedump " + std::to_string(id) + " 0").size());
    tap::ok(longest <= (2 << 20), "a reply of cachedump stays within 2 MB");
    tap::ok(longest > (2 << 20) - 400, "and comes close to it");
}

void detail() {
    Rig rig;
    auto& admin = *rig.admin;
    tap::is(rig.stats("detail"), "CLIENT_ERROR usage: stats detail on|off|dump\r\n", "stats detail");
    tap::is(rig.stats("detail x"), "CLIENT_ERROR usage: stats detail on|off|dump\r\n", "stats detail x");
    tap::is(rig.stats("detail dump"), "END\r\n", "nothing is counted at first");
    admin.detail("user:1", daemon::KeyUse::hit);
    tap::is(rig.stats("detail dump"), "END\r\n", "nor while it is off");
    tap::is(rig.stats("detail on"), "OK\r\n", "stats detail on");
    tap::ok(rig.options.detail_enabled, "the engines have the setting");
    tap::is(rig.stat("detail_enabled", "settings"), "yes", "so are the settings");
    admin.detail("user:1", daemon::KeyUse::hit);
    admin.detail("user:2:x", daemon::KeyUse::miss);
    admin.detail("user:1", daemon::KeyUse::set);
    admin.detail("user:1", daemon::KeyUse::del);
    admin.detail("nodelimiter", daemon::KeyUse::set);
    tap::is(rig.stats("detail dump"), "PREFIX user get 2 hit 1 set 1 del 1\r\nEND\r\n", "counts by prefix");
    tap::is(rig.stat("detailed", "detail dump"), "PREFIX user get 2 hit 1 set 1 del 1\r\nEND\r\n",
            "over binary it is one value");
    rig.stats("reset");
    tap::is(rig.stats("detail dump"), "END\r\n", "a reset forgets the prefixes");
    admin.detail("a\r\nEND\r\n:", daemon::KeyUse::set);
    tap::is(rig.stats("detail dump"), "PREFIX a%0D%0AEND%0D%0A get 0 hit 0 set 1 del 0\r\nEND\r\n",
            "a prefix cannot forge a line");
    rig.stats("reset");
    for (int i = 0; i < (1 << 16) + 50; i++) admin.detail(std::to_string(i) + ":", daemon::KeyUse::set);
    std::string dump = rig.stats("detail dump");
    tap::is(std::count(dump.begin(), dump.end(), '\n'), (1 << 16) + 1, "prefixes are bounded");
    tap::is(rig.stats("detail off"), "OK\r\n", "stats detail off");
    tap::ok(!rig.options.detail_enabled, "the engines have the setting");
}

void the_rest() {
    Rig rig;
    rig.admin->verbosity(9);
    tap::is(rig.stat("verbosity", "settings"), "2", "verbosity is at most 2");
    rig.admin->shutdown(true);
    tap::is(rig.server.shut, "graceful", "shutdown graceful");
    rig.admin->shutdown(false);
    tap::is(rig.server.shut, "now", "shutdown");
    tap::ok(rig.admin->stats_binary("foo", "", ignore) == daemon::StatsFound::unknown, "binary: an unknown group");
}

}  // namespace

int main() {
    general();
    sums_and_reset();
    slabs_and_items();
    small_groups();
    cachedump();
    cachedump_limit();
    detail();
    the_rest();
    return tap::done();
}
