# SPDX-License-Identifier: BSD-3-Clause
"""A farcached that does not see etcd any more keeps its list of nodes. Nodes execute none of its requests for keys that moved to
another node since (node/service/list_epoch.h, S17)."""
import contextlib
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import etcd as etcd_servers  # noqa: E402
from cluster import Faults, Table, all_up, faulty, nodes_shown  # noqa: E402
from etcd import Etcd, Relay, write_weight  # noqa: E402
from farcached import Daemon, tap, until  # noqa: E402
from farctl import FOLDER, asked, at, farctl, path_of  # noqa: E402
from farnode import Farnode  # noqa: E402

etcd_servers.skip_without()
TTL = 60  # seconds: no registration ends on a busy machine
QUESTION_S = 3  # EtcdSource::question_ms
LATE_S = 5  # a node waits for a third of its ttl (12 s in last_two) for an answer of etcd
RANGE = b"/kv/range HTTP"
KEYS = ["key-%d" % i for i in range(60)]
CHANGES = ["set %s 0 0 300000\r\n" + "x" * 300_000, "delete %s", "incr %s 1", "mg %s N60 v", "gat 60 %s"]  # a value in pieces, ...


class Fleet:
    """Nodes a and b; proxies `new` and `old`. Those in `relayed` reach etcd over a relay."""

    def __init__(self, stack, etcd, prefix, faults=None, relayed=("old",), replicas=1, options=""):
        self.stack, self.faults, self.source = stack, faults, etcd.source(prefix=prefix)
        self.relays = {name: stack.enter_context(Relay(etcd.port)) for name in relayed}
        self.relay = self.relays["old"]
        self.begun = {}  # {node: times before and after its start}
        self.nodes = {name: self.node(name) for name in "ab"}
        table = Table()
        stack.callback(table.unlink)
        urls = {"new": self.source} | {name: "etcd://127.0.0.1:%d%s" % (at.port, prefix) for name, at in self.relays.items()}
        options = "replicas=%d,%s%s" % (replicas, table.options(), options)
        self.daemons = {name: stack.enter_context(Daemon("--discover", url, "--admin", path_of(name), "-o", options, threads=2))
                        for name, url in urls.items()}
        self.clients = {name: stack.enter_context(daemon.client()) for name, daemon in self.daemons.items()}
        for name in urls:
            self.until_list(name, "ab")
        self.listed = time.time()  # all are connected

    def node(self, name):
        args = ("--tcp", "127.0.0.1:0", "-m", "16", "-t", "1", "--name", name, "--discover", self.source, "--member-ttl", TTL,
                "--zone", "zone-" + name)
        before = time.time()
        node = self.stack.enter_context(Farnode(*args, **faulty("farnode", self.faults)))
        self.begun[name] = before, time.time()
        return node

    def until_list(self, name, names):
        shown = until(lambda: nodes_shown(self.daemons[name]), lambda shown: set(shown) == set(names) and all_up(shown))
        assert set(shown) == set(names), (name, shown)

    def stored(self, name, key, value):
        """What is said in the end: a node registers, or a link begins."""
        return until(lambda: self.clients[name].set(key, value), lambda said: said == "STORED")

    def counted(self, node, counter):
        return int(self.daemons["new"].stats("node " + node)[counter])


def first_word(client, command):
    client.send(command.encode() + b"\r\n")
    return client.line().decode().split()[0]


def answers(client, keys, value):
    return {client.set(key, value).split(" ")[0] for key in keys}


def without_keys(etcd):
    """A node gets weight 0. The only farcached does not see that, so no keys of a new list reach the node."""
    ttl = 12  # seconds; the node looks at its record every 4
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="farcached-test-"))
        relay, table = stack.enter_context(Relay(etcd.port)), Table()
        stack.callback(table.unlink)
        nodes = {name: stack.enter_context(Farnode("--config", write_weight(folder, name, 1), "--tcp", "127.0.0.1:0", "-m", "16",
                                                   "-t", "1", "--name", name, "--discover", etcd.source(prefix="/empty"),
                                                   "--member-ttl", ttl)) for name in "ab"}
        daemon = stack.enter_context(Daemon("--discover", "etcd://127.0.0.1:%d/empty" % relay.port, "-o", table.options(),
                                            threads=1))
        shown = until(lambda: nodes_shown(daemon), lambda shown: len(shown) == 2 and all_up(shown))
        client = stack.enter_context(daemon.client())
        keys = [key for key in KEYS if daemon.stats("route " + key)["node"] == "a"]
        stored = {until(lambda key=key: client.set(key, "first"), lambda said: said == "STORED") for key in keys}
        tap.ok(set(shown) == set("ab") and stored == {"STORED"}, "two nodes; a farcached stores", shown)
        relay.close()
        write_weight(folder, "a", 0)
        nodes["a"].signal(signal.SIGHUP)
        until(nodes["a"].stderr, lambda log: b"registered with weight 0 " in log)
        tap.is_(answers(client, keys[:5], "second"), {"SERVER_ERROR"}, "one gets weight 0: it executes no change by the last list")
        tap.is_({client.get(key) for key in keys}, {None}, "nor a get")
        relay.open()
        stored = {until(lambda key=key: client.set(key, "third"), lambda said: said == "STORED") for key in keys}
        tap.is_(stored, {"STORED"}, "with the new list the other node does")


def last_two(etcd):
    """The last two nodes get weight 0 at once: b's is in etcd when a looks whether others have keys. There was a list between. Etcd
    answers that look too late, so a has to look again."""
    ttl = 12  # seconds; a node looks at the records every 4
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="farcached-test-"))
        relays, table = {name: stack.enter_context(Relay(etcd.port)) for name in ("daemon", "a", "b")}, Table()
        stack.callback(table.unlink)
        urls = {name: "etcd://127.0.0.1:%d/last" % relay.port for name, relay in relays.items()}
        nodes = {name: stack.enter_context(Farnode("--config", write_weight(folder, name, 1), "--tcp", "127.0.0.1:0", "-m", "16",
                                                   "-t", "1", "--name", name, "--discover", urls[name], "--member-ttl", ttl))
                 for name in "ab"}
        daemon = stack.enter_context(Daemon("--discover", urls["daemon"], "-o", table.options(), threads=1))
        until(lambda: nodes_shown(daemon), lambda shown: len(shown) == 2 and all_up(shown))
        client = stack.enter_context(daemon.client())
        keys = {name: [key for key in KEYS if daemon.stats("route " + key)["node"] == name] for name in "ab"}
        stored = {until(lambda key=key: client.set(key, "first"), lambda said: said == "STORED") for key in KEYS}
        relays["daemon"].close()
        looked = []

        def gets_none(name):
            write_weight(folder, name, 0)
            nodes[name].signal(signal.SIGHUP)
            return until(nodes[name].stderr, lambda log: b"registered with weight 0 " in log)

        def before_look():
            looked.append(gets_none("b"))
            time.sleep(LATE_S)

        relays["a"].before("/v3/kv/txn", lambda: relays["a"].before("/v3/kv/range", before_look))
        gets_none("a")
        tap.ok(stored == {"STORED"} and len(looked) == 1, "the last two nodes get weight 0 at once")
        tap.is_(answers(client, keys["a"][:5], "second"), {"SERVER_ERROR"},
                "the first one executes no change by the last list: a farcached may have had the list between")
        tap.is_({client.get(key) for key in keys["b"]}, {b"first"}, "the other one goes on to serve its keys")
        etcd.put("/other", "a newer revision")
        etcd.compact()
        relays["b"].close()  # its watch ends, too
        relays["b"].open()
        before = relays["b"].requests.count(RANGE)
        seen = until(lambda: relays["b"].requests.count(RANGE), lambda now: now >= before + 8, timeout=90)  # four looks
        assert seen >= before + 8, seen
        tap.is_(answers(client, keys["b"][:5], "second"), {"STORED"}, "also after etcd has forgotten the list of that time")


def between_looks(etcd):
    """A node without keys serves its last list, until another one has keys, if only for a moment between two looks of the node."""
    ttl = 6  # seconds; the node looks at the records every 2 s
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="farcached-test-"))
        relays, table = {name: stack.enter_context(Relay(etcd.port)) for name in ("daemon", "a")}, Table()
        stack.callback(table.unlink)
        urls = {name: "etcd://127.0.0.1:%d/looks" % relay.port for name, relay in relays.items()}
        a = stack.enter_context(Farnode("--config", write_weight(folder, "a", 1), "--tcp", "127.0.0.1:0", "-m", "16", "-t", "1",
                                        "--name", "a", "--discover", urls["a"], "--member-ttl", ttl))
        daemon = stack.enter_context(Daemon("--discover", urls["daemon"], "-o", table.options(), threads=1))
        until(lambda: nodes_shown(daemon), lambda shown: len(shown) == 1 and all_up(shown))
        client = stack.enter_context(daemon.client())
        tap.is_(until(lambda: client.set("key", "first"), lambda said: said == "STORED"), "STORED", "one node; a farcached stores")
        relays["daemon"].close()
        write_weight(folder, "a", 0)
        a.signal(signal.SIGHUP)
        until(a.stderr, lambda log: b"registered with weight 0 " in log)

        def passes(weight):
            """Another node's record is there and gone before a looks; then a looks twice more."""
            def come_and_go():
                etcd.put("/looks/nodes/b", json.dumps({"name": "b", "addresses": {"tcp": "127.0.0.1:9"}, "weight": weight}))
                etcd.delete("/looks/nodes/b")
            before = relays["a"].requests.count(RANGE)
            relays["a"].before("/v3/lease/keepalive", come_and_go)
            seen = until(lambda: relays["a"].requests.count(RANGE), lambda now: now >= before + 6)  # three looks
            assert seen >= before + 6, seen

        passes(0)
        tap.is_((client.set("key", "second"), client.get("key")), ("STORED", b"second"),
                "it has no keys, and another one without keys came and went: it serves the last list")
        passes(1)
        said = until(lambda: client.set("key", "third").split(" ")[0], lambda said: said == "SERVER_ERROR")
        tap.is_((said, client.get("key")), ("SERVER_ERROR", None), "so did one with keys: it refuses the last list")


def check_members(fleet):
    """While proxy `old` has an older list."""
    pids = {name: fleet.daemons[name].pid for name in ("new", "old")}
    book = fleet.daemons["new"].stats("node a proxies")
    epochs = {name: {int(value) for stat, value in book.items() if stat.endswith(":%d:epoch_highest" % pid)}
              for name, pid in pids.items()}
    newest = {fleet.counted("a", "list_epoch")}
    tap.ok(epochs["new"] == newest and epochs["old"] and max(epochs["old"]) < max(newest), "a node shows the epochs of both", book)
    shown = asked("members", *at("new"))
    tap.is_({one["name"]: (one["zone"], one["state"]) for one in shown["nodes"]},
            {name: ("zone-" + name, "up") for name in "abc"}, "farctl members: the nodes")
    behind = {one["pid"]: one["behind"] for one in shown["proxies"]}
    tap.is_(behind, {pids["new"]: False, pids["old"]: True}, "and the proxies: which one has an older list")
    tap.is_(sorted(len(one["nodes"]) for one in shown["proxies"]), [2, 3], "and how many nodes it uses")
    tap.is_({one["name"]: one["zone"] for one in asked("status", *at("new"))["nodes"]},
            {name: "zone-" + name for name in "abc"}, "farctl status: their zones")
    tap.like(farctl("status", *at("new"))[1], r"(?m)^NODE .*ZONE$(?s:.*)^a .* zone-a$", "as a column")
    _, out, _ = farctl("members", *at("new", "old"))
    tap.ok(re.search(r"^farcached +\S+ +%d +2 .* behind$" % pids["old"], out, re.M) and out.count("behind") == 1, "as text", out)
    check_since(fleet, out)
    listed = fleet.daemons["new"].stats("members")
    tap.is_((listed["source"], int(listed["epoch"]), listed["c:zone"], listed["c:state"]),
            (fleet.source, max(newest), "zone-c", "up"), "stats members: the list in use")


def check_since(fleet, text):
    """SINCE of farctl members: each node since its start, each proxy since it is connected, which was after the nodes' start."""
    def found(pattern):
        return [time.mktime(time.strptime(since, "%Y-%m-%d %H:%M:%S"))
                for since in re.findall(pattern + r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) ", text, re.M)]
    rounded = 2  # seconds: uptime and clock
    for name, (before, after) in fleet.begun.items():
        times = found(r"^%s +\S+ +zone-%s +\S+ +up +" % (name, name))
        tap.ok(len(times) == 1 and before - rounded <= times[0] <= after + rounded, "node %s is up since its start" % name,
               times, before, after)
    times = found(r"^farcached +\S+ +\d+ +\d+ +")
    begin = min(before for before, _ in fleet.begun.values())
    tap.ok(len(times) == 2 and all(begin - rounded <= since <= fleet.listed + rounded for since in times),
           "the proxies are connected since theirs", times, begin, fleet.listed)


def joins(etcd):
    """Node c joins while proxy `old` does not see it."""
    with contextlib.ExitStack() as stack:
        fleet = Fleet(stack, etcd, "/joins")
        new, old = fleet.clients["new"], fleet.clients["old"]
        tap.is_({fleet.stored("new", key, "one") for key in KEYS}, {"STORED"}, "keys are stored at two nodes")
        tap.is_({old.get(key) for key in KEYS}, {b"one"}, "both farcached read them")
        fleet.relay.close()
        fleet.nodes["c"] = fleet.node("c")
        fleet.until_list("new", "abc")
        assert {fleet.stored("new", key, "probe") for key in KEYS} == {"STORED"}
        homes = {key: fleet.daemons["new"].stats("route " + key)["node"] for key in KEYS}
        moved, kept = ([key for key in KEYS if (homes[key] == "c") == at_c] for at_c in (True, False))
        tap.ok(moved and kept, "one more node joins, and one farcached does not see it", len(moved), len(kept))
        tap.is_(answers(new, KEYS, "two"), {"STORED"}, "the other stores all keys")
        before = sum(fleet.counted(name, "requests_old_list") for name in "ab")  # on a busy machine not 0
        tap.is_({old.get(key) for key in moved}, {None}, "a farcached with the old list misses keys that moved")
        tap.is_(answers(old, moved, "three"), {"SERVER_ERROR"}, "and cannot store them")
        tap.is_({first_word(old, form % moved[0]) for form in CHANGES}, {"SERVER_ERROR", "EN", "END"},
                "nor change them in another way")
        tap.is_({new.get(key) for key in KEYS}, {b"two"}, "so nothing is lost")
        tap.is_({old.get(key) for key in kept}, {b"two"}, "it reads the others")
        tap.is_(answers(old, kept, "four"), {"STORED"}, "and stores them")
        tap.is_({new.get(key) for key in kept}, {b"four"}, "which the other sees")
        tap.is_(first_word(old, "flush_all"), "SERVER_ERROR", "it cannot flush: one node would keep its items")
        tap.is_({new.get(key) for key in KEYS}, {b"two", b"four"}, "and nothing is flushed")
        refused = sum(fleet.counted(name, "requests_old_list") for name in "ab") - before - 2  # flushes
        tap.is_(refused, 2 * len(moved) + len(CHANGES), "the nodes counted the refused requests")
        epochs = [fleet.counted(name, "list_epoch") for name in "abc"]
        tap.ok(epochs[0] == epochs[1] >= epochs[2] > 0, "and show the newest epoch", epochs)
        check_members(fleet)
        fleet.relay.open()
        fleet.until_list("old", "abc")
        tap.is_({fleet.stored("old", key, "five") for key in KEYS}, {"STORED"}, "it sees etcd again, and stores all keys")
        tap.is_({new.get(key) for key in KEYS}, {b"five"}, "which the other sees")
        tap.is_(until(lambda: first_word(old, "flush_all"), lambda word: word == "OK"), "OK", "and flushes all nodes")
        tap.is_({new.get(key) for key in KEYS}, {None}, "for the other, too")


def restarts(etcd):
    """Node a restarts, so it does not know which keys are its own."""
    with contextlib.ExitStack() as stack:
        fleet = Fleet(stack, etcd, "/restarts")
        old = fleet.clients["old"]
        tap.is_({fleet.stored("old", key, "zero") for key in KEYS}, {"STORED"}, "a farcached has named its list to both nodes")
        fleet.relay.close()
        fleet.nodes["a"].stop()
        fleet.nodes["a"].start()
        tap.is_({fleet.stored("new", key, "one") for key in KEYS}, {"STORED"}, "a node restarts, and stores")
        said = [until(lambda key=key: old.set(key, "two").split(" ")[0], bool) for key in KEYS]
        tap.ok("SERVER_ERROR" in said and "STORED" in said, "an earlier list is of no use for it, but for the other node")
        fleet.relay.open()
        tap.is_({fleet.stored("old", key, "three") for key in KEYS}, {"STORED"}, "a newer one is")
        tap.is_({fleet.clients["new"].get(key) for key in KEYS}, {b"three"}, "and all farcached see the same")


def untold(etcd):
    """Node c joins while the only farcached that runs does not see it. One that starts then does not know the list of before."""
    with contextlib.ExitStack() as stack:
        fleet = Fleet(stack, etcd, "/untold")
        old = fleet.clients["old"]
        tap.is_({fleet.stored("old", key, "one") for key in KEYS}, {"STORED"}, "keys are stored at two nodes")
        fleet.relay.close()
        fleet.daemons["new"].stop()
        fleet.nodes["c"] = fleet.node("c")
        until(lambda: etcd.keys("/untold/nodes/"), lambda keys: set(keys) == set("abc"))
        fleet.daemons["new"].start()
        fleet.until_list("new", "abc")
        with fleet.daemons["new"].client() as new:
            said = {until(lambda key=key: new.set(key, "two"), lambda said: said == "STORED") for key in KEYS}
            tap.is_(said, {"STORED"}, "a node joins, and a farcached that starts then stores all keys")
            homes = {key: fleet.daemons["new"].stats("route " + key)["node"] for key in KEYS}
            moved, kept = ([key for key in KEYS if (homes[key] == "c") == at_c] for at_c in (True, False))
            tap.is_({old.get(key) for key in moved}, {None}, "it has told the nodes its list: keys that moved miss by the old one")
            tap.is_(answers(old, moved, "three"), {"SERVER_ERROR"}, "and are not changed")
            tap.is_({old.get(key) for key in kept}, {b"two"}, "other keys are read")
            tap.is_({new.get(key) for key in KEYS}, {b"two"}, "nothing is lost")
        fleet.relay.open()
        tap.is_({fleet.stored("old", key, "four") for key in KEYS}, {"STORED"}, "with the new list it stores again")


def skipped(etcd, replicas):
    """Node a restarts. One farcached has seen only the list without it, the other one only those before and after."""
    title = "replicas %d, a list that one farcached has skipped: " % replicas
    with contextlib.ExitStack() as stack:
        prefix = "/skipped-%d" % replicas
        fleet = Fleet(stack, etcd, prefix, relayed=("new", "old"), replicas=replicas)
        new, old = fleet.clients["new"], fleet.clients["old"]
        tap.is_({fleet.stored("old", key, "zero") for key in KEYS}, {"STORED"}, title + "keys are stored at two nodes")
        fleet.relays["old"].close()
        fleet.nodes["a"].stop()
        fleet.until_list("new", "b")
        tap.is_({fleet.stored("new", key, "one") for key in KEYS}, {"STORED"}, title + "then at one")
        fleet.relays["new"].close()
        fleet.nodes["a"].start()
        until(lambda: set(etcd.keys(prefix + "/nodes/")), lambda names: names == set("ab"))
        fleet.relays["old"].open()
        fleet.until_list("old", "ab")
        tap.is_({fleet.stored("old", key, "three") for key in KEYS}, {"STORED"}, title + "then at both again")
        values = {new.get(key) for key in KEYS}
        tap.ok(values <= {None, b"three"}, title + "the other one reads no old value", values)
        moved = [key for key in KEYS if fleet.daemons["old"].stats("route " + key)["node"] == "a"]
        tap.is_(answers(new, moved, "four"), {"SERVER_ERROR"}, title + "nor does it change keys that moved")
        fleet.relays["new"].open()
        fleet.until_list("new", "ab")
        tap.is_({fleet.stored("new", key, "five") for key in KEYS}, {"STORED"}, title + "it sees etcd again, and stores all keys")
        tap.is_({old.get(key) for key in KEYS}, {b"five"}, title + "which the other one reads")


class Questions:
    """Those of a farcached to etcd, since this was made."""

    def __init__(self, relay):
        self.relay, self.begun, self.before = relay, time.monotonic(), relay.requests.count(RANGE)

    def more_than_usual(self, lists):
        """It asks at intervals, and fetches each list."""
        self.took, self.asked = time.monotonic() - self.begun, self.relay.requests.count(RANGE) - self.before
        return self.asked > int(self.took / QUESTION_S) + 1 + lists

    def __repr__(self):
        return repr(self.__dict__)


def silent_watch(etcd):
    """Nodes join, and the watch of proxy `old` does not tell it. A refused change is the reason to look."""
    with contextlib.ExitStack() as stack:
        fleet = Fleet(stack, etcd, "/silent", options=",warm_up=0")  # no get becomes a change
        old, new, relay = fleet.clients["old"], fleet.clients["new"], fleet.relay
        tap.is_({fleet.stored("old", key, "one") for key in KEYS}, {"STORED"}, "keys are stored at two nodes")
        relay.silence_watches = True
        asks = Questions(relay)
        names = "cde"
        for at, name in enumerate(names):
            fleet.nodes[name] = fleet.node(name)
            fleet.until_list("new", "ab" + names[:at + 1])
            assert {fleet.stored("new", key, "two") for key in KEYS} == {"STORED"}
            values = {fleet.stored("old", key, name) for key in KEYS}, {new.get(key) for key in KEYS}
            tap.is_(values, ({"STORED"}, {name.encode()}), "a silent watch: all keys are stored in the end, with " + name)
        tap.ok(asks.more_than_usual(len(names)), "because a farcached whose request is refused asks etcd at once", asks)
        time.sleep(1)  # until it has asked for the last refused change
        fleet.nodes["f"] = fleet.node("f")
        fleet.until_list("new", "abcdef")
        assert {fleet.stored("new", key, "three") for key in KEYS} == {"STORED"}
        asks = Questions(relay)
        read = until(lambda: {old.get(key) for key in KEYS}, lambda values: values == {b"three"})
        tap.ok(read == {b"three"} and asks.more_than_usual(1), "as one does that gets by an old list", asks)
        relay.silence_watches = False


class Farcached:
    """One at a time."""

    def __init__(self, stack, etcd, prefix, replicas, faults=None):
        self.stack, self.source, self.replicas = stack, etcd.source(prefix=prefix), replicas
        self.faults = faulty("farcached", faults)
        self.table = Table()
        stack.callback(self.table.unlink)

    @contextlib.contextmanager
    def running(self, names, up=None):
        with Daemon("--discover", self.source, "-o", "replicas=%d,%s" % (self.replicas, self.table.options()), threads=2,
                    **self.faults) as daemon, daemon.client() as client:
            wanted = set(up or names)
            shown = until(lambda: nodes_shown(daemon), lambda shown: set(shown) == set(names) and
                          {name for name, one in shown.items() if one["state"] == "up"} == wanted)
            assert set(shown) == set(names), shown
            yield daemon, client


def store_all(client, value):
    said = {until(lambda key=key: client.set(key, value), lambda said: said == "STORED") for key in KEYS}
    assert said == {"STORED"}, said


def no_one_stays(etcd, prefix, replicas, faults=None):
    """No farcached runs while nodes join, nor while they leave. Returns the values that the last one reads."""
    with contextlib.ExitStack() as stack:
        proxies = Farcached(stack, etcd, prefix, replicas, faults)
        node = lambda name: stack.enter_context(Farnode(  # noqa: E731
            "--tcp", "127.0.0.1:0", "-m", "16", "-t", "1", "--name", name, "--discover", proxies.source, "--member-ttl", TTL))
        nodes = {name: node(name) for name in "abc"}
        with proxies.running("abc") as (_, client):
            store_all(client, "one")
        nodes.update({name: node(name) for name in "def"})  # several: with copies some keys have two other nodes
        registered = until(lambda: set(etcd.keys(prefix + "/nodes/")), lambda names: names == set(nodes))
        assert registered == set(nodes), registered  # so that no farcached sees the change
        with proxies.running("abcdef") as (_, client):
            store_all(client, "two")
        for name in "def":
            nodes[name].stop()
        with proxies.running("abc") as (daemon, client):
            values = [client.get(key) for key in KEYS]
            if faults is not None:
                return values
            store_all(client, "three")
            passes = [int(daemon.stats("node " + name)["cmd_keep"]) for name in "abc"]
        with proxies.running("abc") as (daemon, client):
            tap.is_({client.get(key) for key in KEYS}, {b"three"}, "a farcached with the list of before finds all values")
            again = [int(daemon.stats("node " + name)["cmd_keep"]) for name in "abc"]
            tap.is_([now - then for now, then in zip(again, passes)], [1, 1, 1], "and each node is told once")
        return values


def beside_others(etcd, replicas):
    """farcached start while another one runs, all nodes but the first restart once, and one is down, but listed."""
    title = "replicas %d: " % replicas
    with contextlib.ExitStack() as stack:
        prefix = "/beside-%d" % replicas
        one, two = (Farcached(stack, etcd, prefix, replicas) for _ in range(2))
        nodes = {name: stack.enter_context(Farnode("--tcp", "127.0.0.1:0", "-m", "16", "-t", "1", "--name", name, "--discover",
                                                   one.source, "--member-ttl", TTL)) for name in "abc"}
        stays, client = stack.enter_context(one.running("abc"))
        for name in "bc":
            nodes[name].stop()
            nodes[name].start()
        until(lambda: nodes_shown(stays), lambda shown: set(shown) == set("abc") and all_up(shown))
        store_all(client, "one")
        etcd.put(prefix + "/other", b"1")  # the epoch of one that starts now is later
        refused = [int(stays.stats("node " + name)["requests_old_list"]) for name in "abc"]
        with two.running("abc") as (_, other):
            tap.is_({other.get(key) for key in KEYS}, {b"one"}, title + "a farcached that starts beside another one reads all")
            tap.is_(answers(client, KEYS, "two"), {"STORED"}, title + "and the other one stores all keys, by an earlier epoch")
            now = [int(stays.stats("node " + name)["requests_old_list"]) for name in "abc"]
            tap.is_(now, refused, title + "no request was refused")
            tap.is_({other.get(key) for key in KEYS}, {b"two"}, title + "both see the same")
        homes = {key: stays.stats("route " + key) for key in KEYS}
        nodes["c"].expect_exit = -signal.SIGKILL
        nodes["c"].stop(signal.SIGKILL)
        lost = [key for key in KEYS if homes[key]["node"] == "c" or homes[key].get("copy") == "c"]
        kept = [key for key in KEYS if key not in lost]
        with two.running("abc", up="ab") as (_, other):
            tap.ok(lost and kept and set(etcd.keys(prefix + "/nodes/")) == set("abc"), title + "a node is down, and listed")
            tap.is_(answers(other, kept, "three"), {"STORED"}, title + "a farcached that starts then stores the keys of the others")
            tap.is_({other.get(key) for key in kept}, {b"three"}, title + "and reads them")
            values = until(lambda: {other.get(key) for key in lost}, lambda values: values == {b"two"} or replicas == 1)
            tap.is_(values, {b"two"} if replicas == 2 else {None}, title + "and of the one that is down, the copies")


def between(etcd):
    for replicas in (1, 2):
        title = "replicas %d: " % replicas
        values = no_one_stays(etcd, "/between-%d" % replicas, replicas)
        tap.ok(b"one" not in values, title + "no value from before a list that only ended farcached have used is read", values)
        tap.ok(b"two" in values, title + "the others are kept", values)
        values = no_one_stays(etcd, "/told-%d" % replicas, replicas, Faults("", "S17_FIRST"))
        tap.ok(b"one" in values, title + "S17_FIRST broken: such a value is read", values)


def is_broken(etcd):
    """Returns whether a client reads a value that is older than an acknowledged one."""
    with contextlib.ExitStack() as stack:
        fleet = Fleet(stack, etcd, "/broken", faults=Faults("", "S17_EPOCH"))
        fleet.relay.close()
        fleet.nodes["c"] = fleet.node("c")
        fleet.until_list("new", "abc")
        old, new = fleet.clients["old"], fleet.clients["new"]
        old_values = []
        for key in KEYS:
            old.set(key, "one")
            if fleet.stored("new", key, "two") == "STORED":
                old_values.append(old.get(key) == b"one")
        return any(old_values)


def main():
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, FOLDER, ignore_errors=True)
        etcd = stack.enter_context(Etcd())
        without_keys(etcd)
        last_two(etcd)
        between_looks(etcd)
        joins(etcd)
        restarts(etcd)
        untold(etcd)
        silent_watch(etcd)
        between(etcd)
        for replicas in (1, 2):
            beside_others(etcd, replicas)
            skipped(etcd, replicas)
        tap.ok(is_broken(etcd), "S17_EPOCH broken: an old list reads old values")
    tap.done()


if __name__ == "__main__":
    main()
