# SPDX-License-Identifier: BSD-3-Clause
"""A fleet in a real etcd that is restarted part by part while clients use it: nodes a, b and c, farcached `one` and `two`.

    with Etcd() as etcd, contextlib.ExitStack() as stack:
        fleet = Fleet(stack, etcd, copies=1)
        run = fleet.load(5)                     # the consistency load; it begins with a flush_all
        fleet.nodes["a"].stop()
        lost = fleet.wrong(KEYS)                # of a fixed set of keys that the load does not touch
        fleet.end(run, "a title")

With FARCACHED_OVER=tcp=shm each farcached reads items in the mapped memory of their nodes (discover_shm).
"""
import contextlib
import itertools
import os
import signal
import tempfile

import consistency_load as load
from cluster import Table, all_up, faulty, nodes_shown
from connections import Sender
from daemon import is_sanitized, slow_factor
from etcd import write_weight
from farcached import Closed, Daemon, deadline, tap, until
from farnode import Farnode, NodeClient

IS_MAPPED = os.environ.get("FARCACHED_OVER") == "tcp=shm"
TTL = 5 if is_sanitized() else 2  # seconds
MIXES = ("joins", "50:50", "sizes", "ttl", "refill")  # none with flush_all, which would take the fixed set away
KEYS = ["fixed-%d" % i for i in range(60)]
TELLS = ("node_timeouts", "node_reconnects", "replies_late")  # why a copy may be missing
BURST, ROUNDS = 20, 1000  # keys, and values of each, that are sent to a farcached that is stopped
NUMBERS = itertools.count()


class Fleet:
    """faults: of the processes that are started from now on, or None."""

    def __init__(self, stack, etcd, copies, faults=None):
        self.stack, self.etcd, self.copies, self.faults = stack, etcd, copies, faults
        self.prefix = "/fleet%d" % next(NUMBERS)
        self.title = "with copies" if copies == 2 else "without copies"
        self.folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="farcached-test-"))
        self.table = Table()
        stack.callback(self.table.unlink)
        self.nodes = {name: self.node(name) for name in "abc"}
        self.daemons = {name: self.daemon() for name in ("one", "two")}
        self.until_list("abc")
        self.value = None
        self.mapped_before = {}  # gets from mapped memory when the load began, of each Daemon

    def node(self, name):
        """A farcached with discover_shm, or with its path, reads the node's memory."""
        return self.stack.enter_context(Farnode("--config", write_weight(self.folder, name, 1), "--tcp", "127.0.0.1:0", "--shm",
                                                self.path(name), "-m", "64", "-t", "1", "--name", name, "--discover",
                                                self.etcd.source(prefix=self.prefix), "--member-ttl", TTL,
                                                **faulty("farnode", self.faults)))

    def weighs(self, name, weight):
        """Until every farcached has the node with this weight."""
        write_weight(self.folder, name, weight)
        self.nodes[name].signal(signal.SIGHUP)
        for daemon in self.daemons.values():
            seen = until(lambda daemon=daemon: nodes_shown(daemon)[name]["weight"], lambda seen: seen == str(weight))
            assert seen == str(weight), (name, seen)
        self.until_list(sorted(self.nodes))

    def path(self, name):
        return os.path.join(self.folder, name + ".sock")

    def daemon(self):
        options = "replicas=%d,node_timeout_ms=%d,%s%s" % (self.copies, 1000 * slow_factor(), self.table.options(),
                                                           ",discover_shm" if IS_MAPPED else "")
        return self.stack.enter_context(Daemon("--discover", self.etcd.source(prefix=self.prefix), "-o", options, threads=2,
                                               **faulty("farcached", self.faults)))

    def registered(self):
        return self.etcd.keys(self.prefix + "/nodes/")

    def until_list(self, names):
        """Every farcached is connected to the present processes of these nodes, and has no other ones."""
        pids = {name: str(self.nodes[name].pid) for name in names}
        for daemon in self.daemons.values():
            def look(daemon=daemon):
                shown = nodes_shown(daemon)
                return all_up(shown), {name: daemon.stats("node " + name).get("pid") for name in shown}
            seen = until(look, lambda seen: seen == (True, pids))
            assert seen == (True, pids), (seen, pids)
            if IS_MAPPED:  # a link that was interrupted at its socket uses TCP; end() looks whether memory was read
                until(lambda daemon=daemon: all_mapped(nodes_shown(daemon)), bool, timeout=5)

    def homes(self):
        return {key: self.daemons["one"].stats("route " + key)["node"] for key in KEYS}

    # -- The fixed set -------------------------------------------------------------------------------------

    def store(self, value, by="one"):
        """Stores it until each answer is STORED: a node may have joined just now."""
        self.value = value
        with self.daemons[by].client() as client:
            for i, key in enumerate(KEYS):
                said = until(lambda: client.set(key, self.value_of(key), flags=i), lambda said: said == "STORED")
                assert said == "STORED", (key, said)

    def value_of(self, key):
        return ("%s is %s" % (key, self.value)).encode()

    def wrong(self, may_miss=()):
        """[(farcached, key, what it answers, the same at once again)] of all wrong answers, with their flags."""
        found = []
        for name, daemon in self.daemons.items():
            with daemon.client() as client:
                got = {key.decode(): (value, flags) for key, flags, value, _ in client.get_many(KEYS)}
                for i, key in enumerate(KEYS):
                    if got.get(key) != (self.value_of(key), i) and not (key not in got and key in may_miss):
                        found.append((name, key, got.get(key), client.get(key)))
        return found

    def lacking(self):
        """What the nodes themselves have of it: keys that are not at as many nodes as they should be, and wrong values."""
        places = {key: [] for key in KEYS}
        for name, node in self.nodes.items():
            with NodeClient(node.port) as client:
                client.greet()
                for key in KEYS:
                    value = client.get(key.encode())
                    if value is not None:
                        places[key].append(name if value == self.value_of(key) else (name, value))
        return {key: at for key, at in places.items() if len([name for name in at if isinstance(name, str)]) != self.copies}

    def until_copied(self):
        lacking = until(self.lacking, lambda lacking: not lacking)
        if lacking:
            tap.diag("of the nodes %s; %s" % (sorted(self.nodes), self.homes()))
            for name, daemon in self.daemons.items():
                shown = daemon.stats("proxy")
                tap.diag("%s: %s" % (name, {key: shown[key] for key in shown if key.startswith("replica_") or key in TELLS}))
        return lacking

    # -- The load ------------------------------------------------------------------------------------------

    def load(self, seconds, names=("one", "two")):
        """Starts it, and then stores the fixed set: the load begins with a flush_all."""
        seed = load.seed()
        # With outages a change answered as unavailable has an unknown outcome, and a miss proves nothing.
        run = load.Load(",".join(str(self.daemons[name].port) for name in names), "--outages", "1", "--keys", "64", "--threads",
                        "8", "--value-bytes", "20000", "--mix", MIXES[int(seed) % len(MIXES)], "--seconds", load.seconds(seconds),
                        "--seed", seed, timeout=500 + deadline())
        self.stack.callback(run.stop)
        run.until_flushed()
        self.store("first")
        self.mapped_before = self.mapped_reads()
        return run

    def end(self, run, title):
        run.end(title)
        if IS_MAPPED:
            reads = sum(now - self.mapped_before.get(daemon, 0) for daemon, now in self.mapped_reads().items())
            tap.ok(reads > 0, "%s: %d gets are answered from mapped memory" % (title, reads))

    def mapped_reads(self):
        return {daemon: int(daemon.stats("proxy")["get_local"]) for daemon in self.daemons.values()}


def all_mapped(shown):
    return all(one.get("links_shm") == one["links"] for one in shown.values())


def burst(fleet, name, number):
    """Stops a farcached that has changes in progress: [(key, value, least, most)] of the keys with a wrong value afterwards."""
    keys = ["burst-%d" % i for i in range(BURST)]
    with fleet.daemons[name].client() as client:
        sender = Sender(client, b"".join(b"set %s 0 0 4\r\n%04d\r\n" % (key.encode(), n) for n in range(ROUNDS) for key in keys))
        said = [client.line() for _ in range(BURST * 2)]
        fleet.daemons[name].stop(number)
        with contextlib.suppress(Closed):
            while True:
                said.append(client.line())
        sender.join(deadline())
    stored = [i for i, word in enumerate(said) if word == b"STORED\r\n"]
    other = fleet.daemons["two" if name == "one" else "one"]
    wrong = []
    with other.client() as client:
        for at, key in enumerate(keys):
            least = max(i // BURST for i in stored if i % BURST == at)
            value = client.get(key)
            if value is None or not least <= int(value) < ROUNDS:
                wrong.append((key, value, least))
    return wrong, len(said)
