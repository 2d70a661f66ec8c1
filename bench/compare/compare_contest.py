# SPDX-License-Identifier: BSD-3-Clause
"""A contest: all contestants run all the time; each round loads them one after the other.

A ratio is taken within a round, because a disturbance of the machine affects measurements close in time alike. The report shows
the median, minimum and maximum ratio over the rounds. CPU time is the sum over all processes of a contestant during its
measurement.
"""
import contextlib
import math
import statistics
import types

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
RATIOS = ("keys_per_s", "p50_us", "p99_us", "p999_us", "cpu_s_per_million")
LONGER = (1, 4, 16)  # repeats of a load without one reply: a busy machine gave nobody a turn
HIT_RATIO_MIN = 0.999
CLIENT_BUSY = 0.95  # share of the client's CPUs; above it the client may be the bottleneck
PEER, FLOOR = "memcached", "floor"
OLD = "old "  # prefix of the labels of the old build
ALIKE = "memcached with the same options"  # the baseline is the contestant's own `alike`: the peer with the same options


class Spread:
    """Median and extremes of some numbers; unknown ones are left out."""

    def __init__(self, numbers):
        known = [n for n in numbers if n is not None]
        self.median = statistics.median(known) if known else math.nan
        self.low, self.high = (min(known), max(known)) if known else (math.nan, math.nan)

    @property
    def known(self):
        return math.isfinite(self.median)

    def as_json(self):
        return {name: x if math.isfinite(x) else None
                for name, x in (("median", self.median), ("min", self.low), ("max", self.high))}


class Measured:
    """The results of one workload under one generator. rounds: one {label: measurement} for each round.

    metrics: the columns of its table, as in METRICS. ratios: the keys of those whose ratios are shown.
    """

    def __init__(self, workload, generator, contestants):
        self.metrics, self.ratios = getattr(generator, "metrics", METRICS), getattr(generator, "ratios", RATIOS)
        self.workload = workload
        self.generator = generator
        self.contestants = contestants
        self.rounds = []
        self.busy_client = set()

    @property
    def name(self):
        own = self.generator.name == "farbench"
        return self.workload.name if own else "%s (%s)" % (self.workload.name, self.generator.name)

    @property
    def labels(self):
        return [c.label for c in self.contestants]

    @property
    def ours(self):
        return [c.label for c in self.contestants if c.ours]

    def spread(self, label, metric):
        return Spread([r[label][metric] for r in self.rounds])

    def best_peer(self, metric):
        """The label of the storing peer with the best median; None if no peer has this metric."""
        more_is_better = next(m[3] for m in self.metrics if m[0] == metric)
        medians = {c.label: self.spread(c.label, metric) for c in self.contestants if not c.ours and c.stores}
        peers = [label for label, spread in medians.items() if spread.known]
        return (max if more_is_better else min)(peers, key=lambda label: medians[label].median) if peers else None

    def peer_of(self, label, metric, to):
        """The label of the baseline for this contestant. to: a label, OLD, ALIKE, or None for the best peer."""
        if to == ALIKE:
            return next(c.alike for c in self.contestants if c.label == label)
        return OLD + label if to == OLD else to or self.best_peer(metric)

    def ratio(self, label, metric, to):
        pairs = [(r[label][metric], r[to][metric]) for r in self.rounds] if to in self.labels else []
        return Spread([a / b for a, b in pairs if a is not None and b])

    def lose(self, contestant):
        """Removes a contestant of which nothing was measured."""
        self.contestants = [c for c in self.contestants if c is not contestant]
        for got in self.rounds:
            got.pop(contestant.label, None)


class Contest:
    """say(words): prints progress. lost: the failures, as sentences; each one costs only its own rows."""

    def __init__(self, options, say):
        self.options = options
        self.say = say
        self.running = []
        self.measured = []
        self.unsent = 0
        self.lost = []

    def start(self, contestants, load, datas):
        """Starts all contestants. datas: the data sets that each storing contestant gets."""
        for contestant in list(contestants):
            self.say("starting %s" % contestant.label)
            self.running.append(contestant)
            with self.may_lose(contestant.label) as tried:
                contestant.start()
                for data in datas if contestant.stores else []:
                    load.preload(contestant, data)
            if tried.failed:
                self.running.remove(contestant)
                contestants.remove(contestant)
                contestant.stop()

    @contextlib.contextmanager
    def may_lose(self, what):
        """Reports a failure inside of the block and goes on behind it. Yields an object whose `failed` is then true."""
        tried = types.SimpleNamespace(failed=False)
        try:
            yield tried
        except (Failed, OSError) as e:
            tried.failed = True
            self.lost.append("%s: %s" % (what, e))
            self.say("lost: %s" % self.lost[-1])

    def stop(self):
        while self.running:
            self.running.pop().stop()

    def run(self, contestants, workloads, generators):
        """Measures all rounds of these workloads, workload by workload within a round."""
        rows = []
        for generator in generators:
            for workload in workloads:
                able = [c for c in contestants if generator.can(c, workload)]
                if able:
                    rows.append(Measured(workload, generator, able))
        self.measured += rows
        for number in range(1, self.options.rounds + 1):
            for row in rows:
                if row.contestants:
                    self._one_round(row, number)
        self.measured = [row for row in self.measured if row.contestants]

    def _one_round(self, row, number):
        got = {}
        turn = number % len(row.contestants)  # each round begins with another contestant, so none always follows the same one
        for contestant in row.contestants[turn:] + row.contestants[:turn]:
            with self.may_lose("%s, %s" % (contestant.label, row.name)) as tried:
                one = self._measure(row, contestant)
            if tried.failed:
                row.lose(contestant)
                continue
            if (one["client_cpu_share"] or 0) > CLIENT_BUSY:
                row.busy_client.add(contestant.label)
            self.unsent += one["unsent"]
            got[contestant.label] = one
            hits = ", hit ratio %.3f" % one["hit_ratio"] if row.workload.fills else ""
            self.say("round %d, %s: %-36s %9.0f keys/s, p99 %6.0f us, CPU %.3f + %.3f s per million%s" % (
                number, row.name, contestant.label, one["keys_per_s"], one["p99_us"] or math.nan,
                one["front_cpu_s_per_million"], one["back_cpu_s_per_million"], hits))
        row.rounds.append(got)

    def _measure(self, row, contestant):
        for longer in LONGER:
            one = row.generator.measure(contestant.at(row.workload.data), row.workload, self.options.seconds * longer,
                                        self.options.warmup)
            if one["keys_per_s"] > 0:
                break
        else:
            raise Failed("no request was answered in %g s" % (self.options.seconds * longer))
        if one["hit_ratio"] < HIT_RATIO_MIN and not row.workload.fills:
            raise Failed("a hit ratio of %.4f where everything should be stored" % one["hit_ratio"])
        return one

    def find(self, name):
        return next((row for row in self.measured if row.name == name and row.rounds), None)
