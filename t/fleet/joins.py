# SPDX-License-Identifier: BSD-3-Clause
"""Nodes join a fleet whose items are on one node each, or their weights change, to 0, too (daemon/steps/moved_items.h): a client
that asks for an item of a key that moved gets it, once, from the node that had it before. No other item comes back: none that was
changed, deleted or flushed since."""
import contextlib
import os
import signal
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import etcd as etcd_servers  # noqa: E402
from cluster import Faults, Table, all_up, faulty, nodes_shown  # noqa: E402
from daemon import is_sanitized  # noqa: E402
from etcd import Etcd, Relay, write_weight  # noqa: E402
from farcached import Daemon, tap, until  # noqa: E402
from farnode import Farnode  # noqa: E402

etcd_servers.skip_without()
TTL = 6 if is_sanitized() else 4  # seconds; a node that gets no CPU for so long loses its items
KEYS = ["key-%d" % i for i in range(240)]
LARGE = b"l" * 100_000


class Fleet:
    """Nodes a and b; farcached `one` and `two`, which reaches etcd over a relay, each with a worker thread more than one."""

    def __init__(self, stack, etcd, prefix, faults=None, options=""):
        self.stack = stack
        self.source = etcd.source(prefix=prefix)
        self.relay = stack.enter_context(Relay(etcd.port))
        self.folder = stack.enter_context(tempfile.TemporaryDirectory())
        self.weights = {}
        self.nodes = {name: self.node(name) for name in "ab"}
        table = Table()
        stack.callback(table.unlink)
        sources = {"one": self.source, "two": "etcd://127.0.0.1:%d%s" % (self.relay.port, prefix)}
        self.daemons = {name: stack.enter_context(Daemon("--discover", source, "-o", table.options() + options, threads=2,
                                                         **faulty("farcached", faults)))
                        for name, source in sources.items()}
        self.one, self.two = (stack.enter_context(daemon.client()) for daemon in self.daemons.values())
        self.until_list("ab")
        for number, key in enumerate(KEYS):
            until(lambda: self.one.set(key, self.first(key), flags=number), lambda said: said == "STORED")

    @staticmethod
    def first(key):
        return b"first of " + key.encode() + (LARGE if key.endswith("7") else b"")

    def node(self, name):
        return self.stack.enter_context(Farnode("--config", self.write_weight(name, 1), "--tcp", "127.0.0.1:0", "-m", "64",
                                                "-t", "1", "--name", name, "--discover", self.source, "--member-ttl", TTL))

    def write_weight(self, name, weight):
        self.weights[name] = weight
        return write_weight(self.folder, name, weight)

    def moves(self, act, daemons=("one", "two")):
        """Returns the keys that move."""
        before = self.homes()
        act()
        self.until_list(self.nodes, daemons)
        homes = self.homes()
        return [key for key in KEYS if homes[key] != before[key]]

    def joins(self, name, daemons=("one", "two")):
        return self.moves(lambda: self.nodes.update({name: self.node(name)}), daemons)

    def weighs(self, name, weight):
        self.write_weight(name, weight)
        return self.moves(lambda: self.nodes[name].signal(signal.SIGHUP))

    def leaves(self, name, daemons=("one", "two")):
        self.weights.pop(name)
        self.nodes.pop(name).stop()
        self.until_list(self.nodes, daemons)

    def until_list(self, names, daemons=("one", "two")):
        weights = {name: self.weights[name] for name in names}
        for daemon in daemons:
            shown = until(lambda: nodes_shown(self.daemons[daemon]), lambda shown: settled(shown) and weights_of(shown) == weights)
            assert weights_of(shown) == weights, shown

    def homes(self):
        return {key: self.daemons["one"].stats("route " + key)["node"] for key in KEYS}

    def counted(self, counter):
        return sum(int(daemon.stats("proxy")[counter]) for daemon in self.daemons.values())

    def wrong(self, client, keys):
        """The first five whose item is not the first one, with its flags."""
        found = {key.decode(): (value, flags) for key, flags, value, _ in client.get_many(keys)}
        return [key for key in keys if found.get(key) != (self.first(key), KEYS.index(key))][:5]


def settled(shown):
    return all_up(shown) and {one["fence"] for one in shown.values()} == {"in_use"}


def weights_of(shown):
    return {name: int(one["weight"]) for name, one in shown.items()}


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


def weighs(etcd):
    """The weight of a node changes: it gets more keys, fewer, or none. Then it can be stopped."""
    with contextlib.ExitStack() as stack:
        fleet = Fleet(stack, etcd, "/weighs")
        one, two = fleet.one, fleet.two
        uniques = {key: said(one, "mg %s c" % key) for key in KEYS}
        found = 0
        for title, name, weight in (("more keys", "a", 3), ("fewer", "a", 1), ("no keys", "a", 0),
                                    ("keys again", "a", 2), ("none", "b", 0)):
            time.sleep(TTL)  # a node that just had a key may have changed it
            moved = fleet.weighs(name, weight)
            client = one if weight % 2 else two
            tap.ok(moved and not fleet.wrong(client, KEYS), "a node gets %s: no item is lost" % title, len(moved))
            found += len(moved)
            tap.is_(fleet.counted("moved_hits"), found, "each comes from the node that had it, once")
        tap.is_([key for key in KEYS if said(one, "mg %s c" % key) != uniques[key]], [], "uniques are the same")
        tap.is_({home for home in fleet.homes().values()}, {"a"}, "a node without keys is asked for none")
        fleet.leaves("b")
        tap.is_(fleet.wrong(one, KEYS) + fleet.wrong(two, KEYS), [], "it is stopped, and nothing is lost")
        time.sleep(TTL)
        moved = fleet.joins("c") + fleet.weighs("a", 0)
        tap.is_(fleet.wrong(two, KEYS), [], "one joins, the other gets no keys: no item is lost, although none was read in between")
        changed = moved[:20]
        deletes = [said(one, "delete %s" % key) for key in changed]
        time.sleep(TTL)
        fleet.weighs("a", 1)
        tap.is_((deletes, [key for key in changed if two.get(key) is not None]), (["DELETED"] * 20, []),
                "keys that return to a node do not bring deleted items")
        tap.is_(fleet.wrong(one, [key for key in KEYS if key not in changed]), [], "but all others")
        fleet.write_weight("a", 0)
        fleet.write_weight("c", 0)
        fleet.nodes["a"].signal(signal.SIGHUP)
        fleet.nodes["c"].signal(signal.SIGHUP)
        refused = until(lambda: fleet.daemons["one"].stats("discovery")["refused"], lambda count: int(count) > 0)
        tap.ok(int(refused) > 0, "a list without any node for keys is refused", refused)
        tap.is_(fleet.wrong(one, KEYS[-20:]), [], "and the one before stays in use")
        time.sleep(TTL / 2)  # each looks every TTL / 3; a look that changes nothing shows nothing
        tap.is_(fleet.wrong(one, KEYS[-20:]), [], "also when both nodes have looked at their records again")


def comes_and_goes(etcd):
    """A farcached does not see that a node came and went. It takes no older item of the keys that this node had."""
    for seen in (False, True):
        with contextlib.ExitStack() as stack:
            fleet = Fleet(stack, etcd, "/goes-%s" % seen)
            one, two = fleet.one, fleet.two
            moved = fleet.joins("c")
            fleet.relay.close()
            away = [key for key in fleet.joins("d", ("one",)) if key in moved]
            for key in away:
                tap_is(one.set(key, "new"), "STORED")
            fleet.leaves("d", ("one",))
            if seen:
                lists = int(fleet.daemons["two"].stats("discovery")["answers"])
                fleet.relay.open()
                until(lambda: int(fleet.daemons["two"].stats("discovery")["answers"]), lambda answers: answers > lists)
            got = [(key, two.get(key)) for key in away]
            tap.is_([key for key, value in got if value is not None], [],
                    "a node came and went, %s: no item of before" % ("and etcd answers again" if seen else "unseen by a farcached"))
            tap.ok(away, "of keys that it had", len(away))


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
    weighs(etcd)
    comes_and_goes(etcd)
    flushes(etcd)
    switched_off(etcd)
    if not is_sanitized():  # the daemons of the plain build show it
        broken(etcd)
tap.is_(mistakes, [], "no other answer was wrong")
tap.done()
