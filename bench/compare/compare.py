# SPDX-License-Identifier: BSD-3-Clause
"""`farbench compare`: puts farcached and its peers under the same load, one after the other, round by round.

farbench starts this script and passes its settings as JSON; `farbench compare --help` describes them. All servers of a part run
all the time, pinned to the same CPUs. Only one of them is under load at a time. Ratios are the result; absolute numbers depend on
the machine, and --self shows the noise.
"""
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import types

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import compare_aims as aims  # noqa: E402
import compare_exhaustion as exhaustion  # noqa: E402
import compare_memory as memory_of  # noqa: E402
import compare_report as report  # noqa: E402
import compare_tiers as tiers  # noqa: E402
import compare_tls as tls  # noqa: E402
import compare_verbs as verbs  # noqa: E402
from compare_contest import PEER, Contest  # noqa: E402
from compare_contestants import (URING, direct_contestants, proxied_contestants, uses,  # noqa: E402
                                 what_is_missing)
from compare_load import Crusher, Data, Load, Memtier, Workload  # noqa: E402
from compare_servers import Failed, machine, share_cpus, version_of  # noqa: E402

BUSY_MACHINE = 0.5     # load average above which other processes disturb the measurement
OPEN_LOOP_SHARE = 0.7  # share of memcached's own maximum
MEGABYTES = 512
WORKERS_MOST = 4
CLIENT_CPUS = 2
PATIENT_BESIDE = 400   # connections in addition to those of the load


def direct_workloads(small, large):
    return [Workload(aims.SMALL_1, small), Workload(aims.SMALL_16, small, pipeline=16),
            Workload(aims.LARGE_1, large), Workload(aims.LARGE_16, large, pipeline=16),
            Workload(aims.MULTI, small, multiget=50, ratio="0:1"), Workload(aims.SETS, small, ratio="1:0"),
            Workload(aims.SINGLE, small, connections=1, threads=1)]


def proxied_workloads(small):
    return [Workload(aims.PROXIED_1, small), Workload(aims.PROXIED_16, small, pipeline=16),
            Workload(aims.PROXIED_MULTI, small, multiget=50),
            Workload(aims.PROXIED_SINGLE, small, connections=1, threads=1)]


def say(words):
    print(words, file=sys.stderr, flush=True)


def read_options(settings):
    o = types.SimpleNamespace(**{name.replace("-", "_"): settings.get(name) for name in (
        "contestant", "workload", "old", "farcached", "farnode", "memcached", "nutcracker", "mcrouter", "json", "csv", "svg",
        "charts", "protocol", "farbench")})
    o.tier_megabytes = int(settings.get("megabytes") or tiers.MEGABYTES)
    o.megabytes = int(settings.get("megabytes") or MEGABYTES)
    for name in ("rounds", "threads", "back-threads", "connections", "idle", "keys", "tier-rate"):
        setattr(o, name.replace("-", "_"), int(settings[name]))
    o.seconds, o.warmup = float(settings["seconds"]), float(settings["warmup"])
    o.parts, o.generators = settings["parts"].split(","), settings["generator"].split(",")
    o.quick, o.again, o.aims = (settings.get(name) == "yes" for name in ("quick", "self", "aims"))
    o.item_keys = 1_000_000
    if o.quick:
        o.rounds, o.seconds, o.warmup = 1, min(o.seconds, 0.2), 0.0
        o.keys, o.item_keys, o.idle = min(o.keys, 1000), 2000, min(o.idle, 50)
        o.connections, o.megabytes, o.tier_megabytes = min(o.connections, 8), min(o.megabytes, 64), min(o.tier_megabytes, 16)
    if o.parts == ["tiers"]:
        o.megabytes = o.tier_megabytes
    o.wanted_contestants = o.contestant.split(",") if o.contestant else []
    o.wanted_workloads = o.workload.split(";") if o.workload else []
    return o


def beside(o, name):
    """Path of the program: the given one, else the one beside farbench, else the one on PATH."""
    given = getattr(o, name)
    built = os.path.join(os.path.dirname(o.farbench), name)
    path = shutil.which(given) if given else built if os.access(built, os.X_OK) else shutil.which(name)
    if path is None:
        raise Failed("there is no %s: build it beside farbench, or say --%s PATH" % (name, name))
    return path


def old_programs(folder):
    """{name: path} of the other build; {} without --old."""
    found = {name: os.path.join(folder, name) for name in ("farcached", "farnode")} if folder else {}
    for path in found.values():
        if not os.access(path, os.X_OK):
            raise Failed("--old %s: there is no program %s" % (folder, path))
    return found


def make_setup(o):
    return types.SimpleNamespace(
        farbench=o.farbench, farcached=beside(o, "farcached"), farnode=beside(o, "farnode"), old=old_programs(o.old),
        memcached=shutil.which(o.memcached),
        nutcracker=shutil.which(o.nutcracker), mcrouter=shutil.which(o.mcrouter), megabytes=o.megabytes,
        back_threads=o.back_threads, connections_max=max(o.connections, o.idle) + PATIENT_BESIDE)


class Run:
    """One run of the command. memory: {measure: {label: bytes}}, the form that compare_report expects."""

    def __init__(self, o):
        self.o = o
        self.setup = make_setup(o)
        self.server_cpus, self.client_cpus, self.placement = share_cpus()
        self.load = Load(o.farbench, o.protocol, o.threads, o.connections, self.client_cpus)
        self.notes = what_is_missing(self.setup)
        self.generators = self.find_generators()
        self.small = Data("64 B values", 64, o.keys, "cmp-")
        self.large = Data("1 KiB values", 1024, max(1, o.keys // 5), "big-")
        self.contest = Contest(o, say)
        self.memory = {}

    def find_generators(self):
        found = [self.load] if "farbench" in self.o.generators else []
        for word, name, make in (
                ("memtier", "memtier_benchmark", lambda p: Memtier(p, self.o.threads, self.o.connections, self.client_cpus)),
                ("crusher", "mc-crusher", lambda p: Crusher(p, self.o.connections, self.client_cpus))):
            path = shutil.which(name) if word in self.o.generators else None
            if path:
                found.append(make(path))
            elif word in self.o.generators:
                self.notes.append("There is no %s: it makes no load." % name)
        return found

    def chosen(self, contestants):
        wanted = self.o.wanted_contestants
        return [c for c in contestants if not wanted or any(text in c.label for text in wanted)]

    def asked_for(self, workloads):
        wanted = self.o.wanted_workloads
        return [w for w in workloads if not wanted or any(text in w.name for text in wanted)]

    def work(self):
        parts = {"direct": self.direct, "proxied": self.proxied, "memory": self.of_items, "idle": self.idle,
                 "exhaustion": self.exhaustion, "workers": self.workers, "verbs": self.verbs,
                 "tiers": self.tiers, "tls": self.tls}
        known = [c.label for c in direct_contestants(self.setup, None, self.o.threads, [self.small], self.o.again) +
                 proxied_contestants(self.setup, None, self.o.threads)] + verbs.labels() + tiers.labels(self.setup, self.o)
        for text in self.o.wanted_contestants:
            if not any(text in label for label in known):
                raise Failed("no contestant is called %s; there are: %s" % (text, "; ".join(known)))
        try:
            for part in self.o.parts:
                parts[part]()
        finally:
            self.contest.stop()
        if not self.contest.measured and not self.memory:
            raise Failed("nothing is left to be measured: no workload is called so")

    def start(self, contestants, datas):
        self.contest.start(contestants, self.load, datas)
        for c in list(contestants):
            if URING in c.label and not uses(c, "uring"):
                self.notes.append("%s cannot use io_uring here: it does not take part." % c.label)
                contestants.remove(c)
                self.contest.running.remove(c)
                c.stop()

    def direct(self):
        workloads = self.asked_for(direct_workloads(self.small, self.large))
        with_open_loop = not self.o.wanted_workloads or any(text in aims.OPEN for text in self.o.wanted_workloads)
        contestants = self.chosen(direct_contestants(self.setup, self.server_cpus, self.o.threads, [self.small, self.large],
                                                     self.o.again))
        if not contestants or not (workloads or with_open_loop):
            return
        self.start(contestants, [self.small, self.large])
        self.contest.run(contestants, workloads, self.generators)
        if with_open_loop:
            self.open_loop(contestants)
        self.contest.stop()

    def open_loop(self, contestants):
        row = self.contest.find(aims.SMALL_1)
        if row is None or PEER not in row.labels:
            self.notes.append("memcached's maximum throughput was not measured (workload \"%s\"): no open loop." % aims.SMALL_1)
            return
        rate = OPEN_LOOP_SHARE * row.spread(PEER, "keys_per_s").median
        self.contest.run(contestants, [Workload(aims.OPEN, self.small, rate=rate)], [self.load])

    def proxied(self):
        workloads = self.asked_for(proxied_workloads(self.small))
        contestants = self.chosen(proxied_contestants(self.setup, self.server_cpus, self.o.threads))
        if not contestants or not workloads:
            return
        self.start(contestants, [self.small])
        self.contest.run(contestants, workloads, self.generators)
        self.contest.stop()

    def storing(self, cpus, threads):
        return [c.label for c in self.chosen(direct_contestants(self.setup, cpus, threads, [], False))]

    def make(self, label, cpus=None, threads=None):
        """Makes a new contestant, which does not run yet."""
        found = direct_contestants(self.setup, cpus or self.server_cpus, threads or self.o.threads, [], False)
        return next(c for c in found if c.label == label)

    def of_items(self):
        self.setup.megabytes = 1024
        for what, size, keys in (("item of 64 B", 64, self.o.item_keys), ("item of 1 KiB", 1024, self.o.item_keys // 5)):
            taken = self.memory.setdefault(what, {})
            for label in self.storing(None, self.o.threads):
                if URING in label:
                    continue
                with self.contest.may_lose("%s, %s" % (label, what)):
                    taken[label] = memory_of.of_items(lambda: self.make(label), self.load, keys, size)
                    say("%s: %s takes %.1f bytes" % (what, label, taken[label]))
        self.setup.megabytes = self.o.megabytes

    def idle(self):
        connections = memory_of.allow_descriptors(self.o.idle)
        if connections < self.o.idle:
            self.notes.append("The limit of open files allows %d idle connections." % connections)
        whole = self.memory.setdefault("idle connections", {})
        for label in self.storing(None, self.o.threads):
            with self.contest.may_lose("%s, idle connections" % label):
                whole[label], each = memory_of.with_idle_connections(
                    lambda: self.make(label), memory_of.numbers_of_connections(connections))
                for number, taken in each.items():
                    self.memory.setdefault(memory_of.each_of(number), {})[label] = taken
                say("with %d idle connections: %s takes %d bytes, %s" % (
                    connections, label, whole[label],
                    ", ".join("%.0f for each of %d" % (taken, number) for number, taken in each.items())))

    def exhaustion(self):
        """Clients that hold memory, and the latency of another client meanwhile."""
        for case in exhaustion.CASES:
            taken, waits = self.memory.setdefault("while " + case.name, {}), {}
            for label in self.storing(None, 1):
                with self.contest.may_lose("%s, %s" % (label, case.name)):
                    self.setup.megabytes = case.megabytes
                    contestant = self.make(label, threads=1)
                    contestant.more += ["-I", case.item]
                    taken[label], waits[label] = exhaustion.of_case(contestant, case, self.o.seconds, self.o.quick)
                    say("while %s: %s takes %d bytes" % (case.name, label, taken[label]))
            if waits:
                self.notes.append(exhaustion.words(case, waits))
        self.setup.megabytes = self.o.megabytes

    def workers(self):
        """Measures one worker up to the number of CPUs that the client leaves."""
        cpus = sorted(os.sched_getaffinity(0))
        most = min(WORKERS_MOST, len(cpus) - CLIENT_CPUS)
        if most < WORKERS_MOST:
            self.notes.append("From 1 to %d workers wants %d CPUs, here are %d: %s" % (
                WORKERS_MOST, WORKERS_MOST + CLIENT_CPUS, len(cpus),
                "from 1 to %d was measured" % most if most > 1 else "nothing of the kind was measured"))
        data = self.small
        steps = [(n, Workload("64 B, pipeline 16, %d worker%s" % (n, "s" if n > 1 else ""), data, pipeline=16))
                 for n in (1, most)]
        if most < 2 or len(self.asked_for([w for _, w in steps])) < 2:
            return
        load = Load(self.o.farbench, self.o.protocol, CLIENT_CPUS, self.o.connections, set(cpus[most:]))
        for n, workload in steps:
            contestants = [self.make(label, set(cpus[:n]), n) for label in self.storing(None, n)]
            self.start(contestants, [data])
            self.contest.run(contestants, [workload], [load])
            self.contest.stop()
        one, several = (self.contest.find(w.name) for _, w in steps)
        if one is not None and several is not None:
            self.efficiency(one, several, most)

    def verbs(self):
        """farcached over RDMA, between two guests."""
        labels = [label for label in verbs.labels() if not self.o.wanted_contestants or
                  any(text in label for text in self.o.wanted_contestants)]
        chosen = [how for how in verbs.workloads(self.o) if not self.o.wanted_workloads or
                  any(text in how["name"] for text in self.o.wanted_workloads)]
        if not labels or not chosen:
            return
        why = verbs.why_not(self.setup)
        if why is not None:
            if self.o.parts == ["verbs"]:
                raise Failed("no guests for verbs: %s" % why)
            return self.notes.append("The part verbs is left out: %s." % why)
        say("booting two guests")
        told = verbs.Told(labels, self.load, [Workload(**{**how, "data": self.small}) for how in chosen])
        measurements = self.o.rounds * len(labels) * len(chosen)
        try:
            wrong = verbs.run(verbs.guests(self.o, self.setup, verbs.settings(self.o, self.setup, labels, chosen), measurements),
                              told)
        finally:
            self.contest.measured += [row for row in told.rows.values() if row.rounds]
        if wrong is not None:
            raise Failed(wrong)

    def tiers(self):
        """Look-aside caches of more data than memory, with and without a file for evicted values."""
        server_cpus, client_cpus, placement = tiers.share_cpus(self.server_cpus, self.client_cpus)
        self.notes += tiers.what_is_missing(self.setup) + placement
        for case in tiers.cases(self.o):
            if self.asked_for([case]):
                contestants = self.chosen(tiers.contestants(self.setup, server_cpus, self.o))
                load = tiers.TierLoad(self.o, client_cpus)
                self.contest.start(contestants, load, [case.data])
                self.notes += load.warm(self.contest, contestants, case)
                self.contest.run(contestants, [case], [load])
                self.notes += load.settle(self.contest.find(case.name))
                self.contest.stop()

    def tls(self):
        """Handshakes and GETs over TLS, with an RSA and an ECDSA certificate."""
        if tls.missing():
            return self.notes.append(tls.missing())
        with tempfile.TemporaryDirectory(prefix="farcached-compare-") as folder:
            cases = [case for case in tls.workloads(self.small) if self.asked_for([case[1]])]
            for kind in tls.KEYS:
                mine = [case for case in cases if case[0] == kind]
                contestants = self.chosen(tls.contestants(self.setup, self.server_cpus, self.o.threads,
                                                          tls.make_certificate(kind, folder))) if mine else []
                if contestants:
                    self.start(contestants, [self.small])
                    load = tls.TlsLoad(self.load, {workload.name: size for _, workload, size in mine}, self.client_cpus)
                    self.contest.run(contestants, [workload for _, workload, _ in mine], [load])
                    self.contest.stop()

    def efficiency(self, one, several, workers):
        for label in one.labels:
            if label in several.labels:
                gain = several.spread(label, "keys_per_s").median / one.spread(label, "keys_per_s").median
                self.notes.append("From 1 to %d workers %s has %.2f times the throughput: an efficiency of %.2f." % (
                    workers, label, gain, gain / workers))


def describe(run):
    """(short description, full description)"""
    here, o, setup = machine(), run.o, run.setup
    programs = [p for p in (setup.farcached, setup.old.get("farcached"), setup.memcached, setup.nutcracker, setup.mcrouter) if p]
    versions = ", ".join("%s (%s)" % (p if p in setup.old.values() else os.path.basename(p), version_of(p)) for p in programs)
    short = "%s, %d CPUs; %s; %d rounds of %g s; load average %.1f at the start" % (
        here["cpu"], here["cpus"], run.placement, o.rounds, o.seconds, here["load_average"])
    words = "%s; -t %d in front, -t %d behind, -m %d, %s protocol, load by %s\n%s" % (
        versions, o.threads, o.back_threads, o.megabytes, o.protocol, ", ".join(g.name for g in run.generators), short)
    if here["load_average"] > BUSY_MACHINE:
        words += "\nThe machine was busy before this began: expect noise"
    if o.quick:
        words += "\nThis was --quick: its numbers say nothing"
    return short, words


def show(run, short, words, took):
    o, contest = run.o, run.contest
    parts = [report.table(contest), report.memory_table(run.memory), ""]
    if o.aims:
        parts += [aims.table(contest, run.memory), ""]
    print("\n".join(parts + ["%s; it took %.1f minutes" % (words, took / 60), *verbs.words(contest), *run.notes]))
    for row in contest.measured:
        for label in sorted(row.busy_client):
            print("%s, %s: the client used all of its CPU time and may be the bottleneck" % (row.name, label))
    if contest.unsent:
        print("At a rate: %d requests were due and never sent, or not answered" % contest.unsent)
    for words in contest.lost:
        print("Lost, and not in the tables: %s" % words)
    if o.json:
        report.write_json(o.json, contest, run.memory)
    if o.csv:
        report.write_csv(o.csv, contest)
    if o.svg:
        report.write_svg(o.svg, contest, short)
    if o.charts:
        report.write_charts(o.charts, contest, short)
        tiers.write_chart(o.charts, contest, short)


def main():
    run = Run(read_options(json.loads(sys.argv[1])))
    short, words = describe(run)
    say(words)
    began = time.monotonic()
    status = 0
    try:
        run.work()
    except (KeyboardInterrupt, Failed, OSError) as e:
        if not run.contest.measured and not run.memory:
            raise
        say("farbench compare: %s; printing the results so far" % (str(e) or "stopped"))
        status = 1
    show(run, short, words, time.monotonic() - began)
    return 1 if run.contest.lost else status


def on_signal(_number, _frame):
    raise KeyboardInterrupt


if __name__ == "__main__":
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    try:
        sys.exit(main())
    except Failed as e:
        say("farbench compare: %s" % e)
        sys.exit(1)
