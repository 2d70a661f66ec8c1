# SPDX-License-Identifier: BSD-3-Clause
"""A fleet whose network is cut: etcd, three nodes and two proxies, each on a host of its own (t/lib/network.py).

A client stores rising versions of keys through one proxy, and clients of both proxies read them (t/lib/versions.py). Items have one
node, and then a copy at a second one.

A node that cannot reach etcd executes requests, unless its --discover-fence is strict. So a proxy that reads the list without it
later than the other one may read old values there until then, and not afterwards (docs/fleet.md). These values are not older than
the time between the two.
"""
import contextlib
import os
import shutil
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import hosted  # noqa: E402
import network as networks  # noqa: E402
from cluster import nodes_shown  # noqa: E402
from daemon import slow_factor  # noqa: E402
from etcd import Etcd  # noqa: E402
from farctl import FOLDER, at, farctl, path_of  # noqa: E402
from farcached import tap, until  # noqa: E402
from hosted import HostedNode, HostedProxy  # noqa: E402
from service import listening  # noqa: E402
from versions import Versions  # noqa: E402

hosted.skip_without()

TTL = int(2 * slow_factor())  # seconds
NODES, PROXIES = ("a", "b", "c"), ("p", "q")
KEYS = ["key-%d" % i for i in range(20)]
SILENT = "a: etcd does not answer it, so it refuses requests for keys\n"


class Fleet(contextlib.ExitStack):
    def __init__(self, copies, fence="on"):
        super().__init__()
        self.copies, self.fence = copies, fence

    def __enter__(self):
        super().__enter__()
        self.hosts = self.enter_context(networks.Network("etcd", *NODES, *PROXIES))
        self.etcd = self.enter_context(Etcd(host=self.hosts.address("etcd"), on=self.hosts.on("etcd")))
        found = ("--discover", self.etcd.source())
        self.nodes = {name: self.enter_context(HostedNode(self.hosts, name, *found, "--member-ttl", TTL, "--discover-fence",
                                                         self.fence, "--admin", path_of(name))) for name in NODES}
        until(self.etcd.keys, lambda keys: set(keys) == set(NODES))
        self.proxies = {}
        for name in PROXIES:
            listener = self.enter_context(listening())
            self.proxies[name] = self.enter_context(HostedProxy(self.hosts, name, listener, "-t", "1", *found, "-o",
                                                                "replicas=%d,node_timeout_ms=%d" %
                                                                (self.copies, 500 * slow_factor())))
            self.until_list(name, NODES)
        return self

    def until_list(self, proxy, names):
        """Until this proxy uses exactly these nodes."""
        found = until(lambda: set(nodes_shown(self.proxies[proxy])), lambda found: found == set(names))
        return found == set(names)

    def until_used(self):
        """Until both proxies reach all nodes."""
        def states(name):
            return {shown["state"] for shown in nodes_shown(self.proxies[name]).values()}
        return all(self.until_list(name, NODES) and until(lambda n=name: states(n), lambda found: found == {"up"}) == {"up"}
                   for name in PROXIES)

    @contextlib.contextmanager
    def cut(self, *pairs):
        with contextlib.ExitStack() as mends:
            for pair in pairs:
                self.hosts.cut(*pair)
                mends.callback(self.hosts.mend, *pair)
            yield


def last_values(fleet, title):
    """Stored through one proxy, seen through both."""
    with fleet.proxies["p"].client() as p, fleet.proxies["q"].client() as q:
        version = b"%d" % Versions.next()
        tap.is_({until(lambda k=key: p.set(k, version), lambda said: said == "STORED") for key in KEYS}, {"STORED"},
                title + ": all keys are stored")
        tap.is_({client.get(key) for client in (p, q) for key in KEYS}, {version}, title + ": and read")


class Spread:
    """Asks both proxies all the time, until each one has taken a newer list than its first one."""

    def __init__(self, fleet):
        self.proxies = fleet.proxies
        self.over = threading.Event()
        self.earlier, self.newer = {}, {}  # {proxy: time before the last reply by its first list, after the first one by a newer}
        self.thread = threading.Thread(target=self.watch)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()

    def watch(self):
        with contextlib.ExitStack() as stack:
            clients = {name: stack.enter_context(proxy.client()) for name, proxy in self.proxies.items()}
            first = {name: self.list_of(client) for name, client in clients.items()}
            while clients and not self.over.wait(0.005):
                for name, client in list(clients.items()):
                    asked = time.monotonic()
                    if self.list_of(client) == first[name]:
                        self.earlier[name] = asked
                        continue
                    client.get(KEYS[0])  # after this tick its worker has the list, too
                    self.newer[name] = time.monotonic()
                    del clients[name]

    @staticmethod
    def list_of(client):
        return {key for key in client.stats("nodes") if key.endswith(":state")}, client.stats("discovery")["revision_in_use"]

    def seconds(self):
        """From before the first proxy had the newer list until after the second one had it."""
        return max(self.newer.values()) - min(self.earlier.values())


def cut(fleet, title, *pairs):
    """A cut for longer than the time to live of a membership. Returns the stale reads before both proxies had a newer list, and the
    first five after that: (proxy, for how long)."""
    may_be_old = fleet.fence == "on" and ("a", "etcd") in pairs
    leaves = may_be_old and len(pairs) == 1
    with Versions(fleet.proxies, "q", KEYS) as load, Spread(fleet) as spread:
        tap.ok(load.served(), title + ": before the cut")
        with fleet.cut(*pairs):
            if leaves:
                tap.ok(all(fleet.until_list(name, ("b", "c")) for name in PROXIES), title + ": the node leaves both lists")
            time.sleep(TTL if leaves else 2 * TTL)
            tap.ok(load.served(), title + ": keys are read and stored during the cut")
            if fleet.fence == "strict":
                shown = until(lambda: farctl("status", *at("a"))[1], lambda text: SILENT in text)
                tap.ok(SILENT in shown, title + ": farctl status names the silence of etcd as the cause", shown)
        if may_be_old:
            tap.ok(until(lambda: set(spread.newer) == set(PROXIES), bool), title + ": both proxies take another list")
        tap.ok(fleet.until_used() and load.served(), title + ": mended, both proxies use all nodes")
    tap.is_(load.wrong, [], title + ": each value was stored")
    last_values(fleet, title)
    if not may_be_old:
        return [], [(name, stale_s) for _, name, stale_s in load.stale[:5]]
    both_at, spread_s = max(spread.newer.values()), spread.seconds()
    early = [(name, stale_s) for sent, name, stale_s in load.stale if sent < both_at]
    oldest = max((stale_s for _, stale_s in early), default=0.0)
    tap.ok(oldest <= spread_s, "%s: %d reads are stale before that, for %.3f s at most, in %.3f s between the lists" % (
        title, len(early), oldest, spread_s))
    return early, [(name, stale_s) for sent, name, stale_s in load.stale if sent >= both_at][:5]


BOTH = (("a", "etcd"), ("p", "etcd"))
AFTER = " when both proxies have the newer list"


def main():
    for copies in (1, 2):
        with Fleet(copies) as fleet:
            tap.ok(fleet.until_used(), "replicas=%d: both proxies use all nodes" % copies)
            for title, pair in (("a proxy and a node", ("p", "a")), ("a proxy and etcd", ("p", "etcd")),
                                ("a node and etcd", ("a", "etcd")), ("a node and etcd again", ("a", "etcd"))):
                title = "replicas=%d, %s" % (copies, title)
                tap.is_(cut(fleet, title, pair)[1], [], title + ": no read is stale" + (AFTER if pair == BOTH[0] else ""))
            if copies == 1:
                title = "a node and a proxy, both from etcd"
                early, late = cut(fleet, title, *BOTH)
                tap.is_({name for name, _ in early}, {"p"}, title + ": such a proxy reads old values there, as documented")
                tap.is_(late, [], title + ": no read is stale" + AFTER)
        with Fleet(copies, "strict") as fleet:
            tap.ok(fleet.until_used(), "replicas=%d, strict: both proxies use all nodes" % copies)
            for title, pairs in (("a node and etcd", BOTH[:1]), ("a node and a proxy, both from etcd", BOTH)):
                title = "replicas=%d, strict, %s" % (copies, title)
                tap.is_(cut(fleet, title, *pairs), ([], []), title + ": no read is stale")
    tap.done()


try:
    main()
finally:
    shutil.rmtree(FOLDER, ignore_errors=True)
