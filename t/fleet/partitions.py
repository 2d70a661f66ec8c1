# SPDX-License-Identifier: BSD-3-Clause
"""A fleet whose network is cut while every reply is checked: etcd, three nodes and two farcached, each on a host of its own
(t/lib/network.py), once without copies and once with two of each item (replicas = 2).

The cuts: between a farcached and a node, between a node and etcd, between a farcached and etcd. Each heals. t/fleet/cuts.py has
the same cuts with gentle traffic; here t/load/consistency judges the replies of both farcached all the time, and the test shows
what each farcached does with the keys behind a cut.
"""
import contextlib
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import consistency_load as load  # noqa: E402
import hosted  # noqa: E402
import network as networks  # noqa: E402
from cluster import all_up, nodes_shown  # noqa: E402
from daemon import slow_factor  # noqa: E402
from etcd import Etcd  # noqa: E402
from farcached import Client, deadline, tap, until  # noqa: E402
from hosted import HostedNode, HostedProxy  # noqa: E402
from service import listening  # noqa: E402

hosted.skip_without()

TTL = int(2 * slow_factor())  # seconds
NODES, PROXIES = ("a", "b", "c"), ("p", "q")
KEYS = ["key-%d" % i for i in range(30)]
ERROR = "SERVER_ERROR"
MIXES = ("everything", "joins")  # the second one flushes nothing


class Fleet(contextlib.ExitStack):
    """Nodes a, b and c, and farcached p and q. Its own keys have rising versions as values."""

    last_version = 0

    def __init__(self, hosts, etcd, copies):
        super().__init__()
        self.hosts, self.etcd, self.copies = hosts, etcd, copies
        self.title = "with copies" if copies else "without copies"
        self.prefix = "/copies" if copies else "/single"

    def __enter__(self):
        super().__enter__()
        self.nodes = {name: self.enter_context(self.node(name)) for name in NODES}
        until(self.listed, lambda listed: listed == set(NODES))
        options = "node_timeout_ms=%d%s" % (500 * slow_factor(), ",replicas=2" if self.copies else "")
        self.folder = self.enter_context(tempfile.TemporaryDirectory(prefix="farcached-test-"))
        self.proxies, self.clients = {}, {}
        for name in PROXIES:
            listener = self.enter_context(listening())
            self.proxies[name] = self.enter_context(HostedProxy(self.hosts, name, listener, "-t", "2", *self.found(),
                                                                "-o", options, "--admin", self.admin(name)))
            self.clients[name] = self.enter_context(self.proxies[name].client())
        self.ok(self.until_used(NODES), "both farcached use all nodes")
        return self

    def admin(self, name):
        return os.path.join(self.folder, name)

    def found(self):
        return "--discover", self.etcd.source(prefix=self.prefix)

    def node(self, name):
        return HostedNode(self.hosts, name, *self.found(), "--member-ttl", TTL)

    def ok(self, condition, name, *details):
        return tap.ok(condition, "%s: %s" % (self.title, name), *details)

    def is_(self, got, want, name):
        return tap.is_(got, want, "%s: %s" % (self.title, name))

    def start_load(self, seed, seconds, *more):
        ports = ",".join(str(proxy.port) for proxy in self.proxies.values())
        # With outages a change answered as unavailable has an unknown outcome, and a miss proves nothing.
        self.load = load.Load(ports, "--outages", "1", "--keys", "64", "--threads", "6", "--seconds",
                              load.seconds(seconds, 4 * seconds), "--seed", seed, "--mix", MIXES[int(seed) % 2], *more,
                              timeout=500 + deadline())
        self.callback(self.load.stop)
        before = self.gets()
        until(self.gets, lambda gets: gets > before + 100)  # it begins with a flush

    def gets(self):
        return int(self.proxies["q"].stats()["cmd_get"])

    # -- The list

    def listed(self):
        """Who is registered in etcd."""
        return set(self.etcd.keys(self.prefix + "/nodes/"))

    def until_listed(self, names):
        return until(self.listed, lambda listed: listed == set(names)) == set(names)

    def names(self, name):
        return set(nodes_shown(self.proxies[name]))

    def until_used(self, names, proxies=PROXIES):
        """Until these farcached have connections to exactly these nodes."""
        def used(shown):
            return set(shown) == set(names) and all_up(shown)
        return all(used(until(lambda p=name: nodes_shown(self.proxies[p]), used)) for name in proxies)

    def discovery(self, name):
        return self.proxies[name].stats("discovery")["state"]

    def until_discovery(self, name, state):
        return until(lambda: self.discovery(name), lambda found: found == state) == state

    # -- Keys

    def homes(self, name):
        return {key: self.proxies[name].stats("route " + key)["node"] for key in KEYS}

    def keys_at(self, node):
        homes = self.homes("q")
        return [key for key in KEYS if homes[key] == node]

    def flushes(self):
        return sum(int(proxy.stats()["cmd_flush"]) for proxy in self.proxies.values())

    def set_all(self, name, keys):
        """[(key, version, the first word of the answer)]. All are sent at once, as each answer can take a while."""
        client, sent = self.clients[name], []
        for key in keys:
            Fleet.last_version += 1
            value = b"%d" % self.last_version
            client.send(b"set %s 0 0 %d\r\n%s\r\n" % (key.encode(), len(value), value))
            sent.append((key, self.last_version))
        return [(*one, client.line().split()[0].decode()) for one in sent]

    def get(self, name, key):
        """The version, None for a miss, or ERROR."""
        client = self.clients[name]
        words = client.send(b"mg %s v\r\n" % key.encode()).line().split()
        if words[0] == b"VA":
            return int(client.read(int(words[1]) + 2))
        return None if words[0] == b"EN" else words[0].decode()

    def delete_prefix(self, name, prefix):
        with Client(self.admin(name)) as operator:
            return operator.ask("delete_prefix " + prefix)

    def answers(self, name, keys):
        """What this farcached says to changes of these keys."""
        return {said for _, _, said in self.set_all(name, keys)}

    def store(self):
        """Stores all keys through q: {key: version}"""
        return {key: until(lambda k=key: self.set_all("q", [k])[0], lambda one: one[2] == "STORED")[1] for key in KEYS}

    def passed(self, key, writer, reader):
        """Is a version stored through one farcached and read through the other? The load may flush it in between."""
        _, version, said = self.set_all(writer, [key])[0]
        return said == "STORED" and self.get(reader, key) == version

    def until_passed(self, keys, writer="q", reader="p"):
        return all(until(lambda k=key: self.passed(k, writer, reader), bool) for key in keys)

    def works(self, when):
        self.ok(self.until_passed(KEYS) and self.until_passed(KEYS, "p", "q"),
                when + ": what each farcached stores the other one reads")

    def old(self, writer, reader):
        """Keys of which the reader sees another version than the one that the writer has stored."""
        seen = [(*one, self.get(reader, one[0])) for one in self.set_all(writer, KEYS)]
        return [one for one in seen if one[2] == "STORED" and one[3] not in (one[1], None, ERROR)]

    def nothing_old(self, when):
        self.is_(self.old("q", "p") + self.old("p", "q"), [], when + ": neither reads an old value of what the other one stores")


# -- Each cut: what is so during it, and what after it ---------------------------------------------------

def without_node(fleet, title):
    behind = fleet.keys_at("a")

    def links():
        """A get by any of its threads may notice the cut."""
        with fleet.proxies["p"].client() as client:
            client.ask("mg " + behind[0])
            return client.stats("nodes")["a:links_up"]
    fleet.is_(until(links, lambda count: count == "0"), "0", title + ": it has no connection")
    fleet.is_(fleet.answers("p", behind), {ERROR}, title + ": it refuses changes of the node's keys")
    fleet.is_(set(fleet.store()), set(KEYS), title + ": the other farcached goes on")
    if fleet.copies:
        fleet.ok(fleet.until_passed(behind), title + ": it reads the copies of what the other one stores")
    else:
        fleet.is_({fleet.get("p", key) for key in behind} - {None, ERROR}, set(), title + ": it reads none of them")
    fleet.nothing_old(title)
    fleet.ok("STORED" in fleet.answers("p", KEYS), title + ": it stores others")


def with_node(fleet, title):
    fleet.ok(fleet.until_used(NODES), title + ": it is connected again")


def without_lease(fleet, title):
    fleet.ok(fleet.until_listed("bc"), title + ": the node leaves the list")
    fleet.ok(fleet.until_used("bc"), title + ": both farcached follow")
    if fleet.copies:
        got = {key: fleet.get("p", key) for key in KEYS}
        lost = [(key, got[key], fleet.stored[key]) for key in KEYS if got[key] != fleet.stored[key]]
        fleet.ok(not lost or fleet.flushes() != fleet.flushed, title + ": no item is lost", lost)
    fleet.nothing_old(title)
    fleet.works(title)


def with_lease(fleet, title):
    fleet.ok(fleet.until_listed(NODES) and fleet.until_used(NODES), title + ": the node is back")


def without_list(fleet, title):
    """Meanwhile node d joins."""
    fleet.ok(fleet.until_discovery("p", "down"), title + ": stats say so")
    fleet.is_((fleet.names("p"), fleet.discovery("q")), (set(NODES), "up"), title + ": it keeps the last list")
    fleet.works(title)
    fleet.nodes["d"] = fleet.enter_context(fleet.node("d"))
    fleet.ok(fleet.until_used("abcd", "q"), title + ": a node joins, and the other farcached follows")
    fleet.is_(fleet.names("p"), set(NODES), title + ": the first one cannot")
    fleet.nothing_old(title)
    if not fleet.copies:  # with copies, both nodes of a key have to be the same
        moved = fleet.keys_at("d")
        fleet.ok(fleet.until_passed([key for key in KEYS if key not in moved], "p", "q"),
                 title + ": it serves keys that have not moved")
    fleet.is_(fleet.answers("p", fleet.keys_at("d")), {ERROR}, title + ": it refuses changes of those that have")
    fleet.store()
    said = fleet.delete_prefix("p", "key-")
    left = [key for key in KEYS if fleet.get("q", key) is not None]
    fleet.ok(said != "OK" or not left, title + ": it deletes all items of a prefix, or says that it has not", said, left)


def with_list(fleet, title):
    fleet.ok(fleet.until_discovery("p", "up") and fleet.until_used("abcd"), title + ": it follows")
    fleet.works(title)
    fleet.nodes.pop("d").stop()
    fleet.ok(fleet.until_used(NODES), title + ": the new node leaves")


# A farcached that has not read the new list yet gets old values of a node that is cut from etcd (docs/fleet.md, promises):
# without copies the load does not judge these. The test reads its own keys after both have the list.
# The cut between a farcached and a node is the last. Closed connections may still bring changes of unknown outcome to the node
# after it heals. The next load would not know them.
CUTS = (("a node and etcd", ("a", "etcd"), without_lease, with_lease, (5, "--failover", "1")),
        ("a farcached and etcd", ("p", "etcd"), without_list, with_list, (9,)),
        ("a farcached and a node", ("p", "a"), without_node, with_node, (4,)))


def cut(hosts, fleets, title, pair, during, after):
    for fleet in fleets:
        fleet.flushed = fleet.flushes()
        fleet.stored = fleet.store()
    hosts.cut(*pair)
    for fleet in fleets:
        during(fleet, title + " are cut")
    hosts.mend(*pair)
    for fleet in fleets:
        after(fleet, title + " are connected")
        fleet.nothing_old(title + " are connected")
        fleet.works(title + " are connected")


def main():
    seed = load.seed()
    with networks.Network("etcd", *NODES, "d", *PROXIES) as hosts, \
            Etcd(host=hosts.address("etcd"), on=hosts.on("etcd")) as etcd, \
            Fleet(hosts, etcd, False) as single, Fleet(hosts, etcd, True) as double:
        fleets = single, double
        for title, pair, during, after, of_load in CUTS:
            for fleet in fleets:
                fleet.start_load(seed, *(of_load[:1] if fleet.copies else of_load))
            cut(hosts, fleets, title, pair, during, after)
            while any(fleet.load.running() for fleet in fleets):
                cut(hosts, fleets, title, pair, during, after)
            for fleet in fleets:
                fleet.load.end("%s: %s" % (fleet.title, title))
    tap.done()


main()
