# SPDX-License-Identifier: BSD-3-Clause
"""A fleet in etcd is upgraded under load, one process after the other: nodes before farcached, or farcached before nodes. So two
versions of farnode and farcached work together in every mix, until all are of the newest one. The first node is put back once.

* No request fails but those that docs/fleet.md names: while the list of nodes changes, a change may be answered as unavailable, and
  a get may miss. With mixed versions between two steps, and while a farcached is replaced, none fails.
* No value of a fixed set of keys is ever old. Only items of the restarted node are lost; with copies (replicas = 2) none is.
* `stats nodes` names the version that is spoken with each node.
* A farcached of either version reads the memory of all nodes by pointers, in every mix.

The load t/load/consistency runs through both farcached, or through the one that is not being restarted. Beside it each farcached
has an Asker, which notes every request that fails. The older version is a fault of t/'s own build, as in versions.py; with
$FARCACHED_OLD_BUILD, the folder of an earlier build, its programs.
"""
import collections
import contextlib
import itertools
import os
import signal
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import etcd as etcd_servers  # noqa: E402
from cluster import AWRY, Build, Faults, faulty, newest_version, nodes_shown, until_up  # noqa: E402
from daemon import TimedOut, deadline, is_sanitized, select_nothing  # noqa: E402
from etcd import Etcd  # noqa: E402
from etcd_fleet import KEYS, Fleet, burst  # noqa: E402
from farcached import Closed, Daemon, Pace, tap, until  # noqa: E402

etcd_servers.skip_without()
NEWEST = newest_version()
OLD_BUILD = Build(os.environ["FARCACHED_OLD_BUILD"]) if "FARCACHED_OLD_BUILD" in os.environ else None
OLD = newest_version(OLD_BUILD) if OLD_BUILD else NEWEST - 1
assert OLD < NEWEST, "the other build is no older one: it speaks version %d, too" % OLD
VERSION_WITH_COPIES = 9  # the first one whose nodes have copies
PASSES = 100  # of each Asker between two steps
DOCUMENTED, MISS = "SERVER_ERROR unavailable", "a miss"  # while the list of nodes changes


def build_of(version):
    if version == NEWEST:
        return None
    return OLD_BUILD if OLD_BUILD and version == OLD else Faults("speaks=%d" % version)


class Asker(threading.Thread):
    """Sets and reads keys of its own through one farcached, all in each pass, and connects again after a restart.

    failed: {("settled" or "changing", what happened): how often}. wrong: values that a get must not return."""

    def __init__(self, upgrade, name):
        super().__init__(daemon=True)
        self.upgrade, self.name = upgrade, name
        self.keys = ["%s-%d" % (name, i) for i in range(30)]
        self.last, self.doubts = {}, {key: set() for key in self.keys}  # acknowledged values, and those of unknown outcome
        self.passes, self.good, self.turn = 0, 0, 0
        self.failed, self.wrong = collections.Counter(), []

    def run(self):
        pace = Pace()
        while not self.upgrade.over:
            phase = self.upgrade.phase
            try:
                with self.upgrade.fleet.daemons[self.name].client() as client:
                    while not self.upgrade.over:
                        pace.rest()
                        phase = self.upgrade.phase
                        self.one_pass(client, phase)
            except (Closed, ConnectionError) as ended:
                if self.upgrade.restarting != self.name:
                    self.note(phase, "its connection: %s" % ended)
                select_nothing(0.01)
            except (TimedOut, AssertionError) as failed:
                self.note(phase, str(failed))

    def note(self, phase, what):
        """What failed, and has begun in that phase. The restart of a farcached does not change the list."""
        upgrade = self.upgrade
        settled = phase == upgrade.phase and (phase % 2 == 0 or upgrade.restarting is not None)
        self.failed["settled" if settled else "changing", what] += 1

    def one_pass(self, client, phase):
        self.turn += 1
        value, failures = b"%d" % self.turn, sum(self.failed.values())
        for key in self.keys:
            self.doubts[key].add(value)
        client.send(b"".join(b"set %s 0 0 %d\r\n%s\r\n" % (key.encode(), len(value), value) for key in self.keys))
        for key in self.keys:
            said = client.line().strip().decode()
            if said == "STORED":
                self.last[key] = value
                self.doubts[key].discard(value)
            else:
                self.note(phase, said)
        got = {key.decode(): value for key, _, value, _ in client.get_many(self.keys)}
        self.wrong += [(key, got[key], self.last.get(key)) for key in got
                       if got[key] != self.last.get(key) and got[key] not in self.doubts[key]]
        for _ in range(len(self.keys) - len(got)):
            self.note(phase, MISS)
        self.passes += 1
        self.good += failures == sum(self.failed.values())


class Upgrade:
    """Of a fleet whose processes are all of version `old`. phase: odd while something changes."""

    def __init__(self, stack, etcd, copies, order, old):
        self.fleet = Fleet(stack, etcd, copies, build_of(old))
        self.title = "%s, %s, " % (self.fleet.title, " before ".join(order))
        self.order, self.old = order, old
        self.of_nodes, self.of_daemons = dict.fromkeys("abc", old), dict.fromkeys(self.fleet.daemons, old)
        self.phase, self.restarting, self.over = 0, None, False
        self.old_values, self.lacking, self.unacknowledged, self.told = [], [], [], collections.Counter()
        self.askers = [Asker(self, name) for name in self.fleet.daemons]
        stack.callback(self.end)
        for asker in self.askers:
            asker.start()

    def end(self):
        self.over = True
        for asker in self.askers:
            asker.join(deadline() * 2)

    def until_passes(self, count, kind="passes"):
        """Until each Asker has made so many more."""
        wanted = {asker: getattr(asker, kind) + count for asker in self.askers}
        ok = until(lambda: all(getattr(asker, kind) >= n for asker, n in wanted.items()), bool)
        assert ok, "requests go on failing: %s" % self.failed()

    @contextlib.contextmanager
    def change(self, restarting=None):
        """The fleet changes in this block, and until both farcached serve all keys again."""
        self.phase, self.restarting = self.phase + 1, restarting
        yield
        self.until_passes(2, "good")
        self.phase, self.restarting = self.phase + 1, None

    def failed(self, doing=None):
        """{what happened: how often}"""
        found = collections.Counter()
        for asker in self.askers:
            for (when, what), count in list(asker.failed.items()):
                if doing in (None, when):
                    found[what] += count
        return dict(found)

    # -- Between two steps ---------------------------------------------------------------------------------

    def spoken(self):
        """{farcached: {node: the version that they speak}}"""
        return {name: {node: int(shown["protocol_version"]) for node, shown in nodes_shown(daemon).items()}
                for name, daemon in self.fleet.daemons.items()}

    def check(self, what):
        """Checks a fleet that does not change."""
        title = self.title + what + ": "
        fleet, two_ways = self.fleet, []
        self.until_passes(PASSES)
        wanted = {name: {node: min(version, of_node) for node, of_node in self.of_nodes.items()}
                  for name, version in self.of_daemons.items()}
        tap.is_(self.spoken(), wanted, title + "stats nodes names the version spoken with each node")
        for by in fleet.daemons:
            fleet.store("%s by %s" % (what, by), by)
            two_ways += fleet.wrong()
        tap.is_(two_ways, [], title + "what each farcached stores the other one reads")
        # With copies a node refuses a farcached that says it keeps none. Version 9 does not say it.
        versions = [VERSION_WITH_COPIES] if fleet.copies == 2 else [self.old, NEWEST]
        tap.is_([self.by_pointers(version) for version in versions], [(set("abc"), [])] * len(versions),
                title + "farcached of these versions read all nodes by pointers")
        self.none_failed(title)

    def none_failed(self, title):
        """Since the last look, while the list did not change."""
        failed = collections.Counter(self.failed("settled"))
        tap.is_(dict(failed - self.told), {}, title + "no request fails")
        self.told = failed

    def by_pointers(self, version):
        """The nodes whose memory a farcached of this version reads, and wrong values and reads."""
        fleet, wrong = self.fleet, []
        nodes = [word for name in fleet.nodes for word in ("--node", "%s=shm:%s" % (name, fleet.path(name)))]
        options, program = "no_local_read,node_timeout_ms=30000," + fleet.table.options(), faulty("farcached", build_of(version))
        with Daemon(*nodes, "-o", options, threads=1, **program) as reader, reader.client() as client:
            until_up(reader)

            def read():
                got = {key.decode(): value for key, _, value, _ in client.get_many(KEYS)}
                wrong.extend((key, got.get(key)) for key in KEYS if got.get(key) != fleet.value_of(key))
                return {name for name, shown in nodes_shown(reader).items() if int(shown["get_onesided"]) > 0}
            found = until(read, lambda found: found == set(fleet.nodes))
            wrong += [(name, what) for name, shown in nodes_shown(reader).items() for what in AWRY if shown[what] != "0"]
        return found, wrong

    # -- The steps -----------------------------------------------------------------------------------------

    def start_load(self, seconds, names):
        with self.change():
            return self.fleet.load(seconds, names)

    def until_copied(self):
        """An operator waits for the copies before the next restart of a node."""
        if self.fleet.copies == 2:
            self.lacking.append(self.fleet.until_copied())

    def replace_node(self, name, version):
        """By one of this version; while it is away the others have its keys."""
        fleet, homes = self.fleet, self.fleet.homes()
        self.until_copied()
        with self.change():
            fleet.nodes.pop(name).stop()
            self.old_values += fleet.wrong(KEYS)  # a miss may be: one farcached has the new list, another one has not
            fleet.until_list(sorted(fleet.nodes))
            self.old_values += fleet.wrong([key for key in KEYS if homes[key] == name] if fleet.copies == 1 else [])
            fleet.store("stored while %s is away" % name)
            fleet.faults = build_of(version)
            fleet.nodes[name] = fleet.node(name)
            self.old_values += fleet.wrong(KEYS)
            fleet.until_list("abc")
            self.old_values += fleet.wrong([key for key in KEYS if homes[key] == name] if fleet.copies == 1 else [])
        self.of_nodes[name] = version

    def upgrade_nodes(self):
        """The first one is put back once."""
        title = self.title + "nodes are upgraded"
        run = self.start_load(3, tuple(self.fleet.daemons))
        for name, version in (("a", NEWEST), ("a", self.old), ("a", NEWEST), ("b", NEWEST), ("c", NEWEST)):
            if not run.running():
                run.end(title)
                run = self.start_load(3, tuple(self.fleet.daemons))
            self.replace_node(name, version)
            self.check("node %s is %s" % (name, "new" if version == NEWEST else "old again"))
        self.until_copied()
        run.end(title)

    def upgrade_daemon(self, name, number):
        fleet = self.fleet
        with self.change(restarting=name):
            wrong, answered = burst(fleet, name, number)
            tap.diag("%d answers before %s stops" % (answered, name))
            self.unacknowledged += wrong
            fleet.faults = build_of(NEWEST)
            fleet.daemons[name] = fleet.daemon()
            fleet.until_list("abc")
            self.old_values += fleet.wrong()
        self.of_daemons[name] = NEWEST

    def upgrade_daemons(self):
        for name, other, number in (("one", "two", signal.SIGTERM), ("two", "one", signal.SIGUSR1)):
            title = "%s%s is upgraded, a load of %s" % (self.title, name, other)
            run = self.start_load(1, (other,))
            self.upgrade_daemon(name, number)
            self.check("farcached %s is new" % name)
            run.end(title)

    def run(self):
        with self.change():
            self.fleet.store("first")
        self.check("all are old")
        for part in self.order:
            (self.upgrade_nodes if part == "nodes" else self.upgrade_daemons)()
        self.end()
        self.none_failed(self.title + "until the end: ")
        tap.is_({version for of_daemon in self.spoken().values() for version in of_daemon.values()}, {NEWEST},
                self.title + "in the end all speak the newest version")
        tap.is_(self.old_values, [], self.title + ("no item is lost, and none is old" if self.fleet.copies == 2 else
                                                   "only items of a restarted node are lost, and none is old"))
        if self.fleet.copies == 2:
            tap.is_([found for found in self.lacking if found], [], self.title + "items have their copies before the next restart")
        tap.is_(self.unacknowledged, [], self.title + "no change is lost that a farcached acknowledged before its restart")
        tap.is_([one for asker in self.askers for one in asker.wrong], [], self.title + "no other value is old, at any time")
        tap.diag("passes: %s; failed: %s" % ([asker.passes for asker in self.askers], self.failed()))
        tap.is_(set(self.failed()) - {DOCUMENTED, MISS}, set(), self.title + "no request fails in an undocumented way")


def copies_begin(etcd):
    """replicas = 2 while some are of a version that knows no copies. A change is refused unless the farcached, and the node of the
    key's copy, are new."""
    before = VERSION_WITH_COPIES - 1
    title = "with copies, from version %d: " % before
    with contextlib.ExitStack() as stack:
        fleet = Fleet(stack, etcd, 2, build_of(before))
        new, last, doubts, old, numbers = set(), {}, {key: set() for key in KEYS}, [], itertools.count()

        def differ():
            """Keys whose change is not answered as it should be."""
            found = []
            for name, daemon in fleet.daemons.items():
                with daemon.client() as client:
                    for key in KEYS:
                        value, possible = b"%d" % next(numbers), {name, daemon.stats("route " + key)["copy"]} <= new
                        said = client.set(key, value)
                        if said == "STORED":
                            last[key] = value
                        elif possible:
                            doubts[key].add(value)  # a node has just joined
                        if said != ("STORED" if possible else DOCUMENTED):
                            found.append((name, key, possible, said))
                        got = client.get(key)
                        if got not in (None, last.get(key), *doubts[key]):
                            old.append((name, key, got, last.get(key)))
            return found

        for part in ("", "one", "two", *"abc"):
            fleet.faults = None
            if part in fleet.daemons:
                fleet.daemons[part].stop()
                fleet.daemons[part] = fleet.daemon()
            elif part:
                fleet.nodes[part].stop()
                fleet.nodes[part] = fleet.node(part)
            new.add(part)
            fleet.until_list("abc")
            tap.is_(until(differ, lambda found: not found), [], title + (part + " is new" if part else "all are old"))
        tap.is_(old, [], title + "no value is old, and none of a change that was refused")
        fleet.store("last")
        tap.is_((fleet.wrong(), fleet.until_copied()), ([], {}), title + "in the end all keys have their copies")


def main():
    with Etcd() as etcd:
        for copies in (1, 2):
            orders = [("nodes", "farcached"), ("farcached", "nodes")]
            if is_sanitized():  # the versions are chosen by the same code in each order
                orders = orders[copies - 1:copies]
            for order in orders:
                if copies == 1 or OLD >= VERSION_WITH_COPIES:
                    with contextlib.ExitStack() as stack:
                        Upgrade(stack, etcd, copies, order, OLD).run()
        copies_begin(etcd)
    tap.done()


main()
