# SPDX-License-Identifier: BSD-3-Clause
"""The hit ratio of each second around a join and a drain, beside fleets without warm_up, and fleets without a change.

A fleet of four nodes holds all keys. One client program, with several connections, reads keys at a steady rate by a zipf
distribution, and stores each key that it misses (farbench load). After 10 s a fifth node joins. In the part drain a fleet has five
nodes, of which one gets weight 0 then, and is stopped 40 s later. In another fleet it is stopped at once. The proxy's counters are
read each second. All fleets run at the same time: nodes have other names in each, so they are rounds with other rings.
"""
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import time

from fleet_processes import Failed, Fleet, HERE, child_setup, median_and_range, stats

sys.path.append(os.path.dirname(HERE))
import chart  # noqa: E402

NODES, CHANGE_AT_S, STOP_AFTER_S, AFTER_S = 4, 10, 40, 60
KEYS, RATE, CONNECTIONS = 20_000, 1000, 8
PARTS = {  # part: (its fleets, what happens)
    "join": (("join", "cold", "none"), "%d nodes and a fifth" % NODES),  # cold: with warm_up=0
    "drain": (("drain", "stop", "none"), "five nodes, then %d" % NODES),
}


class Round:
    """One fleet with its load. kind: as in PARTS."""

    def __init__(self, stack, build, etcd, name, kind, nodes, seed):
        self.kind, self.name, self.last = kind, name, "%s-n%d" % (name, NODES)
        self.fleet = stack.enter_context(Fleet(build, etcd, name, ttl_s=10, megabytes=64))
        self.fleet.start_nodes(nodes)
        self.fleet.launch_proxy("proxy", *(["warm_up=0"] if kind == "cold" else []))
        self.port = self.fleet.wait_for_proxy("proxy")
        self.fleet.until_up()
        self.result = os.path.join(self.fleet.folder, "load.json")
        self.command = [os.path.join(build, "farbench"), "load", "--port", str(self.port), "--threads", "1", "--connections",
                        str(CONNECTIONS), "--ratio", "0:1", "--keys", str(KEYS), "--distribution", "zipf", "--fill-misses",
                        "--seed", str(seed)]
        self.load = None
        self.counts = []  # (time, hits, misses)

    def fill(self):
        words = ["--preload", "--requests", "1", "--connections", "1"]
        done = subprocess.run([*self.command, *words], capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            raise Failed("farbench load: " + (done.stdout + done.stderr)[-500:])

    def start(self):
        words = ["--rate", str(RATE), "--seconds", str(CHANGE_AT_S + AFTER_S + 3), "--json", self.result]
        self.load = subprocess.Popen([*self.command, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                     stderr=subprocess.STDOUT, text=True, preexec_fn=child_setup(None))

    def act(self, second):
        """Between two samples."""
        if second == CHANGE_AT_S:
            if self.kind in ("join", "cold"):
                self.fleet.launch_node(self.last)
            if self.kind == "drain":
                self.fleet.change_weight(self.last, 0)
        stops = {"stop": CHANGE_AT_S, "drain": CHANGE_AT_S + STOP_AFTER_S}
        if second == stops.get(self.kind):
            self.fleet.nodes[self.last].process.send_signal(signal.SIGTERM)

    def sample(self):
        shown = stats(self.port, seconds=30)
        self.counts.append((time.monotonic(), int(shown["get_hits"]), int(shown["get_misses"])))

    def ratios(self):
        """[hit ratio of each second]"""
        return [(b[1] - a[1]) / max(1, b[1] - a[1] + b[2] - a[2]) for a, b in zip(self.counts, self.counts[1:])]

    def end(self):
        """The number of error replies to the load."""
        out = self.load.communicate(timeout=60)[0]
        if not os.path.exists(self.result):
            raise Failed("farbench load: " + out[-500:])
        with open(self.result) as file:
            found = json.load(file)
        if found["wrong_values"] or found["broken_connections"]:
            raise Failed("farbench load: " + out[-500:])
        return found["error_replies"]


def measure(part, build, etcd, rounds):
    """Prints a table; returns {"join": [ratios of a round], ...} for the chart."""
    kinds = PARTS[part][0]
    with contextlib.ExitStack() as stack:
        every = [Round(stack, build, etcd, "%s%d" % (kind, number), kind, NODES + (part == "drain"), number + 1)
                 for number in range(rounds) for kind in kinds]
        try:
            for one in every:
                one.fill()
            for one in every:
                one.start()
            watch(every)
            errors = {one.name: one.end() for one in every}
        finally:
            for one in every:
                if one.load and one.load.poll() is None:
                    one.load.send_signal(signal.SIGKILL)
                    one.load.wait()
    found = {kind: [one.ratios() for one in every if one.kind == kind] for kind in kinds}
    show(part, found, errors, rounds)
    return found


def watch(every):
    """Samples each second."""
    begin = time.monotonic()
    for second in range(CHANGE_AT_S + AFTER_S + 1):
        time.sleep(max(0.0, begin + second - time.monotonic()))
        for one in every:
            one.sample()
        for one in every:
            one.act(second)


def show(part, found, errors, rounds):
    print("\n## Hit ratio around a %s: %s, %d keys, %d gets/s, zipf 0.99; median (range) of %d fleets\n" % (
        part, PARTS[part][1], KEYS, RATE, rounds))
    print("| seconds after the change | %s |\n|---|---|---|---|" % " | ".join(found))
    spans = [(-CHANGE_AT_S, 0)] + [(second, second + 1) for second in range(10)] + [
        (10, 20), (20, 30), (30, STOP_AFTER_S), (STOP_AFTER_S, AFTER_S)]
    for first, last in spans:
        cells = [median_and_range([statistics.mean(ratios[CHANGE_AT_S + first:CHANGE_AT_S + last]) for ratios in found[word]], 3)
                 for word in found]
        print("| %d to %d | %s |" % (first, last, " | ".join(cells)))
    for kind in found:
        lost = [sum(1 - ratio for ratio in ratios[CHANGE_AT_S:]) * RATE for ratios in found[kind]]
        print("\nMisses in that minute, %s: %s, of %d gets" % (kind, median_and_range(lost, 0), RATE * AFTER_S))
    for kind in found:
        print("\nError replies, %s: %s" % (kind, [errors[name] for name in errors if name.startswith(kind)]))


def draw(part, found, path):
    """The median of each second, and the range as a band."""
    def line(word, color):
        seconds = list(zip(*found[word]))
        at = [second - CHANGE_AT_S + 0.5 for second in range(len(seconds))]
        return chart.Line(word, [(x, statistics.median(ys)) for x, ys in zip(at, seconds)], color, dots=False,
                          band=[(x, min(ys), max(ys)) for x, ys in zip(at, seconds)])
    panel = chart.Panel("", [line(word, color) for word, color in zip(found, ("green", "red", "blue"))],
                        lambda xs: chart.Axis("seconds after the change", -CHANGE_AT_S, AFTER_S,
                                              ticks=list(range(-CHANGE_AT_S, AFTER_S + 1, 10))), "hit ratio", high=1.02)
    chart.figure(path, "Hit ratio around a " + part, PARTS[part][1] + "; median of the fleets, and their range", [panel], 1)
