# SPDX-License-Identifier: BSD-3-Clause
"""Clients of a farcached with a slow or silent node: requests behind `quit`, the memory of unread replies, and the error of a dead
node. Values that are on their way are delivered."""
import os
import signal
import sys
import time
import types

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from cluster import until_up  # noqa: E402
from farcached import Daemon, is_sanitized, select_nothing, slow_factor, tap, until  # noqa: E402
from farnode import Farnode  # noqa: E402
from liar import Liar  # noqa: E402


def proxy(node, *args):
    return Daemon("--node", "a=tcp:127.0.0.1:%d" % node.port, *args, threads=1)


def test_nothing_behind_quit():
    """Requests behind `quit` are not executed, not even if the process stops while earlier replies are pending."""
    with Farnode() as node, proxy(node) as d:
        with d.client() as c:
            tap.is_(c.send("set before 0 0 1\r\na\r\n").line(), b"STORED\r\n", "the node is there")
        with node.stopped(), d.client() as c:
            c.send("set before 0 0 1\r\nb\r\nquit\r\nset behind 0 0 1\r\nc\r\n")
            with d.client() as other:  # one worker: it has read the earlier requests by now
                other.send("version\r\n").line()
            d.signal(signal.SIGTERM)
            tap.is_(c.until_close(), b"SERVER_ERROR unavailable\r\n", "behind quit nothing is carried out when the process stops")
        d.wait()


def test_values_nobody_reads(earned):
    """Gets of values of unknown size by clients that do not read them; `earned`: after many small values."""
    clients, value = 2, 1000000
    with Farnode("-m", "64") as node, proxy(node, "-o", "node_timeout_ms=10000") as d:
        with d.client() as c:
            c.send(b"set large 0 0 %d\r\n" % value + b"v" * value + b"\r\n").line()
            c.set("small", "v")
            before = d.memory()["Private"]
            deaf = [d.client() for _ in range(clients)]
            if earned:
                for one in deaf:
                    one.send("get small\r\n" * 4000, "mn\r\n").until("MN\r\n")
            with node.stopped():
                for one in deaf:
                    one.send("get large\r\n" * 512)
                c.send("version\r\n").line()
            got = c.send("get large\r\n").until("END\r\n")  # behind the earlier requests
            tap.is_(len(got), value + 30, "others have their answers")
            grown = d.memory()["Private"] - before
            title = "clients that do not read cost little" + (", after any earlier reads" if earned else "")
            if is_sanitized():
                tap.skip(title, "a sanitizer build keeps memory of its own")
            else:
                tap.ok(grown < clients * 80 * value, title, "%d bytes" % grown)
            for one in deaf:
                one.close()


# For a command that returns a value it is a miss, for others an error.
ANSWERS_OF_A_DEAD_NODE = r"""
get k: END
gets k: END
gat 10 k: END
mg k v: EN
mg k: EN
mg k v T10: EN
mg k v N30: EN
mg k v R30: EN
me k: EN
touch k 10: SERVER_ERROR unavailable
mg k T10: SERVER_ERROR unavailable
mg k t T10: SERVER_ERROR unavailable
mg k T10 q: SERVER_ERROR unavailable
mg k N30: SERVER_ERROR unavailable
mg k R30: SERVER_ERROR unavailable
delete k: SERVER_ERROR unavailable
incr k 1: SERVER_ERROR unavailable
md k: SERVER_ERROR unavailable
ma k: SERVER_ERROR unavailable
ms k 0\r\n: SERVER_ERROR unavailable
set k 0 0 0\r\n: SERVER_ERROR unavailable
flush_all: SERVER_ERROR unavailable
"""


def test_dead_node():
    with Farnode() as node, proxy(node) as d, d.client() as c:
        until_up(d)
        node.stop()
        until(lambda: d.stats("nodes")["a:links_up"], lambda up: up == "0")
        before = d.stats("proxy")
        table = [line.split(": ") for line in ANSWERS_OF_A_DEAD_NODE.split("\n") if line]
        for request, answer in table:
            got = c.send(request.replace(r"\r\n", "\r\n"), "\r\nmn\r\n").until("MN\r\n").decode()
            tap.is_(got, answer + "\r\nMN\r\n", "of a dead node, %s: %s" % (request.split("\\")[0], answer))
        after = d.stats("proxy")
        counted = {n: int(after[n]) - int(before[n]) for n in ("get_unavailable", "mutations_unavailable", "change_unavailable")}
        errors = sum(answer.startswith("SERVER_ERROR") for _, answer in table)
        tap.is_(counted, {"get_unavailable": len(table) - errors, "mutations_unavailable": errors, "change_unavailable": errors},
                "each is counted, also under its old name")


def test_more_than_comes_in_time():
    """A multi-get whose values take longer than node_timeout_ms in sum, arriving one after the other."""
    keys, value, timeout_s = ["many%d" % i for i in range(30)], b"v" * 100_000, slow_factor()

    def slowly(frame):
        select_nothing(timeout_s / 20)
        return frame

    with Farnode("-m", "64") as node, Liar(types.SimpleNamespace(channel="tcp", port=node.port)) as liar, \
            Daemon("--node", "a=" + liar.address(), "-o", "node_timeout_ms=%d" % (1000 * timeout_s), threads=1) as d, \
            d.client() as c:
        until_up(d)
        for key in keys:
            c.set(key, value)
        liar.lie = slowly
        began = time.monotonic()
        found = c.get_many(keys)
        liar.lie = None
        tap.ok(time.monotonic() - began > timeout_s, "that takes longer than a node may take for its answer")
        tap.is_([key.decode() for key, _, got, _ in found if got == value], keys, "slow values arrive in full")
        tap.is_(d.stats("proxy")["node_timeouts"], "0", "nothing has timed out")


test_nothing_behind_quit()
test_values_nobody_reads(earned=False)
test_values_nobody_reads(earned=True)
test_dead_node()
test_more_than_comes_in_time()
tap.done()
