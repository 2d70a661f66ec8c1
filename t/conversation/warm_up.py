# SPDX-License-Identifier: BSD-3-Clause
"""warm_from: items move from a running memcached, as clients ask for them. Embedded, with io_uring, and in front of nodes. The
source is memcached if it is on PATH, else another farcached; and a Source, which delays replies, for the races."""
import os
import re
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from binary_client import BinaryClient, op  # noqa: E402
from cluster import Cluster  # noqa: E402
from farcached import Client, Daemon, deadline, run_binary, tap  # noqa: E402
from farctl import FOLDER, path_of  # noqa: E402
from warm_source import Source  # noqa: E402

PATIENT = "warm_timeout_ms=60000"


def source():
    return Daemon(binary=shutil.which("memcached") or None, threads=1)


def options(port, *more):
    return ["-o", ",".join(("warm_from=127.0.0.1:%d" % port, PATIENT) + more)]


def moved(d, old, c):
    """The items of one daemon: d is empty, and warms from the source with the client `old`."""
    old.set("plain", "value", flags=5)
    old.set("short", "brief", exptime=1000)
    tap.is_(c.get_many(["plain"]), [(b"plain", 5, b"value", None)], "a get moves an item, with its flags")
    old.ask("delete plain")
    tap.is_(c.get("plain"), b"value", "and then it is here")
    line = c.ask("mg short t v", end="brief")[0]
    left = int(re.search(r" t(\d+)", line).group(1))
    tap.ok(990 <= left <= 1001, "with its time to live")
    old.set("unique", "1")
    cas = c.get_many(["unique"], "gets")[0][3]
    c.send(b"cas unique 0 0 1 %d\r\n2\r\n" % cas)
    c.expect(b"STORED\r\n", "the unique that a first gets shows is good for a cas")
    tap.is_([old.get("unique"), c.get("unique")], [None, b"2"], "a cas deletes the key at the source")

    for key in ("a", "b", "c", "n", "t", "g", "x", "r", "p", "i", "m", "z"):
        old.set(key, "5")
    tap.is_([c.set("a", "new"), old.get("a"), c.get("a")], ["STORED", None, b"new"], "a set deletes the key at the source")
    tap.is_([c.ask("delete b"), old.get("b"), c.get("b")], ["DELETED", None, None], "a delete finds it there, and deletes it")
    tap.is_([c.ask("incr n 2"), old.get("n")], ["7", None], "an incr moves it first")
    tap.is_([c.ask("touch t 100"), old.get("t"), c.get("t")], ["TOUCHED", None, b"5"], "as a touch does")
    tap.is_(c.ask("gat 100 g", end="END")[:2], ["VALUE g 0 1", "5"], "and a gat")
    tap.is_([c.set("x", "6", verb="append"), c.get("x")], ["STORED", b"56"], "and an append")
    tap.is_([c.set("c", "9", verb="add"), c.set("r", "9", verb="replace"), c.get("r")], ["NOT_STORED", "STORED", b"9"],
            "add and replace see it")
    tap.is_([c.ask("ma p v", end="6"), c.ask("md i I"), c.ask("mg i v", end="5")[0]], [["VA 1", "6"], "HD", "VA 1 X W"],
            "meta commands, too")
    tap.is_(c.ask("mg m s v N60", end="5"), ["VA 1 s1", "5"], "a get that would create a missing item finds it")
    c.send(b"set z 0 0 1 noreply\r\n8\r\nget z\r\ndelete z\r\nget z\r\nadd z 0 0 1\r\n4\r\nget z\r\n")
    c.expect(b"VALUE z 0 1\r\n8\r\nEND\r\nDELETED\r\nEND\r\nSTORED\r\nVALUE z 0 1\r\n4\r\nEND\r\n", "a pipeline keeps its order")
    c.send(b"set q 0 0 1\r\n1\r\nflush_all\r\nget q\r\nset q 0 0 1\r\n2\r\nget q\r\n")
    c.expect(b"STORED\r\nOK\r\nEND\r\nSTORED\r\nVALUE q 0 1\r\n2\r\nEND\r\n", "also with a flush")
    c.set("a", "new")
    large = "L" * 700000
    old.set("large", large)
    old.set("many1", "1")
    old.set("many2", "2")
    tap.is_([k for k, _, _, _ in c.get_many(["many1", "none", "large", "a", "many2"])], [b"many1", b"large", b"a", b"many2"],
            "a get of several keys")
    tap.is_(c.set("large", "M" * 600000), "STORED", "a large value replaces it")
    tap.is_([old.get("large"), len(c.get("large"))], [None, 600000], "everywhere")
    old.set("bin", "b")
    with BinaryClient(d.client()) as b:
        tap.is_(b.ask(op.GET, b"bin").value, b"b", "the binary protocol moves items, too")
    stats = c.stats("proxy")
    tap.ok(int(stats["warm_hits"]) == int(stats["warm_stored"]) > 10, "counted: all that were found were stored")
    old.set("late", "1")
    tap.is_([c.ask("flush_all"), old.get("late"), c.get("late")], ["OK", None, None], "flush_all flushes the source")
    tap.is_(c.stats("proxy")["warm_failures"], "0", "no failure")


def test_moved():
    with source() as s, s.client() as old:
        for io in ("libevent", "uring"):
            tap.diag("embedded, io=" + io)
            with Daemon(*options(s.port, "io=" + io)) as d, d.client() as c:
                moved(d, old, c)
        for nodes in ("shm", "tcp tcp"):
            tap.diag("in front of " + nodes)
            with Cluster(nodes, proxies=1, threads=1, options=options(s.port)[1].split(",")) as cluster:
                with cluster.proxies[0].client() as c:
                    moved(cluster.proxies[0], old, c)


def hold_a_get(source_of, first, second, mutate):
    """A get of `first` has read the old value at the source, and waits; then a mutation through `second` is acknowledged."""
    source_of.hold("k")
    first.send(b"get k\r\n")
    tap.ok(source_of.held.wait(deadline()), "a get has read the old value at the source")
    mutate(second)
    source_of.go.set()
    tap.like(first.until(b"END\r\n"), r"VALUE k (7 3\r\nold|0 3\r\nnew)\r\nEND", "the get began before: that, or a newer one")


def races(first, second, both):
    """Two clients of two workers or two daemons with the same items."""
    for name, mutate, value in (("delete", lambda c: c.ask("delete k"), None), ("set", lambda c: c.set("k", "new"), b"new"),
                                ("delete after a set", lambda c: (c.set("k", "x"), c.ask("delete k")), None),
                                ("flush_all", lambda c: c.ask("flush_all"), None)):
        tap.diag(name)
        second.ask("delete k")
        both.items["k"] = "old"
        hold_a_get(both, first, second, mutate)
        tap.is_([first.get("k"), second.get("k")], [value, value], "no later get returns the old value")


def test_races():
    with Source() as s:
        with Daemon(*options(s.port), threads=2) as d, d.client() as first, d.client() as second:
            races(first, second, s)
        tap.diag("two farcached in front of the same node")
        with Cluster("tcp", proxies=2, threads=1, options=options(s.port)[1].split(",")) as cluster:
            with cluster.proxies[0].client() as first, cluster.proxies[1].client() as second:
                races(first, second, s)


def test_merged():
    with Source(k="old") as s, Daemon(*options(s.port), threads=1) as d, d.client() as first, d.client() as second:
        s.hold("k")
        first.send(b"get k\r\n")
        s.held.wait(deadline())
        second.send(b"get k\r\nget none\r\n")
        s.go.set()
        for c in (first, second):
            c.expect(b"VALUE k 7 3\r\nold\r\nEND\r\n", "a get of a key that is being moved waits for it")
        second.expect(b"END\r\n")
        tap.is_(s.gets.count("k"), 1, "and one fetch serves both")


def test_refuses():
    """A source that does not reply: nothing is changed that it may still have; so nothing old comes back, here or elsewhere."""
    warm = "warm_timeout_ms=300"
    with source() as s, s.client() as old:
        for key in ("k", "other", "gone"):
            old.set(key, "old")
        with Cluster("tcp", proxies=2, threads=1, options=["warm_from=127.0.0.1:%d" % s.port, warm]) as cluster:
            first, second = cluster.proxies
            with first.client() as c, second.client() as c2, BinaryClient(first.client()) as b:
                tap.is_(c.get("k"), b"old", "it is moved")
                with s.stopped():
                    tap.is_([c.get("other"), c.get("k")], [None, b"old"], "no reply: a get is a miss, or a hit here")
                    tap.like(c.set("k", "new"), r"SERVER_ERROR", "a set is refused")
                    tap.like(c.ask("delete gone"), r"SERVER_ERROR", "as a delete is")
                    tap.like(c.ask("flush_all"), r"SERVER_ERROR", "and a flush")
                    tap.is_(b.ask(op.DELETE, b"gone").status, 0x86, "in the binary protocol, too")
                tap.is_([c2.get("k"), c2.get("gone")], [b"old", b"old"], "so another farcached shows nothing wrong")
                tap.is_([c.ask("delete gone"), c.set("k", "new")], ["DELETED", "STORED"], "it replies again: both are executed")
                tap.is_([c2.get("gone"), c2.get("k")], [None, b"new"], "for both")
                tap.is_([old.get("gone"), old.get("k")], [None, None], "and the source has neither")
                tap.like(first.stderr(), r"warm_from: 127\.0\.0\.1:\d+: no reply within warm_timeout_ms; until it replies",
                         "the log tells")
                tap.ok(int(c.stats("proxy")["warm_failures"]) >= 4, "and the counter")
        with Daemon("-o", "warm_from=127.0.0.1:%d,%s" % (s.port, warm)) as d, d.client() as c:
            tap.is_([c.get("gone"), c.get("k")], [None, None], "nor does a farcached that starts later bring it back")


def test_replies():
    """Replies that meet the wrong command, and connections that end."""
    with Source(a="1", b="2", c="3", d="4") as s, Daemon(*options(s.port), threads=1) as d, d.client() as c:
        s.repeated_key = "a"
        tap.is_([c.get("a"), c.get("b")], [b"1", b"2"], "one reply too many is not another key's value")
        c.send(b"get a c d\r\n")
        c.expect(b"VALUE a 7 1\r\n1\r\nVALUE c 7 1\r\n3\r\nVALUE d 7 1\r\n4\r\nEND\r\n", "nor in a get of several keys")
        tap.is_([c.ask("delete a"), c.ask("delete b")], ["DELETED", "DELETED"], "nor another key's delete")
        tap.is_(sorted(s.items), ["c", "d"], "each is deleted at the source")
        s.items.update(e="5", f="6")
        s.closing_key = "e"
        c.send(b"get e f\r\n")
        c.expect(b"VALUE e 7 1\r\n5\r\nVALUE f 7 1\r\n6\r\nEND\r\n", "the source closes the connection: gets are repeated")
        s.closing_key = "e"
        tap.is_([c.set("e", "new"), sorted(s.items)], ["STORED", ["c", "d", "f"]], "as deletes are")


def test_sizes():
    with source() as s, s.client() as old, Daemon(*options(s.port), "-I", "128k", threads=1) as d, d.client() as c:
        old.set("large", "L" * 700000)
        old.set("small", "s")
        tap.is_([k for k, _, _, _ in c.get_many(["large", "small"])], [b"small"], "a value above the limit is a miss")
        with BinaryClient(d.client()) as b:
            for size in (186, 187, 250):
                key = b"\1" * size
                tap.is_([b.ask(op.GET, key).status, b.ask(op.DELETE, key).status], [1, 1], "a binary key of %d bytes" % size)
        tap.is_(c.stats("proxy")["warm_failures"], "0", "no failure")


def test_localhost():
    with Source(k="old") as s, Daemon("-o", "warm_from=localhost:%d,%s" % (s.port, PATIENT)) as d, d.client() as c:
        tap.is_([c.get("k"), c.set("k", "new"), s.items], [b"old", "STORED", {}], "a name whose first address is no source")


def test_prefix():
    with Source(k="old") as s, Daemon("--admin", path_of("w"), *options(s.port)) as d:
        with d.client() as c:
            tap.is_(c.get("k"), b"old", "it is moved")
            with Client(path_of("w")) as a:
                tap.is_(a.ask("delete_prefix k"), "OK", "a delete by prefix")
            tap.is_([c.get("k"), s.items], [None, {}], "flushes the source")


def test_refused():
    for wrong in ("warm_from=host", "warm_from=:1", "warm_timeout_ms=0"):
        tap.ok(run_binary("-o", wrong)[0] != 0, wrong + " is refused")


def main():
    try:
        for test in (test_moved, test_races, test_merged, test_refuses, test_replies, test_sizes, test_localhost, test_prefix,
                     test_refused):
            test()
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)
    tap.done()


main()
