# SPDX-License-Identifier: BSD-3-Clause
"""Nodes join a fleet whose items are on one node each (daemon/engine/moved_items.h): a client that asks for an item of a key that
moved gets it, once, from the node that had it before. No other item comes back: not one that was changed, deleted or flushed since,
and none after a node has left."""
import contextlib
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import etcd as etcd_servers  # noqa: E402
from cluster import Faults, Table, all_up, faulty, nodes_shown  # noqa: E402
from daemon import is_sanitized  # noqa: E402
from etcd import Etcd  # noqa: E402
from farcached import Daemon, tap, until  # noqa: E402
from farnode import Farnode  # noqa: E402

etcd_servers.skip_without()
TTL = 5 if is_sanitized() else 2  # seconds
KEYS = ["key-%d" % i for i in range(240)]
LARGE = b"l" * 100_000


class Fleet:
    """Nodes a and b; farcached `one` and `two`, each with a worker thread more than one."""

    def __init__(self, stack, etcd, prefix, faults=None, options=""):
        self.stack = stack
        self.source = etcd.source(prefix=prefix)
        self.nodes = {name: self.node(name) for name in "ab"}
        table = Table()
        stack.callback(table.unlink)
        self.daemons = {name: stack.enter_context(Daemon("--discover", self.source, "-o", table.options() + options, threads=2,
                                                         **faulty("farcached", faults)))
                        for name in ("one", "two")}
        self.one, self.two = (stack.enter_context(daemon.client()) for daemon in self.daemons.values())
        self.until_list("ab")
        for number, key in enumerate(KEYS):
            until(lambda: self.one.set(key, self.first(key), flags=number), lambda said: said == "STORED")

    @staticmethod
    def first(key):
        return b"first of " + key.encode() + (LARGE if key.endswith("7") else b"")

    def node(self, name):
        return self.stack.enter_context(Farnode("--tcp", "127.0.0.1:0", "-m", "64", "-t", "1", "--name", name, "--discover",
                                                self.source, "--member-ttl", TTL))

    def joins(self, name):
        """Returns the keys that move to it."""
        before = self.homes()
        self.nodes[name] = self.node(name)
        self.until_list(self.nodes)
        homes = self.homes()
        return [key for key in KEYS if homes[key] == name and before[key] != name]

    def leaves(self, name):
        self.nodes.pop(name).stop()
        self.until_list(self.nodes)

    def until_list(self, names):
        for daemon in self.daemons.values():
            shown = until(lambda: nodes_shown(daemon), lambda shown: set(shown) == set(names) and all_up(shown))
            assert set(shown) == set(names), shown

    def homes(self):
        return {key: self.daemons["one"].stats("route " + key)["node"] for key in KEYS}

    def counted(self, counter):
        return sum(int(daemon.stats("proxy")[counter]) for daemon in self.daemons.values())

    def wrong(self, client, keys):
        """Those whose item is not the first one, with its flags."""
        found = {key.decode(): (value, flags) for key, flags, value, _ in client.get_many(keys)}
        return [key for key in keys if found.get(key) != (self.first(key), KEYS.index(key))]


def said(client, command):
    client.send(command.encode() + b"\r\n")
    return client.line().decode().rstrip()


def value_of(client):
    """The answer to a get; None: a miss."""
    if client.line() == b"END\r\n":
        return None
    value = client.line().strip()
    client.line()
    return value


def arrives(etcd):
    """Everything that moved is found, and is whole."""
    with contextlib.ExitStack() as stack:
        fleet = Fleet(stack, etcd, "/arrives")
        one, two = fleet.one, fleet.two
        for key in KEYS[::3]:
            tap_is(said(one, "touch %s 500" % key), "TOUCHED")
        uniques = {key: said(one, "mg %s c" % key) for key in KEYS}
        read_often = [fleet.wrong(one, KEYS) for _ in range(4)]  # they earn leases
        moved = fleet.joins("c")
        tap.ok(moved and not any(read_often), "a node joins, and keys move there", len(moved))
        tap.is_(fleet.wrong(one, KEYS), [], "no item is lost")
        tap.is_(fleet.counted("moved_hits"), len(moved), "each comes from the node that had it, once")
        tap.is_(fleet.wrong(two, KEYS), [], "the other farcached finds them at the new node")
        tap.is_(fleet.counted("moved_hits"), len(moved), "without a further fetch")
        tap.is_([key for key in KEYS if said(one, "mg %s c" % key) != uniques[key]], [], "uniques are the same")
        ttls = [int(said(two, "mg %s t" % key).split("t")[-1]) for key in moved if KEYS.index(key) % 3 == 0]
        tap.ok(ttls and all(300 < ttl <= 500 for ttl in ttls), "and times to live", ttls)
        again = fleet.joins("d")
        tap.is_(fleet.wrong(two, KEYS), [], "one more joins: no item is lost")
        tap.ok(again and fleet.counted("moved_hits") == len(moved) + len(again), "each comes from where it was", len(again))
        tap.is_([said(one, "cas %s 0 0 3 %s\r\nnew" % (key, uniques[key].split("c")[-1])) for key in again[:5]], ["STORED"] * 5,
                "a cas with an old unique succeeds")


def changed(etcd):
    """A command for an item that has not come yet finds it; what it leaves counts."""
    with contextlib.ExitStack() as stack:
        fleet = Fleet(stack, etcd, "/changed")
        one, two = fleet.one, fleet.two
        for key in KEYS:
            tap_is(one.set(key, b"41"), "STORED")
        uniques = {key: said(one, "mg %s c" % key).split("c")[-1] for key in KEYS}
        moved = fleet.joins("c")
        commands = (("incr %s 1", "42", b"42"), ("append %s 0 0 1\r\n!", "STORED", b"41!"), ("delete %s", "DELETED", None),
                    ("add %s 0 0 1\r\nx", "NOT_STORED", b"41"), ("replace %s 0 0 1\r\nx", "STORED", b"x"),
                    ("set %s 0 0 1\r\ny", "STORED", b"y"), ("touch %s 500", "TOUCHED", b"41"), ("md %s q\r\nmn", "MN", None),
                    ("cas %s 0 0 1 UNIQUE\r\nz", "STORED", b"z"), ("cas %s 0 0 1 1\r\nz", "EXISTS", b"41"),
                    ("ma %s N0 J5 D2 v", "VA 2", b"43"), ("set %s 0 -1 1\r\ny", "STORED", None))
        tap.ok(len(moved) >= len(commands), "keys move", len(moved))
        wrong = []
        for number, key in enumerate(moved):
            command, wanted, value = commands[number % len(commands)]
            here, there = (one, two) if number % 2 else (two, one)
            got = said(here, command.replace("UNIQUE", uniques[key]) % key)
            if wanted == "VA 2":
                here.line()
            for client in (there, here):
                found = client.get(key)
                if (got, found) != (wanted, value):
                    wrong.append((key, command, got, found))
        tap.is_(wrong, [], "each command finds the item that moved, and nobody reads an old one after it")
        keys = fleet.joins("d")[:8]
        own = [b"get %s\r\nset %s 0 0 1\r\n%d\r\nget %s\r\n" % ((key.encode(),) * 2 + (n, key.encode()))
               for n, key in enumerate(keys)]
        one.send(b"".join(own))
        got = [(value_of(one), one.line(), value_of(one)) for _ in keys]
        tap.is_([(b"STORED\r\n", b"%d" % n) for n, _ in enumerate(keys)], [tuple(later) for _, *later in got],
                "gets and sets of one key in a row keep their order")
        tap.is_([first for n, (first, _, _) in enumerate(got) if first == b"%d" % n], [], "no get sees a later set")


def gone(etcd):
    """Flushed items do not come back, nor does any after another change of the list than a join."""
    with contextlib.ExitStack() as stack:
        fleet = Fleet(stack, etcd, "/gone")
        one, two = fleet.one, fleet.two
        moved = fleet.joins("c")
        tap.is_(said(two, "flush_all"), "OK", "a node joins, and all items are flushed")
        tap.is_([key for key in moved if one.get(key) is not None], [], "none comes back")
        for key in KEYS:
            tap_is(one.set(key, fleet.first(key), flags=KEYS.index(key)), "STORED")
        fleet.leaves("c")
        fetched = fleet.counted("moved_fetches")
        tap.is_([key for key in moved if two.get(key) is not None], [], "a node leaves with its items")
        tap.is_(fleet.counted("moved_fetches"), fetched, "and nobody asks for older ones")
        tap.is_(fleet.wrong(one, [key for key in KEYS if key not in moved]), [], "the others stay")


def flushes(etcd):
    """A flush has no key, whatever node an empty key would have."""
    with contextlib.ExitStack() as stack:
        fleet = Fleet(stack, etcd, "/flushes")
        answers = []
        for name in "cdefgh":
            moved = fleet.joins(name)
            until(lambda: fleet.one.set(moved[0], b"new"), lambda answer: answer == "STORED")
            answers += [said(fleet.one, "flush_all"), fleet.two.get(moved[0])]
        tap.is_(answers, ["OK", None] * 6, "six nodes join, and a flush follows each")


def switched_off(etcd):
    with contextlib.ExitStack() as stack:
        fleet = Fleet(stack, etcd, "/off", options=",warm_up=0")
        moved = fleet.joins("c")
        tap.is_([key for key in moved if fleet.one.get(key) is not None], [], "with warm_up=0 no item comes")
        tap.is_(fleet.counted("moved_fetches"), 0, "and none is asked for")


def broken(etcd):
    """A check of the test: a farcached that does not ask whether the key was changed."""
    with contextlib.ExitStack() as stack:
        fleet = Fleet(stack, etcd, "/broken", faults=Faults("", "S7_TOUCHED"))
        moved = fleet.joins("c")
        seen = [said(fleet.one, "delete %s" % key) for key in moved] and [key for key in moved if fleet.two.get(key) is not None]
        tap.ok(seen, "S7_TOUCHED broken: deleted items come back, which is seen")


mistakes = []


def tap_is(got, wanted):
    if got != wanted:
        mistakes.append((got, wanted))


with Etcd() as etcd:
    arrives(etcd)
    changed(etcd)
    gone(etcd)
    flushes(etcd)
    switched_off(etcd)
    if not is_sanitized():  # the daemons of the plain build show it
        broken(etcd)
tap.is_(mistakes, [], "no other answer was wrong")
tap.done()
