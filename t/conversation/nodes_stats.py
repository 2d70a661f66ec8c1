# SPDX-License-Identifier: BSD-3-Clause
"""`stats` of a farcached in front of two nodes, one over shm and one over tcp: sums, groups about nodes, and resets. Then nodes
that stop, die and come back, and commands that are refused because the items are in the nodes."""
import os
import shutil
import signal
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from binary_client import BinaryClient, status  # noqa: E402
from farcached import Daemon, tap, until  # noqa: E402
from farnode import Farnode  # noqa: E402

FOLDER = tempfile.mkdtemp(prefix="farcached-nodes-")
TABLE = "/farcached-test-%d-%%U" % os.getpid()
TABLE_FILE = "/dev/shm/farcached-test-%d-%d" % (os.getpid(), os.geteuid())
KEYS = 60
REFUSED = "CLIENT_ERROR items are in the nodes: ask them"
TEMPORARY_FAILURE = 0x86


def node_a(**more):
    return Farnode("--name", "a", "--shm", os.path.join(FOLDER, "a.sock"), "-m", "16", threads=1, **more)


def node_b(**more):
    return Farnode("--name", "b", "-m", "16", threads=1, **more)


def front(b, *args):
    options = "node_timeout_ms=300,pointer_table.path=%s,pointer_table.entries=65536" % TABLE
    return Daemon("--node", "a=shm:%s/a.sock" % FOLDER, "--node", "b=tcp:127.0.0.1:%d" % b.port, "-o", options, *args,
                  threads=2)


def number(stats, name):
    return int(stats[name])


def all_up(client):
    stats = client.stats("nodes")
    return all(stats[name + ":links_up"] == stats[name + ":links"] != "0" for name in ("a", "b"))


def fill(client):
    for i in range(KEYS):
        client.set("key%d" % i, "value%d" % i)
    for _ in range(3):
        for i in range(KEYS):
            client.ask("get key%d" % i, end="END")


def sums(daemon, client):
    with Daemon(threads=1) as embedded:
        want = list(embedded.stats())
        want_settings = list(embedded.stats("settings"))
    client.ask("get missing", end="END")
    stats = client.stats()
    tap.is_(list(stats), want + ["nodes_unavailable"], "stats: the names of a farcached without nodes, and one more")
    each = {name: client.stats("node " + name) for name in ("a", "b")}
    tap.is_(each["a"]["node"] + each["b"]["node"], "ab", "stats node: each node's own numbers")
    tap.is_((stats["curr_items"], stats["nodes_unavailable"]), (str(KEYS), "0"), "curr_items, of all nodes")
    for name in ("total_items", "bytes", "limit_maxbytes", "hash_bytes"):
        tap.is_(number(stats, name), sum(number(one, name) for one in each.values()), name + " is the sum over nodes")
    tap.is_((stats["cmd_get"], stats["get_hits"], stats["get_misses"], stats["cmd_set"]),
            (str(3 * KEYS + 1), str(3 * KEYS), "1", str(KEYS)), "commands are counted here")
    tap.is_((stats["pid"], stats["threads"]), (str(daemon.pid), "2"), "and so is the process")
    slabs, items = client.stats("slabs"), client.stats("items")
    tap.is_(sum(int(v) for n, v in slabs.items() if n.endswith(":used_chunks")), KEYS, "stats slabs: all items")
    tap.is_(sum(int(v) for n, v in items.items() if n.endswith(":number")), KEYS, "stats items: all items")
    tap.is_([n for n in slabs if n.startswith("nodes_")], [], "stats slabs: nothing is missing")
    pages = sum(int(v) for n, v in slabs.items() if n.endswith(":total_pages"))
    tap.is_(number(slabs, "total_malloced"), pages * 65536, "stats slabs: total_malloced")
    settings = client.stats("settings")
    tap.is_(list(settings)[:len(want_settings)], want_settings, "stats settings: memcached's names")
    tap.is_([settings[n] for n in ("nodes", "distribution", "pointer_table.path", "node_timeout_ms")],
            ["a,b", "ketama", TABLE, "300"], "and the options of nodes")


def groups(client, local_read):
    nodes, proxy = client.stats("nodes"), client.stats("proxy")
    tap.is_([nodes["a:state"], nodes["a:address"], nodes["b:state"], nodes["b:weight"]],
            ["up", "shm:%s/a.sock" % FOLDER, "up", "1"], "stats nodes: state, address, weight")
    tap.like(nodes["a:incarnation"], r"\A[0-9a-f]{16}\Z", "stats nodes: incarnation")
    tap.is_(nodes["a:incarnation"], client.stats("node a")["incarnation"], "which is the node's")
    for name in ("get_local", "get_onesided", "get_twosided", "set_twosided", "lease_granted", "node_timeouts"):
        tap.is_(number(proxy, name), number(nodes, "a:" + name) + number(nodes, "b:" + name),
                "stats proxy: %s is the sum of stats nodes" % name)
    tap.is_(number(proxy, "set_twosided"), KEYS, "stats proxy: sets")
    held = "get_local" if local_read else "get_onesided"
    other = "get_onesided" if local_read else "get_local"
    tap.ok(number(nodes, "a:" + held) > 0, "stats nodes: gets that node a did not answer, by " + held)
    tap.is_((nodes["a:" + other], nodes["b:get_local"], nodes["b:get_onesided"]), ("0", "0", "0"), "and none otherwise")
    leases = client.stats("leases")
    for name in ("lease_granted", "lease_bytes", "reclaim_pending_bytes"):
        tap.is_(number(leases, name), number(leases, "a:" + name) + number(leases, "b:" + name),
                "stats leases: %s is a sum" % name)
    tap.is_(leases["a:lease_term_ms"], client.stats("node a leases")["lease_term_ms"], "stats leases: of each node")
    if not local_read:
        tap.ok(os.path.exists(TABLE_FILE), "%U in the table's name is the user id")
    if local_read:
        return
    tap.ok(number(leases, "lease_granted") > 0, "stats leases: some were granted")
    pointers = client.stats("pointers")
    whole = number(pointers, "valid") + number(pointers, "expired")
    tap.is_((pointers["entries"], number(pointers, "occupied")), ("65536", whole), "stats pointers: the held pointers")
    tap.ok(whole > 0 and number(pointers, "filled_by_this_process") == number(pointers, "valid"), "by this process")
    tap.is_(pointers["lease_left_le_256000"], pointers["valid"], "with leases of less than 256 s")


def refusals(client):
    for line in ("slabs automove 0", "lru mode flat", "lru_crawler crawl all", "lru_crawler metadump all",
                 "lru_crawler mgdump all", "cache_memlimit 64", "stats cachedump 1 0"):
        tap.is_(client.ask(line), REFUSED, line)
    tap.is_(client.ask("stats node c"), "CLIENT_ERROR no node of this name; nodes: a, b", "stats node c")
    tap.like(client.ask("stats node a colours"), "^CLIENT_ERROR nodes have no group of this name; groups: general ",
             "stats node a colours")
    tap.is_(client.ask("stats sizes", end="END"), ["STAT sizes_status disabled", "END"], "stats sizes")
    tap.is_(client.ask("verbosity 0"), "OK", "verbosity works")
    tap.ok(client.stats("conns"), "stats conns works")
    tap.is_((client.ask("stats detail on"), client.set("p:1", "x"), client.ask("stats detail dump", end="END")[0]),
            ("OK", "STORED", "PREFIX p get 0 hit 0 set 1 del 0"), "stats detail works")
    client.ask("stats detail off")
    client.ask("delete p:1")


def binary(daemon, client):
    with BinaryClient(daemon.client()) as b:
        for group in ("", "settings", "items", "slabs", "sizes", "proxy", "nodes", "leases", "node a", "node b classes"):
            code, found = b.stat(group.encode())
            tap.is_((code, list(found)), (status.OK, list(client.stats(group))), "binary STAT %r: the names of text" % group)
        tap.is_(b.stat(b"node c")[0], status.NOT_FOUND, "binary STAT of no node: Not found")
        tap.is_(b.stat(b"reset"), (status.OK, {}), "binary STAT reset")
    tap.is_(client.stats()["cmd_set"], "0", "it was one")


def resets(client):
    tap.is_(client.ask("stats reset"), "RESET", "stats reset")
    client.set("another", "x")
    stats = client.stats()
    tap.is_((stats["cmd_set"], stats["total_items"], stats["cmd_get"]), ("1", "1", "0"), "counters count from there")
    tap.is_(stats["curr_items"], str(KEYS + 1), "items stay")
    tap.is_(client.stats("proxy")["set_twosided"], "1", "those of links, too")
    tap.ok(number(client.stats("node a"), "total_items") + number(client.stats("node b"), "total_items") > KEYS,
           "the nodes' own numbers are unchanged")
    client.ask("flush_all")
    client.ask("flush_all 100")
    tap.is_(client.stats()["cmd_flush"], "2", "flushes are counted")
    tap.is_(client.ask("get another", end="END"), ["END"], "and take effect in the nodes")


def swept(client):
    """Memory of flushed items is reclaimed without any request for them."""
    client.ask("flush_all")
    tap.is_(until(lambda: client.stats()["curr_items"], lambda n: n == "0"), "0", "flushed items are swept")


def failures(daemon, client, a, b):
    with b.stopped(), daemon.client() as other:
        other.send("stats\r\nstats nodes\r\n")
        tap.ok(client.stats("nodes")["b:state"] in ("up", "down"), "a node that stopped does not hold up stats nodes")
        first = other.until("END\r\n").decode()
        tap.ok("STAT nodes_unavailable 1\r\n" in first, "stats is answered without it, after the timeout", first)
        tap.ok("STAT a:state up\r\n" in other.until("END\r\n").decode(), "and the next requests are answered")
        tap.like(client.ask("stats node b"), "^SERVER_ERROR node b is unavailable$", "stats node b")
        with BinaryClient(daemon.client()) as binary_client:
            tap.is_(binary_client.stat(b"node b")[0], TEMPORARY_FAILURE, "binary STAT of it: a temporary failure")
    tap.is_(until(lambda: client.stats()["nodes_unavailable"], lambda n: n == "0"), "0", "the node continues, and is summed again")
    before = client.stats("nodes")["a:incarnation"]
    client.set("k", "v")
    client.ask("stats reset")
    a.stop(signal.SIGKILL)
    down = until(lambda: client.stats("nodes"), lambda stats: stats["a:state"] == "down")
    tap.is_((down["a:state"], down["a:links_up"]), ("down", "0"), "a node that was killed is down")
    tap.ok(down.get("a:down_reason"), "and why", str(down.get("a:down_reason")))
    tap.is_(client.stats()["nodes_unavailable"], "1", "it is missing")
    tap.is_(client.stats("slabs")["nodes_unavailable"], "1", "from stats slabs, too")
    with node_a():
        tap.ok(until(lambda: all_up(client), bool), "its successor is up")
        tap.ok(client.stats("nodes")["a:incarnation"] != before, "another incarnation")
        for i in range(KEYS):
            client.set("key%d" % i, "v")
        stats = client.stats()
        tap.is_((stats["total_items"], stats["nodes_unavailable"]), (str(KEYS), "0"), "which counts from its own beginning")


def main():
    for options in ((), ("-o", "no_local_read")):
        with node_a(expect_exit=-9) as a, node_b() as b, front(b, *options) as daemon, daemon.client() as client:
            tap.ok(until(lambda: all_up(client), bool), "all connections are up, with " + " ".join(options or ("local reads",)))
            fill(client)
            sums(daemon, client)
            groups(client, local_read=not options)
            refusals(client)
            binary(daemon, client)
            resets(client)
            swept(client)
            failures(daemon, client, a, b)
    tap.done()


try:
    main()
finally:
    shutil.rmtree(FOLDER, ignore_errors=True)
    if os.path.exists(TABLE_FILE):
        os.unlink(TABLE_FILE)
