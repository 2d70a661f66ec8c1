# SPDX-License-Identifier: BSD-3-Clause
"""What replicas=2 gives and costs, beside replicas=1: hits and outages when a node is killed, and the cost of a set.

Two fleets of three nodes, one with copies. A node is killed. One client repeats a get of one of its keys, another one a set of
another. The outage is the longest time between two good replies in a row: a value, or STORED. Then all keys are read once. The cost
of a set is the CPU time of farcached and all nodes per set (farbench load, one connection), and its latency.

A client without replicas may write each item to two fleets by itself, as mcrouter does: it sends each set to both farcached, and
waits for both replies. This client in Python stores in one fleet, in one with copies, and in two, and takes turns between them.
"""
import contextlib
import json
import os
import signal
import statistics
import subprocess
import time

from fleet_outage import Probe
from fleet_processes import Connection, Failed, Fleet, median_and_range, until

KEYS, SETS = 3000, 20_000
VALUE = b"x" * 100
DOUBLE = "two fleets, double writes"
TTL_S = 2


def cpu_s(process):
    with open("/proc/%d/stat" % process.process.pid) as file:
        words = file.read().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def outage_s(probe):
    """Until the probe's end, if no good reply came any more."""
    good = [received for _, received, reply in probe.replies if reply.startswith(probe.good)]
    return max(probe.outage_s(), probe.replies[-1][1] - good[-1])


class Replicated:
    def __init__(self, stack, build, etcd, count, prefix="r"):
        self.build, self.count = build, count
        self.fleet = stack.enter_context(Fleet(build, etcd, "%s%d" % (prefix, count), TTL_S, megabytes=64))
        self.fleet.start_nodes(3)
        self.fleet.launch_proxy("proxy", "replicas=%d" % count)
        self.port = self.fleet.wait_for_proxy("proxy")
        self.fleet.until_up()
        time.sleep(3)  # a first pass over the nodes' keys has ended

    def cpu_s(self):
        return sum(cpu_s(one) for one in [*self.fleet.nodes.values(), *self.fleet.proxies.values()])

    def cost(self):
        """CPU microseconds of a set, and its latency in microseconds: median and p99."""
        result = os.path.join(self.fleet.folder, "load.json")
        before = self.cpu_s()
        done = subprocess.run([os.path.join(self.build, "farbench"), "load", "--port", str(self.port), "--threads", "1",
                               "--connections", "1", "--ratio", "1:0", "--keys", "1000", "--requests", str(SETS), "--json", result],
                              capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            raise Failed("farbench load: " + (done.stdout + done.stderr)[-500:])
        used = self.cpu_s() - before
        with open(result) as file:
            shown = json.load(file)
        return used / SETS * 1e6, shown["set_p50_us"], shown["set_p99_us"]

    def outage(self):
        """Seconds without a value, without a stored set, and keys of KEYS that are not read after the node's death."""
        victim = sorted(self.fleet.nodes)[1]
        fill = Connection(self.port)
        names = [b"item-%d" % number for number in range(KEYS)]
        for name in names:
            until(lambda name=name: fill.ask(b"set " + name + b" 0 0 5\r\nvalue") == b"STORED\r\n", "a set")
        keys = self.fleet.keys_of(victim, "proxy", 2)
        fill.ask(b"set " + keys[0].encode() + b" 0 0 5\r\nvalue")
        probes = [Probe(self.port, b"get " + keys[0].encode(), (b"VALUE",)),
                  Probe(self.port, b"set " + keys[1].encode() + b" 0 0 1\r\nx", (b"STORED",))]
        for probe in probes:
            probe.start()
        time.sleep(0.3)
        self.fleet.nodes[victim].process.send_signal(signal.SIGKILL)
        time.sleep(0.2)
        early = sum(not fill.ask(b"get " + name).startswith(b"VALUE") for name in names)
        until(lambda: victim not in self.fleet.registered(), "etcd has no record of %s" % victim)
        time.sleep(0.7)
        for probe in probes:
            probe.end()
        late = sum(not fill.ask(b"get " + name).startswith(b"VALUE") for name in names)
        fill.close()
        self.fleet.nodes[victim].process.wait()
        self.fleet.launch_node(victim)
        self.fleet.wait_for_node(victim)
        self.fleet.until_up()
        return [outage_s(probe) for probe in probes] + [early, late]


def client_cost(fleets):
    """CPU microseconds of a set that a client sends to each of these fleets, of all of them, and its latency: median and p99."""
    clients = [Connection(one.port) for one in fleets]
    before, latencies = sum(one.cpu_s() for one in fleets), []
    for number in range(SETS):
        request = b"set item-%d 0 0 %d\r\n%s" % (number % 1000, len(VALUE), VALUE)
        began = time.perf_counter_ns()
        for client in clients:
            client.send(request)
        replies = [client.receive() for client in clients]
        latencies.append((time.perf_counter_ns() - began) / 1000)
        if set(replies) != {b"STORED\r\n"}:
            raise Failed("a set: %r" % replies)
    used = sum(one.cpu_s() for one in fleets) - before
    for client in clients:
        client.close()
    return used / SETS * 1e6, statistics.median(latencies), sorted(latencies)[SETS * 99 // 100]


def client_costs(single, other, doubled, rounds):
    """{row of the table: costs}, with an order that changes each round."""
    ways = {DOUBLE: [single, other], "one fleet, replicas=2": [doubled], "one fleet, replicas=1": [single]}
    found = {name: [] for name in ways}
    for number in range(rounds):
        for name in sorted(ways, reverse=number % 2 == 1):
            found[name].append(client_cost(ways[name]))
    return found


def replicas(build, etcd, rounds):
    """Prints three tables; returns their numbers."""
    found = {count: {"cost": [], "outage": []} for count in (1, 2)}
    with contextlib.ExitStack() as stack:
        fleets = [Replicated(stack, build, etcd, count) for count in found]
        for _ in range(rounds):
            for one in fleets:
                found[one.count]["cost"].append(one.cost())
        with contextlib.ExitStack() as other:
            found["client"] = client_costs(fleets[0], Replicated(other, build, etcd, 1, "other"), fleets[1], rounds)
        for _ in range(rounds):
            for one in fleets:
                found[one.count]["outage"].append(one.outage())
    show(found, rounds)
    return found


def show_client(found, rounds):
    print("\n## replicas: a set of one client in Python; median (range) of %d, and over double writes\n" % rounds)
    print("| the client stores in | CPU of all servers, us | median, us | p99, us | CPU | median | p99 |")
    print("|---|---|---|---|---|---|---|")
    for name, costs in found.items():
        ratios = [statistics.median(one[i] / two[i] for one, two in zip(costs, found[DOUBLE])) for i in range(3)]
        print("| %s | %s | %s |" % (name, " | ".join(median_and_range(column, 1) for column in zip(*costs)),
                                    " | ".join("%.2f" % ratio for ratio in ratios)))


def show(found, rounds):
    print("\n## replicas: a set on one connection; median (range) of %d\n" % rounds)
    print("| replicas | CPU of all servers, us | median, us | p99, us |\n|---|---|---|---|")
    for count in (1, 2):
        print("| %d | %s |" % (count, " | ".join(median_and_range(column, 1) for column in zip(*found[count]["cost"]))))
    for number, what in enumerate(("CPU", "median")):
        ratios = [two[number] / one[number] for one, two in zip(found[1]["cost"], found[2]["cost"])]
        print("\n%s, replicas=2 over replicas=1: %.2f" % (what, statistics.median(ratios)))
    show_client(found["client"], rounds)
    print("\n## replicas: kill -9 of one of three nodes, member_ttl %d s, %d keys; median (range) of %d\n" % (TTL_S, KEYS, rounds))
    print("| replicas | longest time without a value, s | without a stored set, s | keys lost at once | keys lost in the end |")
    print("|---|---|---|---|---|")
    for count in (1, 2):
        columns = list(zip(*found[count]["outage"]))
        print("| %d | %s | %s |" % (count, " | ".join(median_and_range(column) for column in columns[:2]),
                                    " | ".join(median_and_range(column, 0) for column in columns[2:])))
