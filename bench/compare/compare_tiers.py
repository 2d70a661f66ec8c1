# SPDX-License-Identifier: BSD-3-Clause
"""The part `tiers` of `farbench compare`: look-aside caches with less memory than data, with and without a file for evicted values.

A GET that misses is followed by a SET. Each contestant has a process and a file of its own for each workload. It is filled and
loaded in a closed loop until its hit ratio is steady. The rounds then offer a fixed rate of requests; a latency begins when its
request is due.

T1  With a file, all contestants have the same memory, file size, segment size, threads, recache rate and item size limit.
T3  The contestant with a peer is a farcached in front of a farnode of that memory, whose values move to another farnode. That one
    has as much memory as the others' files. All run on this host, so the CPU of all three counts.
T2  The bytes written to the disk for each SET are those of all rounds together: servers write whole buffers.
"""
import copy
import os

import compare_chart  # noqa: F401  its import finds chart
from chart import Axis, Line, Panel, figure
from compare_contest import PEER
from compare_contestants import Direct, builds, help_of
from compare_load import Data, Load, Workload
from compare_servers import Failed, as_whom, stats

MEGABYTES = 64
DISK = 16              # times the memory
SEGMENTS = 16          # of the disk
BUFFER_MEGABYTES = 4
ITEM_MAX = "1m"
RECACHE_RATE = 2000
VALUES, VALUE_MEAN = "1000:4000", 2500
TIMES = (1, 2, 8)      # data, in memories
DISTRIBUTIONS = (("zipf 0.99", ["--distribution", "zipf", "--theta", "0.99"]), ("uniform", []))
CONNECTIONS_MOST = 50
WARM_CONNECTIONS = 16  # a memcached whose extstore is behind refuses more than a few of these requests
STEADY, CHUNKS_MIN, CHUNKS_MAX = 0.004, 4, 40  # two changes of the hit ratio this small end a warm-up
WARM_SEED = 1000
CHUNK_MIN, CHUNK_SECONDS = 20_000, 300
ON_DISK, ALL, ON_PEER = " + disk", " (all values)", " + peer"

METRICS = [  # as in compare_contest
    ("keys_per_s", "op/s", 0, True),
    ("hit_ratio", "hit ratio", 4, True),
    ("p50_us", "GET p50 us", 0, False),
    ("p99_us", "p99 us", 0, False),
    ("p999_us", "p99.9 us", 0, False),
    ("cpu_s_per_million", "CPU us/op", 2, False),
    ("written_per_set", "disk B/SET", 0, False),
]
COMPARED = ("hit_ratio", "p50_us", "p99_us", "p999_us", "cpu_s_per_million", "written_per_set")


class Tiered(Direct):
    """One server. alike: the label of the peer with the same options. disk: more options of -o; None: no file."""

    def __init__(self, label, setup, cpus, o, binary, alike, disk=None):
        super().__init__(label, setup, cpus, binary, o.threads, ours=alike is not None)
        self.alike, self.disk, self.megabytes = alike, disk, o.tier_megabytes

    def start_front(self, _where):
        self.more = ["-I", ITEM_MAX] + (["-o", self.disk_options()] if self.disk is not None else [])
        self.run_front_like_memcached(self.binary, ["-t", str(self.threads), "-m", str(self.megabytes)] + self.more)

    def disk_options(self):
        """The size of a segment comes before the path, as memcached needs it."""
        whole = DISK * self.megabytes
        segment = whole // SEGMENTS
        sizes = ["ext_page_size=%d" % segment, "ext_wbuf_size=%d" % min(segment, BUFFER_MEGABYTES), "ext_threads=1",
                 "ext_recache_rate=%d" % RECACHE_RATE]
        return ",".join(sizes + ["ext_path=%s:%dM" % (self.path("disk"), whole)] + self.disk)


class Spilling(Tiered):
    """A farcached, a farnode, and the farnode that gets its values (T3)."""

    def start_front(self, _where):
        rules = ["-I", ITEM_MAX, "-t", str(self.threads)]
        peer = self.run_node("peer", rules + ["-m", str(DISK * self.megabytes), "--spill-share", "90"])
        home = self.run_node("home", rules + ["-m", str(self.megabytes), "--spill-to", "peer=" + peer, "--no_ext_drop_unread",
                                              "--ext_recache_rate=%d" % RECACHE_RATE])
        nodes = ["--node", "home=%s,weight=50" % home, "--node", "peer=%s,weight=1" % peer]  # nearly all keys are home's
        self.run_front_like_memcached(self.binary, ["-t", str(self.threads)] + nodes +
                                      ["-o", "no_local_read,pointer_table.path=" + self.table])

    @property
    def table(self):
        return "/" + os.path.basename(self.folder)

    def run_node(self, name, more):
        path = self.path(name + ".sock")
        node = self.run_back(name, [self.setup.farnode] + as_whom() + ["--name", name, "--shm", path] + more)
        node.wait_until(lambda: os.path.exists(path) or None)
        return "shm:" + path

    def stop(self):
        super().stop()
        if self.folder is not None and os.path.exists("/dev/shm" + self.table):
            os.unlink("/dev/shm" + self.table)


def has_disk(binary):
    return "ext_path" in help_of(binary)


def contestants(setup, cpus, o):
    found = []
    for prefix, build in builds(setup):
        def ours(name, alike, disk, prefix=prefix, build=build):
            found.append(Tiered(prefix + "farcached" + name, build, cpus, o, build.farcached, alike, disk))
        ours("", PEER, None)
        if has_disk(build.farcached):
            ours(ON_DISK, PEER + ON_DISK, [])
            ours(ON_DISK + ALL, PEER + ON_DISK, ["no_ext_drop_unread"])
        if "spill-to" in help_of(build.farnode):
            found.append(Spilling(prefix + "farcached" + ON_PEER, build, cpus, o, build.farcached, PEER + ON_DISK))
    if setup.memcached:
        found.append(Tiered(PEER, setup, cpus, o, setup.memcached, None))
        if has_disk(setup.memcached):
            found.append(Tiered(PEER + ON_DISK, setup, cpus, o, setup.memcached, None, []))
    return found


def labels(setup, o):
    return [c.label for c in contestants(setup, None, o)] if "tiers" in o.parts else []


def share_cpus(servers, clients):
    """(CPUs of the servers, CPUs of the client, sentences): the client has one thread, which polls, so it gets a CPU of its own."""
    if servers.isdisjoint(clients) or len(servers) == 1:
        return servers, clients, []
    last = max(servers)
    return servers - {last}, {last}, ["The part tiers: servers on %d of the CPUs, the client on CPU %d." % (len(servers) - 1, last)]


def what_is_missing(setup):
    if setup.memcached and not has_disk(setup.memcached):
        return ["%s has no extstore: farcached's disk has no peer." % setup.memcached]
    return []


def cases(o):
    """The workloads."""
    found = []
    for name, more in DISTRIBUTIONS:
        for times in TIMES:
            keys = times * (o.tier_megabytes << 20) // VALUE_MEAN
            data = Data("values of %s bytes" % VALUES, VALUES, keys, "tier-")
            case = Workload(label_of(name, times), data, ratio="5:95", connections=min(o.connections, CONNECTIONS_MOST), threads=1,
                            rate=o.tier_rate, more=more + ["--arrivals", "poisson", "--verify"], fills=True)
            found.append(case)
    return found


def label_of(distribution, times):
    return "%s, data %d times memory" % (distribution, times)


class TierLoad(Load):
    """Loads at a rate. Each measurement makes other requests, the same ones for all contestants. Latencies are those of GETs.

    sums: {(workload, label): [bytes written, SETs, measurements]}
    refused: {label: error replies}; they count as misses
    """

    metrics, ratios, whose, statuses = METRICS, COMPARED, "get", (0, 1)

    def __init__(self, o, cpus):
        super().__init__(o.farbench, o.protocol, o.threads, o.connections, cpus)
        self.quick = o.quick
        self.sums, self.refused = {}, {}

    def _farbench(self, contestant, *args, **more):
        got = super()._farbench(contestant, *args, **more)
        if got["wrong_values"] or got["broken_connections"]:
            raise Failed(got["first_error"])
        self.refused[contestant.label] = self.refused.get(contestant.label, 0) + got["error_replies"]
        return got

    def preload(self, contestant, data):
        self._farbench(contestant, data, "--threads", 1, "--connections", 8, "--verify", "--preload", "--requests", 1,
                       seconds=CHUNK_SECONDS)

    def warm(self, contest, contestants_of, case):
        """Loads each contestant until its hit ratio is steady. Returns sentences about those whose hit ratio is not."""
        notes = []
        closed = copy.copy(case)
        closed.connections, closed.rate = min(WARM_CONNECTIONS, case.connections), None
        chunk = max(CHUNK_MIN, case.data.keys // 2) if not self.quick else 2000
        for contestant in list(contestants_of):
            seen = []
            with contest.may_lose("%s, warm-up of %s" % (contestant.label, case.name)) as tried:
                while len(seen) < CHUNKS_MAX and not steady(seen):
                    seen.append(self.run(contestant, closed, "--requests", chunk, "--seed", WARM_SEED + len(seen),
                                         seconds=CHUNK_SECONDS)["hit_ratio"])
                contest.say("%s: %s: warm-up, hit ratios %s" % (case.name, contestant.label, " ".join("%.3f" % x for x in seen)))
            if tried.failed:
                contest.running.remove(contestant)
                contestants_of.remove(contestant)
                contestant.stop()
            elif not steady(seen):
                notes.append("%s: the hit ratio of %s was not steady after %d requests." % (
                    case.name, contestant.label, chunk * CHUNKS_MAX))
        return notes

    def measure(self, contestant, workload, seconds, warmup):
        sums = self.sums.setdefault((workload.name, contestant.label), [0, 0, 0])
        sums[2] += 1
        before = written(contestant)
        one = super().measure(contestant, workload, seconds, warmup, "--seed", sums[2])
        after = written(contestant)
        sums[:2] = [old + b - a for old, a, b in zip(sums, before, after)]
        one["written_per_set"] = None
        return one

    def settle(self, row):
        """T2. Returns sentences about error replies."""
        for got in row.rounds if row is not None else []:
            for label, one in got.items():
                bytes_written, sets, _ = self.sums[row.workload.name, label]
                one["written_per_set"] = bytes_written / sets if sets and ON_DISK in label else None
        return ["%s: %s refused %d requests, with the warm-up." % (row.name, label, count)
                for label, count in self.refused.items() if count and row is not None]


def steady(seen):
    return len(seen) >= CHUNKS_MIN and all(abs(a - b) <= STEADY for a, b in zip(seen[-3:], seen[-2:]))


def written(contestant):
    """(bytes written to the disk, SETs) since the start"""
    told = stats(contestant.port)
    return int(told.get("extstore_bytes_written", 0)), int(told["cmd_set"])


# ------------------------------------------------------------------------------------------------- drawn

COLORS = {"farcached": "green", "farcached" + ON_PEER: "orange", "farcached" + ON_DISK: "blue",
          "farcached" + ON_DISK + ALL: "purple", PEER: "gray", PEER + ON_DISK: "red"}
DRAWN = (("hit_ratio", "hit ratio", 1.0), ("p50_us", "p50 of GET, us", None), ("p99_us", "p99 of GET, us", None),
         ("cpu_s_per_million", "server CPU, us/operation", None), ("written_per_set", "bytes written to the disk/SET", None))


def write_chart(folder, contest, about):
    """tiers.svg: a row of panels for each distribution, over the size of the data."""
    panels = []
    for distribution, _ in DISTRIBUTIONS:
        found = [(times, contest.find(label_of(distribution, times))) for times in TIMES]
        found = [(times, row) for times, row in found if row is not None]
        for key, words, high in DRAWN if found else ():
            lines = [Line(label, points(found, label, key), COLORS.get(label, "purple"))
                     for label in dict.fromkeys(label for _, row in found for label in row.labels)]
            panels.append(Panel("%s: %s" % (distribution, words), lines,
                                lambda xs: Axis("data, times memory", min(xs + [1]), max(xs + [2]), log=True, ticks=TIMES), words,
                                high))
    if panels:
        os.makedirs(folder, exist_ok=True)
        figure(os.path.join(folder, "tiers.svg"),
               "A look-aside cache with and without a disk: medians of the rounds, and bars as long as their range", about, panels,
               len(DRAWN))


def points(found, label, key):
    spreads = [(times, row.spread(label, key)) for times, row in found if label in row.labels]
    return [(times, spread.median, (spread.high - spread.low) / 2) for times, spread in spreads if spread.known]
