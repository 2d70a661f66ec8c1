# SPDX-License-Identifier: BSD-3-Clause
"""Hosts of SRV records whose addresses change, with a real DNS server. More addresses, or fewer, change nothing while the one in
use stays. A node that goes on at another address has its items. Items of any other process are never read: that of a node that
restarted elsewhere, of another node at the host's new address, or of one that was not in the list for a time."""
import contextlib
import os
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import dns_server  # noqa: E402
from cluster import Table, nodes_shown  # noqa: E402
from daemon import run_binary  # noqa: E402
from dns_fleet import KEYS, SERVICE, NodeAt, owners, proxy_of, until_nodes  # noqa: E402
from farcached import Pace, tap, until  # noqa: E402

if b"without c-ares" in run_binary("--version-full")[1]:
    tap.skip_all("built without c-ares")
if dns_server.program() is None:
    tap.skip_all("dnsmasq is not installed")

OTHER, FIRST, SECOND, THIRD = "127.0.1.9", "127.0.1.3", "127.0.1.4", "127.0.1.2"


class Fleet:
    """pod-0 and pod-1, and a farcached. pod-1 is at one address, and has some of the keys."""

    def __init__(self, stack, options=()):
        self.dns = stack.enter_context(dns_server.DnsServer())
        self.table = Table()
        stack.callback(self.table.unlink)
        self.stack, self.options = stack, options
        self.other = stack.enter_context(NodeAt(OTHER))
        self.port = 0  # of pod-0; the first node() chooses it

    def node(self, *hosts, args=()):
        """A farnode at one address, or at all."""
        host = hosts[0] if len(hosts) == 1 else "*"
        node = self.stack.enter_context(NodeAt(host, self.port, *args, *["--insecure"] * (host == "*")))
        node.host, self.port = hosts[0], node.port
        self.names = ["pod-0.test:%d" % self.port, "pod-1.test:%d" % self.other.port]
        return node

    def serve(self, *hosts, listed=True):
        """The addresses of pod-0."""
        services = [("pod-1.test", self.other.port, 1)] + [("pod-0.test", self.port, 1)] * listed
        self.dns.serve({"pod-0.test": hosts, "pod-1.test": [OTHER]}, {SERVICE: services}, ttl=0)

    def start(self):
        """Two nodes are up."""
        self.proxy = self.stack.enter_context(proxy_of(self.dns, "dnssrv+" + SERVICE, *self.options, table=self.table))
        self.client = self.stack.enter_context(self.proxy.client())
        tap.ok(until_nodes(self.proxy, self.names), "two nodes", nodes_shown(self.proxy))
        self.owners = owners(self.proxy)
        self.mine = [key for key in KEYS if self.owners[key] == self.names[0]]
        self.others = [key for key in KEYS if self.owners[key] == self.names[1]]

    def until_looked_up(self):
        """Two look-ups have begun and ended from now on."""
        before = int(self.proxy.stats("discovery")["answers"])
        until(lambda: int(self.proxy.stats("discovery")["answers"]), lambda n: n >= before + 2)

    def until_at(self, *hosts):
        """Until pod-0 is used at these addresses, by all connections; what `stats nodes` shows."""
        at = ",".join("tcp:%s:%d" % (host, self.port) for host in sorted(hosts))
        shown = until(lambda: nodes_shown(self.proxy).get(self.names[0], {}),
                      lambda s: (s.get("address"), s.get("links_up"), s.get("fence")) == (at, s.get("links"), "in_use"))
        tap.is_((shown.get("address"), shown.get("links_up"), shown.get("fence")), (at, shown.get("links"), "in_use"),
                "pod-0 is at " + at)
        return shown

    def store(self, value, keys=None):
        keys = KEYS if keys is None else keys
        tap.is_({until(lambda key=key: self.client.set(key, value), lambda said: said == "STORED") for key in keys}, {"STORED"},
                "%d keys are %s" % (len(keys), value))

    def found(self, keys):
        """{value: number of keys}, None for misses."""
        values = {key.decode(): value.decode() for key, _, value, _ in self.client.get_many(keys)}
        found = [values.get(key) for key in keys]
        return {value: found.count(value) for value in set(found)}

    def has(self, keys, value, title):
        tap.is_(self.found(keys), {value: len(keys)}, title)

    def keeps_the_others(self, value):
        self.has(self.others, value, "the other node has all of its items")
        tap.is_(owners(self.proxy), self.owners, "no key has moved")


def fill(node, keys, value):
    """Stores items at the node without farcached."""
    with node.node_client() as c:
        c.greet()
        return all(c.set(key.encode(), value.encode()) for key in keys)


def opened(node):
    """Its connections so far, without this one."""
    with node.node_client() as c:
        c.greet()
        return int(c.node_stats(b"general")["connections_opened"])


def several_addresses(stack):
    fleet = Fleet(stack)
    node = fleet.node(FIRST)
    fleet.serve(FIRST, SECOND)
    fleet.start()
    fleet.store("one")
    before, connections = nodes_shown(fleet.proxy)[fleet.names[0]], opened(node)
    changes = fleet.proxy.stats("discovery")["changes"]
    fleet.serve(SECOND, FIRST)
    fleet.until_looked_up()
    tap.is_(fleet.proxy.stats("discovery")["changes"], changes, "the order of addresses is no change")
    for hosts in ((FIRST, SECOND, THIRD), (THIRD, FIRST), (FIRST,), (SECOND, FIRST)):
        fleet.serve(*hosts)
        after = fleet.until_at(*hosts)
        fleet.has(KEYS, "one", "with %d addresses all keys are found" % len(hosts))
    tap.is_(opened(node) - connections, 1, "no connection was made")
    same = ("incarnation", "links", "fence_flushes", "fence_killed", "fence_failures")
    tap.is_([after[name] for name in same], [before[name] for name in same], "the node is the same")
    lost = {name: n for name, n in after.items() if name.startswith(("down_", "closed_", "connects")) and n != before[name]}
    tap.is_(lost, {}, "the counters of its connections, too")
    fleet.keeps_the_others("one")


def same_process_elsewhere(stack):
    """One farnode with two addresses."""
    fleet = Fleet(stack)
    node = fleet.node(FIRST, SECOND)
    fleet.serve(FIRST)
    fleet.start()
    fleet.store("one")
    for hosts in ((SECOND,), (FIRST,)):
        connections = opened(node)
        fleet.serve(*hosts)
        fleet.until_at(*hosts)
        tap.is_(opened(node) - connections, 3, "each worker connects again")
        fleet.has(KEYS, "one", "and a node that is the same process has its items")
    fleet.store("two")
    fleet.has(KEYS, "two", "which are changed")
    fleet.keeps_the_others("two")


def restarts_elsewhere(stack, *options):
    fleet = Fleet(stack, options)
    node = fleet.node(FIRST)
    fleet.serve(FIRST)
    fleet.start()
    fleet.store("one")
    incarnation = nodes_shown(fleet.proxy)[fleet.names[0]]["incarnation"]
    node.stop()
    until(lambda: nodes_shown(fleet.proxy)[fleet.names[0]]["links_up"], lambda links: links == "0")
    fleet.has(fleet.others, "one", "a node has ended; the other has its items")
    if options:
        fleet.store("two", fleet.mine)
        fleet.has(fleet.mine, "two", "and the keys of both")
    tap.is_(owners(fleet.proxy), fleet.owners, "no key has moved")
    again = fleet.node(SECOND)
    tap.ok(fill(again, fleet.mine, "old"), "it starts elsewhere, with items of before")
    fleet.serve(SECOND)
    shown = fleet.until_at(SECOND)
    tap.ok(shown["incarnation"] != incarnation, "it is another incarnation")
    fleet.has(fleet.mine, None, "its keys miss")
    fleet.keeps_the_others("one")
    fleet.store("three")
    fleet.has(KEYS, "three", "and it is used again")


def another_node_there(stack, *options):
    fleet = Fleet(stack, options)
    node, another = fleet.node(FIRST), fleet.node(SECOND)
    tap.ok(fill(another, KEYS, "old"), "another node has items of the same keys")
    fleet.serve(FIRST)
    fleet.start()
    fleet.store("one")
    fleet.serve(SECOND)
    fleet.until_at(SECOND)
    fleet.has(fleet.mine, None, "the host is that of another node now: nothing old is read")
    tap.is_(until(node.others, lambda n: n == 0), 0, "the connections to the former one end")
    fleet.keeps_the_others("one")
    fleet.store("two")
    fleet.serve(FIRST)
    fleet.until_at(FIRST)
    fleet.has(fleet.mine, None, "and back: nor the items of the time before")
    fleet.keeps_the_others("two")
    fleet.store("three")
    fleet.has(KEYS, "three", "it is used")


def another_node_beside(stack, links, *options):
    """The new address is there before the former one has gone."""
    fleet = Fleet(stack, options)
    node, another = fleet.node(FIRST), fleet.node(SECOND)
    fill(another, KEYS, "old")
    fleet.serve(FIRST)
    fleet.start()
    fleet.store("one")
    fleet.serve(FIRST, SECOND)
    fleet.until_at(FIRST, SECOND)
    fleet.has(KEYS, "one", "a second address: the node stays")
    node.stop()
    tap.is_(until(another.others, lambda n: n == links), links, "when it ends, all workers connect to the second address")
    fleet.until_at(FIRST, SECOND)
    fleet.has(fleet.mine, None, "and nothing old is read there")
    fleet.store("two")
    fleet.serve(SECOND)
    fleet.until_at(SECOND)
    fleet.has(KEYS, "two", "when the former address has gone the node stays")
    fleet.keeps_the_others("two")


def restarts_in_place(stack):
    """As with a static list: a node that kept its items (-e) over a restart has them."""
    fleet = Fleet(stack)
    memory = os.path.join(fleet.other.folder, "memory")
    node = fleet.node(FIRST, args=("-e", memory))
    fleet.serve(FIRST, SECOND)
    fleet.start()
    fleet.store("one")
    node.stop()
    until(lambda: nodes_shown(fleet.proxy)[fleet.names[0]]["links_up"], lambda links: links == "0")
    fleet.node(FIRST, args=("-e", memory))
    fleet.until_at(FIRST, SECOND)
    fleet.has(KEYS, "one", "a node that restarts at its address has the items that it kept")


def away_and_elsewhere(stack):
    """A node leaves the list and returns, at another address of the same process."""
    fleet = Fleet(stack)
    fleet.node(FIRST, SECOND)
    fleet.serve(FIRST)
    fleet.start()
    fleet.store("one")
    fleet.serve(FIRST, listed=False)
    tap.ok(until_nodes(fleet.proxy, fleet.names[1:]), "a node leaves the list", nodes_shown(fleet.proxy))
    fleet.store("two")
    fleet.serve(SECOND)
    fleet.until_at(SECOND)
    fleet.has(fleet.mine, None, "it returns under its name, elsewhere: its items of before are not read")
    fleet.has(fleet.others, "two", "the other node has its own")


class Load:
    """A thread changes keys through one worker, and reads them through both. A value of an earlier round than the last one that was
    acknowledged is wrong."""

    def __init__(self, proxy, keys):
        self.proxy, self.keys, self.ended = proxy, keys, False
        self.wrong, self.stored, self.hits, self.rounds = [], 0, 0, 0
        self.thread = threading.Thread(target=self.run, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended = True
        self.thread.join()

    def run(self):
        acknowledged = dict.fromkeys(self.keys, 0)
        pace = Pace()
        with self.proxy.client() as a, self.proxy.client() as b:
            while not self.ended:
                pace.rest()
                self.rounds += 1
                for key in self.keys:
                    if a.set(key, str(self.rounds)) == "STORED":
                        acknowledged[key] = self.rounds
                        self.stored += 1
                    for value in (b.get(key), a.get(key)):
                        self.hits += value is not None
                        if value is not None and int(value) < acknowledged[key]:
                            self.wrong.append((key, value, acknowledged[key]))


def under_load(stack):
    fleet = Fleet(stack)
    node, another = fleet.node(FIRST), fleet.node(SECOND)
    fleet.serve(FIRST)
    fleet.start()
    with Load(fleet.proxy, fleet.mine[:20]) as load:
        for _ in range(3):
            fleet.serve(FIRST, SECOND)
            fleet.until_at(FIRST, SECOND)
            fleet.serve(SECOND)
            fleet.until_at(SECOND)
            fleet.serve(FIRST)
            fleet.until_at(FIRST)
    tap.is_(load.wrong[:3], [], "under load no old value is read while the host changes between two nodes")
    tap.ok(load.rounds > 10 and load.stored > 100 and load.hits > load.stored, "keys were changed and found", load.rounds,
           load.stored, load.hits)
    tap.is_((node.others(), another.others()), (2, 0), "one of the nodes is connected")


def main():
    for test, *more in ((several_addresses,), (same_process_elsewhere,), (restarts_elsewhere,), (restarts_elsewhere, "failover"),
                        (another_node_there,), (another_node_there, "links_per_node=1"), (another_node_beside, 2),
                        (another_node_beside, 1, "links_per_node=1"), (restarts_in_place,), (away_and_elsewhere,),
                        (under_load,)):
        with contextlib.ExitStack() as stack:
            test(stack, *more)
    tap.done()


main()
