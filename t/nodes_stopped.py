# SPDX-License-Identifier: BSD-3-Clause
"""Nodes and proxies that stand still (SIGSTOP) and go on: values that waited, bounded memory, leases that ran out.

What is in memory that is read late, or sent late, must be what it was (S12, S4): every value names its key and its
writing, so a foreign byte is seen. Times are printed, not judged.
"""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import Cluster, nodes_shown  # noqa: E402
from connections import Sender, unsent  # noqa: E402
from farcached import deadline, is_sanitized, tap, until  # noqa: E402

MB = 1 << 20
UNAVAILABLE = "SERVER_ERROR unavailable"


def value_of(key, number, size):
    """Any 16 bytes of it say whose it is."""
    word = b"%s#%d;" % (key.encode(), number)
    return (word * (size // len(word) + 1))[:size]


def number_of(key, value):
    """Which writing of this key the value is; None if it is none."""
    number = value[len(key) + 1:value.find(b";")] if value.startswith(key.encode() + b"#") else b""
    return int(number) if number.isdigit() and value == value_of(key, int(number), len(value)) else None


def total(proxy, name):
    return sum(int(s[name]) for s in nodes_shown(proxy).values())


def ask_all(clients, requests):
    """Sends each client's requests in a thread of its own."""
    return [Sender(c, b"".join(r)) for c, r in zip(clients, requests)]


def set_request(key, number, size):
    return b"set %s 0 0 %d\r\n%s\r\n" % (key.encode(), size, value_of(key, number, size))


# -- Values that wait --------------------------------------------------------------------------------------

def values_that_wait(channel):
    """More and larger values than are sent ahead: what waits in the proxy is what the clients sent, however much else
    has gone through its buffers since."""
    title = channel + ", values that wait for a node: "
    with Cluster(channel + " shm", proxies=1, threads=1, options=["node_timeout_ms=60000"],
                 node_args=["-m", "256"]) as c:
        slow, other = c.nodes
        keys = [c.key(slow, "large%d" % i) for i in range(24)]
        passing = [c.key(other, "passing%d" % i) for i in range(4)]
        clients, busy = [c.proxies[0].client() for _ in keys], c.proxies[0].client()
        with slow.process.stopped():
            senders = [Sender(client, set_request(key, 1, 700_000)) for client, key in zip(clients, keys)]
            for sender in senders:
                sender.join(deadline())
            until(lambda: sum(unsent(client) for client in clients), lambda n: n == 0)
            wrong = [busy.set(key, value_of(key, n, 900_000)) for n in range(8) for key in passing]
            tap.is_(set(wrong), {"STORED"}, title + "others' are stored meanwhile")
        answers = [client.line() for client in clients]
        tap.is_(set(answers), {b"STORED\r\n"}, title + "then all are stored")
        tap.is_([number_of(k, busy.get(k) or b"") for k in keys], [1] * len(keys), title + "as they were sent")


for channel in ("tcp", "shm"):
    values_that_wait(channel)
tap.done()
