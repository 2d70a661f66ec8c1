# SPDX-License-Identifier: BSD-3-Clause
"""Limits on hostile peers of a farnode. They cannot take its memory by half frames, half values and unread replies, or lock proxies
out by connections. The node's cache is full, and a farcached in front of it is served throughout.

Each title names the peers. Their addresses begin at 127.0.0.2; proxies have 127.0.0.1.
"""
import contextlib
import os
import select
import socket
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from cluster import Cluster, nodes_shown  # noqa: E402
from farcached import deadline, is_sanitized, raise_descriptor_limit, tap, until  # noqa: E402
from farnode import NodeClient  # noqa: E402

MEGABYTES = 64
MEMORY_MAX = (MEGABYTES + MEGABYTES // 4 + 32) << 20
FRAME_BYTES = 65536
VALUE_BYTES = 1000 * 1000
FOLLOWS = 1 << 18  # flag of a request whose value comes in chunks
SEATS = 1024


def peer_of(node, source):
    """A connection from that address, without a greeting."""
    s = socket.socket()
    s.settimeout(deadline())
    s.bind((source, 0))
    s.connect(("127.0.0.1", node.port))
    return NodeClient(s)


def greeted(node, source):
    peer = peer_of(node, source)
    peer.greet(credits=256)
    return peer


def push(peer, data):
    """Sends as much as the node accepts; False: it has closed the connection, or accepts no more."""
    peer.socket.setblocking(False)
    view = memoryview(data)
    try:
        while view:
            if not select.select([], [peer.socket], [], 0.2)[1]:
                return False
            view = view[peer.socket.send(view):]
    except OSError:
        return False
    return True


def frame(kind, count, sequence, body):
    return struct.pack("<IHHQ", len(body), kind, count, sequence) + body


def reconnects(proxy):
    return int(proxy.stats("proxy")["node_reconnects"])


class Served:
    """A full node and a proxy in front of it."""

    def __init__(self, title, node_args=(), proxies=1):
        self.title = title
        self.cluster = Cluster("tcp", proxies=proxies, threads=2, node_args=["-m", MEGABYTES, *node_args])

    def __enter__(self):
        self.cluster.__enter__()
        self.node = self.cluster.nodes[0]
        self.client = self.cluster.proxies[0].client()
        value = b"v" * 4000
        for at in range(0, 20_000, 200):
            for i in range(at, at + 200):
                self.client.send(b"set fill%d 0 0 %d noreply\r\n%s\r\n" % (i, len(value), value))
            self.client.ask("mn")
        tap.is_(self.client.set("mine", "v0"), "STORED", self.title + "a proxy is served")
        self.most = 0
        self.rounds = self.wrong = 0
        self.reconnects = self.reconnected()
        return self

    def __exit__(self, *how):
        self.client.close()
        return self.cluster.__exit__(*how)

    def reconnected(self):
        return [reconnects(p) for p in self.cluster.proxies]

    def look(self):
        """Runs a request of the proxy, and records the node's memory."""
        self.rounds += 1
        value = "v%d" % self.rounds
        if self.client.set("mine", value) != "STORED" or self.client.get("mine") != value.encode():
            self.wrong += 1
        self.most = max(self.most, self.node.process.memory()["Private"])

    def is_well(self):
        self.look()
        tap.is_(self.wrong, 0, self.title + "the proxy was served all the while")
        tap.is_(self.reconnected(), self.reconnects, self.title + "on the connections that it had")
        tap.diag("%s%d MB private" % (self.title, self.most >> 20))
        if is_sanitized():
            tap.skip(self.title + "memory stays within -m, a quarter of it and 32 MB", "a sanitizer build has memory of its own")
        else:
            tap.ok(self.most <= MEMORY_MAX, self.title + "memory stays within -m, a quarter of it and 32 MB", self.most)

    def stats(self):
        proxy = self.cluster.proxies[0]
        told = {**proxy.stats("node n0"), **proxy.stats("node n0 connections")}
        return {name: int(value) for name, value in told.items() if value.isdigit()}

    def counted(self, name):
        count = until(lambda: self.stats()[name], lambda n: n > 0)
        tap.ok(count > 0, self.title + name + " counts it", count)


# -- Memory --------------------------------------------------------------------------------------------------

def half_values(peer):
    """62 values of a megabyte, each without its last chunk."""
    for sequence in range(1, 63):
        key = b"half%d" % sequence
        request = struct.pack("<BBHIII", 2, 0, len(key), FOLLOWS, VALUE_BYTES, 1) + struct.pack("<II", 0, 0) + key
        if not push(peer, frame(4, 1, sequence, request)):
            return False
        for at in range(0, VALUE_BYTES - 50_000, 50_000):
            if not push(peer, frame(6, 0, sequence, struct.pack("<IIQ", 1, 0, at) + b"h" * 50_000)):
                return False
    return True


def peers_that_send_half_values():
    with contextlib.ExitStack() as ends, Served("10 peers that send half values: ") as served:
        for i in range(10):
            half_values(ends.enter_context(greeted(served.node, "127.0.0.2")))
            served.look()
        served.is_well()
        served.counted("values_over_budget")


def peers_that_send_half_frames():
    count = 900
    with contextlib.ExitStack() as ends, Served("%d peers that send half frames: " % count) as served:
        half = frame(4, 1, 1, b"x" * (FRAME_BYTES - 16))[:60_000]
        for i in range(count):
            push(ends.enter_context(greeted(served.node, "127.0.0.%d" % (2 + i % 4))), half)
            if i % 50 == 0:
                served.look()
        served.is_well()
        served.counted("end_over_budget")


def peers_that_do_not_read():
    with contextlib.ExitStack() as ends, Served("60 peers that do not read: ") as served:
        with greeted(served.node, "127.0.0.2") as one:
            body = struct.pack("<BBHIII", 2, 0, 5, FOLLOWS, VALUE_BYTES, 1) + struct.pack("<II", 0, 0) + b"large"
            push(one, frame(4, 1, 9, body))
            for at in range(0, VALUE_BYTES, 50_000):
                push(one, frame(6, 0, 9, struct.pack("<IIQ", 1, 0, at) + b"l" * 50_000))
            one.socket.settimeout(deadline())
            tap.is_(one.frame().kind, "replies", served.title + "a large value is stored")
        for _ in range(60):
            peer = ends.enter_context(greeted(served.node, "127.0.0.2"))
            for sequence in range(1, 13):
                push(peer, frame(4, 1, sequence, struct.pack("<BBHIII", 1, 0, 5, 0, 0, 1) + b"large"))
            served.look()
        served.is_well()


# -- Seats ---------------------------------------------------------------------------------------------------

def burst(title, source):
    """More greetings than seats, all kept open."""
    with contextlib.ExitStack() as ends, Served(title) as served:
        for i in range(SEATS + 200):
            ends.enter_context(greeted(served.node, source))
            if i % 100 == 0:
                served.look()
        served.is_well()
        late = served.cluster.start_proxy()
        served.cluster.proxies.append(late)
        with late.client() as c:
            tap.is_((c.set("late", "v"), c.get("late")), ("STORED", b"v"), title + "a new farcached is served")
        for _ in range(100):
            ends.enter_context(greeted(served.node, source))
        with late.client() as c:
            tap.is_((c.set("later", "v"), c.get("later")), ("STORED", b"v"), title + "and stays served")
        served.counted("end_displaced")


def a_crowd_at_the_door():
    with contextlib.ExitStack() as ends, Served("connections that do not greet: ", ["--greeting-timeout-ms", "600000"]) as served:
        for i in range(2 * SEATS):
            ends.enter_context(peer_of(served.node, "127.0.0.2"))
            if i % 100 == 0:
                served.look()
        with greeted(served.node, "127.0.0.3") as peer:
            tap.ok(peer.set(b"k", b"v"), served.title + "a peer of another address is accepted")
        served.is_well()
        served.counted("end_crowded_out")


def many_proxies_behind_one_address():
    title = "3 farcached of 8 threads behind one address, -c 24: "
    with Cluster("tcp", proxies=3, threads=8, node_args=["-c", 24]) as c:
        shown = [nodes_shown(p)["n0"] for p in c.proxies]
        tap.is_([s["links_up"] for s in shown], ["8"] * 3, title + "all their connections are welcome")
        for i, proxy in enumerate(c.proxies):
            clients = [proxy.client() for _ in range(8)]
            good = sum(one.set("k%d" % i, "v") == "STORED" and one.get("k%d" % i) == b"v" for one in clients)
            tap.is_(good, 8, title + "each is used")
            for one in clients:
                one.close()
        tap.is_([reconnects(p) for p in c.proxies], [0] * 3, title + "none was lost")


def main():
    raise_descriptor_limit(8192)
    peers_that_send_half_values()
    peers_that_send_half_frames()
    peers_that_do_not_read()
    burst("a burst of greetings from elsewhere: ", "127.0.0.2")
    burst("a burst of greetings from the proxies' own address: ", "127.0.0.1")
    a_crowd_at_the_door()
    many_proxies_behind_one_address()
    tap.done()


if __name__ == "__main__":
    main()
