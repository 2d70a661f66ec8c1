# SPDX-License-Identifier: BSD-3-Clause
"""The rejoin fence (S19): with failover, a node that was out of use is used again only after its old items are dead. One farcached
with two workers. The node is stopped for longer than the timeout, drained, or killed and started again with its items. With etcd
keys go to no other node before etcd has lost theirs.

Keys are written only while all workers agree where they belong, so every outcome is known: a later get finds the last value, or
misses.
"""
import contextlib
import os
import signal
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import etcd as etcd_servers  # noqa: E402
from binary_client import BinaryClient  # noqa: E402
from cluster import Cluster, Table, all_up, nodes_shown  # noqa: E402
from etcd import Etcd  # noqa: E402
from farcached import Client, Daemon, slow_factor, tap, until  # noqa: E402
from farnode import Farnode  # noqa: E402

TIMEOUT_MS = 300 * slow_factor()
OPTIONS = ["failover", "node_timeout_ms=%d" % TIMEOUT_MS]
KEYS = 100
LONG_KEY = "k" * 150


def fence_of(c, node):
    return nodes_shown(c.proxies[0])[node.name]


def until_fence(c, node, state):
    return until(lambda: fence_of(c, node)["fence"], lambda found: found == state)


def until_out(c, node, clients):
    """Until the node's keys are at other nodes; gets make the workers notice that it does not answer."""
    key = c.key(node, "trigger")

    def look():
        for client in clients:
            client.send(b"delete %s\r\n" % key.encode())
            client.line()
        return fence_of(c, node)["fence"]
    return until(look, lambda found: found == "out")


def wrong(names, found, last):
    """The keys with a value other than the last one; a miss is none."""
    return {n: v for n, v in zip(names, found) if v is not None and v != last}


def away_and_back(title, c, node, end, back):
    """The node's keys are changed while it is away. Then no worker finds what it had, nor, when it is away again, what another
    node had meanwhile."""
    names = [c.key(node, "k%d" % i) for i in range(KEYS)]
    changed, kept = names[:KEYS // 2], names[KEYS // 2:]
    with c.proxies[0].client() as a, c.proxies[0].client() as b:
        tap.is_({a.set(n, "one") for n in names}, {"STORED"}, title + "set")
        tap.is_([b.get(n) for n in names], [b"one"] * KEYS, title + "read")
        before = fence_of(c, node)
        end()
        tap.is_(until_out(c, node, (a, b)), "out", title + "it is out of use")
        tap.is_({b.get(n) for n in names}, {None}, title + "its keys miss, through the other worker, too")
        tap.is_({a.set(n, "two") for n in changed[1:]}, {"STORED"}, title + "they are stored at other nodes")
        a.send(b"delete %s\r\n" % changed[0].encode())
        tap.is_(a.line(), b"NOT_FOUND\r\n", title + "or deleted there")
        tap.is_({b.get(n) for n in changed[1:]}, {b"two"}, title + "and are found there")
        caps(title, c, node, a, b)
        back()
        tap.is_(until_fence(c, node, "in_use"), "in_use", title + "it is used again")
        for client in (a, b):
            tap.is_(wrong(changed, [client.get(n) for n in changed], b"two"), {}, title + "no old value of a changed key")
        shown = fence_of(c, node)
        tap.ok(int(shown["fence_killed"]) - int(before["fence_killed"]) >= len(changed), title + "they were deleted there", shown)
        tap.is_(shown["fence_flushes"], before["fence_flushes"], title + "and it was not flushed")
        tap.is_(wrong(kept, [b.get(n) for n in kept], b"one"), {}, title + "other keys have their values")
        tap.is_({b.set(n, "three") for n in names}, {"STORED"}, title + "set again")
        tap.is_([a.get(n) for n in names], [b"three"] * KEYS, title + "and read")
        until(lambda: [s["fence_keys"] for s in nodes_shown(c.proxies[0]).values()], lambda k: set(k) == {"0"})
        end()
        until_out(c, node, (a, b))
        tap.is_(wrong(names, [a.get(n) for n in names], b"three"), {}, title + "away again: no value of the last time")
        back()
        until_fence(c, node, "in_use")


def ttl_of(client, key):
    """Seconds, -1 for none, None for a miss."""
    client.send(b"mg %s t\r\n" % key.encode())
    words = client.line().split()
    return int(words[1][1:]) if words[0] == b"HD" else None


def caps(title, c, node, a, b):
    """While the node is away, items of its keys live for failover_ttl (60 s) at most."""
    names = {kind: c.key(node, "ttl-" + kind) for kind in ("set", "long", "short", "gone", "add", "ma", "touch", "gat",
                                                             "binary")}
    raw = {kind: name.encode() for kind, name in names.items()}
    requests = [b"set %s 0 0 1\r\n1\r\n" % raw["set"], b"set %s 0 %d 1\r\n1\r\n" % (raw["long"], time.time() + 100000),
                b"set %s 0 7 1\r\n1\r\n" % raw["short"], b"set %s 0 -1 1\r\n1\r\n" % raw["gone"],
                b"ms %s 1 MA N0 T0\r\n1\r\n" % raw["add"], b"ma %s N3000 J5\r\n" % raw["ma"],
                b"set %s 0 5 1\r\n1\r\n" % raw["touch"], b"touch %s 5000\r\n" % raw["touch"],
                b"set %s 0 5 1\r\n1\r\n" % raw["gat"], b"gat 5000 %s\r\n" % raw["gat"]]
    for request in requests:
        a.send(request)
        a.line()
    a.until(b"END\r\n")
    with BinaryClient(c.proxies[0].client()) as client:
        client.ask(0x01, key=raw["binary"], extras=struct.pack(">II", 0, 0), value=b"1")
    found = {kind: ttl_of(b, name) for kind, name in names.items()}
    short, gone = found.pop("short"), found.pop("gone")
    tap.ok(short is not None and 0 <= short <= 7 and gone is None, title + "a short time to live stays", short, gone)
    tap.ok(all(t is not None and 30 <= t <= 61 for t in found.values()), title + "a long one is lowered", found)


def everything(title, c, node):
    """Too many keys change while the node is drained: it is flushed."""
    kept = c.key(node, "kept")
    count, tag = 12000, c.key(node, LONG_KEY)
    with c.proxies[0].client() as a, c.proxies[0].client() as b, Client(c.admin(0)) as admin:
        a.set(kept, "one")
        a.set(tag + "0", "one")
        before = int(fence_of(c, node)["fence_flushes"])
        admin.ask("drain " + node.name)
        until_out(c, node, (a, b))
        for begin in range(0, count, 1000):
            a.send(b"".join(b"set %s%d 0 0 3 noreply\r\ntwo\r\n" % (tag.encode(), i) for i in range(begin, begin + 1000)))
            a.send(b"mn\r\n")
            a.line()
        tap.is_(fence_of(c, node)["fence_keys"], "all", title + "too many keys were changed")
        admin.ask("undrain " + node.name)
        tap.is_(until_fence(c, node, "in_use"), "in_use", title + "it is used again")
        tap.is_(int(fence_of(c, node)["fence_flushes"]) - before, 1, title + "it was flushed")
        tap.is_({b.get(kept), b.get(tag + "0")}, {None}, title + "nothing old is left")


def with_etcd():
    """A farcached loses its connections to a node that etcd still lists."""
    with contextlib.ExitStack() as stack:
        etcd = stack.enter_context(Etcd())
        table = Table()
        stack.callback(table.unlink)
        args = ("--tcp", "127.0.0.1:0", "-m", "16", "-t", "1", "--discover", etcd.source(), "--member-ttl", "60")
        nodes = {name: stack.enter_context(Farnode("--name", name, *args)) for name in "ab"}
        options = ",".join([table.options(), *OPTIONS])
        daemon = stack.enter_context(Daemon("--discover", etcd.source(), "-o", options, threads=2))
        shown = until(lambda: nodes_shown(daemon), lambda shown: len(shown) == 2 and all_up(shown))
        tap.is_(set(shown), {"a", "b"}, "etcd: two nodes")
        client = stack.enter_context(daemon.client())
        keys = [key for key in ("k%d" % i for i in range(40)) if daemon.stats("route " + key)["node"] == "a"]
        tap.is_({client.set(key, "one") for key in keys}, {"STORED"}, "etcd: set")
        with nodes["a"].stopped():
            links = until(lambda: (client.get(keys[0]), nodes_shown(daemon)["a"]["links_up"])[1], lambda links: links != "2")
            tap.is_(links, "1", "etcd: a node stands still, and a worker loses its connection")
            tap.is_({client.set(key, "two") for key in keys}, {"SERVER_ERROR unavailable"}, "etcd: its keys are stored nowhere")
            tap.is_({client.get(key) for key in keys}, {None}, "etcd: gets miss")
        until(lambda: nodes_shown(daemon), all_up)
        found = until(lambda: {client.get(key) for key in keys}, lambda found: None not in found)
        tap.is_(found, {b"one"}, "etcd: when it goes on it has the last values")
        nodes["a"].stop()
        until(lambda: nodes_shown(daemon), lambda shown: set(shown) == {"b"})
        tap.is_({until(lambda key=key: client.set(key, "two"), lambda said: said == "STORED") for key in keys}, {"STORED"},
                "etcd: when etcd has lost it, its keys are stored elsewhere")


def main():
    for channels, local_read in (("shm shm shm", True), ("shm shm shm", False), ("tcp tcp tcp", True)):
        title = "%s%s, " % (channels, "" if local_read else " by pointers")
        with Cluster(channels, proxies=1, local_read=local_read, options=OPTIONS, kept=True) as c:
            node = c.nodes[0]
            away_and_back(title + "stopped: ", c, node, lambda: node.process.signal(signal.SIGSTOP),
                          lambda: node.process.signal(signal.SIGCONT))
            away_and_back(title + "killed and warm: ", c, node, lambda: c.kill(node), lambda: c.restart(node, wait=False))
            if channels.startswith("tcp"):
                everything(title + "drained: ", c, node)


main()
if etcd_servers.is_available():
    with_etcd()
tap.done()
