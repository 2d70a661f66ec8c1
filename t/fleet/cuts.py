# SPDX-License-Identifier: BSD-3-Clause
"""A fleet whose network is cut: etcd, three nodes and two proxies, each on a host of its own (t/lib/network.py).

A client stores rising versions of keys through one proxy, and clients of both proxies read them. A read is stale if the store of a
newer version was acknowledged before the read was sent. Items have one node, and then a copy at a second one.

A node that cannot reach etcd executes requests, unless its --discover-fence is strict. So a proxy that reads the list without it
later than the other one may read old values there until then, and not afterwards (docs/fleet.md).
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


class Versions:
    """One thread stores rising versions of all keys in turn through one proxy, and one for each proxy reads them."""

    last_of_all = 0

    def __init__(self, fleet, writer):
        self.acknowledged = {key: [] for key in KEYS}  # [(time, version)], rising
        self.over, self.wrong = threading.Event(), []
        self.stale, self.hits = [], dict.fromkeys(PROXIES, 0)  # [(when the read was sent, proxy, for how long stale)]
        self.threads = [threading.Thread(target=self.write, args=(fleet.proxies[writer],))]
        self.threads += [threading.Thread(target=self.read, args=(name, fleet.proxies[name])) for name in PROXIES]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        for thread in self.threads:
            thread.join()

    def served(self):
        """Until each proxy has answered more reads with values, and the writer has stored more."""
        def seen():
            return {**self.hits, "stored": sum(len(times) for times in self.acknowledged.values())}
        before = seen()
        return until(lambda: all(now > before[name] for name, now in seen().items()), bool)

    def write(self, proxy):
        with proxy.client() as client:
            while not self.over.wait(0.05):
                Versions.last_of_all += 1
                for key in KEYS:
                    if client.set(key, b"%d" % self.last_of_all) == "STORED":
                        self.acknowledged[key].append((time.monotonic(), self.last_of_all))

    def read(self, name, proxy):
        with proxy.client() as client:
            while not self.over.wait(0.02):
                for key in KEYS:
                    sent = time.monotonic()
                    words = client.send(b"mg %s v\r\n" % key.encode()).line().split()
                    if words[0] != b"VA":  # a miss, or an error
                        continue
                    version = int(client.read(int(words[1]) + 2))
                    self.hits[name] += 1
                    if not 0 < version <= self.last_of_all:
                        self.wrong.append((name, key, version))
                    if stale_s := self.age(key, version, sent):
                        self.stale.append((sent, name, stale_s))

    def age(self, key, version, sent):
        """For how long a newer version had been acknowledged when the read was sent; 0: there was none."""
        newer = [at for at, stored in self.acknowledged[key][-1000:] if stored > version and at < sent]
        return sent - newer[0] if newer else 0.0


def last_values(fleet, title):
    """Stored through one proxy, seen through both."""
    with fleet.proxies["p"].client() as p, fleet.proxies["q"].client() as q:
        Versions.last_of_all += 1
        version = b"%d" % Versions.last_of_all
        tap.is_({until(lambda k=key: p.set(k, version), lambda said: said == "STORED") for key in KEYS}, {"STORED"},
                title + ": all keys are stored")
        tap.is_({client.get(key) for client in (p, q) for key in KEYS}, {version}, title + ": and read")


def cut(fleet, title, *pairs):
    """A cut for longer than the time to live of a membership. Returns the stale reads: (proxy, for how long)."""
    leaves = fleet.fence == "on" and pairs == (("a", "etcd"),)
    with Versions(fleet, "q") as load:
        tap.ok(load.served(), title + ": before the cut")
        judged_from = 0.0
        with fleet.cut(*pairs):
            if leaves:
                tap.ok(all(fleet.until_list(name, ("b", "c")) for name in PROXIES), title + ": the node leaves both lists")
                judged_from = time.monotonic()
            time.sleep(TTL if leaves else 2 * TTL)
            tap.ok(load.served(), title + ": keys are read and stored during the cut")
            if fleet.fence == "strict":
                shown = until(lambda: farctl("status", *at("a"))[1], lambda text: SILENT in text)
                tap.ok(SILENT in shown, title + ": farctl status names the silence of etcd as the cause", shown)
        tap.ok(fleet.until_used() and load.served(), title + ": mended, both proxies use all nodes")
    tap.is_(load.wrong, [], title + ": each value was stored")
    early = [stale_s for sent, _, stale_s in load.stale if sent < judged_from]
    if early:
        tap.diag("%d reads were stale before both lists were without the node, for %.3f s at most" % (len(early), max(early)))
    last_values(fleet, title)
    return [(name, stale_s) for sent, name, stale_s in load.stale if sent >= judged_from]


BOTH = (("a", "etcd"), ("p", "etcd"))


def main():
    for copies in (1, 2):
        with Fleet(copies) as fleet:
            tap.ok(fleet.until_used(), "replicas=%d: both proxies use all nodes" % copies)
            for title, pair in (("a proxy and a node", ("p", "a")), ("a proxy and etcd", ("p", "etcd")),
                                ("a node and etcd", ("a", "etcd")), ("a node and etcd again", ("a", "etcd"))):
                title = "replicas=%d, %s" % (copies, title)
                tap.is_(cut(fleet, title, pair), [], title + ": no read was stale")
            if copies == 1:
                stale = cut(fleet, "a node and a proxy, both from etcd", *BOTH)
                tap.is_({name for name, _ in stale}, {"p"}, "such a proxy reads old values there, as documented")
        with Fleet(copies, "strict") as fleet:
            tap.ok(fleet.until_used(), "replicas=%d, strict: both proxies use all nodes" % copies)
            for title, pairs in (("a node and etcd", BOTH[:1]), ("a node and a proxy, both from etcd", BOTH)):
                title = "replicas=%d, strict, %s" % (copies, title)
                tap.is_(cut(fleet, title, *pairs), [], title + ": no read was stale")
    tap.done()


try:
    main()
finally:
    shutil.rmtree(FOLDER, ignore_errors=True)
