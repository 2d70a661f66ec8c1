# SPDX-License-Identifier: BSD-3-Clause
"""A farcached that starts cannot reach a node, which therefore does not get its list. Another one is cut off from etcd, and still
uses the node by the former list, for keys that have moved. With --discover-fence strict the node learns from etcd that a newer list
is in use, and refuses that (daemon/farnode/unsent_lists.h)."""
import contextlib
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import hosted  # noqa: E402
import network as networks  # noqa: E402
from cluster import Faults, faulty, nodes_shown  # noqa: E402
from daemon import slow_factor  # noqa: E402
from etcd import Etcd  # noqa: E402
from farcached import tap, until  # noqa: E402
from hosted import HostedNode, HostedProxy  # noqa: E402
from service import listening  # noqa: E402

hosted.skip_without()

TTL = int(4 * slow_factor())  # seconds
KEYS = ["key-%d" % i for i in range(60)]
REFUSES = b"it refuses requests by earlier lists"
NO_EPOCHS = ("", "-1", "12x", "99999999", "99999999999999999999999")  # the fourth is later than etcd's revision


class Fleet(contextlib.ExitStack):
    """Nodes a and b, and farcached p. Nodes c and d, and farcached q come later."""

    def __init__(self, copies, faults=None):
        super().__init__()
        self.copies, self.faults = copies, faults

    def __enter__(self):
        super().__enter__()
        self.hosts = self.enter_context(networks.Network("etcd", *"abcdpq"))
        self.etcd = self.enter_context(Etcd(host=self.hosts.address("etcd"), on=self.hosts.on("etcd")))
        self.nodes = {}
        self.add("ab")
        self.p = self.proxy("p", "ab", "ab")
        return self

    def add(self, names):
        for name in names:
            self.nodes[name] = self.enter_context(HostedNode(self.hosts, name, "--discover", self.etcd.source(), "--discover-fence",
                                                             "strict", "--member-ttl", TTL, **faulty("farnode", self.faults)))
        until(self.etcd.keys, lambda keys: set(keys) == set(self.nodes))

    def proxy(self, name, listed, up):
        options = "replicas=%d,node_timeout_ms=%d" % (self.copies, 500 * slow_factor())
        proxy = self.enter_context(HostedProxy(self.hosts, name, self.enter_context(listening()), "-t", "1", "--discover",
                                               self.etcd.source(), "-o", options))
        self.until_up(proxy, listed, up)
        return proxy

    @staticmethod
    def until_up(proxy, listed, up):
        def is_so(shown):
            return set(shown) == set(listed) and {name for name, one in shown.items() if one["state"] == "up"} == set(up)
        shown = until(lambda: nodes_shown(proxy), is_so)
        assert is_so(shown), shown


def nodes_of(proxy):
    """{key: its nodes, the first one first}"""
    routes = {key: proxy.stats("route " + key) for key in KEYS}
    return {key: [route["node"]] + ([route["copy"]] if "copy" in route else []) for key, route in routes.items()}


def until_looked(proxy, node, times):
    """Until the node has asked etcd so often, from now on. Each time its right begins anew."""
    last, count = None, 0

    def renewals():
        nonlocal last, count
        left = int(proxy.stats("node " + node)["right_left_ms"])
        count += last is not None and left > last
        last = left
        return count
    seen = until(renewals, lambda seen: seen >= times)
    assert seen >= times, seen


def stored(client, keys, value):
    return {until(lambda k=key: client.set(k, value), lambda said: said == "STORED") for key in keys}


def gets(client, keys):
    return {client.get(key) for key in keys}


def moves(copies, faults=None):
    title = "replicas=%d: " % copies
    with Fleet(copies, faults) as fleet, fleet.p.client() as p:
        tap.is_(stored(p, KEYS, "one"), {"STORED"}, title + "a farcached stores at two nodes")
        before = nodes_of(fleet.p)
        fleet.hosts.cut("p", "etcd")
        fleet.hosts.cut("q", "a")
        for i, text in enumerate(NO_EPOCHS):
            fleet.etcd.put("/far/lists/x%d" % i, text)
        fleet.add("cd")
        until_looked(fleet.p, "a", 4)
        tap.is_((gets(p, KEYS), p.set(KEYS[0], "one")), ({b"one"}, "STORED"),
                title + "two nodes join; no farcached has that list, and the former one is served on")
        q_proxy = fleet.proxy("q", "abcd", "bcd")
        now = nodes_of(q_proxy)
        moved = [key for key in KEYS if before[key][0] == "a" and "a" not in now[key]]
        with q_proxy.client() as q:
            tap.ok(moved and stored(q, moved, "two") == {"STORED"},
                   title + "one that starts without a connection to a stores keys that have moved from there", before, now)
            if faults is not None:
                until_looked(q_proxy, "b", 2)  # so it has written which list it has
                until_looked(fleet.p, "a", 4)
                tap.ok(b"one" in gets(p, moved), title + "S17_UNSENT broken: by the former list their old values are read")
                return
            tap.ok(until(lambda: REFUSES in fleet.nodes["a"].stderr(), bool), title + "a logs that it has not received their list")
            tap.is_(gets(p, moved), {None}, title + "it refuses gets of these keys by the former list")
            tap.is_({p.set(key, "three").split(" ")[0] for key in moved}, {"SERVER_ERROR"}, title + "and their changes")
            kept = [key for key in KEYS if before[key][0] == now[key][0] == "b"]
            tap.ok(kept and gets(p, kept) == {b"one" if copies == 1 else None},
                   title + "b has got the list" + (", and serves the keys that it keeps" if copies == 1 else ""))
            tap.is_(gets(q, moved), {b"two"}, title + "nothing is lost")
            fleet.hosts.mend("p", "etcd")
            fleet.hosts.mend("q", "a")
            for proxy in (fleet.p, q_proxy):
                fleet.until_up(proxy, "abcd", "abcd")
            tap.is_((stored(p, KEYS, "four"), gets(q, KEYS)), ({"STORED"}, {b"four"}),
                    title + "mended: what one farcached stores the other one reads")


def main():
    for copies in (1, 2):
        moves(copies)
        moves(copies, Faults("", "S17_UNSENT"))
    tap.done()


main()
