# SPDX-License-Identifier: BSD-3-Clause
"""A hundred reloads of a farcached under load: nodes are added, removed and come back as other processes; weights, timeouts and the
mode of reading change. No request fails, no connection is closed, no get returns another key's value; statistics never decrease."""
import os
import random
import signal
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from cluster import Nodes, Table, all_up, nodes_shown  # noqa: E402
from farcached import Daemon, Pace, deadline, tap, until  # noqa: E402

RELOADS = 100
ASKERS = 4
KEYS = 8  # of each asker
SEED = int(os.environ.get("FARCACHED_TEST_SEED", "1"))
KEPT = 2  # nodes that are always present


class Asker(threading.Thread):
    """One connection for the whole run: sets its keys, gets them all at once, increments one. A reload may only move a key, which
    is a miss."""

    def __init__(self, daemon, number):
        super().__init__(daemon=True)
        self.client, self.number = daemon.client(), number
        self.stopping, self.rounds, self.misses, self.wrong = False, 0, 0, []

    def run(self):
        names = ["a%d-%d" % (self.number, i) for i in range(KEYS)]
        pace = Pace()
        try:
            while not self.stopping and len(self.wrong) < 5:
                pace.rest()
                self.rounds += 1
                values = {name: b"%s %d" % (name.encode(), self.rounds) for name in names}
                for name, value in values.items():
                    self.expect(self.client.set(name, value), ("STORED",), "set " + name)
                found = {key: value for key, _, value, _ in self.client.get_many(names)}
                for name in names:
                    value = found.get(name.encode(), found.get(name))
                    if value is None:
                        self.misses += 1
                    # No node that stays has an older value of the same key (S19).
                    elif value != values[name]:
                        self.wrong.append("get %s: %r" % (name, value))
                self.expect(self.client.set("n%d" % self.number, "7"), ("STORED",), "set of a number")
                self.client.send(b"incr n%d 1\r\ntouch %s 0\r\ndelete %s\r\n" % (
                    self.number, names[0].encode(), names[1].encode()))
                reply = self.client.line().strip()
                if not reply.isdigit():
                    self.expect(reply, (b"NOT_FOUND",), "incr")
                self.expect(self.client.line().strip(), (b"TOUCHED", b"NOT_FOUND"), "touch")
                self.expect(self.client.line().strip(), (b"DELETED", b"NOT_FOUND"), "delete")
        except Exception as e:  # a lost connection, too
            self.wrong.append(repr(e))

    def expect(self, reply, good, what):
        if reply not in good:
            self.wrong.append("%s: %r" % (what, reply))

    def end(self):
        self.stopping = True
        self.join(deadline())
        self.client.close()


class Configuration:
    """The file, and the nodes in it."""

    def __init__(self, nodes, table):
        self.path = os.path.join(nodes.folder, "farcached.toml")
        self.nodes, self.table = nodes, table
        self.there = set(range(KEPT))
        self.weights = {}
        self.more = {"node_timeout_ms": '"30s"', "local_read": "true", "conn-limit": "100", "failover": "false",
                     "slow_log_ms": "1"}  # the list may name nodes that have left

    def write(self):
        text = "".join("%s = %s\n" % pair for pair in self.more.items())
        text += 'distribution = "ketama_weighted"\npointer_table = { path = "%s", entries = 4096 }\n' % self.table.name
        for i in sorted(self.there):
            node = self.nodes.all[i]
            text += '[[node]]\nname = "%s"\naddress = "%s"\nweight = %d\n' % (
                node.name, node.address(), self.weights.get(i, 1))
        with open(self.path + ".new", "w") as f:
            f.write(text)
        os.rename(self.path + ".new", self.path)


def reloads(daemon):
    return int(daemon.stats("config")["config_reloads"])


def reload(daemon, number):
    daemon.signal(signal.SIGHUP)
    return until(lambda: reloads(daemon), lambda count: count >= number) == number


def end_node(node):
    """Ends the node gracefully after its last connection has closed."""
    node.process.stop(signal.SIGUSR1)
    node.end()


def change(random_of, configuration, number):
    """Makes one change to the configuration; returns the nodes that are not in it any more."""
    nodes, gone = configuration.nodes.all, []
    coming = [i for i in range(KEPT, len(nodes)) if i not in configuration.there]
    going = [i for i in configuration.there if i >= KEPT]
    if coming and (not going or random_of.random() < 0.5):
        came = random_of.choice(coming)
        if nodes[came].process is None:
            nodes[came].start()
        configuration.there.add(came)
    else:
        left = random_of.choice(going)
        configuration.there.remove(left)
        if random_of.random() < 0.3:
            gone.append(nodes[left])
    if number % 3 == 0:
        configuration.weights[random_of.randrange(len(nodes))] = random_of.randint(1, 4)
    if number % 7 == 0:
        configuration.more["local_read"] = random_of.choice(["true", "false"])
    if number % 11 == 0:
        configuration.more["node_timeout_ms"] = random_of.choice(['"30s"', "29000"])
    if number % 5 == 0:
        configuration.more["conn-limit"] = str(random_of.randint(50, 150))
        configuration.more["failover"] = random_of.choice(["true", "false"])
    return gone


def total(daemon):
    proxy = daemon.stats("proxy")
    return sum(int(proxy[name]) for name in ("get_local", "get_onesided", "get_twosided", "set_twosided")
               if name in proxy)


def reloads_under_load(count=RELOADS):
    nodes, table, random_of = Nodes("shm tcp shm tcp shm".split(), ["-t", "2"]), Table(), random.Random(SEED)
    configuration = Configuration(nodes, table)
    tap.diag("seed %d" % SEED)
    try:
        nodes.start()
        configuration.write()
        with Daemon("--config", configuration.path, threads=2) as daemon:
            until(lambda: nodes_shown(daemon), all_up)
            askers = [Asker(daemon, i) for i in range(ASKERS)]
            for asker in askers:
                asker.start()
            done, before, fell = 0, 0, []
            for number in range(1, count + 1):
                gone = change(random_of, configuration, number)
                configuration.write()
                done += reload(daemon, number)
                for node in gone:
                    end_node(node)
                now = total(daemon)
                if now < before:
                    fell.append("%d after %d" % (now, before))
                before = now
            for asker in askers:
                asker.end()
            config = daemon.stats("config")
            tap.is_(done, count, "so many reloads were carried out")
            tap.is_(config["config_reload_failures"], "0", "none was refused")
            tap.is_(sum((a.wrong for a in askers), []), [], "no request failed, and nothing wrong was answered")
            tap.ok(all(a.rounds > 3 for a in askers), "every client was served", "%s" % [a.rounds for a in askers])
            tap.diag("%d rounds of %d keys, %d misses" % (sum(a.rounds for a in askers), KEYS,
                                                           sum(a.misses for a in askers)))
            tap.is_(fell, [], "no sum of counters fell back")
            shown = until(lambda: nodes_shown(daemon), all_up)
            tap.is_(sorted(shown), sorted(nodes.all[i].name for i in configuration.there), "the nodes are the file's")
            tap.ok(all_up(shown), "and all are up")
            tap.is_({n: s["weight"] for n, s in shown.items()},
                    {nodes.all[i].name: str(configuration.weights.get(i, 1)) for i in configuration.there},
                    "with its weights")
    finally:
        nodes.end()
        table.unlink()


def main():
    reloads_under_load()
    tap.done()


if __name__ == "__main__":
    main()
