# SPDX-License-Identifier: BSD-3-Clause
"""Copies that a farcached reads at the second node of their key, because it is in its zone (`zone`) or the key is very hot
(`replica_reads`), and the serving right of that node (S17). They are read in mapped memory (`discover_shm`), or over RDMA
(FARCACHED_OVER=tcp=verbs) by READs, which succeed while the node stands still.

The farcached that read are cut off from etcd, and have the list with that node. Another one stores new values by the newer list.
"""
import contextlib
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import etcd as etcd_servers  # noqa: E402
from cluster import Faults, Table, all_up, faulty, nodes_shown  # noqa: E402
from daemon import is_sanitized, slow_factor  # noqa: E402
from etcd import Etcd, Relay  # noqa: E402
from farcached import Daemon, tap, until  # noqa: E402
from farnode import Farnode  # noqa: E402

etcd_servers.skip_without()
OVER_VERBS = os.environ.get("FARCACHED_OVER") == "tcp=verbs"
TTL = 5 if OVER_VERBS or is_sanitized() else 2  # seconds
KEYS = ["key-%d" % i for i in range(40)]
ZONES = {"a": "east", "b": "west", "c": "west"}
GETS_UNTIL_HOT = 40_000  # more than twice the 16,000 after which a worker looks which keys are very hot


def node(source, name, folder):
    shm = "--tcp", "127.0.0.1:0", "--shm", os.path.join(folder, name + ".sock")
    at = ("--verbs", os.environ["FARCACHED_RDMA_ADDRESS"] + ":0") if OVER_VERBS else shm
    return Farnode(*at, "-m", "16", "-t", "1", "--name", name, "--zone", ZONES[name], "--discover", source, "--member-ttl", TTL)


def daemon(source, table, options="", faults=None):
    options = "replicas=2,node_timeout_ms=%d,pointer_miss=index,access_tracking=none,%s%s%s" % (
        400 * slow_factor(), table.options(), ",discover_channel=verbs" if OVER_VERBS else ",discover_shm", options)
    return Daemon("--discover", source, "-o", options, threads=1, **faulty("farcached", faults))


def until_names(proxy, names):
    return set(until(lambda: nodes_shown(proxy), lambda shown: set(shown) == set(names) and all_up(shown))) == set(names)


def count(proxy, *names):
    shown = proxy.stats("proxy")
    return sum(int(shown[name]) for name in names)


class Reader:
    """farcached that follows etcd until the relay is closed. is_hot: its gets of one key go to both nodes."""

    def __init__(self, stack, source, table, options, faults=None):
        self.proxy = stack.enter_context(daemon(source, table, options, faults))
        self.client = stack.enter_context(self.proxy.client())
        self.is_hot = "replica_reads" in options

    def heat(self, key):
        for _ in range(GETS_UNTIL_HOT // 1000):
            self.client.send(b"mg %s v q\r\n" % key.encode() * 1000, b"mn\r\n").until(b"MN\r\n")

    def values(self, keys):
        """By gets, multi-gets and meta gets."""
        found = {self.client.get(key) for key in keys} | {value for _, _, value, _ in self.client.get_many(keys, "gets")}
        for key in keys * (10 if self.is_hot else 1):
            line = self.client.send(b"mg %s v\r\n" % key.encode()).line()
            found.add(self.client.line().rstrip() if line.startswith(b"VA") else None)
        return found

    def reads_copies(self, keys):
        """Are copies read, and each one one-sided?"""
        def look():
            names = ("replica_reads",), ("get_local", "get_onesided", "get_index")
            before = [count(self.proxy, *one) for one in names]
            if self.values(keys) != {b"old"}:
                return False
            copies, onesided = (count(self.proxy, *one) - at for one, at in zip(names, before))
            return copies > 0 and onesided >= copies
        return until(look, bool)


def is_copied(proxy, keys):
    """The farcached stores a copy later if changes overlapped."""
    def items():
        return sum(int(proxy.stats("node " + name)["curr_items"]) for name in ZONES)
    return until(items, lambda found: found == 2 * len(keys)) == 2 * len(keys)


def stands_still(stack, etcd, relay, table):
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="farcached-test-"))
    nodes = {name: stack.enter_context(node(etcd.source(), name, folder)) for name in ZONES}
    until(etcd.keys, lambda keys: set(keys) == set(ZONES))
    writer = stack.enter_context(daemon(etcd.source(), table))
    source = "etcd://127.0.0.1:%d/far" % relay.port
    readers = {"near": Reader(stack, source, table, ",zone=east"), "hot": Reader(stack, source, table, ",replica_reads")}
    if OVER_VERBS:
        readers["broken"] = Reader(stack, source, table, ",zone=east", Faults("", "S17"))
    w = stack.enter_context(writer.client())
    tap.ok(all(until_names(proxy, ZONES) for proxy in (writer, *(reader.proxy for reader in readers.values()))),
           "all farcached use three nodes")
    tap.is_({until(lambda k=key: w.set(k, "old"), lambda said: said == "STORED") for key in KEYS}, {"STORED"}, "keys are stored")
    tap.ok(is_copied(writer, KEYS), "each on two nodes")
    routes = {key: writer.stats("route " + key) for key in KEYS}
    keys = [key for key in KEYS if routes[key]["copy"] == "a"][:4]
    of = {name: keys[:1] if reader.is_hot else keys for name, reader in readers.items()}
    readers["hot"].heat(keys[0])
    for name, reader in readers.items():
        tap.ok(reader.reads_copies(of[name]), name + ": copies are read at a, one-sided", of[name])

    def seen():
        return {name: reader.values(of[name]) for name, reader in readers.items() if name != "broken"}

    def is_old(found):
        return any(b"old" in values for values in found.values())
    relay.close()
    over = {name: count(reader.proxy, "right_over") for name, reader in readers.items()}
    with nodes["a"].stopped():
        tap.ok(until_names(writer, "bc"), "a stands still for longer than its ttl, and leaves the list of one farcached")
        tap.is_({until(lambda k=key: w.set(k, "new"), lambda said: said == "STORED") for key in KEYS}, {"STORED"},
                "which stores new values")
        tap.is_({name: set(nodes_shown(reader.proxy)) for name, reader in readers.items()}, dict.fromkeys(readers, set(ZONES)),
                "the others have it in their lists")
        tap.ok(not is_old(seen()), "they read no old copy at a")  # the first nodes refuse the earlier list, or have the new values
        if OVER_VERBS:  # the connection ends later than the right
            tap.ok(all(count(readers[name].proxy, "right_over") > over[name] for name in ("near", "hot")),
                   "because its right is over")
            tap.ok(b"old" in readers["broken"].values(keys), "S17 broken: old copies are read")
    found = []

    def back():
        found.append(seen())
        return "a" in etcd.keys()
    tap.ok(until(back, bool), "a goes on, and registers again")
    found.append(seen())
    tap.is_([one for one in found if is_old(one)], [],
            "meanwhile and afterwards the farcached with the earlier list read no old value")
    relay.open()
    tap.ok(all(until_names(reader.proxy, ZONES) for reader in readers.values()), "they reach etcd, and use all nodes again")
    wanted = {"near": {b"new"}, "hot": {b"new"}}
    tap.is_(until(seen, lambda now: now == wanted), wanted, "and read the new values")


with Etcd() as server, Relay(server.port) as between, contextlib.ExitStack() as at_end:
    shared = Table()
    at_end.callback(shared.unlink)
    stands_still(at_end, server, between, shared)
tap.done()
