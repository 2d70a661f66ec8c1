# SPDX-License-Identifier: BSD-3-Clause
"""Clients of a farcached whose node does not answer: what they sent behind their end, and what it costs that they do
not read."""
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from farcached import Daemon, is_sanitized, tap  # noqa: E402
from farnode import Farnode  # noqa: E402


def proxy(node, *args):
    return Daemon("--node", "a=tcp:127.0.0.1:%d" % node.port, *args, threads=1)


def test_nothing_behind_quit():
    """Not even when the process stops while the answers in front of it are awaited."""
    with Farnode() as node, proxy(node) as d:
        with d.client() as c:
            tap.is_(c.send("set before 0 0 1\r\na\r\n").line(), b"STORED\r\n", "the node is there")
        with node.stopped(), d.client() as c:
            c.send("set before 0 0 1\r\nb\r\nquit\r\nset behind 0 0 1\r\nc\r\n")
            with d.client() as other:  # one worker: what was sent first has been taken in
                other.send("version\r\n").line()
            d.signal(signal.SIGTERM)
            tap.is_(c.until_close(), b"SERVER_ERROR unavailable\r\n", "behind quit nothing is carried out when the process stops")
        d.wait()


def test_values_nobody_reads():
    """Gets that were asked before anybody knew how large the values are, by clients that do not read them."""
    clients, value = 2, 1000000
    with Farnode("-m", "64") as node, proxy(node, "-o", "node_timeout_ms=10000") as d:
        with d.client() as c:
            c.send(b"set large 0 0 %d\r\n" % value + b"v" * value + b"\r\n").line()
            before = d.memory()["VmRSS"]
            deaf = [d.client() for _ in range(clients)]
            with node.stopped():
                for one in deaf:
                    one.send("get large\r\n" * 512)
                c.send("version\r\n").line()
            got = c.send("get large\r\n").until("END\r\n")  # behind what was asked for them
            tap.is_(len(got), value + 30, "others have their answers")
            grown = d.memory()["VmRSS"] - before
            title = "clients that do not read cost little"
            if is_sanitized():
                tap.skip(title, "a sanitizer build keeps memory of its own")
            else:
                tap.ok(grown < clients * 80 * value, title, "%d bytes" % grown)
            for one in deaf:
                one.close()


for test in (test_nothing_behind_quit, test_values_nobody_reads):
    test()
tap.done()
