# SPDX-License-Identifier: BSD-3-Clause
"""What an operator does to a fleet in etcd while clients use it, without copies and with them (replicas = 2): all nodes are
restarted one after the other, all farcached, and etcd with its data and without; a node stands still for longer than its ttl.

A load checks every reply. Beside it there is a fixed set of keys that the load does not touch: no value of it is ever old. With
copies none is lost; without, only those of the restarted node.
"""
import contextlib
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import consistency_load as load  # noqa: E402
import etcd as etcd_servers  # noqa: E402
from cluster import Table, all_up, nodes_shown  # noqa: E402
from connections import Sender  # noqa: E402
from daemon import is_sanitized, slow_factor  # noqa: E402
from etcd import Etcd  # noqa: E402
from farcached import Closed, Daemon, deadline, tap, until  # noqa: E402
from farnode import Farnode, NodeClient  # noqa: E402

etcd_servers.skip_without()
TTL = 5 if is_sanitized() else 2  # seconds
MIXES = ("joins", "50:50", "sizes", "ttl", "refill")  # none with flush_all, which would take the fixed set away
KEYS = ["fixed-%d" % i for i in range(60)]
TELLS = ("node_timeouts", "node_reconnects", "replies_late")  # why a copy may be missing
BURST, ROUNDS = 20, 1000  # keys, and values of each, that are sent to a farcached that is stopped


class Fleet:
    """Nodes a, b and c; farcached `one` and `two`."""

    def __init__(self, stack, etcd, copies):
        self.stack, self.etcd, self.copies = stack, etcd, copies
        self.prefix = "/copies%d" % copies
        self.title = "with copies" if copies == 2 else "without copies"
        self.table = Table()
        stack.callback(self.table.unlink)
        self.nodes = {name: self.node(name) for name in "abc"}
        self.daemons = {name: self.daemon() for name in ("one", "two")}
        self.until_list("abc")
        self.value = None

    def node(self, name):
        return self.stack.enter_context(Farnode("--tcp", "127.0.0.1:0", "-m", "64", "-t", "1", "--name", name, "--discover",
                                                self.etcd.source(prefix=self.prefix), "--member-ttl", TTL))

    def daemon(self):
        options = "replicas=%d,node_timeout_ms=%d,%s" % (self.copies, 1000 * slow_factor(), self.table.options())
        return self.stack.enter_context(Daemon("--discover", self.etcd.source(prefix=self.prefix), "-o", options, threads=2))

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

    def until_state(self, state):
        seen = {until(lambda d=daemon: d.stats("discovery")["state"], lambda seen: seen == state) for daemon in
                self.daemons.values()}
        assert seen == {state}, seen

    def homes(self):
        return {key: self.daemons["one"].stats("route " + key)["node"] for key in KEYS}

    # -- The fixed set -------------------------------------------------------------------------------------

    def store(self, value):
        """Stores it until each answer is STORED: a node may have joined just now."""
        self.value = value
        with self.daemons["one"].client() as client:
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
        before, seed = self.sets(names), load.seed()
        # With outages a change answered as unavailable has an unknown outcome, and a miss proves nothing.
        run = load.Load(",".join(str(self.daemons[name].port) for name in names), "--outages", "1", "--keys", "64", "--threads",
                        "8", "--value-bytes", "20000", "--mix", MIXES[int(seed) % len(MIXES)], "--seconds", load.seconds(seconds),
                        "--seed", seed, timeout=500 + deadline())
        self.stack.callback(run.stop)
        until(lambda: self.sets(names), lambda sets: sets > before)
        self.store("first")
        return run

    def sets(self, names):
        return sum(int(self.daemons[name].stats()["cmd_set"]) for name in names)


def nodes_restart(fleet):
    title = fleet.title + ", nodes restart one after the other"
    run = fleet.load(5)
    stayed, lost, lacking = [], [], []
    for turn, name in enumerate("abc" * 20):
        if turn >= 3 and not run.running():
            break
        homes = fleet.homes()
        lacking.append(fleet.until_copied())
        fleet.nodes[name].stop()
        stayed += [name] * (name in fleet.registered())
        lost += fleet.wrong(KEYS)  # a miss may be: one farcached has the new list, another one has not
        if turn % 2 == 0 and fleet.copies == 2:  # others get copies before it is back, or after that
            del fleet.nodes[name]
            fleet.until_list(sorted(fleet.nodes))
            lost += fleet.wrong()
            lacking.append(fleet.until_copied())
        fleet.nodes[name] = fleet.node(name)
        lost += fleet.wrong(KEYS)
        fleet.until_list("abc")
        lost += fleet.wrong([key for key in KEYS if homes[key] == name] if fleet.copies == 1 else [])
        if fleet.copies == 1:
            fleet.store("restart %d" % turn)
    tap.diag("%d restarts" % turn)
    tap.is_(stayed, [], title + ": each leaves the list at once")
    if fleet.copies == 2:
        lacking.append(fleet.until_copied())
        tap.is_([found for found in lacking if found], [], title + ": both copies of each item are there before the next one")
    tap.is_(lost, [], title + (": no item is lost, and none is old" if fleet.copies == 2 else ": only its own items are lost"))
    run.end(title)


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


def proxies_restart(fleet):
    title = fleet.title + ", farcached restart one after the other"
    for name, other, number in (("one", "two", signal.SIGTERM), ("two", "one", signal.SIGUSR1)):
        run = fleet.load(1, [other])
        found, lost, answered = [], [], []
        while not answered or run.running():
            wrong, count = burst(fleet, name, number)
            found, answered = found + wrong, answered + [count]
            fleet.daemons[name] = fleet.daemon()
            fleet.until_list("abc")
            lost += fleet.wrong()
        tap.diag("answers before each stop: %s" % answered)
        tap.is_(found, [], "%s: no change is lost that %s acknowledged" % (title, name))
        tap.is_(lost, [], "%s: no item is lost, and none is old" % title)
        run.end("%s, a load of %s" % (title, other))


def etcd_restarts(fleet):
    title = "etcd restarts with its data"
    etcd, nodes = fleet.etcd, fleet.nodes
    run = fleet.load(7)
    names, changes = set(nodes), [daemon.stats("discovery")["changes"] for daemon in fleet.daemons.values()]
    etcd.kill()
    fleet.until_state("down")
    rights = until(lambda: {name: fleet.daemons["one"].stats("node " + name)["right_left_ms"] for name in nodes},
                   lambda rights: set(rights.values()) == {"0"})
    tap.is_(set(rights.values()), {"0"}, "etcd is away: the rights of all nodes end")
    tap.is_(fleet.wrong(), [], "and no item is lost")
    fleet.store("changed while etcd was away")
    tap.is_((fleet.wrong(), fleet.until_copied()), ([], {}), "nodes serve: all items can be changed, and have their copies")
    etcd.start()
    fleet.until_state("up")
    tap.is_(set(until(fleet.registered, lambda found: set(found) == names)), names, title + ": all nodes are registered")
    fleet.until_list("abc")
    tap.is_((fleet.wrong(), fleet.until_copied()), ([], {}), title + ": no item is lost, and none is old")

    title = "etcd restarts without its data"
    leases = {name: lease for name, (_, lease) in fleet.registered().items()}
    before = {name: int(daemon.stats("discovery")["revision"]) for name, daemon in fleet.daemons.items()}
    etcd.kill()
    etcd.forget()
    etcd.start()
    found = until(fleet.registered, lambda found: set(found) == names)
    tap.is_(set(found), names, title + ": all nodes register again")
    tap.is_([name for name in found if found[name][1] in (0, leases[name])], [], title + ": under new leases")
    fleet.until_state("up")
    fleet.until_list("abc")
    tap.is_([daemon.stats("discovery")["changes"] for daemon in fleet.daemons.values()], changes,
            title + ": no farcached lost a node")
    tap.is_((fleet.wrong(), fleet.until_copied()), ([], {}), title + ": no item is lost, and none is old")
    fleet.nodes["b"].stop()
    fleet.nodes["b"] = fleet.node("b")
    fleet.until_list("abc")
    after = {name: int(daemon.stats("discovery")["revision_in_use"]) for name, daemon in fleet.daemons.items()}
    tap.ok(all(after[name] > before[name] for name in after), title + ": the revision of the lists goes on from the last one",
           before, after)
    tap.is_((fleet.wrong(), fleet.until_copied()), ([], {}), title + ": a node restarts then, and no item is lost")
    run.end(title)


def stands_still(fleet):
    title = fleet.title + ", a node stands still for longer than its ttl"
    run = fleet.load(5)
    lacking = fleet.until_copied()
    node, homes = fleet.nodes.pop("b"), fleet.homes()
    with node.stopped():
        until(fleet.registered, lambda found: "b" not in found)
        fleet.until_list("ac")
        lost = fleet.wrong([key for key in KEYS if homes[key] == "b"] if fleet.copies == 1 else [])
        fleet.store("second")
        tap.is_((lacking, lost, fleet.wrong(), fleet.until_copied()), ({}, [], [], {}),
                title + (": no item is lost" if fleet.copies == 2 else ": only its own items are lost") + ", all can be changed")
    fleet.nodes["b"] = node
    old = []

    def back():
        """A miss may be, as above."""
        old.extend(fleet.wrong(KEYS))
        return all(all_up(shown) and set(shown) == set("abc") for shown in map(nodes_shown, fleet.daemons.values()))
    until(back, bool)
    fleet.until_list("abc")
    tap.is_(old, [], title + ": while it comes back, no value is old")
    moved = [key for key, home in fleet.homes().items() if home == "b"] if fleet.copies == 1 else []
    lost = fleet.wrong(moved)
    tap.is_((lost, fleet.until_copied() if fleet.copies == 2 else {}), ([], {}),
            title + (": it is back, no item is lost, and all have copies" if fleet.copies == 2 else
                     ": it is back without its items, and the others are there"))
    run.end(title)


with Etcd() as server:
    for number_of_copies in (1, 2):
        with contextlib.ExitStack() as running:
            one_fleet = Fleet(running, server, number_of_copies)
            nodes_restart(one_fleet)
            proxies_restart(one_fleet)
            stands_still(one_fleet)
            if number_of_copies == 2:
                etcd_restarts(one_fleet)
tap.done()
