# SPDX-License-Identifier: BSD-3-Clause
"""`stats` and its sub-commands in text and binary: names, order, formats; compared with memcached if it is installed."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from binary_client import BinaryClient, status
from farcached import Daemon, conversations, tap, until

# From memcached 1.6.45 without TLS, proxy and extstore.
GENERAL = """
pid uptime time version libevent pointer_size rusage_user rusage_system max_connections curr_connections
total_connections rejected_connections connection_structures response_obj_oom response_obj_count response_obj_bytes
read_buf_count read_buf_bytes read_buf_bytes_free read_buf_oom reserved_fds cmd_get cmd_set cmd_flush cmd_touch cmd_meta
get_hits get_misses get_expired get_flushed delete_misses delete_hits incr_misses incr_hits decr_misses decr_hits
cas_misses cas_hits cas_badval touch_hits touch_misses store_too_large store_no_memory auth_cmds auth_errors bytes_read
bytes_written limit_maxbytes accepting_conns listen_disabled_num time_in_listen_disabled_us threads conn_yields
hash_power_level hash_bytes hash_is_expanding slab_reassign_rescues slab_reassign_chunk_rescues
slab_reassign_inline_reclaim slab_reassign_busy_items slab_reassign_busy_deletes slab_reassign_busy_nomem
slab_reassign_last_busy_status slab_reassign_running slabs_moved lru_crawler_running lru_crawler_starts
lru_maintainer_juggles malloc_fails log_worker_dropped log_worker_written log_watcher_skipped log_watcher_sent
log_watchers unexpected_napi_ids round_robin_fallback bytes curr_items total_items slab_global_page_pool
expired_unfetched evicted_unfetched evicted_active evictions reclaimed crawler_reclaimed crawler_items_checked
lrutail_reflocked moves_to_cold moves_to_warm moves_within_lru direct_reclaims lru_bumps_dropped
""".split()

SETTINGS = """
maxbytes maxconns tcpport udpport inter verbosity oldest evictions domain_socket umask shutdown_command growth_factor
chunk_size num_threads num_threads_per_udp stat_key_prefix detail_enabled reqs_per_event cas_enabled tcp_backlog
binding_protocol auth_enabled_sasl auth_enabled_ascii item_size_max maxconns_fast hashpower_init slab_reassign
slab_automove slab_automove_ratio slab_automove_window slab_chunk_max lru_crawler lru_crawler_sleep lru_crawler_tocrawl
tail_repair_time flush_enabled dump_enabled hash_algorithm lru_maintainer_thread lru_segmented hot_lru_pct warm_lru_pct
hot_max_factor warm_max_factor temp_lru temporary_ttl idle_timeout watcher_logbuf_size worker_logbuf_size
read_buf_mem_limit track_sizes inline_ascii_response ext_item_size ext_item_age ext_low_ttl ext_recache_rate
ext_wbuf_size ext_compact_under ext_drop_under ext_max_sleep ext_max_frag slab_automove_freeratio ext_drop_unread
ssl_enabled ssl_chain_cert ssl_key ssl_verify_mode ssl_keyformat ssl_ciphers ssl_ca_cert ssl_wbuf_size
ssl_session_cache ssl_kernel_tls ssl_min_version num_napi_ids memory_file client_flags_size
""".split()

ITEMS = """
number number_hot number_warm number_cold age_hot age_warm age mem_requested evicted evicted_nonzero evicted_time
outofmemory tailrepairs reclaimed expired_unfetched evicted_unfetched evicted_active crawler_reclaimed
crawler_items_checked lrutail_reflocked moves_to_cold moves_to_warm moves_within_lru direct_reclaims hits_to_hot
hits_to_warm hits_to_cold hits_to_temp
""".split()

SLABS = """
chunk_size chunks_per_page total_pages total_chunks used_chunks free_chunks free_chunks_end get_hits cmd_set delete_hits
incr_hits decr_hits cas_hits cas_badval touch_hits
""".split()

# Names that only 1.6.45 has, and names that only Debian's 1.6.18 has.
SINCE_1_6_18 = {"slab_reassign_busy_nomem", "slab_reassign_last_busy_status", "client_flags_size"}
GONE_SINCE_1_6_18 = {"slab_reassign_evictions_nomem"}

WORDS = r"""
== empty groups
> stats items\r\nstats slabs\r\nstats sizes\r\nstats extstore\r\n
< END\r\nSTAT active_slabs 0\r\nSTAT total_malloced 0\r\nEND\r\nSTAT sizes_status disabled\r\nEND\r\nEND\r\n
== unknown groups
> stats foo\r\nstats sizes_enable\r\nstats noreply\r\nstats malloc\r\n
< ERROR\r\nERROR\r\nERROR\r\nERROR\r\n
== reset
> stats reset\r\nstats reset foo\r\nstats  reset \r\n
< RESET\r\nRESET\r\nRESET\r\n
== detail: usage
> stats detail\r\nstats detail foo\r\nstats detail dump\r\n
< CLIENT_ERROR usage: stats detail on|off|dump\r\nCLIENT_ERROR usage: stats detail on|off|dump\r\nEND\r\n
== detail: counts by prefix
> stats detail on\r\nset foo:123 0 0 6\r\nfooval\r\nstats detail dump\r\n
< OK\r\nSTORED\r\nPREFIX foo get 0 hit 0 set 1 del 0\r\nEND\r\n
> get foo:123\r\nget foo:124\r\ndelete foo:125\r\nstats detail dump\r\n
< VALUE foo:123 0 6\r\nfooval\r\nEND\r\nEND\r\nNOT_FOUND\r\nPREFIX foo get 2 hit 1 set 1 del 1\r\nEND\r\n
> stats reset\r\nstats detail dump\r\nget foo:123\r\nstats detail dump extra\r\n
< RESET\r\nEND\r\nVALUE foo:123 0 6\r\nfooval\r\nEND\r\nPREFIX foo get 1 hit 1 set 0 del 0\r\nEND\r\n
> stats detail off extra\r\nget foo:123\r\nstats detail dump\r\n
< OK\r\nVALUE foo:123 0 6\r\nfooval\r\nEND\r\nPREFIX foo get 1 hit 1 set 0 del 0\r\nEND\r\n
== cachedump: arguments
> stats cachedump\r\nstats cachedump 1\r\nstats cachedump x 1\r\nstats cachedump 1 x\r\nstats cachedump 64 1\r\n
< CLIENT_ERROR bad command line\r\nCLIENT_ERROR bad command line\r\nCLIENT_ERROR bad command line format\r\n
< CLIENT_ERROR bad command line format\r\nCLIENT_ERROR Illegal slab id\r\n
> stats cachedump 63 1\r\nstats cachedump 0 0\r\n
< END\r\nEND\r\n
"""


def names(stats):
    return list(stats)


def general(daemon, client):
    stats = client.stats()
    tap.is_(names(stats)[:len(GENERAL)], GENERAL, "stats: memcached's 93 names in its order")
    tap.is_(names(stats)[len(GENERAL):], ["farcached_version", "farcached_io"], "stats: then our version, and the socket back end")
    tap.is_(len(GENERAL), 93, "stats: 93 they are")
    tap.is_(stats["pid"], str(daemon.pid), "pid")
    tap.is_(stats["version"], "1.6.45", "version")
    tap.is_(stats["pointer_size"], "64", "pointer_size")
    tap.is_(stats["threads"], "4", "threads")
    tap.is_(stats["limit_maxbytes"], str(64 << 20), "limit_maxbytes")
    alone = until(lambda: client.stats()["curr_connections"], lambda n: n == "1")
    tap.is_(alone, "1", "curr_connections counts clients only")
    tap.is_(stats["accepting_conns"], "1", "accepting_conns")
    strings = {"version", "libevent", "slab_reassign_last_busy_status", "farcached_version", "farcached_io"}
    odd = [n for n, v in stats.items() if n not in strings and not re.fullmatch(r"\d+(\.\d{6})?", v)]
    tap.is_(odd, [], "every other value is a number")
    spaced = [n for n, v in stats.items() if not v or " " in v or ":" in n]
    tap.is_(spaced, [], "no name has a colon, no value a space")


def settings(client):
    stats = client.stats("settings")
    tap.is_(names(stats), SETTINGS + ["io"], "stats settings: memcached's 77 names in its order, and ours")
    tap.is_([n for n, v in stats.items() if not v], [], "stats settings: every one has a value")
    yes_no = ["lru_crawler", "lru_maintainer_thread", "cas_enabled", "slab_reassign", "detail_enabled", "track_sizes"]
    tap.is_([stats[n] for n in yes_no if stats[n] not in ("yes", "no")], [], "stats settings: switches say yes or no")
    tap.is_((stats["maxconns"], stats["domain_socket"], stats["evictions"], stats["auth_enabled_sasl"]),
            ("1024", "NULL", "on", "no"), "stats settings: memcached's own test of them")
    for line, name, value in (("cache_memlimit 80", "maxbytes", str(80 << 20)), ("verbosity 1", "verbosity", "1"),
                              ("verbosity 0", "verbosity", "0"), ("lru mode flat", "lru_segmented", "no"),
                              ("slabs automove 0", "slab_automove", "0"), ("stats detail on", "detail_enabled", "yes"),
                              ("lru_crawler sleep 7", "lru_crawler_sleep", "7")):
        tap.is_((client.ask(line), client.stats("settings")[name]), ("OK", value), "%s is shown by stats settings" % line)
    client.ask("stats detail off")


def classes(client):
    client.set("small", "x")
    client.set("large", "v" * 700000)
    client.get("small")
    slabs = client.stats("slabs")
    by_class = {}
    for name in slabs:
        if ":" in name:
            by_class.setdefault(int(name.split(":")[0]), []).append(name.split(":")[1])
    tap.is_(sorted(by_class.values()), [SLABS] * len(by_class), "stats slabs: memcached's names for each class")
    tap.is_(names(slabs)[-2:], ["active_slabs", "total_malloced"], "stats slabs: the two sums")
    tap.is_(slabs["active_slabs"], str(len(by_class)), "active_slabs counts the classes shown")
    total = sum(int(slabs["%d:total_pages" % c]) for c in by_class)
    tap.ok(total > 0 and int(slabs["total_malloced"]) % total == 0, "total_malloced is the pages' memory")
    items = client.stats("items")
    ids = sorted({int(n.split(":")[1]) for n in items})
    want = ["items:%d:%s" % (i, f) for i in ids for f in ITEMS]
    tap.is_(names(items), want, "stats items: memcached's names for each class")
    tap.is_(sum(int(items["items:%d:number" % i]) for i in ids), 2, "stats items: the two items")
    tap.is_(set(ids) <= set(by_class), True, "each class with items is among the slabs")
    tap.is_(sum(int(slabs["%d:get_hits" % c]) for c in by_class), 1, "stats slabs: get_hits")
    # memcached-tool computes bytes per class, which must not exceed the class's memory.
    tap.is_([c for c in by_class if int(slabs["%d:used_chunks" % c]) > int(slabs["%d:total_chunks" % c])], [],
            "used_chunks is at most total_chunks")
    dump = {}
    for i in ids:
        for line in client.ask("stats cachedump %d 100" % i, end="END")[:-1]:
            m = re.fullmatch(r"ITEM (\S+) \[(\d+) b; (\d+) s\]", line)
            dump[m.group(1)] = (m.group(2), m.group(3))
    tap.is_(dump, {"small": ("1", "0"), "large": ("700000", "0")}, "stats cachedump lists them")


def connections(daemon, client):
    with daemon.client() as busy:
        busy.send("set foo 0 0 6\r\n")
        reached = daemon.until_stat("curr_connections", lambda n: n is not None and int(n) >= 2)
        tap.ok(int(reached) >= 2, "a second client is counted")
        seen = client.stats("conns")
        here = "tcp:127.0.0.1:%d" % daemon.port
        listening = [n.split(":")[0] for n, v in seen.items() if v == "conn_listening"]
        tap.is_([seen[fd + ":addr"] for fd in listening], [here], "stats conns: the listener and its address")
        tap.is_([fd + ":listen_addr" in seen for fd in listening], [False], "stats conns: which has no listen_addr")
        mine = "tcp:127.0.0.1:%d" % client.socket.getsockname()[1]
        fd = [n.split(":")[0] for n, v in seen.items() if v == mine and n.endswith(":addr")]
        tap.is_(len(fd), 1, "stats conns: this client")
        tap.is_([n for n in seen if n.startswith(fd[0] + ":")],
                [fd[0] + ":" + f for f in ("addr", "listen_addr", "state", "secs_since_last_cmd")],
                "stats conns: names and order")
        tap.is_((seen[fd[0] + ":listen_addr"], seen[fd[0] + ":state"]), (here, "conn_parse_cmd"),
                "stats conns: its listening address, and its state")
        states = until(lambda: {v for n, v in client.stats("conns").items() if n.endswith(":state")},
                       lambda found: "conn_nread" in found)
        tap.ok("conn_nread" in states, "stats conns: a client in the middle of a value", "states: %s" % states)


def resets(client):
    client.ask("stats reset")
    client.set("reset", "1")
    client.get("reset")
    client.get("missing")
    stats = client.stats()
    tap.is_([stats[n] for n in ("cmd_get", "get_hits", "get_misses", "cmd_set", "total_items")], ["2", "1", "1", "1", "1"],
            "counters count")
    tap.is_(client.ask("stats reset"), "RESET", "stats reset")
    after = client.stats()
    zero = ("cmd_get", "cmd_set", "get_hits", "get_misses", "delete_misses", "delete_hits", "incr_misses", "incr_hits",
            "decr_misses", "decr_hits", "cas_misses", "cas_hits", "cas_badval", "evictions", "reclaimed", "total_items",
            "total_connections")
    tap.is_([n for n in zero if after[n] != "0"], [], "after a reset they are zero")
    tap.is_(after["curr_items"], stats["curr_items"], "but items stay")
    client.get("reset")
    tap.is_(client.stats()["cmd_get"], "1", "and they count again")


def binary(daemon, client):
    with BinaryClient(daemon.client()) as b:
        for group in ("", "settings", "items", "slabs", "sizes", "proxy"):
            code, found = b.stat(group.encode())
            tap.is_((code, names(found)), (status.OK, names(client.stats(group))), "binary STAT %r: the names of text" % group)
        tap.is_(b.stat(b"conns")[0], status.OK, "binary STAT conns")
        tap.is_(b.stat(b"foo")[0], status.NOT_FOUND, "binary STAT of an unknown group: Not found")
        tap.is_(b.stat(b"detail on"), (status.OK, {}), "binary STAT detail on")
        client.get("bin:1")
        tap.is_(b.stat(b"detail dump"), (status.OK, {"detailed": "PREFIX bin get 1 hit 0 set 0 del 0\r\nEND\r\n"}),
                "binary STAT detail dump")
        tap.is_(b.stat(b"detail off"), (status.OK, {}), "binary STAT detail off")
        tap.is_(b.stat(b"reset"), (status.OK, {}), "binary STAT reset")
        tap.is_(client.stats()["cmd_set"], "0", "it was one")


def options():
    with Daemon("-o", "track_sizes,idle_timeout=600,no_maxconns_fast", "-D", "/") as daemon, daemon.client() as client:
        client.set("a", "x")
        client.set("b", "x")
        client.set("c", "x" * 1000)
        sizes = client.stats("sizes")
        tap.is_(([int(n) % 32 for n in sizes], sorted(sizes.values())), ([0, 0], ["1", "2"]), "-o track_sizes: stats sizes")
        tap.is_(names(sizes), sorted(names(sizes), key=int), "in order of size")
        found = names(client.stats())
        want = [n for n in GENERAL if n != "rejected_connections"]
        want.insert(want.index("bytes_read"), "idle_kicks")
        tap.is_(found[:len(want)], want, "idle_timeout shows idle_kicks, no_maxconns_fast hides rejected_connections")
        client.get("user/1")
        client.get("user:1")
        tap.is_(client.ask("stats detail dump", end="END"), ["PREFIX user get 1 hit 0 set 0 del 0", "END"],
                "-D /: detail is on, by that delimiter")
    with Daemon("-X") as daemon, daemon.client() as client:
        tap.is_(client.ask("stats cachedump 1 1"), "CLIENT_ERROR stats cachedump not allowed", "-X: cachedump")
        tap.is_(client.ask("stats detail dump"), "CLIENT_ERROR stats detail not allowed", "-X: detail")


def beside_memcached(daemon, memcached):
    """The same names in the same order as the installed memcached, except for changes between the two versions."""
    with Daemon(binary=memcached) as other, other.client() as theirs, daemon.client() as ours:
        if not theirs.ask("version").startswith("VERSION 1.6.18"):
            tap.skip("beside memcached 1.6.18", "another version is installed")
            return
        for client in theirs, ours:
            client.ask("flush_all")
            client.set("a", "x")
            client.get("a")
        for group in ("", "settings", "items", "slabs"):
            strip = re.compile(r"^(items:)?\d+:")
            want = [strip.sub("", n) for n in names(theirs.stats(group)) if n not in GONE_SINCE_1_6_18]
            extra = SINCE_1_6_18 | {"farcached_version", "farcached_io", "io"}
            got = [strip.sub("", n) for n in names(ours.stats(group)) if n not in extra]
            want, got = list(dict.fromkeys(want)), list(dict.fromkeys(got))
            tap.is_(got, want, "beside memcached 1.6.18: stats %s" % (group or "(general)"))


def main():
    with Daemon("-m", "64") as daemon:
        conversations(daemon, WORDS)
    with Daemon("-m", "64") as daemon, daemon.client() as client:
        general(daemon, client)
        settings(client)
    with Daemon("-m", "64") as daemon, daemon.client() as client:
        classes(client)
        connections(daemon, client)
        resets(client)
        binary(daemon, client)
        if os.access("/usr/bin/memcached", os.X_OK):
            beside_memcached(daemon, "/usr/bin/memcached")
    options()
    tap.done()


main()
