# SPDX-License-Identifier: BSD-3-Clause
"""One node is down and stays listed, while the list changes more often than farcached keeps former lists (FormerPlaces): keys that
were never at that node, by any of the lists, stay in use, and so do copies of those that it has by all of them. A node that stands
still meanwhile has its items after that."""
import contextlib
import json
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import etcd as etcd_servers  # noqa: E402
from cluster import Table, nodes_shown  # noqa: E402
from etcd import Etcd  # noqa: E402
from farcached import Daemon, tap, until  # noqa: E402
from farnode import Farnode  # noqa: E402

etcd_servers.skip_without()
TTL = 120  # seconds, so that etcd lists the node that is down to the end
KEYS = ["key-%d" % i for i in range(120)]
LISTS = 12  # more than the former lists that are not joined


class Fleet:
    def __init__(self, stack, etcd, replicas, prefix):
        self.stack, self.etcd, self.prefix = stack, etcd, prefix
        self.source = etcd.source(prefix=self.prefix)
        self.nodes = {name: self.node(name) for name in "abc"}
        table = Table()
        stack.callback(table.unlink)
        self.daemon = stack.enter_context(Daemon("--discover", self.source, "-o", "replicas=%d,%s" % (replicas, table.options()),
                                                 threads=2))
        self.client = stack.enter_context(self.daemon.client())
        self.until_states({name: "up" for name in "abc"})

    def node(self, name):
        return self.stack.enter_context(Farnode("--tcp", "127.0.0.1:0", "-m", "16", "-t", "1", "--name", name, "--discover",
                                                self.source, "--member-ttl", TTL))

    def record(self, name):
        return "%s/nodes/%s" % (self.prefix, name)

    def until_states(self, wanted):
        """Of the nodes with keys."""
        def states():
            return {name: one["state"] for name, one in nodes_shown(self.daemon).items() if one["weight"] != "0"}
        found = until(states, lambda found: found == wanted)
        assert found == wanted, found

    def change(self, number):
        """One more node without keys: no key moves, and yet it is another list."""
        name = "none-%d" % number
        addresses = {"tcp": "127.0.0.1:%d" % (1 + number)}
        self.etcd.put(self.record(name), json.dumps({"name": name, "addresses": addresses, "weight": 0}))
        assert name in until(lambda: nodes_shown(self.daemon), lambda shown: name in shown)

    def homes(self):
        """{key: [the node of its item, and that of its copy if there is one]}"""
        routes = {key: self.daemon.stats("route " + key) for key in KEYS}
        return {key: [route[name] for name in ("node", "copy") if name in route] for key, route in routes.items()}

    def stored(self, keys, value):
        """What is said in the end."""
        return {until(lambda key=key: self.client.set(key, value), lambda said: said == "STORED") for key in keys}


def down(etcd, replicas):
    title = "replicas %d: " % replicas
    with contextlib.ExitStack() as stack:
        fleet = Fleet(stack, etcd, replicas, prefix="/down-%d" % replicas)
        tap.is_(fleet.stored(KEYS, "one"), {"STORED"}, title + "keys are stored at three nodes")
        fleet.nodes["c"].expect_exit = -signal.SIGKILL
        fleet.nodes["c"].stop(signal.SIGKILL)
        fleet.until_states({"a": "up", "b": "up", "c": "down"})
        former = fleet.homes()
        at_c = {key for key, homes in former.items() if "c" in homes}
        others = [key for key in KEYS if key not in at_c]
        for number in range(LISTS):
            fleet.change(number)
        tap.ok(at_c and others, title + "one is down, and the list changes %d times" % LISTS, len(at_c), len(others))
        reads = KEYS if replicas == 2 else others
        tap.is_([key for key in reads if fleet.client.get(key) != b"one"], [], title + "keys that other nodes have are read")
        tap.is_(fleet.stored(others, "two"), {"STORED"}, title + "and those that it never had are stored")
        fleet.nodes["d"] = fleet.node("d")
        fleet.until_states({"a": "up", "b": "up", "c": "down", "d": "up"})
        present = fleet.homes()
        others = [key for key in others if "c" not in present[key]]
        tap.ok(any("d" in present[key] for key in others), title + "one more node joins, and keys move to it")
        if replicas == 2:
            copied = [key for key in KEYS if former[key][1] == "c" and "c" not in present[key]]
            tap.ok(copied, title + "also some that had their copies there", len(copied))
            tap.is_([key for key in copied if fleet.client.get(key) != b"one"], [], title + "which are read")
        tap.is_(fleet.stored(others, "three"), {"STORED"}, title + "they are stored")
        tap.is_([key for key in others if fleet.client.get(key) != b"three"], [], title + "and read")
        etcd.delete(fleet.record("c"))
        fleet.until_states({"a": "up", "b": "up", "d": "up"})
        tap.is_(fleet.stored(KEYS, "four"), {"STORED"}, title + "once the list has it no longer, all keys are stored")
        tap.is_([key for key in KEYS if fleet.client.get(key) != b"four"], [], title + "and read")


def stands_still(etcd):
    with contextlib.ExitStack() as stack:
        fleet = Fleet(stack, etcd, replicas=1, prefix="/still")
        tap.is_(fleet.stored(KEYS, "one"), {"STORED"}, "keys are stored at three nodes")
        at_c = [key for key, homes in fleet.homes().items() if homes == ["c"]]
        fleet.nodes["c"].signal(signal.SIGSTOP)
        for number in range(3):
            fleet.change(number)
        fleet.nodes["c"].signal(signal.SIGCONT)
        tap.is_(fleet.stored(set(KEYS) - set(at_c), "two"), {"STORED"}, "one stands still while the list changes three times")
        tap.is_(fleet.stored(["last"], "three"), {"STORED"}, "then all nodes are in use")
        tap.ok(at_c and [key for key in at_c if fleet.client.get(key) != b"one"] == [], "and it has its items", len(at_c))


def main():
    with Etcd() as etcd:
        stands_still(etcd)
        for replicas in (1, 2):
            down(etcd, replicas)
    tap.done()


main()
