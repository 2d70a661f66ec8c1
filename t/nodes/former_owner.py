# SPDX-License-Identifier: BSD-3-Clause
"""Items move from the nodes that had their keys by the former list of nodes, as clients ask for them (warm_up_s). Each item moves
once, with client flags, unique and the rest of its time; a mutation at the new node wins, through any farcached. Nodes join and
leave, mapped and over TCP."""
import contextlib
import os
import signal
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from cluster import Faults, Table, all_up, faulty, nodes_shown  # noqa: E402
from farcached import Daemon, tap, until  # noqa: E402
from farnode import Farnode  # noqa: E402

KEYS = ["key-%d" % i for i in range(200)]


class Proxy:
    """A farcached whose list of nodes changes by reloads."""

    def __init__(self, stack, folder, name, addresses, names, options, faults=None):
        self.path, self.addresses, self.reloads = os.path.join(folder, name + ".toml"), addresses, 0
        self.write(names)
        self.daemon = stack.enter_context(
            Daemon("--config", self.path, "-o", "warm_up_s=60," + options, threads=2, **faulty("farcached", faults)))
        until(lambda: nodes_shown(self.daemon), all_up)
        self.client = stack.enter_context(self.daemon.client())

    def write(self, names):
        with open(self.path, "w") as f:
            f.writelines('[[node]]\nname = "%s"\naddress = "%s"\n' % (name, self.addresses[name]) for name in names)

    def use(self, names):
        self.write(names)
        self.reloads += 1
        self.daemon.signal(signal.SIGHUP)
        until(lambda: int(self.daemon.stats("config")["config_reloads"]), lambda count: count == self.reloads)
        until(lambda: nodes_shown(self.daemon), all_up)
        # Each worker has told the nodes.
        until(lambda: [int(self.daemon.stats("node " + name).get("cmd_list_change", 0)) for name in names],
              lambda counts: min(counts) >= 1)

    def items(self):
        """key: flags, value, unique."""
        return {key: self.client.get_many([key], verb="gets")[0][1:] if self.client.get(key) else None for key in KEYS}

    def hits(self, keys):
        return sum(self.client.get(key) is not None for key in keys)

    def numbers(self):
        return {name: int(value) for name, value in self.daemon.stats("proxy").items() if name.startswith("warm_")}


class Fleet:
    def __init__(self, stack, folder, title, over, faults=None):
        self.stack, self.folder, self.title, self.over, self.faults = stack, folder, title, over, faults
        self.addresses, self.table = {}, Table()
        stack.callback(self.table.unlink)
        for name in "abc":
            path = os.path.join(folder, title + name)
            node = stack.enter_context(Farnode("--tcp", "127.0.0.1:0", "--shm", path, "-m", "16", "-t", "1", "--name", name,
                                               **faulty("farnode", faults)))
            self.addresses[name] = "shm:" + path if over == "shm" else "tcp:127.0.0.1:%d" % node.port

    def proxy(self, name, names, options=""):
        return Proxy(self.stack, self.folder, self.title + name, self.addresses, names, self.table.options() + options, self.faults)


def stored(proxy, value):
    for i, key in enumerate(KEYS):
        assert proxy.client.set(key, value + str(i), flags=i, exptime=1000) == "STORED"


def moves(folder, over):
    """A node joins, another one leaves."""
    with contextlib.ExitStack() as stack:
        fleet = Fleet(stack, folder, over, over)
        p = fleet.proxy("p", "ab")
        stored(p, "v")
        before = p.items()
        p.use("abc")
        tap.is_(p.items(), before, over + ": a node joins: all items are there, with value, client flags and unique")
        numbers = p.numbers()
        tap.ok(numbers["warm_hits"] > 20, over + ": those of its keys moved", numbers)
        tap.is_(numbers["warm_stored"], numbers["warm_hits"], over + ": each is stored there")
        rests = [int(p.client.ask("mg %s t" % key).split()[1][1:]) for key in KEYS]
        tap.ok(0 < min(rests) and max(rests) <= 1000, over + ": with the rest of its time", "%d to %d" % (min(rests), max(rests)))
        tap.is_(p.items(), before, over + ": and read there again")
        tap.is_(p.numbers()["warm_hits"], numbers["warm_hits"], over + ": nothing moves twice")
        p.use("ac")
        tap.is_(p.items(), before, over + ": a node leaves: all items are there")
        moved = p.numbers()["warm_hits"] - numbers["warm_hits"]
        tap.ok(moved > 20, over + ": its items moved", moved)


def mutations(folder):
    """What clients change at the new node wins."""
    with contextlib.ExitStack() as stack:
        fleet = Fleet(stack, folder, "m", "tcp")
        p, q = fleet.proxy("p", "a"), fleet.proxy("q", "a")
        stored(p, "1")
        for proxy in (p, q):
            proxy.use("ab")
        r = fleet.proxy("r", "ab", ",warm_up_s=0")  # it knows nothing of the change
        half = KEYS[:100]
        wrong = 0
        for i, key in enumerate(half):
            reply = r.client.ask("delete " + key) if i % 2 else r.client.set(key, "new")
            wrong += reply not in ("DELETED", "NOT_FOUND", "STORED")
        tap.is_(wrong, 0, "mutations by a farcached that has no former list")
        for proxy, name in ((p, "p"), (q, "q")):
            old = [key for i, key in enumerate(half) if proxy.client.get(key) not in ((None,) if i % 2 else (b"new",))]
            # A delete at a node that had nothing: the key's item is not taken from the former one any more.
            tap.is_(old, [], "no old value is seen by " + name)
        refused = sum(int(p.daemon.stats("node " + n)["arrivals_refused"]) for n in "ab")
        tap.ok(refused > 5, "the new node refused items of mutated keys", refused)
        rest = KEYS[100:]
        tap.is_({p.client.ask("delete " + key) for key in rest[:50]}, {"DELETED"}, "a delete finds the item at the former node")
        tap.is_({q.client.set(key, "x", verb="append") for key in rest[50:]}, {"STORED"}, "so does an append")
        tap.is_([q.client.get(key) for key in rest[50:]], [b"1%dx" % (i + 150) for i in range(50)], "to the value from there")
        tap.is_({key for key in rest[:50] if q.client.get(key) is not None}, set(), "and what was deleted is gone")


def broken(folder):
    """S7_FORMER: the new node takes any item."""
    with contextlib.ExitStack() as stack:
        fleet = Fleet(stack, folder, "x", "tcp", Faults("", "S7_FORMER"))
        p = fleet.proxy("p", "a")
        stored(p, "old")
        p.use("ab")
        r = fleet.proxy("r", "ab", ",warm_up_s=0")
        for key in KEYS:
            r.client.ask("delete " + key)
        return [key for key in KEYS if p.client.get(key) is not None]


def off(folder):
    with contextlib.ExitStack() as stack:
        fleet = Fleet(stack, folder, "o", "tcp")
        p = fleet.proxy("p", "a", ",failover")
        stored(p, "v")
        p.write("ab")
        p.reloads += 1
        p.daemon.signal(signal.SIGHUP)
        until(lambda: int(p.daemon.stats("config")["config_reloads"]), lambda count: count == p.reloads)
        until(lambda: nodes_shown(p.daemon), all_up)
        hits = p.hits(KEYS)
        tap.ok(hits < len(KEYS), "with failover moved keys are misses", hits)
        tap.is_(p.numbers()["warm_fetches"], 0, "and no former node is asked")


with tempfile.TemporaryDirectory() as folder:
    for over in ("tcp", "shm"):
        moves(folder, over)
    mutations(folder)
    off(folder)
    tap.ok(broken(folder), "S7_FORMER broken: deleted items are back")
tap.done()
