# SPDX-License-Identifier: BSD-3-Clause
"""Reload by SIGHUP and by farctl: settings that change at run time, settings that need a restart, and invalid files, which change
nothing. For farcached without nodes (t/nodes/reload.py has them) and for farnode."""
import os
import shutil
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from farcached import Daemon, tap, until  # noqa: E402
from farctl import FOLDER, asked, at, farctl, path_of, refused  # noqa: E402
from farnode import Farnode  # noqa: E402


class File:
    """A TOML file of keys."""

    def __init__(self, name, **keys):
        self.path = path_of(name + ".toml")
        self.write(**keys)

    def write(self, **keys):
        with open(self.path + ".new", "w") as f:
            for key, value in keys.items():
                f.write("%s = %s\n" % (key, value))
        os.rename(self.path + ".new", self.path)

    def write_text(self, text):
        with open(self.path, "w") as f:
            f.write(text)


def tries(stats):
    return int(stats["config_reloads"]) + int(stats["config_reload_failures"])


def reload(daemon):
    """Sends SIGHUP and waits for the reload; returns `stats config`."""
    before = tries(daemon.stats("config"))
    daemon.signal(signal.SIGHUP)
    return until(lambda: daemon.stats("config"), lambda stats: tries(stats) > before)


def changes(daemon, file, want, **keys):
    file.write(**keys)
    stats = reload(daemon)
    what = ", ".join("%s = %s" % pair for pair in keys.items())
    tap.is_((stats["config_last_result"], stats["config_changed"]), ("ok", want), "a reload with " + what)


# -- Live settings -------------------------------------------------------------------------------------------

SHOWN = [  # key, value, setting, shown value
    ("memory_limit", '"32MB"', "maxbytes", "33554432"), ("conn_limit", "9", "maxconns", "9"),
    ("verbose", "1", "verbosity", "1"), ("enable_shutdown", "true", "shutdown_command", "yes"),
    ("max_reqs_per_event", "7", "reqs_per_event", "7"), ("maxconns_fast", "false", "maxconns_fast", "no"),
    ("lru_crawler", "false", "lru_crawler", "no"), ("lru_crawler_sleep", '"1ms"', "lru_crawler_sleep", "1000"),
    ("lru_crawler_tocrawl", "5", "lru_crawler_tocrawl", "5"), ("disable_flush_all", "true", "flush_enabled", "no"),
    ("disable_dumping", "true", "dump_enabled", "no"), ("idle_timeout", '"1h"', "idle_timeout", "3600"),
    ("hot_lru_pct", "11", "hot_lru_pct", "11"), ("slab_automove", "0", "slab_automove", "0"),
    ("ext_item_size", '"1KB"', "ext_item_size", "1024"), ("ext_item_age", '"1m"', "ext_item_age", "60"),
    ("ext_recache_rate", "7", "ext_recache_rate", "7"), ("ext_drop_unread", "false", "ext_drop_unread", "no"),
]


def test_shown():
    file = File("shown")
    with Daemon("--config", file.path, threads=2) as d, d.client() as stays:
        stays.set("k", "v")
        before = d.stats("settings")
        for key, value, setting, shown in SHOWN:
            file.write(**{key: value})
            stats = reload(d)
            tap.ok(key in stats["config_changed"].split(", "), key + " is changed", stats["config_changed"])
            tap.is_(d.stats("settings")[setting], shown, "and shown as " + shown)
        file.write()
        reload(d)
        tap.is_(d.stats("settings"), before, "without the keys all is as it was")
        tap.is_(stays.get("k"), b"v", "a client stayed for all of it, and the items")


def test_effects():
    file = File("effects")
    with Daemon("--config", file.path, threads=2) as d, d.client() as c:
        changes(d, file, "disable_flush_all, disable_dumping, disable_watch",
                disable_flush_all="true", disable_dumping="true", disable_watch="true")
        tap.is_(c.ask(b"flush_all\r\n"), "CLIENT_ERROR flush_all not allowed", "flush_all is refused")
        tap.is_(c.ask(b"stats cachedump 1 1\r\n"), "CLIENT_ERROR stats cachedump not allowed", "a dump, too")
        tap.is_(c.ask(b"watch\r\n"), "CLIENT_ERROR watch commands not allowed", "and watch")
        changes(d, file, "disable_flush_all, disable_dumping, disable_watch")
        tap.is_(c.ask(b"flush_all\r\n"), "OK", "and allowed again")

        changes(d, file, "memory_limit", memory_limit='"16MB"')
        tap.is_(d.stats()["limit_maxbytes"], str(16 << 20), "less memory")
        changes(d, file, "memory_limit", memory_limit='"64MB"')
        tap.is_(d.stats()["limit_maxbytes"], str(64 << 20), "and more")

        changes(d, file, "idle_timeout", idle_timeout='"1s"')
        tap.ok(c.is_closed(), "a client idle for longer than idle_timeout is closed")
        changes(d, file, "idle_timeout")


def test_measuring():
    """Latencies, slow requests and hot keys: turned on, changed and turned off under load."""
    file = File("measuring", latency_stats="false", hotkeys_sample=0)
    with Daemon("--config", file.path, "-m", "128", "-I", "40m", threads=2) as d, d.client() as c:
        c.set("large", "v" * 20_000_000)  # copying it takes some milliseconds
        c.get("large")
        tap.is_((d.stats("latency")["get_local:count"], d.stats("slow_log"), d.stats("hotkeys")),
                ("0", {}, {"one_in": "0", "missed": "0"}), "nothing is measured")
        changes(d, file, "latency_stats, slow_log_ms, hotkeys_sample", latency_stats="true", slow_log_ms=1, hotkeys_sample=1)
        for _ in range(5):
            c.get("large")
        measured = until(lambda: d.stats("latency"), lambda stats: stats.get("get_local:count") == "5")
        tap.is_(measured.get("get_local:count"), "5", "gets from then on are measured, and no others")
        tap.ok(int(measured["get_local:p99_us"]) < 60_000_000, "from their arrival", measured)
        tap.ok(until(lambda: (c.get("large"), d.stats("slow_log"))[1], bool), "slow ones are listed")
        hot = d.stats("hotkeys")
        tap.is_((hot["one_in"], hot["local:1:key"]), ("1", "large"), "and all keys are looked at")
        changes(d, file, "latency_stats, slow_log_ms, hotkeys_sample", latency_stats="false", hotkeys_sample=0)
        slow = len(d.stats("slow_log"))
        for _ in range(5):
            c.get("large")
        tap.is_((d.stats("latency")["get_local:count"], len(d.stats("slow_log"))), ("0", slow), "until it is turned off")
        tap.is_(d.stats("hotkeys"), {"one_in": "0", "missed": "0"}, "and counts of keys are discarded")
        tap.is_(c.set("k", "v"), "STORED", "the client stayed")


def test_connections():
    file = File("connections", conn_limit=3)
    with Daemon("--config", file.path, threads=2) as d:
        clients = [d.client()]
        until(clients[0].stats, lambda stats: stats["curr_connections"] == "1")  # the start check's connection is closed
        clients += [d.client() for _ in range(2)]
        tap.is_([c.set("k", "v") for c in clients], ["STORED"] * 3, "as many clients as there may be")
        with d.client() as c:
            tap.is_(c.line().strip(), b"ERROR Too many open connections", "one more than conn-limit is refused")
        changes_through(clients[0], d, file, conn_limit=5)
        more = [d.client() for _ in range(2)]
        tap.is_([c.set("k", "w") for c in more], ["STORED"] * 2, "two more with a higher one")
        changes_through(clients[0], d, file, conn_limit=2, maxconns_fast="false")
        with d.client() as waiting:
            for c in clients[1:] + more:
                c.close()
            waiting.send(b"version\r\n")
            tap.like(waiting.line().decode(), "^VERSION ", "a client above a lowered limit waits for room")
        clients[0].close()


def changes_through(client, daemon, file, **keys):
    """The same as reload(), without a connection to spare."""
    file.write(**keys)
    before = tries(client.stats("config"))
    daemon.signal(signal.SIGHUP)
    until(lambda: client.stats("config"), lambda stats: tries(stats) > before)


def test_operators_own():
    """A value that an operator set by a command stays while the file's value does not change."""
    file = File("own", memory_limit=64)
    with Daemon("--config", file.path, threads=1) as d, d.client() as c:
        tap.is_(c.ask(b"cache_memlimit 24\r\n"), "OK", "a limit by command")
        reload(d)
        tap.is_(d.stats()["limit_maxbytes"], str(24 << 20), "is not undone by a reload that has nothing to say of it")
        changes(d, file, "memory_limit", memory_limit=48)
        tap.is_(d.stats()["limit_maxbytes"], str(48 << 20), "but by one that has")


# -- Settings that need a restart ------------------------------------------------------------------------------

def test_restart():
    file = File("restart", threads=2)
    with Daemon("--config", file.path) as d:
        file.write(threads=3, port=1, conn_limit=77, slab_growth_factor="1.5")
        stats = reload(d)
        tap.is_(stats["config_changed"], "conn_limit", "live settings change")
        tap.is_(stats["config_needs_restart"], "slab_growth_factor, threads", "others are named")
        tap.like(d.stderr(), r"(?m)^reload: changed conn_limit; needs a restart: slab_growth_factor, threads$",
                 "on stderr, too")
        tap.is_((d.stats()["threads"], d.stats("settings")["num_threads"]), ("2", "2"), "and is as it was")
        file.write(threads=2)
        tap.is_(reload(d)["config_needs_restart"], "", "until the file agrees with the running settings")


def test_bad():
    file = File("bad", conn_limit=50)
    with Daemon("--config", file.path, threads=1) as d, d.client() as stays:
        before = d.stats("settings")
        file.write_text('conn-limit = 60\nconn_limits = 5\nidle_timeout = "5 parsecs"\n[[node]]\nname = "a"\n')
        stats = reload(d)
        tap.is_((stats["config_last_result"], stats["config_reload_failures"], stats["config_reloads"]),
                ("failed", "1", "0"), "a bad file is refused")
        tap.is_(stats["config_last_error"], "%s:2:1: unknown key 'conn_limits', did you mean 'conn_limit'? (and 2 more)"
                % file.path, "with the first reason")
        for line, key in (("2:1", "unknown key"), ("3:16", "idle_timeout"), ("4:1", "node.address")):
            wanted = ("reload: %s:%s: %s" % (file.path, line, key)).encode()
            tap.like(until(d.stderr, lambda text: wanted in text), "(?m)^" + wanted.decode(), "stderr has " + key)
        tap.is_(d.stats("settings"), before, "and nothing changed")
        tap.is_(stays.set("k", "v"), "STORED", "for nobody")
        for text, why in (("memory_limit = \"1000TB\"\n", "memory_limit: "), ("x = [\n", file.path + ":"),
                          ("memory_limit = 1\n", file.path + ":1:16: memory_limit: Cannot set item size limit higher than 1/2"),
                          ("conn_limit = 2000000000\n", "failed to set rlimit for open files"),
                          ("conn_limit = 51\nmax_item_size = \"2m\"\nmemory_limit = 4\nslab_chunk_max = \"2MB\"\n",
                           file.path + ":4:18: slab_chunk_max: -I (item_size_max: 1048576) must be evenly divisible")):
            file.write_text(text)
            stats = reload(d)
            tap.is_(stats["config_last_result"], "failed", "refused: " + text.split("\n")[0])
            tap.ok(stats["config_last_error"].startswith(why), "because of " + why, stats["config_last_error"])
            tap.is_(d.stats("settings"), before, "and nothing changed")
        os.unlink(file.path)
        tap.is_(reload(d)["config_last_error"], file.path + ": cannot be opened: No such file or directory", "no file")
        changes(d, file, "conn_limit", conn_limit=51)
    with Daemon("-c", "9", threads=1) as d:
        stats = reload(d)
        tap.is_((stats["config_last_result"], stats["config_changed"], stats["config_file"]), ("ok", "", ""),
                "without a file there is nothing to change")


def test_memcached_conf():
    path = path_of("memcached.conf")
    with open(path, "w") as f:
        f.write("-d\n-m 64 # megabytes\n-c 100\n")
    with Daemon("--memcached-conf", path, threads=1) as d:
        tap.is_((d.stats()["limit_maxbytes"], d.stats("settings")["maxconns"]), (str(64 << 20), "100"), "flags of a file")
        with open(path, "w") as f:
            f.write("-m 32\n-c 200\n")
        tap.is_(reload(d)["config_changed"], "memory_limit, conn_limit", "are read again")
        with open(path, "w") as f:
            f.write("-m many\n--threds 5\n")
        tap.is_(reload(d)["config_last_error"], path + ":1: Invalid memory limit: many (-m takes megabytes) (and 1 more)",
                "and refused with their lines")


# -- farctl, and farnode -----------------------------------------------------------------------------------------

def test_farctl():
    file = File("ctl", conn_limit=50)
    with Daemon("--config", file.path, "--admin", path_of("p"), threads=1) as d:
        with d.client() as c:
            tap.is_(c.ask(b"reload\r\n"), "ERROR", "clients may not reload")
        unchanged = path_of("p") + ": no option changed; files that options name were read again\n"
        tap.is_(farctl("reload", *at("p")), (0, unchanged, ""), "farctl reload")
        file.write(conn_limit=60, threads=1, port=5)
        tap.is_(farctl("reload", *at("p")), (0, path_of("p") + ": changed conn_limit\n", ""), "lists the changes")
        file.write(conn_limit=60, slab_min_size=64)
        tap.is_(asked("reload", *at("p"))[0]["stats"]["config_needs_restart"], "slab_min_size", "as JSON, too")
        file.write_text("conn_limit = 0\n")
        refused(["reload", *at("p")], "%s: refused, nothing changed: %s:1:14: conn_limit: '0' is out of range: 1 to "
                "2147483647" % (path_of("p"), file.path), "and why nothing did")


def test_farnode():
    file = File("node", memory_limit=64)
    with Farnode("--config", file.path, "--tcp", "127.0.0.1:0", "--admin", path_of("n")) as node, node.node_client() as c:
        c.greet()
        tap.ok(c.set(b"k", b"v"), "a node")
        file.write(memory_limit='"32MB"', conn_limit=9, greeting_timeout_ms='"1s"', verbose=1, policy='"lru"')
        status, out, err = farctl("reload", *at("n"))
        tap.is_((status, err), (0, ""), "farctl reload")
        tap.is_(out, path_of("n") + ": changed conn_limit, greeting_timeout_ms, memory_limit, verbose; needs a restart: "
                "policy\n", "lists the changes")
        stats = asked("stats", "-", *at("n"))[0]["stats"]
        tap.is_(stats["limit_maxbytes"], 32 << 20, "less memory")
        tap.ok(c.set(b"k", b"w") and c.get(b"k") in (b"w", "w"), "and the proxies stay")
        leases = asked("stats", "-", "leases", *at("n"))[0]["stats"]
        file.write(memory_limit='"32MB"', lease_ms_min='"1s"', lease_ms_max='"8s"', report_share=50)
        tap.is_(farctl("reload", *at("n"))[1].split(": ")[1].split(";")[0],
                "changed conn_limit, greeting_timeout_ms, lease_ms_min, lease_ms_max, report_share, verbose\n",
                "terms of leases and the share of reports are changed")
        now = asked("stats", "-", "leases", *at("n"))[0]["stats"]
        tap.is_([(s["lease_term_ms_min"], s["lease_term_ms"]) for s in (leases, now)], [(4000, 256_000), (1000, 8000)],
                "and reported")
        tap.ok(c.set(b"k", b"x"), "connected clients stay")
        file.write(memory_limit='"1000000MB"')
        refused(["reload", *at("n")], "%s: refused, nothing changed: %s:1:16: memory_limit: '1000000MB' is out of range: "
                "1 to 262144 megabytes" % (path_of("n"), file.path), "a bad file changes nothing")
        tap.is_(asked("stats", "-", "config", *at("n"))[0]["stats"]["config_reload_failures"], 1, "and is counted")


def main():
    try:
        test_shown()
        test_effects()
        test_measuring()
        test_connections()
        test_operators_own()
        test_restart()
        test_bad()
        test_memcached_conf()
        test_farctl()
        test_farnode()
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)
    tap.done()


main()
