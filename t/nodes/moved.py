# SPDX-License-Identifier: BSD-3-Clause
"""Keys that move to another node and back, as the list of nodes changes (S19). Each node still has what it had: none of it is read
once another node had the key."""
import contextlib
import os
import signal
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from cluster import Faults, Table, all_up, faulty, nodes_shown  # noqa: E402
from farcached import Daemon, tap, until  # noqa: E402
from farnode import Farnode  # noqa: E402

KEYS = ["key-%d" % i for i in range(60)]


class Proxy:
    """A farcached whose list of nodes changes by reloads."""

    def __init__(self, stack, folder, name, addresses, table, options, faults=None):
        self.path, self.addresses, self.reloads = os.path.join(folder, name + ".toml"), addresses, 0
        self.write("a", "b")
        self.daemon = stack.enter_context(
            Daemon("--config", self.path, "-o", table.options() + options, threads=2, **faulty("farcached", faults)))
        until(lambda: nodes_shown(self.daemon), all_up)
        self.client = stack.enter_context(self.daemon.client())

    def write(self, *names):
        with open(self.path, "w") as f:
            f.writelines('[[node]]\nname = "%s"\naddress = "%s"\n' % (name, self.addresses[name]) for name in names)

    def use(self, *names):
        self.write(*names)
        self.reloads += 1
        self.daemon.signal(signal.SIGHUP)
        until(lambda: int(self.daemon.stats("config")["config_reloads"]), lambda count: count == self.reloads)

    def store(self, value):
        return {self.client.set(key, value) for key in KEYS}

    def values(self):
        """key: value, asked twice: the second time perhaps one-sided."""
        for key in KEYS:
            self.client.get(key)
        return {key: self.client.get(key) for key in KEYS}


def moves(folder, title, over, options, faults=None):
    """Returns the old values that were seen."""
    with contextlib.ExitStack() as stack:
        table = Table()
        stack.callback(table.unlink)
        addresses, old = {}, set()
        for name in "ab":
            path = os.path.join(folder, title + name)
            node = stack.enter_context(Farnode("--tcp", "127.0.0.1:0", "--shm", path, "-m", "16", "-t", "1", "--name", name))
            addresses[name] = "shm:" + path if over == "shm" else "tcp:127.0.0.1:%d" % node.port
        proxies = [Proxy(stack, folder, title + name, addresses, table, options, faults) for name in "pq"]

        def use(*names):
            for proxy in proxies:
                proxy.use(*names)

        def check(value, text):
            for proxy in proxies:
                seen = proxy.values()
                old.update(seen[key] for key in KEYS if seen[key] not in (None, value))
                counts = sum(seen[key] == value for key in KEYS)
                if faults is None:
                    tap.ok(0 < counts, "%s: %s" % (title, text), "%d" % counts)
        tap.is_(proxies[0].store("one"), {"STORED"}, title + ": keys are stored at two nodes")
        use("a")
        tap.is_(proxies[0].store("two"), {"STORED"}, title + ": and at one, when the other is no longer listed")
        use("a", "b")
        check(b"two", "both are listed again: keys that stayed are there")
        tap.is_(proxies[1].store("three"), {"STORED"}, title + ": all are stored again")
        use("a")
        check(b"three", "one is listed again")
        tap.is_(proxies[0].store("four"), {"STORED"}, title + ": all are stored again")
        use("a", "b")
        check(b"four", "both again")
        tap.is_(proxies[0].store("five"), {"STORED"}, title + ": and once more")
        for proxy in proxies:
            tap.is_(set(proxy.values().values()), {b"five"}, title + ": and read")
        if faults is None:
            keeps = int(proxies[0].daemon.stats("node a")["cmd_keep"])
            tap.ok(keeps >= 4, title + ": the node received what it keeps", keeps)
        return old


def former_home_stands_still(folder, faults=None):
    """Node a cannot delete what moved, and another farcached still reads it there. Returns the old values that it read."""
    with contextlib.ExitStack() as stack:
        table = Table()
        stack.callback(table.unlink)
        addresses, nodes = {}, {}
        for name in "abc":
            path = os.path.join(folder, "still" + name)
            node = stack.enter_context(Farnode("--tcp", "127.0.0.1:0", "--shm", path, "-m", "16", "-t", "1", "--name", name))
            addresses[name], nodes[name] = "shm:" + path, node
        first, late = (Proxy(stack, folder, "still" + name, addresses, table, ",node_timeout_ms=300", faults) for name in "pq")
        tap.is_(first.store("one"), {"STORED"}, "keys are stored at two nodes")
        at_a = [key for key in KEYS if late.daemon.stats("route " + key)["node"] == "a"]
        late.values()
        with nodes["a"].stopped():
            first.use("a", "b", "c")
            until(lambda: nodes_shown(first.daemon)["a"]["state"], lambda state: state != "up")
            said = {key: first.client.set(key, "two") for key in KEYS}
            moved = [key for key in at_a if first.daemon.stats("route " + key)["node"] == "c"]
            acknowledged = {key for key, what in said.items() if what == "STORED"}
            old = {key for key in acknowledged if late.client.get(key) == b"one" and key in moved}
            if faults is None:
                tap.ok(moved and not acknowledged & set(moved), "keys that moved from a node that stands still are unavailable")
                others = {key for key in KEYS if key not in at_a and first.daemon.stats("route " + key)["node"] == "c"}
                tap.ok(others and others <= acknowledged, "those that moved from another one are not")
        if faults is None:
            for key in KEYS:
                until(lambda key=key: first.client.set(key, "three"), lambda what: what == "STORED")
            tap.is_({key: late.client.get(key) for key in moved}, dict.fromkeys(moved), "it goes on, and has deleted them")
            tap.is_({first.client.get(key) for key in KEYS}, {b"three"}, "all keys are stored")
        return old


with tempfile.TemporaryDirectory() as folder:
    for title, over, options in (("mapped", "shm", ""), ("pointers", "shm", ",no_local_read"), ("tcp", "tcp", "")):
        tap.is_(moves(folder, title, over, options), set(), title + ": no old value is seen")
    tap.ok(moves(folder, "broken", "shm", "", Faults("", "S19_MOVED")) - {None}, "S19 broken: old values are seen")
    tap.is_(former_home_stands_still(folder), set(), "no change is acknowledged while others read what was before")
    tap.ok(former_home_stands_still(folder, Faults("", "S19_EARLY")), "S19_EARLY broken: old values are seen")
tap.done()
