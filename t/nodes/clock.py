# SPDX-License-Identifier: BSD-3-Clause
"""Expiry times with several farcached and their node on one host. All of them report a lifetime of 100 seconds as such, at once,
and the item expires at the node in time."""
import contextlib
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from cluster import Table, until_up  # noqa: E402
from farcached import Daemon, tap  # noqa: E402
from farnode import Farnode  # noqa: E402

TTL, ROUNDS, CLIENTS = 100, 3, 6
TRIES = 5  # of a round, because a greeting may take longer than the 50 ms of node_clock_estimate.h


def wrong_times(node, fronts, title):
    """Keys whose times differ from the node's clock."""
    wrong = []
    with contextlib.ExitStack() as stack:
        asked = stack.enter_context(node.node_client())
        asked.greet()
        clients = [[stack.enter_context(d.client()) for _ in range(CLIENTS)] for d in fronts]
        for i, writers in enumerate(clients):
            for n, writer in enumerate(writers):
                key = "k%d.%d" % (i, n)
                before, _ = asked.clock()
                writer.send("ms %s 1 T%d\r\nv\r\n" % (key, TTL)).until("HD\r\n")
                after, _ = asked.clock()
                exptime, _ = asked.exptime(key.encode())
                told = [int(reader.send("mg %s t\r\n" % key).line().split(b"t")[1]) for readers in clients
                        for reader in (writer, readers[-1 - n])]
                now, _ = asked.clock()
                dies = before + TTL <= exptime <= after + TTL
                if not dies or min(told) < TTL - (now - before) or max(told) > TTL:
                    wrong.append((key, before, exptime, after, told))
    if wrong:
        tap.diag(title + "not at once: %s" % wrong)
    return wrong


def fresh(node, address, title):
    """Errors over a node's new connections, which no request has used before."""
    table = Table()
    args = ["--node", "a=" + address, "-o", table.options()]
    try:
        with Daemon(*args, threads=3) as one, Daemon(*args, threads=1) as other:
            until_up(one)
            until_up(other)
            return wrong_times(node, (one, other), title)
    finally:
        table.unlink()


def main():
    with tempfile.TemporaryDirectory(prefix="farcached-clock-") as folder:
        for i in range(ROUNDS):
            path = os.path.join(folder, "n%d" % i)
            with Farnode("--shm", path, "--tcp", "127.0.0.1:0", threads=2) as node:
                for address in "tcp:127.0.0.1:%d" % node.port, "shm:" + path:
                    title = "round %d, %s: " % (i, address.partition(":")[0])
                    wrong = None
                    for _ in range(TRIES):
                        wrong = fresh(node, address, title)
                        if not wrong:
                            break
                    tap.is_(wrong, [], title + "%d seconds are %d seconds everywhere" % (TTL, TTL))
    tap.done()


if __name__ == "__main__":
    main()
