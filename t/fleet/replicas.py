# SPDX-License-Identifier: BSD-3-Clause
"""Two nodes have each item (replicas = 2; daemon/steps/replicas.h): every command reaches both, a node can be lost without a
lost or an old value, and a node that joins finds its items at the other one. Over TCP, with FARCACHED_OVER=tcp=verbs over RDMA,
with tcp=shm in mapped memory (t/fleet/replicas_mapped.py)."""
import collections
import contextlib
import os
import signal
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import consistency_load as load  # noqa: E402
import etcd as etcd_servers  # noqa: E402
from cluster import Faults, Table, all_up, faulty, nodes_shown  # noqa: E402
from daemon import is_sanitized, run_binary  # noqa: E402
from etcd import Etcd  # noqa: E402
from farcached import Daemon, deadline, tap, until  # noqa: E402
from farnode import Farnode  # noqa: E402

etcd_servers.skip_without()
OVER = os.environ.get("FARCACHED_OVER", "tcp=tcp").removeprefix("tcp=")
OVER_VERBS = OVER == "verbs"
TTL = 5 if OVER_VERBS or is_sanitized() else 3  # seconds
SECONDS = load.seconds(8)  # of load
LEAD = 64  # uniques of a key: more than the nodes issue while each key of a node is set twice
SLOW = "delay_send=0.3,delay_ms=4"  # so mutations overlap more often
OPTIONS = "replicas=2,node_timeout_ms=%d," % (2000 if OVER_VERBS else 400)
OPTIONS += {"tcp": "", "verbs": "discover_channel=verbs,", "shm": "discover_shm,"}[OVER]
if OVER == "shm" and b"without libseccomp" not in run_binary("--version-full")[1] and not is_sanitized():
    OPTIONS += "drop_privileges,"  # maps memory behind the filter
FOLDER = tempfile.TemporaryDirectory(prefix="farcached-test-")  # of sockets
KEYS = ["key-%d" % i for i in range(90)]
ZONES = {"a": "east", "b": "west", "c": "east", "d": "west", "e": "east", "f": "west", "one": "east", "two": "west"}


class Fleet:
    """Nodes a, b and c; farcached `one` and `two`, each with a worker thread more than one."""

    def __init__(self, stack, etcd, prefix, names="abc", faults=None, zones=None, options="", args=()):
        self.stack, self.faults, self.source, self.zones = stack, faults, etcd.source(prefix=prefix), zones or {}
        self.prefix = prefix.strip("/")
        self.nodes = {name: self.node(name) for name in names}
        table = Table()
        stack.callback(table.unlink)
        self.daemons = {}
        for name in ("one", "two"):
            with_options = OPTIONS + table.options() + self.zone(",zone=%s", name) + options
            self.daemons[name] = stack.enter_context(Daemon("--discover", self.source, *args, "-o", with_options, threads=2,
                                                            **faulty("farcached", faults)))
        self.clients = {name: stack.enter_context(daemon.client()) for name, daemon in self.daemons.items()}
        self.until_list(names)
        for key in KEYS:
            self.stored("one", key, "first")
        if OVER == "shm":
            links = {shown.get("links_shm") for daemon in self.daemons.values() for shown in nodes_shown(daemon).values()}
            assert links == {"2"}, links
            values(self.clients["one"])
            assert self.counted("get_local") > 0, "no item was read in mapped memory"

    def zone(self, option, name):
        return option % self.zones[name] if name in self.zones else ""

    def node(self, name):
        at = ("--verbs", os.environ["FARCACHED_RDMA_ADDRESS"] + ":0") if OVER_VERBS else ("--tcp", "127.0.0.1:0")
        at += ("--shm", os.path.join(FOLDER.name, "%s-%s.sock" % (self.prefix, name))) if OVER == "shm" else ()
        args = (*at, "-m", "16", "-t", "1", "--name", name, "--discover", self.source, "--member-ttl", TTL,
                *self.zone("--zone %s", name).split())
        return self.stack.enter_context(Farnode(*args, **faulty("farnode", self.faults)))

    def kill(self, name):
        self.nodes[name].expect_exit = -signal.SIGKILL
        self.nodes[name].stop(signal.SIGKILL)

    def until_list(self, names):
        for daemon in self.daemons.values():
            shown = until(lambda: nodes_shown(daemon), lambda shown: set(shown) == set(names) and all_up(shown))
            assert set(shown) == set(names), shown
        for client in self.clients.values():
            client.get("none")  # after this tick its worker has the list, too

    def stored(self, name, key, value):
        """What is said in the end: a node registers, or a link begins."""
        return until(lambda: self.clients[name].set(key, value), lambda said: said == "STORED")

    def homes(self):
        return {key: self.daemons["one"].stats("route " + key)["node"] for key in KEYS}

    def items(self, names):
        return sum(int(self.daemons["one"].stats("node " + name)["curr_items"]) for name in names)

    def lost(self):
        """What tells why an item has no copy."""
        return ["%s %d" % (name, self.counted(name)) for name in ("replica_copies", "replica_copies_lost", "replica_refusals")]

    def counted(self, counter):
        return sum(int(daemon.stats("proxy")[counter]) for daemon in self.daemons.values())


def said(client, command):
    client.send(command.encode() + b"\r\n")
    return client.line().decode().rstrip()


def values(client):
    return {key: client.get(key) for key in KEYS}


LARGE = "set %(key)s 0 0 300000\r\n" + "x" * 300_000
KINDS = (  # what the second farcached sends after the first one has set the value, and the first line of each reply
    ("second", ("set %(key)s 0 0 5\r\nthird", "STORED")),
    ("second", ("delete %(key)s", "DELETED")),
    ("second", ("append %(key)s 0 0 1\r\n!", "STORED")),
    ("41", ("incr %(key)s 1", "42")),
    ("second", ("add %(key)s 0 0 1\r\nx", "NOT_STORED")),
    ("second", ("touch %(key)s 1000", "TOUCHED")),
    ("100", ("decr %(key)s 1", "99")),
    ("second", ("ms %(key)s 9 F77 T500\r\nlong-word", "HD")),
    ("second", (LARGE, "STORED")),
    ("second", ("cas %(key)s 0 0 1 1\r\nx", "EXISTS")),
    ("second", ("cas %(key)s 3 600 3 %(unique)s\r\ncas", "STORED")),
    ("second", ("prepend %(key)s 0 0 1\r\n!", "STORED")),
    ("second", ("replace %(key)s 4 700 3\r\nnew", "STORED")),
    ("second", ("delete %(key)s", "DELETED"), ("add %(key)s 5 800 5\r\nadded", "STORED")),
    ("second", ("gat 900 %(key)s", "VALUE %(key)s 0 6")),
    ("41", ("ma %(key)s D10 T400", "HD")),
)
# Changes that the item would show, and the first words of their replies if they are refused. A refused gat is a miss.
CHANGES = ((b"set %(key)s 0 0 2\r\nno\r\n", b"SERVER_ERROR"), (b"append %(key)s 0 0 2\r\nno\r\n", b"SERVER_ERROR"),
           (b"delete %(key)s\r\n", b"SERVER_ERROR"), (b"touch %(key)s 100\r\n", b"SERVER_ERROR"), (b"gat 100 %(key)s\r\n", b"END"))


def commands(fleet):
    """Before a node is killed: of each one's keys in turn. What each key must be after it, by the answer of both farcached."""
    one, two = fleet.clients["one"], fleet.clients["two"]
    homes, counts = fleet.homes(), collections.Counter()
    for i, key in enumerate(KEYS):
        here, there = (one, two) if i % 2 == 0 else (two, one)
        value, *asked = KINDS[counts[homes[key]] % len(KINDS)]
        counts[homes[key]] += 1
        here.set(key, value)
        for command, reply in asked:
            named = {"key": key, "unique": unique(there, key) if "%(unique)s" in command else ""}
            tap_is(said(there, command % named), reply % named)
            if reply.startswith("VALUE"):
                tap_is([there.line() for _ in range(2)], [b"%s\r\n" % value.encode(), b"END\r\n"])
    return state(fleet)


def state(fleet, keys=tuple(KEYS), flags="s f c"):
    """{key: (these by one farcached, the value by the other)}"""
    one, two = fleet.clients["one"], fleet.clients["two"]
    return {key: (said(one, "mg %s %s" % (key, flags)), two.get(key)) for key in keys}


def not_refused(client, keys):
    """Changes of all kinds at once: keys of which one is not refused."""
    asked = [(key, *CHANGES[i % len(CHANGES)]) for i, key in enumerate(keys)]
    client.send(b"".join(command % {b"key": key.encode()} for key, command, _ in asked))
    return [key for key, _, refusal in asked if client.line().split()[0] != refusal]


def times_left(fleet):
    """{key: (before it was asked, seconds to live or -1, after that)} of all items."""
    found = {}
    for key in KEYS:
        before = time.monotonic()
        reply = said(fleet.clients["one"], "mg %s t" % key)
        if reply != "EN":
            found[key] = before, int(reply.split("t")[-1]), time.monotonic()
    return found


def of_other_times(before, after):
    """Keys whose end has moved by more than the rounding of a second at each of the two nodes."""
    wrong = []
    for key, (began, left, ended) in before.items():
        began_later, left_later, ended_later = after.get(key, (0, None, 0))
        passed = None if left_later is None else left - left_later
        if passed is None or (left < 0) != (left_later < 0) or (
                left >= 0 and not began_later - ended - 2 <= passed <= ended_later - began + 2):
            wrong.append((key, left, left_later))
    return wrong


wrong = []


def tap_is(got, wanted):
    if got != wanted:
        wrong.append((got, wanted))


def loses(etcd):
    """A node dies."""
    with contextlib.ExitStack() as stack:
        fleet = Fleet(stack, etcd, "/loses")
        one, two = fleet.clients["one"], fleet.clients["two"]
        tap.is_({fleet.stored("one", key, "first") for key in KEYS}, {"STORED"}, "three nodes, two copies of each item: stored")
        expected = commands(fleet)
        tap.is_(wrong, [], "commands of all kinds through two farcached answer as they do without copies")
        present = sum(value is not None for _, value in expected.values())
        tap.is_(fleet.items("abc"), 2 * present, "each item is on two nodes")
        left = times_left(fleet)
        routes = {key: fleet.daemons["one"].stats("route " + key) for key in KEYS}
        lost = [key for key in KEYS if routes[key]["node"] == "a"]
        tap.ok(len(lost) >= len(KINDS), "a node has keys of each command", len(lost))
        fleet.kill("a")
        tap.is_([key for key in lost if one.get(key) != expected[key][1]], [], "a node dies: its items are read from their copies")
        tap.is_([key for key in KEYS if two.get(key) != expected[key][1]], [], "through the other farcached, too")
        tap.is_(one.set(lost[0], "no").split(" ")[0], "SERVER_ERROR", "they cannot be changed while the list has the node")
        copied = [key for key in KEYS if routes[key]["copy"] == "a"]
        tap.is_(not_refused(one, copied), [], "nor can those whose copies it had")
        fleet.until_list("bc")
        now = state(fleet)
        tap.is_([(key, now[key], expected[key]) for key in KEYS if now[key] != expected[key]], [],
                "when the list has lost it, all items are there, with their flags and uniques")
        tap.is_(of_other_times(left, times_left(fleet)), [], "and with their time to live")
        tap.is_({fleet.stored("one", key, "after") for key in KEYS[::2]}, {"STORED"}, "all can be changed")
        tap.is_({two.get(key) for key in KEYS[::2]}, {b"after"}, "which the other farcached sees")
        present += sum(expected[key][1] is None for key in KEYS[::2])
        tap.ok(until(lambda: fleet.items("bc"), lambda items: items == 2 * present) == 2 * present,
               "each item gets a copy on the nodes that are left", fleet.items("bc"), 2 * present, *fleet.lost())
        fleet.kill("b")
        tap.is_([key for key in KEYS if two.get(key) != (b"after" if key in KEYS[::2] else expected[key][1])], [],
                "one more is killed: all items are read from the last node")


def searched(etcd):
    """`stats proxy` says when every item has its copy: then one more node can be lost."""
    with contextlib.ExitStack() as stack:
        fleet = Fleet(stack, etcd, "/searched", "abcd")

        def left():
            return fleet.counted("replica_search_left") + fleet.counted("replica_missing")

        for name, others in (("a", "bcd"), ("b", "cd")):
            seen = fleet.counted("replica_searched")
            fleet.kill(name)
            fleet.until_list(others)
            tap.is_(until(left, lambda count: count == 0), 0, "node %s dies: the search for missing copies ends" % name)
            tap.is_(fleet.items(others), 2 * len(KEYS), "and at that moment each item has its copy")
            tap.ok(fleet.counted("replica_searched") - seen >= len(KEYS), "each key was looked at",
                   fleet.counted("replica_searched") - seen)
        tap.is_(set(values(fleet.clients["two"]).values()), {b"first"}, "after both no item is lost")


def without_fence(etcd):
    """A node without a fence has no right that ends, and knows no list."""
    source = etcd.source(prefix="/unfenced")
    with Farnode("--tcp", "127.0.0.1:0", "-m", "16", "-t", "1", "--name", "a", "--discover", source, "--discover-fence", "off"), \
            Daemon("--discover", source, "-o", "replicas=2", threads=1) as daemon:
        why = until(lambda: nodes_shown(daemon)["a"].get("down_reason", ""), lambda why: "no serving right" in why)
        tap.like(why, "node a has no serving right", "a node without a fence is not used for copies")


def differs(etcd):
    """A farcached with another value of `replicas` would leave old copies behind."""
    with contextlib.ExitStack() as stack:
        fleet = Fleet(stack, etcd, "/differs")
        options = OPTIONS.replace("replicas=2", "replicas=1").strip(",")
        with Daemon("--discover", fleet.source, "-o", options) as other, other.client() as client:
            reasons = until(lambda: {shown.get("down_reason") for shown in nodes_shown(other).values()},
                            lambda reasons: all("replicas" in str(reason) for reason in reasons))
            tap.ok(all("set the same replicas in all farcached" in str(reason) for reason in reasons),
                   "nodes refuse a farcached without copies", reasons)
            tap.is_(client.set(KEYS[0], "alone").split(" ")[0], "SERVER_ERROR", "it changes nothing")
        tap.is_(set(values(fleet.clients["one"]).values()), {b"first"}, "the others go on")


def overlaps(etcd):
    """Both farcached change the same keys at the same time. What loses its copy by that gets one soon."""
    with contextlib.ExitStack() as stack:
        fleet = Fleet(stack, etcd, "/overlaps", faults=Faults(SLOW, ""))
        sets = b"".join(b"set %s 0 0 1\r\n%d\r\n" % (key.encode(), n) for n in range(5) for key in KEYS)

        def lost():
            for client in fleet.clients.values():
                client.send(sets)
            for client in fleet.clients.values():
                for _ in range(5 * len(KEYS)):
                    client.line()
            return fleet.counted("replica_copies_lost")

        tap.ok(until(lost, bool), "two farcached set the same keys, and some of their sets overlap")
        tap.is_({fleet.stored("one", key, "last") for key in KEYS}, {"STORED"}, "then one sets them")
        both = 2 * len(KEYS)
        tap.is_(until(lambda: fleet.items("abc"), lambda items: items == both), both, "each item has a copy again")
        before = values(fleet.clients["one"])
        fleet.kill("a")
        tap.is_(values(fleet.clients["two"]), before, "and the copy is equal")


def some(etcd):
    """Only some keys have a copy, and very hot ones are read from both nodes."""
    with contextlib.ExitStack() as stack:
        fleet = Fleet(stack, etcd, "/some", options=",replica_reads", args=["--replica-prefixes", "key-1,key-2"])
        one, two = fleet.clients["one"], fleet.clients["two"]
        copied = [key for key in KEYS if key.startswith(("key-1", "key-2"))]
        tap.is_({fleet.stored(name, key, "second") for name in ("two", "one") for key in KEYS}, {"STORED"}, "all keys are set")
        both = len(KEYS) + len(copied)
        tap.is_(until(lambda: fleet.items("abc"), lambda items: items == both), both, "those with a prefix have a copy")
        hot = copied[0]
        found = set()
        for _ in range(10 * int(deadline())):
            one.send(b"get " + hot.encode() + b"\r\n" + b"\r\n".join([b"mg %s v" % hot.encode()] * 999) + b"\r\n")
            found |= {one.line() for _ in range(3)} | {one.line() for _ in range(2 * 999)}
            if fleet.counted("replica_reads"):
                break
        tap.ok(fleet.counted("replica_reads"), "gets of one very hot key read its copy, too")
        tap.is_(found, {b"VALUE %s 0 6\r\n" % hot.encode(), b"VA 6\r\n", b"second\r\n", b"END\r\n"}, "and all find its value")
        two.set(hot, b"third!")
        tap.is_({one.get(hot) for _ in range(20)}, {b"third!"}, "no old one when it has changed")
        homes = fleet.homes()
        fleet.kill("a")
        lost = [key for key in KEYS if homes[key] == "a" and key not in copied]
        tap.is_([key for key in KEYS if two.get(key) is None], lost, "a node dies: the others' items are lost")


def stands_still(etcd):
    """A node that does not reply keeps its connections."""
    with contextlib.ExitStack() as stack:
        fleet = Fleet(stack, etcd, "/still")
        one, two = fleet.clients["one"], fleet.clients["two"]
        copied = [key for key in KEYS if fleet.daemons["one"].stats("route " + key)["copy"] == "a"][:2 * len(CHANGES)]
        before = state(fleet, copied, "s f c t"), fleet.counted("replica_refusals")
        stack.enter_context(fleet.nodes["a"].stopped())
        tap.is_(not_refused(one, copied), [], "a node stands still: keys whose copies it has cannot be changed")
        after = state(fleet, copied, "s f c t"), fleet.counted("replica_refusals")
        tap.is_(after, (before[0], before[1] + len(copied)), "no first node has executed one of these changes")
        tap.is_(set(values(one).values()), {b"first"}, "a node stands still: all items are found")
        tap.is_({value for _, _, value, _ in two.get_many(KEYS)}, {b"first"}, "those of one get with all keys, too")
        tap.is_(len(two.get_many(KEYS)), len(KEYS), "again")
        fleet.until_list("bc")
        tap.is_(set(values(two).values()), {b"first"}, "and after the list has lost it")
        tap.is_(state(fleet, copied, "s f c t"), before[0], "and those with copies there are as they were")


def joins(etcd):
    """A node joins, and one comes back."""
    with contextlib.ExitStack() as stack:
        fleet = Fleet(stack, etcd, "/joins", "ab")
        one, two = fleet.clients["one"], fleet.clients["two"]
        fleet.nodes["c"] = fleet.node("c")
        fleet.until_list("abc")
        homes = fleet.homes()
        moved = [key for key in KEYS if homes[key] == "c"]
        tap.ok(moved, "a node joins", len(moved))
        tap.is_(set(values(one).values()), {b"first"}, "no item is lost: the new node gets its items from their copies")
        tap.is_(fleet.counted("replica_refills"), len(moved), "once")
        tap.is_(set(values(two).values()), {b"first"}, "and has them then")
        tap.is_({fleet.stored("two", key, "second") for key in KEYS}, {"STORED"}, "all are changed")
        fleet.nodes["c"].stop()
        fleet.until_list("ab")
        tap.is_(set(values(one).values()), {b"second"}, "it leaves: no item is lost, and none is old")
        commands_of_all = ["set %s %d %d 5\r\nthird" % (key, i, 0 if i % 3 == 0 else 1000 + i) for i, key in enumerate(KEYS)]
        tap.is_({said(two, command) for command in commands_of_all}, {"STORED"}, "changed while it is away")
        expected, left = state(fleet), times_left(fleet)
        fleet.nodes["c"] = fleet.node("c")
        fleet.until_list("abc")
        tap.is_(set(values(two).values()), {b"third"}, "it is back: no item is lost, and none is old")
        refilled = {key: value for key, value in state(fleet).items() if value != expected[key]}
        tap.is_((refilled, of_other_times(left, times_left(fleet))), ({}, []), "with their flags, uniques and times to live")


def in_zones(etcd):
    """A get prefers a copy in the farcached's own zone."""
    with contextlib.ExitStack() as stack:
        fleet = Fleet(stack, etcd, "/zones", zones=ZONES)
        routes = {key: fleet.daemons["one"].stats("route " + key) for key in KEYS}
        near = {name: [key for key, route in routes.items() if ZONES[route["node"]] != zone == ZONES[route["copy"]]]
                for name, zone in (("one", "east"), ("two", "west"))}
        tap.ok(near["one"] and near["two"], "for some keys only the copy is in the zone", near)
        for name, client in fleet.clients.items():
            def read():
                before = int(fleet.daemons[name].stats("proxy")["replica_reads"])
                found = set(values(client).values())
                return found, int(fleet.daemons[name].stats("proxy")["replica_reads"]) - before

            wanted = {b"first"}, len(near[name])
            tap.is_(until(read, lambda seen: seen == wanted), wanted, name + " gets all items, and those from their copies")
        one, two = fleet.clients["one"], fleet.clients["two"]
        wrong = []
        for n in range(5):
            for key in near["one"]:
                fleet.stored("two", key, "v%d" % n)
                found = one.get(key), said(one, "mg %s v s" % key).split()[0] and one.line()
                wrong += [(key, n, found)] if found != (b"v%d" % n, b"v%d\r\n" % n) else []
        tap.is_(wrong, [], "what the other zone sets is seen at once")
        own = [b"set %s 0 0 1\r\n%d\r\nget %s\r\n" % (k.encode(), n, k.encode()) for n in range(5) for k in near["one"]]
        one.send(b"".join(own))
        got = [[one.line().strip() for _ in range(4)][2] for n in range(5) for _ in near["one"]]
        tap.is_(got, [b"%d" % n for n in range(5) for _ in near["one"]], "and its own sets, without a wait between")
        key = near["one"][0]
        tap.is_((said(two, "delete " + key), one.get(key)), ("DELETED", None), "a deleted item is a miss")
        tap.is_(fleet.daemons["one"].stats("nodes")["a:zone"], "east", "stats nodes has the zone")


def unique(client, key):
    return int(said(client, "mg %s c" % key).split()[1][1:])


def issued_alone(one, keys):
    """{key: uniques that only its first node knows of}. A stale item has no copy, and each `md I` gives it a new unique."""
    known = max(unique(one, key) for key in KEYS)
    issued = {}
    for key in keys:
        found = issued[key] = []
        while len(found) < LEAD:
            tap_is(said(one, "md %s I" % key), "HD")
            found += [number for number in [unique(one, key)] if number > known]
    return issued


def issued_again(fleet, issued):
    """Sets the keys until their uniques are above these; [(key, unique, reply)] of each cas that is not refused."""
    two, highest, again = fleet.clients["two"], max(max(before) for before in issued.values()), []
    for _ in range(100 * LEAD):
        reached = []
        for key, before in issued.items():
            fleet.stored("two", key, "new")
            reached.append(unique(two, key))
            old = reached[-1] if reached[-1] in before else before[-1]
            reply = said(two, "cas %s 0 0 3 %d\r\nold" % (key, old))
            again += [(key, old, reply)] if reply != "EXISTS" else []
        if again or min(reached) > highest:
            break
    return again


def uniques(etcd, rule=""):
    """A node dies that has issued uniques of which the other nodes do not know. No later item of their keys gets one of them.

    The nodes' counters begin at the time of their start. Sets of all keys bring them together but for a few hundred: a node goes on
    from the highest unique that it has got with a copy. Broken, each key passes all uniques of the dead node. Both nodes have about
    every fourth key in partitions of the same number, and sets of these keys meet its uniques."""
    with contextlib.ExitStack() as stack:
        fleet = Fleet(stack, etcd, "/uniques" + rule.lower(), faults=Faults("", rule) if rule else None)
        for value in ("second", "third", "fourth"):
            for key in KEYS:
                fleet.stored("two", key, value)
        keys = [key for key, node in fleet.homes().items() if node == "a"]
        wrong.clear()
        issued = issued_alone(fleet.clients["one"], keys)
        fleet.kill("a")
        fleet.until_list("bc")
        again = issued_again(fleet, issued)
        if rule:
            return tap.ok("STORED" in [reply for _, _, reply in again], rule + " broken: an old unique matches a later item", again)
        tap.is_(wrong, [], "a node issues uniques that the others have not seen, and dies")
        tap.is_(again, [], "no later item of the keys gets one of them: a cas with it is refused")


def uniques_of_a_new_node(etcd):
    """A node joins soon after another one has died. Its keys had uniques of which it does not know. Those may be above the time of
    day, where its counter begins, if nodes leave out uniques. Items of other keys bring the counter near them."""
    with contextlib.ExitStack() as stack:
        fleet = Fleet(stack, etcd, "/new", "bcd")
        one = fleet.clients["one"]
        fleet.kill("d")
        fleet.until_list("bc")
        for value in ("second", "third", "fourth"):
            for key in KEYS:
                fleet.stored("two", key, value)
        wrong.clear()
        issued = issued_alone(one, KEYS[::2])
        fleet.nodes["a"] = fleet.node("a")
        fleet.until_list("abc")
        homes = fleet.homes()
        moved = {key: before for key, before in issued.items() if homes[key] == "a"}
        tap.ok(moved and not wrong, "a node joins, whose keys had uniques that it does not know", wrong)
        kept = [key for key in KEYS[1::2] if one.get(key) != b"fourth"]
        tap.is_(kept, [], "it gets the items of other keys")
        tap.is_(issued_again(fleet, moved), [], "no later item of its keys gets a unique of before: a cas with it is refused")


def under_load(etcd, rule=""):
    """Nodes die and join while every reply is checked. A broken rule must be seen."""
    with contextlib.ExitStack() as stack:
        fleet = Fleet(stack, etcd, "/load" + rule.lower(), faults=Faults(SLOW, rule) if rule else None, zones=ZONES)
        ports = ",".join(str(daemon.port) for daemon in fleet.daemons.values())
        # With outages a change answered as unavailable has an unknown outcome, and a miss proves nothing.
        run = load.Load(ports, "--outages", "1", "--keys", "64", "--threads", "12", "--seconds", 60 if rule else SECONDS,
                        "--seed", load.seed(), timeout=500 + deadline())
        for name in ("a", "d", "b", "e", "c", "f") * 20:
            if not run.running():
                break
            if name in fleet.nodes:
                fleet.kill(name)
                del fleet.nodes[name]
            else:
                fleet.nodes[name] = fleet.node(name)
            until(lambda: run.running(), lambda running: not running, timeout=TTL)
        if not rule:
            return run.end("nodes die and join")
        said = run.finish()[0]
        tap.ok(any("not ok" in line and any(word in line for word in load.WRONG) for line in said.splitlines()),
               rule + " broken: the load sees it")


with Etcd() as etcd:
    loses(etcd)
    searched(etcd)
    without_fence(etcd)
    differs(etcd)
    overlaps(etcd)
    some(etcd)
    stands_still(etcd)
    joins(etcd)
    in_zones(etcd)
    if OVER == "tcp":  # a node issues them alike, whatever its transport
        uniques(etcd)
        uniques_of_a_new_node(etcd)
    under_load(etcd)
    if OVER == "tcp" and not is_sanitized():  # the daemons of the plain build show it
        uniques(etcd, "S20_UNIQUES")
        under_load(etcd, "S20")
        under_load(etcd, "S20_ORDER")
tap.done()
