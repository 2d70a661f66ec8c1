# SPDX-License-Identifier: BSD-3-Clause
"""`stats hotkeys`: the most requested keys for each way of answering, in every protocol; resets, and sampling turned off. farctl
prints the same."""
import os
import re
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from binary_client import BinaryClient, op, set_extras  # noqa: E402
from cluster import Cluster  # noqa: E402
from farcached import Daemon, tap, until  # noqa: E402
from farctl import FOLDER, asked, at, farctl, path_of, refused  # noqa: E402

ROUNDS = 40
EVERY = ("-o", "hotkeys_sample=1")  # every request is sampled


def hot(stats):
    """{way: [(key, requests, error)]}, in the order of the reply."""
    found = {}
    for name, value in stats.items():
        parts = name.split(":")
        if len(parts) == 3 and parts[2] == "key":
            front = ":".join(parts[:2]) + ":"
            found.setdefault(parts[0], []).append((value, int(stats[front + "requests"]), int(stats[front + "error"])))
    return found


def test_embedded():
    with Daemon("--admin", path_of("p"), "-m", "16", *EVERY, threads=2) as d, d.client() as c:
        tap.is_(c.stats("hotkeys"), {"one_in": "1", "missed": "0"}, "no requests yet")
        _, out, _ = farctl("hotkeys", *at("p"))
        tap.like(out, "no requests yet", "farctl shows it")
        c.set("hot", "v")
        for _ in range(ROUNDS):
            c.send(b"get hot\r\nget hot\r\nget absent\r\n")  # one window of gets
            c.upto(b"END\r\nEND\r\nEND\r\n")
        c.get_many(["hot", "hot", "once"])
        c.ask("gat 0 hot", end="END")
        c.ask("mg hot v")
        c.send(b"ms bWV0YQ== 1 b\r\nx\r\n")
        c.upto(b"HD\r\n")
        with d.client() as other:
            for _ in range(3):
                other.set("stored", "v")
        stats = c.stats("hotkeys")
        tap.is_(stats["missed"], "0", "none was missed")
        tap.is_(hot(stats), {"local": [("hot", 2 * ROUNDS + 5, 0), ("absent", ROUNDS, 0), ("stored", 3, 0), ("meta", 1, 0),
                                       ("once", 1, 0)]}, "gets and sets of all workers, by key")
        tap.is_(int(stats["local:sampled"]), 3 * ROUNDS + 10, "how many there were")
        tap.is_(c.ask("stats hotkeys reset"), "RESET", "reset")
        tap.is_(hot(c.stats("hotkeys")), {}, "forgets them")
        tap.is_([c.ask("stats hotkeys " + words) for words in ("x", "reset x")],
                ["CLIENT_ERROR usage: stats hotkeys [reset]"] * 2, "other words are refused")
        for i in range(20):
            for _ in range(40 - i):
                c.get("k%02d" % i)
        seen = hot(c.stats("hotkeys"))["local"]
        tap.is_(seen, [("k%02d" % i, 40 - i, 0) for i in range(16)], "sixteen are shown")
        tap.is_(c.ask("stats reset"), "RESET", "stats reset")
        tap.is_(hot(c.stats("hotkeys"))["local"], seen, "leaves them")
        told = asked("hotkeys", *at("p"))[0]
        tap.is_((told["one_in"], [(k["way"], k["key"], k["requests"], k["error"]) for k in told["keys"]]),
                (1, [("local", *one) for one in seen]), "farctl hotkeys")
        code, out, _ = farctl("hotkeys", *at("p"))
        tap.ok(code == 0 and re.search(r"^local +40 +0 +k00$", out, re.M), "as text", out)
        tap.is_(asked("hotkeys", "reset", *at("p")), [{"socket": path_of("p"), "reset": True}], "farctl hotkeys reset")
        tap.is_(hot(c.stats("hotkeys")), {}, "forgets them, too")
        refused(["hotkeys", "x", *at("p")], path_of("p") + ": usage: stats hotkeys [reset]", "another word")


def test_refused():
    with Daemon("-m", "16", "-X", *EVERY, threads=1) as d, d.client() as c:
        c.get("k")
        tap.is_([c.ask("stats hotkeys" + word) for word in ("", " reset")], ["CLIENT_ERROR stats hotkeys not allowed"] * 2,
                "without the right to dump keys none is shown")
        with BinaryClient(d.client()) as b:
            tap.is_(b.ask(op.STAT, "hotkeys").status, b.ask(op.STAT, "nosuch").status, "nor in binary")


def test_binary():
    with Daemon("-m", "16", *EVERY, threads=1) as d, d.client() as c, BinaryClient(d.client()) as b:
        b.ask(op.SET, "a b%", "v", set_extras())
        for _ in range(5):
            b.ask(op.GET, "a b%")
        tap.is_(hot(c.stats("hotkeys")), {"local": [("a%20b%25", 6, 0)]}, "binary; keys are encoded as in watch")


def test_chance():
    with Daemon("-m", "16", threads=1) as d, d.client() as c:
        for _ in range(50):
            c.send(b"get hot\r\n" * 200 + b"get rare\r\n" * 2)
            c.upto(b"END\r\n" * 202)
        stats = c.stats("hotkeys")
        first = hot(stats)["local"][0]
        tap.ok(stats["one_in"] == "100" and first[0] == "hot" and 5000 < first[1] < 20000, "one in a hundred: 10000 gets, about",
               stats)
    with Daemon("--admin", path_of("p"), "-m", "16", "-o", "hotkeys_sample=0", threads=1) as d, d.client() as c:
        for _ in range(100):
            c.get("k")
        tap.is_(c.stats("hotkeys"), {"one_in": "0", "missed": "0"}, "turned off")
        _, out, _ = farctl("hotkeys", *at("p"))
        tap.like(out, "hotkeys_sample is 0", "farctl shows it")


def test_ways():
    with Cluster("shm shm", proxies=2, local_read=[True, False], proxy_args=EVERY) as c:
        for proxy, way in zip(c.proxies, ("local", "one_sided")):
            with proxy.client() as client:
                client.set("hot", "v")
                for _ in range(ROUNDS):
                    client.get("hot")
                ways = hot(client.stats("hotkeys"))
                tap.ok(ways[way][0][0] == "hot" and ways[way][0][1] >= ROUNDS // 2, "gets that are read: " + way, ways)
                tap.ok(("hot", 0) in [(k, e) for k, _, e in ways["two_sided"]], "the set asks the node", ways)
                total = sum(n for of in ways.values() for k, n, _ in of if k == "hot")
                tap.is_(total, ROUNDS + 1, "each is counted once")
    with Cluster("shm", proxies=1, local_read=False, proxy_args=[*EVERY, "-o", "pointer_miss=index,no_local_read"]) as c:
        with c.proxies[0].client() as client:
            tap.ok(until(lambda: client.set("cold", "v") == "STORED", bool), "a set")

            def by_index():
                client.get("cold")
                return hot(client.stats("hotkeys"))
            tap.ok(until(by_index, lambda ways: "index" in ways), "a get without a pointer")


def main():
    try:
        test_embedded()
        test_refused()
        test_binary()
        test_chance()
        test_ways()
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)
    tap.done()


main()
