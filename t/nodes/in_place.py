# SPDX-License-Identifier: BSD-3-Clause
"""A leased slot stays with its key: the effects for clients of two farcached on one host in front of a node. A key that is written,
deleted and stored again, touched, incremented or flushed can still be read one-sided, and every read returns the current value.

The value shows the result of a read; the counters of `stats nodes` show that it sent no request to the node.
"""
import os
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from cluster import Cluster, nodes_shown  # noqa: E402
from farcached import select_nothing, tap, until  # noqa: E402

LEASE_MS = 60_000
TRIES = 20


def shown(proxy, name):
    return int(nodes_shown(proxy)["n0"][name])


class Pair:
    """A node and two farcached that share a table of pointers; a client of each."""

    def __init__(self, *options):
        self.cluster = Cluster("shm", local_read=False, options=["node_timeout_ms=30000", *options],
                               node_args=["-m", "64", "--lease-ms", LEASE_MS])

    def __enter__(self):
        self.cluster.__enter__()
        self.proxies = self.cluster.proxies
        self.clients = [proxy.client() for proxy in self.proxies]
        return self

    def __exit__(self, *args):
        for client in self.clients:
            client.close()
        return self.cluster.__exit__(*args)

    def one_sided(self, which, key, want):
        """Does a get by client `which` return `want` without a request to the node?"""
        before = shown(self.proxies[which], "get_onesided")
        got = self.clients[which].get(key)
        tap.is_(got, want, "    client %d gets %r" % (which, want))
        return shown(self.proxies[which], "get_onesided") - before == 1

    def hold(self, key):
        """Reads until a read sends no request to the node."""
        for _ in range(TRIES):
            before = shown(self.proxies[0], "get_onesided")
            self.clients[0].get(key)
            if shown(self.proxies[0], "get_onesided") != before:
                return True
        return False

    def ask(self, which, line, want):
        tap.is_(self.clients[which].ask(line), want, "    %s: %s" % (line.split("\r\n", 1)[0], want))


def written():
    """Each mutation by one client, and the next get of both."""
    changes = [
        ("set", "set k 0 0 5\r\nvalue\r\n", "STORED", b"value"),
        ("a longer one", "set k 0 0 6\r\nlonger\r\n", "STORED", b"longer"),
        ("a shorter one", "set k 0 0 1\r\n7\r\n", "STORED", b"7"),
        ("incr", "incr k 5\r\n", "12", b"12"),
        ("decr", "decr k 2\r\n", "10", b"10"),
        ("append", "append k 0 0 1\r\n1\r\n", "STORED", b"101"),
        ("prepend", "prepend k 0 0 1\r\n5\r\n", "STORED", b"5101"),
        ("replace", "replace k 0 0 3\r\nabc\r\n", "STORED", b"abc"),
        ("touch", "touch k 1000\r\n", "TOUCHED", b"abc"),
        ("ms in mode append", "ms k 1 MA\r\nd\r\n", "HD", b"abcd"),
        ("md I", "md k I T100\r\n", "HD", b"abcd"),
        ("set of a stale item", "set k 0 0 4\r\nwxyz\r\n", "STORED", b"wxyz"),
    ]
    with Pair() as p:
        p.clients[0].set("k", "first")
        tap.ok(p.hold("k"), "written: a pointer is held")
        for name, request, reply, value in changes:
            p.ask(0, request, reply)
            if name == "md I":  # a get of a stale item goes to the node, which chooses the winner
                tap.is_(p.clients[1].get("k"), value, "%s: the value" % name)
                continue
            tap.ok(p.one_sided(1, "k", value) and p.one_sided(0, "k", value), "after %s both read one-sided" % name)


def deleted():
    """A delete leaves the slot to its key: the next set makes the pointers valid again."""
    with Pair() as p:
        p.clients[0].set("k", "one")
        tap.ok(p.hold("k"), "delete: a pointer is held")
        for i in range(3):
            p.ask(0, "delete k\r\n", "DELETED")
            tap.is_([c.get("k") for c in p.clients], [None, None], "delete: nothing is found")
            p.clients[1].set("k", "again%d" % i)
            tap.ok(p.one_sided(0, "k", b"again%d" % i) and p.one_sided(1, "k", b"again%d" % i),
                   "delete, and set by the other: both read one-sided")
        p.clients[0].set("k", "x" * 5000)
        for which in (0, 1):
            tap.is_(p.clients[which].get("k"), b"x" * 5000, "outgrown: client %d gets the current value" % which)
        tap.ok(p.hold("k"), "outgrown: a pointer to the new slot")
        p.clients[1].set("k", "small")
        tap.ok(all(c.get("k") == b"small" for c in p.clients), "shrunk: both get the current value")


def flushed():
    """Flush, a set that revives the slot without a grant, flush: the second flush works like the first."""
    with Pair() as p:
        p.clients[0].set("k", "before")
        tap.ok(p.hold("k"), "flush: a pointer is held")
        for i in range(3):
            p.ask(i % 2, "flush_all\r\n", "OK")
            tap.is_([c.get("k") for c in p.clients], [None, None], "flush: nothing is found")
            p.clients[i % 2].set("k", "after%d" % i)
            tap.is_([c.get("k") for c in p.clients], [b"after%d" % i] * 2, "flush, and set: the new value is")
        p.ask(0, "flush_all\r\n", "OK")
        tap.is_([c.get("k") for c in p.clients], [None, None], "flush: nor after the last")


def touched():
    """gat moves the expiry under a lease, repeatedly past the first one: every get stays one-sided."""
    first_s, rounds = 3, 5
    with Pair() as p:
        p.clients[0].set("k", "value", exptime=first_s)
        tap.ok(p.hold("k"), "gat: a pointer is held")
        before, gets = shown(p.proxies[1], "get_onesided"), 0
        found = 0
        for _ in range(rounds):
            p.clients[0].ask("gat 100 k", "END")
            select_nothing(1)
            for _ in range(100):
                gets += 1
                found += p.clients[1].get("k") == b"value"
        tap.is_(found, gets, "gat: each get finds it, past the first expiry, too")
        share = (shown(p.proxies[1], "get_onesided") - before) / gets
        tap.ok(share > 0.95, "gat: and is one-sided", "a share of %.3f" % share)
        p.clients[0].ask("gat 1 k", "END")
        select_nothing(2.1)
        tap.is_([c.get("k") for c in p.clients], [None, None], "gat to a past time: no client finds it, one-sided or not")


def late_reports():
    """Reads reported after a set count as accesses, but not of the new value, as `mg h l t` shows."""
    with Pair("report_interval_ms=300", "access_tracking=report") as p:
        reader, writer = p.clients
        writer.set("k", "one")
        tap.ok(p.hold("k"), "late reports: a pointer is held")
        for _ in range(50):
            reader.get("k")
        writer.set("k", "two", exptime=1000)
        node = lambda name: int(p.proxies[1].stats("node n0")[name])  # noqa: E731
        read = shown(p.proxies[0], "get_onesided")
        tap.ok(until(lambda: shown(p.proxies[0], "accesses_sent"), lambda n: n >= read) >= read, "late reports: all are sent")
        tap.ok(until(lambda: node("accesses"), lambda n: n > 0) > 0, "late reports: and received")
        said = writer.ask("mg k h t").split()
        tap.is_(said[1], "h0", "late reports: the new value has not been hit")
        tap.ok(995 <= int(said[2][1:]) <= 1000, "late reports: and keeps its lifetime", said)
        p.one_sided(0, "k", b"two")
        read = shown(p.proxies[0], "get_onesided")
        until(lambda: shown(p.proxies[0], "accesses_sent"), lambda n: n >= read)
        tap.is_(until(lambda: writer.ask("mg k h").split()[1], lambda said: said == "h1"), "h1",
                "late reports: a read of it counts")


def pipelines():
    """GET, SET, GET of one key in a session's pipeline, while another session writes it. The second get sees the set's value or a
    later one, and never an earlier one."""
    rounds = 400
    with Pair() as p:
        p.clients[0].set("k", "other 0")
        p.hold("k")
        before = shown(p.proxies[0], "get_onesided")
        over = threading.Event()

        def write():
            with p.proxies[1].client() as c:
                for i in range(1, 1_000_000):
                    if over.is_set():
                        return
                    c.set("k", "other %09d" % i)

        writer = threading.Thread(target=write)
        writer.start()
        wrong, newest = [], -1
        try:
            for i in range(rounds):
                own = b"own %09d" % i
                p.clients[0].send(b"get k\r\nset k 0 0 %d\r\n%s\r\nget k\r\n" % (len(own), own))
                values = []
                for reply in (b"END\r\n", b"STORED\r\n", b"END\r\n"):
                    said = p.clients[0].until(reply)
                    if reply == b"END\r\n":
                        values.append(said.split(b"\r\n")[1])
                first, second = values
                others = [int(v.split()[1]) for v in values if v.startswith(b"other")]
                if second != own and not second.startswith(b"other"):
                    wrong.append((i, values))
                if second == first or others != sorted(others) or (others and others[0] < newest):
                    wrong.append((i, values))
                newest = max(others + [newest])
        finally:
            over.set()
            writer.join()
        tap.is_(wrong, [], "pipelines: %d of them, in order" % rounds)
        read = shown(p.proxies[0], "get_onesided") - before
        tap.ok(read > rounds / 2, "pipelines: others' sets in flight leave gets one-sided", "%d of %d" % (read, rounds))


for test in (written, deleted, flushed, touched, late_reports, pipelines):
    test()
tap.done()
