# SPDX-License-Identifier: BSD-3-Clause
"""The stats as monitoring tools read them, without the tools: each tool's parsing rules, applied strictly.

The tools are memcached_exporter, Datadog's check, telegraf, collectd, phpMemcachedAdmin and memcached-tool. Their rules are the
requests, how they split the reply, the values that they reject, and the names that they need. t/clients/run runs the available
tools themselves. Before the checks the daemon executes every kind of command, so that traffic moves every counter.
"""
import os
import re
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from farcached import Daemon, tap  # noqa: E402

OPERATIONS = ["get", "delete", "incr", "decr", "cas", "touch"]

EXPORTER_GENERAL = """uptime time cas_badval cmd_flush bytes limit_maxbytes curr_items total_items bytes_read
    bytes_written curr_connections total_connections rejected_connections conn_yields listen_disabled_num
    evictions reclaimed store_too_large store_no_memory lru_crawler_starts direct_reclaims
    crawler_items_checked crawler_reclaimed moves_to_cold moves_to_warm moves_within_lru accepting_conns""".split()
EXPORTER_ITEMS = """number age hits_to_hot hits_to_warm hits_to_cold hits_to_temp crawler_reclaimed evicted
    evicted_nonzero evicted_time evicted_unfetched expired_unfetched outofmemory reclaimed tailrepairs
    mem_requested moves_to_cold moves_to_warm moves_within_lru number_hot number_warm number_cold age_hot
    age_warm""".split()
EXPORTER_SLABS = """chunk_size chunks_per_page total_pages total_chunks used_chunks free_chunks
    free_chunks_end""".split()
EXPORTER_SETTINGS = """lru_crawler_sleep lru_crawler_tocrawl hot_lru_pct warm_lru_pct hot_max_factor
    warm_max_factor""".split()
EXPORTER_LINE_MAX = 4096

TELEGRAF = """accepting_conns auth_cmds auth_errors bytes bytes_read bytes_written cas_badval cas_hits
    cas_misses cmd_flush cmd_get cmd_set cmd_touch conn_yields connection_structures curr_connections
    curr_items decr_hits decr_misses delete_hits delete_misses evicted_active evicted_unfetched evictions
    expired_unfetched get_expired get_flushed get_hits get_misses hash_bytes hash_is_expanding
    hash_power_level incr_hits incr_misses limit_maxbytes listen_disabled_num max_connections reclaimed
    rejected_connections store_no_memory store_too_large threads total_connections total_items touch_hits
    touch_misses uptime malloc_fails crawler_items_checked crawler_reclaimed direct_reclaims lrutail_reflocked
    lru_crawler_running lru_crawler_starts lru_maintainer_juggles moves_to_cold moves_to_warm moves_within_lru
    response_obj_bytes response_obj_count response_obj_oom round_robin_fallback slab_global_page_pool
    slab_reassign_busy_items slab_reassign_running slabs_moved time_in_listen_disabled_us""".split()

COLLECTD = """rusage_user rusage_system threads curr_items uptime bytes limit_maxbytes curr_connections
    listen_disabled_num total_connections cmd_get cmd_set cmd_flush cmd_touch incr_hits incr_misses decr_hits
    decr_misses get_hits get_misses evictions delete_hits delete_misses bytes_read bytes_written""".split()

DATADOG = """get_hits cmd_get bytes limit_maxbytes curr_items total_items curr_connections threads
    connection_structures rusage_user rusage_system total_connections cmd_set cmd_flush get_misses
    delete_hits delete_misses evictions bytes_read bytes_written cas_misses cas_hits cas_badval
    listen_disabled_num pointer_size uptime""".split()


def is_number(text):
    try:
        float(text)
    except (TypeError, ValueError):
        return False
    return True


def traffic(d):
    """Some traffic of every kind except evictions: hits, misses, several classes, expiry and refusals."""
    with d.client() as c:
        for i in range(50):
            c.set("key%d" % i, "x" * (i * i + 1), flags=i, exptime=0 if i % 2 else 1000)
        for size in (10_000, 100_000, 600_000):
            c.set("size%d" % size, "x" * size)
        c.get("key1"), c.get("absent")
        c.set("n", "5")
        (_, _, _, cas), = c.get_many(["n"], "gets")
        for request in ("incr n 1", "incr absent 1", "decr n 1", "decr absent 1", "touch n 100", "touch absent 1",
                        "delete key2", "delete absent", "mg n t", "verbosity 0"):
            c.ask(request)
        for unique in (cas, 1, cas):
            c.ask("cas n 0 0 1 %d\r\n7" % unique)
        c.ask("cas absent 0 0 1 1\r\n7")


def stat_lines(d, sub=""):
    with d.client() as c:
        return c.ask(("stats " + sub).strip(), end=("END", "ERROR"))[:-1]


def by_class(stats):
    """{class: {field: value}} of `stats items` or `stats slabs`, as names with one or two colons."""
    found = {}
    for name, value in stats.items():
        parts = name.split(":")
        if len(parts) > 1:
            found.setdefault(parts[-2], {})[parts[-1]] = value
    return found


def missing_numbers(names, stats):
    return [n for n in names if not is_number(stats.get(n))]


def exporter(d):
    """memcached_exporter: requires every name that it knows, and prints the number of samples that it would return."""
    every = stat_lines(d) + stat_lines(d, "slabs") + stat_lines(d, "items") + stat_lines(d, "settings")
    tap.ok(all(len(line) < EXPORTER_LINE_MAX for line in every), "exporter: no line fills its reader")
    short = [line for line in every if len(line.split()) < 3]
    tap.ok(not short, "exporter: STAT, a name and a value in every line", short)
    general = d.stats()
    colons = [n for n in general if ":" in n] + [n for n, v in general.items() if " " in v]
    tap.ok(not colons, "exporter: no name in the general stats looks like a class, no value has a space", colons)
    wanted = EXPORTER_GENERAL + ["cmd_set"] + ["%s_%s" % (op, r) for op in OPERATIONS for r in ("hits", "misses")]
    tap.is_(missing_numbers(wanted, general), [], "exporter: every general number")
    tap.ok(all(re.fullmatch(r"\d+\.\d+", general[n]) for n in ("rusage_user", "rusage_system")),
           "exporter: rusage in seconds and a fraction")
    items, slabs_all, settings = by_class(d.stats("items")), d.stats("slabs"), d.stats("settings")
    slabs = by_class(slabs_all)
    tap.ok(items and all(c.isdigit() for c in list(items) + list(slabs)), "exporter: classes are numbers")
    tap.is_({c: m for c, v in items.items() if (m := missing_numbers(EXPORTER_ITEMS, v))}, {},
            "exporter: every number of `stats items`")
    wanted_slabs = EXPORTER_SLABS + ["%s_hits" % op for op in OPERATIONS] + ["cas_badval", "cmd_set"]
    tap.is_({c: m for c, v in slabs.items() if (m := missing_numbers(wanted_slabs, v))}, {},
            "exporter: every number of `stats slabs`")
    tap.ok(is_number(slabs_all.get("total_malloced")), "exporter: total_malloced")
    tap.is_(missing_numbers(EXPORTER_SETTINGS + ["maxconns"], settings), [], "exporter: every number of the settings")
    tap.ok(all(settings[n] in ("yes", "no") for n in ("lru_crawler", "lru_maintainer_thread")),
           "exporter: yes or no")
    # up, version, two rusages, total_malloced; the settings that it reads if the crawler is on; the classes.
    count = 5 + len(wanted) + (len(EXPORTER_SETTINGS) + 3 if settings["lru_crawler"] == "yes" else 1) \
        + len(items) * len(EXPORTER_ITEMS) + len(slabs) * len(wanted_slabs)
    tap.diag("memcached_exporter would give %d samples for %d and %d classes" % (count, len(items), len(slabs)))


# phpMemcachedAdmin ends any reply at these words.
PHP_ADMIN_END = re.compile(
    rb"(END|DELETED|OK|ERROR|SERVER_ERROR|CLIENT_ERROR|NOT_FOUND|STORED|RESET|TOUCHED)\r\n")


def line_readers(d):
    lines = stat_lines(d)
    tap.ok(all(len(line.split(" ")) == 3 for line in lines), "telegraf: exactly three words in every line",
           [line for line in lines if len(line.split(" ")) != 3])
    general = d.stats()
    tap.is_(missing_numbers(TELEGRAF, general), [], "telegraf: every field")
    tap.is_(missing_numbers(COLLECTD, general), [], "collectd: every value")
    with d.client() as c:
        for sub in ("", " settings", " slabs", " items"):
            c.send("stats%s\r\n" % sub)
            text = c.until(PHP_ADMIN_END)
            tap.ok(text.endswith(b"END\r\n") and c.is_idle(), "phpMemcachedAdmin: `stats%s` ends where it thinks" % sub)
    slabs = d.stats("slabs")
    tap.ok({"active_slabs", "total_malloced"} <= set(slabs), "phpMemcachedAdmin: active_slabs and total_malloced")
    tap.is_(int(slabs["active_slabs"]), len(by_class(slabs)), "phpMemcachedAdmin: the number of classes is active_slabs")
    items = by_class(d.stats("items"))
    found = 0
    with d.client() as c:
        for number in items:
            dump = c.ask("stats cachedump %s 100" % number, end="END")[:-1]
            found += len(dump)
            wrong = [line for line in dump if not re.fullmatch(r"ITEM \S+ \[\d+ b; \d+ s\]", line)]
            tap.ok(not wrong, "phpMemcachedAdmin: `stats cachedump %s 100`" % number, wrong)
    tap.ok(found > 0, "phpMemcachedAdmin: and it shows items")


def binary_stats(d, group):
    """STAT over the binary protocol: {name: value}."""
    found = {}
    with d.client() as c:
        key = group.encode()
        c.send(struct.pack(">BBHBBHIIQ", 0x80, 0x10, len(key), 0, 0, 0, len(key), 7, 0), key)
        while True:
            magic, opcode, keys, extras, _, status, total, opaque, _ = struct.unpack(">BBHBBHIIQ", c.read(24))
            body = c.read(total)
            if (magic, opcode, extras, status, opaque) != (0x81, 0x10, 0, 0, 7):
                raise AssertionError("not a reply to STAT: status %d, %r" % (status, body))
            if keys == 0:
                return found
            found[body[:keys].decode()] = body[keys:].decode()


def datadog(d):
    general = binary_stats(d, "")
    tap.is_(missing_numbers(DATADOG, general), [], "Datadog: every gauge and rate, over binary STAT")
    tap.is_(list(general), list(d.stats()), "Datadog: the same names as in text, in the same order")
    for group, parts in (("items", 3), ("slabs", 2)):
        stats = binary_stats(d, group)
        names = [n for n in stats if n not in ("active_slabs", "total_malloced")]
        tap.ok(names and all(len(n.split(":")) == parts and n.split(":")[-2].isdigit() for n in names),
               "Datadog: names of `%s`" % group, names[:5])
        tap.is_(list(stats), list(d.stats(group)), "Datadog: `%s` as in text" % group)
        tap.is_(missing_numbers(stats, stats), [], "Datadog: `%s` are numbers" % group)


def memcached_tool(d):
    items, slabs = by_class(d.stats("items")), by_class(d.stats("slabs"))
    tap.ok(set(items) <= set(slabs), "memcached-tool display: a chunk size for every class with items")
    tap.is_(sum(int(v["number"]) for v in items.values()), int(d.stats()["curr_items"]),
            "memcached-tool display: the classes add up to curr_items")
    with d.client() as c:
        lines = c.ask("lru_crawler metadump all", end="END")[:-1]
    keys = [line for line in lines if line != "OK"]
    tap.ok(keys and all(re.match(r"^key=(\S+) exp=(-?\d+) .*", line) for line in keys),
           "memcached-tool dump: its pattern", keys[:3])
    tap.is_(len(keys), int(d.stats()["curr_items"]), "memcached-tool dump: every item")


def main():
    with Daemon("-m", "64", "-t", "2") as d:
        tap.is_(d.stats("items"), {}, "an empty cache has no classes with items")
        traffic(d)
        exporter(d)
        line_readers(d)
        datadog(d)
        memcached_tool(d)
    tap.done()


main()
