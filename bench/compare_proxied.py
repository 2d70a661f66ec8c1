# SPDX-License-Identifier: BSD-3-Clause
"""The contest of proxies: every contestant runs all the time, one is loaded at a time, round by round, in turn.

A ratio is taken within a round, to the peer (who is not ours) that is best at this number by its median. CPU is that
of all of a contestant's processes while it is measured, front and back.
"""
import json
import math
import os
import statistics

import compare_chart as chart
from compare_contestants import all_contestants
from compare_load import Workload
from compare_servers import Failed

METRICS = [  # key, title, decimals, is more better?
    ("keys_per_s", "keys/s", 0, True),
    ("p50_us", "p50 us", 0, False),
    ("p99_us", "p99 us", 0, False),
    ("p999_us", "p99.9 us", 0, False),
    ("front_cpu_s_per_million", "front CPU", 3, False),
    ("back_cpu_s_per_million", "back CPU", 3, False),
    ("cpu_s_per_million", "CPU", 3, False),
]
RATIOS = ("keys_per_s", "p99_us", "cpu_s_per_million")
OURS = "farcached"
HIT_RATIO_MIN = 0.999


def workloads(data):
    return [Workload("pipeline 1", data), Workload("pipeline 16", data, pipeline=16),
            Workload("multi-get of 50 keys", data, multiget=50)]


class Spread:
    """Median and extremes of some numbers."""

    def __init__(self, numbers):
        self.median = statistics.median(numbers) if numbers else math.nan
        self.low, self.high = (min(numbers), max(numbers)) if numbers else (math.nan, math.nan)

    def as_json(self):
        return {name: x if math.isfinite(x) else None
                for name, x in (("median", self.median), ("min", self.low), ("max", self.high))}


class Contest:
    """rounds[workload name]: one {label: measurement} for each round."""

    def __init__(self, contestants, workloads_run, load, options, say):
        self.contestants = contestants
        self.labels = [c.label for c in contestants]
        self.workloads = workloads_run
        self.load = load
        self.options = options
        self.say = say
        self.rounds = {w.name: [] for w in workloads_run}
        self.busy_client = set()

    def start(self):
        data = self.workloads[0].data
        for contestant in self.contestants:
            self.say("storing %d x %s in %s" % (data.keys, data.name, contestant.label))
            contestant.start()
            self.load.preload(contestant, data)

    def stop(self):
        for contestant in self.contestants:
            contestant.stop()

    def measure(self, client_busy):
        for number in range(1, self.options.rounds + 1):
            for workload in self.workloads:
                got = {}
                # Each round begins with another, so that none always follows the same.
                turn = number % len(self.contestants)
                for contestant in self.contestants[turn:] + self.contestants[:turn]:
                    one = self.load.measure(contestant, workload, self.options.seconds, self.options.warmup)
                    if one["hit_ratio"] < HIT_RATIO_MIN:
                        raise Failed("%s, %s: a hit ratio of %.4f where everything should be stored" % (
                            contestant.label, workload.name, one["hit_ratio"]))
                    if one["client_cpu_share"] > client_busy:
                        self.busy_client.add("%s, %s" % (workload.name, contestant.label))
                    got[contestant.label] = one
                    self.say("round %d, %s: %-38s %8.0f keys/s, p99 %6.0f us, CPU %.3f + %.3f s per million" % (
                        number, workload.name, contestant.label, one["keys_per_s"], one["p99_us"],
                        one["front_cpu_s_per_million"], one["back_cpu_s_per_million"]))
                self.rounds[workload.name].append(got)

    def spread(self, workload, label, metric):
        return Spread([r[label][metric] for r in self.rounds[workload.name]])

    def best_peer(self, workload, metric):
        """The label of the peer with the best median, None if there are no peers."""
        more_is_better = next(m[3] for m in METRICS if m[0] == metric)
        peers = [label for label in self.labels if not label.startswith(OURS)]
        medians = {label: self.spread(workload, label, metric).median for label in peers}
        return (max if more_is_better else min)(peers, key=medians.get) if peers else None

    def ratio(self, workload, label, metric):
        peer = self.best_peer(workload, metric)
        rounds = self.rounds[workload.name] if peer else []
        return Spread([r[label][metric] / r[peer][metric] for r in rounds if r[peer][metric] > 0])

    def table(self):
        lines = []
        for w in self.workloads:
            if not self.rounds[w.name]:
                continue
            lines += ["", "%s, %s, set:get %s, %d connections; medians of %d rounds, CPU in s per million keys" % (
                w.data.name, w.name, w.ratio, self.options.connections, len(self.rounds[w.name])),
                "  %-38s" % "" + "".join("%11s" % title for _, title, _, _ in METRICS)]
            for label in self.labels:
                lines.append("  %-38s" % label + "".join(
                    "%11.*f" % (decimals, self.spread(w, label, key).median) for key, _, decimals, _ in METRICS))
            lines += self.ratio_lines(w)
        return "\n".join(lines)

    def ratio_lines(self, w):
        ours = [label for label in self.labels if label.startswith(OURS)]
        if not ours or self.best_peer(w, RATIOS[0]) is None:
            return []
        lines = []
        for key, title, _, _ in (m for m in METRICS if m[0] in RATIOS):
            lines.append("  ratio of %s to that of %s" % (title, self.best_peer(w, key)))
            for label in ours:
                r = self.ratio(w, label, key)
                lines.append("    %-36s %11.3f  (%.3f .. %.3f)" % (label, r.median, r.low, r.high))
        return lines

    def as_json(self):
        results = []
        for w in self.workloads:
            if not self.rounds[w.name]:
                continue
            results.append({
                "workload": w.name, "pipeline": w.pipeline, "multiget": w.multiget, "ratio": w.ratio,
                "value_bytes": w.data.value_bytes, "keys": w.data.keys, "rounds": self.rounds[w.name],
                "best_peers": {metric: self.best_peer(w, metric) for metric in RATIOS},
                "contestants": [{
                    "label": label,
                    "metrics": {m[0]: self.spread(w, label, m[0]).as_json() for m in METRICS},
                    "ratios": {m: self.ratio(w, label, m).as_json() for m in RATIOS}} for label in self.labels]})
        return results

    def write_charts(self, folder, about):
        os.makedirs(folder, exist_ok=True)
        for w in self.workloads:
            if not self.rounds[w.name]:
                continue
            bars = [chart.Bar(label, self.spread(w, label, "front_cpu_s_per_million").median,
                              self.spread(w, label, "back_cpu_s_per_million").median,
                              self.spread(w, label, "cpu_s_per_million"), label.startswith(OURS))
                    for label in self.labels]
            chart.write(os.path.join(folder, "proxied-%s.svg" % w.name.replace(" ", "-")),
                        "CPU per million keys: %s, %s, set:get %s" % (w.data.name, w.name, w.ratio), about, bars)


def choose(setup, cpus, wanted):
    """All contestants whose label holds one of the wanted texts; all if there are none."""
    found = all_contestants(setup, cpus)
    chosen = [c for c in found if not wanted or any(text in c.label for text in wanted)]
    if not chosen:
        raise Failed("no contestant is called so; there are: %s" % "; ".join(c.label for c in found))
    return chosen


def what_is_missing(setup, has_proxy):
    """Sentences about peers that do not take part."""
    missing = []
    if setup.memcached is None:
        missing.append("There is no memcached (Debian package memcached): no peers take part.")
    elif setup.nutcracker is None:
        missing.append("There is no nutcracker (Debian package nutcracker): it does not take part.")
    if setup.memcached and not has_proxy:
        missing.append("%s has no built-in proxy (-o proxy_config, from 1.6.23 if built with --enable-proxy): "
                       "it does not take part as a proxy." % setup.memcached)
    return missing


def show(contest, about, options):
    if not any(contest.rounds.values()):
        return
    print("%s\n\n%s" % (contest.table(), about["words"]))
    for name in sorted(contest.busy_client):
        print("%s: the client was busy all the time and may have been what was measured" % name)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(dict(about, results=contest.as_json()), file, indent=1)
            file.write("\n")
    if options.charts:
        contest.write_charts(options.charts, about["short"])
