# SPDX-License-Identifier: BSD-3-Clause
"""One load on one server, made by `farbench load`, memtier_benchmark or mc-crusher. All return the same few numbers.

A contestant has `host`, `port`, `pid` (None: no process on this machine) and `back_pids`. Throughput and CPU time are per key: a
multi-get of 50 keys counts as 50. A value that the generator does not report is None.
"""
import json
import os
import subprocess
import tempfile
import time

from compare_servers import Failed, child_setup, cpu_seconds, stats

GRACE_SECONDS = 60  # in addition to the length of the load
PRELOAD_SECONDS = 600


class Data:
    """Values that are stored once and used by several workloads."""

    def __init__(self, name, value_bytes, keys, prefix="compare-"):
        self.name = name
        self.value_bytes = value_bytes
        self.keys = keys
        self.prefix = prefix


class Workload:
    """name and parameters. connections, threads: None: the defaults of the load. rate: keys per second of an open loop.

    more: further arguments of `farbench load`. fills: a get that misses is followed by a set.
    """

    def __init__(self, name, data, pipeline=1, multiget=1, ratio="5:95", connections=None, threads=None, rate=None, more=(),
                 fills=False):
        self.name = name
        self.data = data
        self.pipeline = pipeline
        self.multiget = multiget
        self.ratio = ratio
        self.connections = connections
        self.threads = threads
        self.rate = rate
        self.fills = fills
        self.more = list(more) + (["--fill-misses"] if fills else [])


def run_to_its_end(command, seconds, cpus, statuses=(0,)):
    """statuses: exit statuses of a load that did its work."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds + GRACE_SECONDS,
                              preexec_fn=child_setup(cpus))
    except subprocess.TimeoutExpired:
        raise Failed("this load did not end in time: %s" % " ".join(command)) from None
    if done.returncode not in statuses:
        raise Failed("this load failed: %s\n%s" % (" ".join(command),
                                                  (done.stdout + done.stderr).decode("utf-8", "replace")[-2000:]))


def measured(keys, seconds, contestant, before, after, latency, hit_ratio, client_cpu_share=None):
    """before, after: CPU seconds of front end and back ends. latency: (p50, p99, p99.9), in us."""
    front, back = ((b - a) * 1e6 / keys if keys else 0.0 for a, b in zip(before, after))
    return {"keys_per_s": keys / seconds, "p50_us": latency[0], "p99_us": latency[1], "p999_us": latency[2],
            "cpu_s_per_million": front + back, "front_cpu_s_per_million": front, "back_cpu_s_per_million": back,
            "hit_ratio": hit_ratio, "client_cpu_share": client_cpu_share, "late_share": None, "unsent": 0}


def cpu_of(contestant):
    return cpu_seconds(contestant.pid), sum(cpu_seconds(pid) for pid in contestant.back_pids)


class Load:
    """farbench load. tool: path of farbench."""

    name = "farbench"
    whose = "all"  # requests whose latencies count, as `farbench load` reports them
    statuses = (0,)  # of a `farbench load` whose report counts

    def __init__(self, tool, protocol, threads, connections, cpus):
        self.tool = tool
        self.protocol = protocol
        self.threads = threads
        self.connections = connections
        self.cpus = cpus

    def can(self, contestant, workload):
        return True

    def _farbench(self, contestant, data, *args, seconds):
        with tempfile.TemporaryDirectory(prefix="farcached-compare-") as folder:
            path = os.path.join(folder, "results.json")
            run_to_its_end([self.tool, "load", "--host", contestant.host, "--port", str(contestant.port), "--protocol",
                            self.protocol, "--keys", str(data.keys), "--key-prefix", data.prefix, "--value-bytes",
                            str(data.value_bytes), "--json", path] +
                           (["--server-pid", str(contestant.pid)] if contestant.pid else []) +
                           (["--back-pid", ",".join(str(pid) for pid in contestant.back_pids)]
                            if contestant.back_pids else []) + [str(a) for a in args], seconds, self.cpus, self.statuses)
            with open(path) as file:
                return json.load(file)

    def preload(self, contestant, data):
        """Stores every key once."""
        self._farbench(contestant, data, "--threads", self.threads, "--connections", 8, "--preload", "--requests", 1,
                       seconds=PRELOAD_SECONDS)

    def run(self, contestant, workload, *bounds, seconds):
        """What `farbench load` reports."""
        pace = ["--rate", workload.rate / workload.multiget] if workload.rate else []
        return self._farbench(contestant, workload.data, "--threads", workload.threads or self.threads, "--connections",
                              workload.connections or self.connections, "--pipeline", workload.pipeline, "--multiget",
                              workload.multiget, "--ratio", workload.ratio, *workload.more, *pace, *bounds, seconds=seconds)

    def measure(self, contestant, workload, seconds, warmup, *more):
        threads = workload.threads or self.threads
        got = self.run(contestant, workload, "--seconds", seconds, "--warmup", warmup, *more, seconds=seconds + warmup)
        latency = {name: got["%s_%s" % (self.whose, name)] for name in ("mean_us", "p50_us", "p99_us", "p999_us")}
        return {"keys_per_s": got["keys_per_s"], **latency,
                "cpu_s_per_million": got["server_cpu_s_per_million_keys"] + got["back_cpu_s_per_million_keys"],
                "front_cpu_s_per_million": got["server_cpu_s_per_million_keys"],
                "back_cpu_s_per_million": got["back_cpu_s_per_million_keys"],
                "hit_ratio": got["hit_ratio"] if got["keys_read"] else 1.0,
                # With a fixed rate the client polls all the time, so its CPU use says nothing about a bottleneck.
                "client_cpu_share": None if workload.rate else got["client_cpu_s"] / got["measured_s"] / threads,
                "late_share": got["late"] / got["operations"] if workload.rate and got["operations"] else None,
                "unsent": got["unsent"]}


class Memtier:
    """memtier_benchmark, with the keys that farbench stored."""

    name = "memtier_benchmark"

    def __init__(self, tool, threads, connections, cpus):
        self.tool, self.threads, self.connections, self.cpus = tool, threads, connections, cpus

    def can(self, contestant, workload):
        return workload.rate is None and workload.connections is None

    def measure(self, contestant, workload, seconds, warmup):
        with tempfile.TemporaryDirectory(prefix="farcached-compare-") as folder:
            path = os.path.join(folder, "results.json")
            command = [self.tool, "-s", "127.0.0.1", "-p", str(contestant.port), "-P", "memcache_text",
                       "--threads", str(self.threads), "--clients", str(max(1, self.connections // self.threads)),
                       "--pipeline", str(workload.pipeline), "--ratio", workload.ratio,
                       "--data-size", str(workload.data.value_bytes), "--key-prefix", workload.data.prefix,
                       "--key-minimum", "1", "--key-maximum", str(workload.data.keys - 1),
                       "--key-pattern", "R:R", "--distinct-client-seed",
                       "--test-time", str(max(1, round(seconds))), "--hide-histogram",
                       "--print-percentiles", "50,99,99.9", "--json-out-file", path]
            if workload.multiget > 1:
                command += ["--multi-key-get", str(workload.multiget)]
            before = cpu_of(contestant)
            run_to_its_end(command, seconds, self.cpus)
            after = cpu_of(contestant)
            with open(path) as file:
                return read_memtier(json.load(file), contestant, before, after)


def read_memtier(results, contestant, before, after):
    found = results["ALL STATS"]
    hits, misses = found["Gets"]["Hits/sec"], found["Gets"]["Misses/sec"]
    rate = hits + misses + found["Sets"]["Ops/sec"]
    duration = found["Runtime"]["Total duration"] / 1000.0
    latency = found["Totals"]["Percentile Latencies"]
    return measured(rate * duration, duration, contestant, before, after,
                    [latency[p] * 1000 for p in ("p50.00", "p99.00", "p99.90")],
                    hits / (hits + misses) if hits + misses else 1.0)


class Crusher:
    """mc-crusher: runs until it is stopped and reports nothing, so the server's counters give the number of requests. Only gets."""

    name = "mc-crusher"

    def __init__(self, tool, connections, cpus):
        self.tool, self.connections, self.cpus = tool, connections, cpus

    def can(self, contestant, workload):
        return contestant.counts_requests and workload.rate is None and workload.connections is None \
            and workload.ratio != "1:0"

    def config(self, workload):
        kind = "ascii_mget,mget_count=%d" % workload.multiget if workload.multiget > 1 else "ascii_get"
        return "send=%s,recv=blind_read,conns=%d,key_prefix=%s,key_prealloc=1,key_count=%d,key_randomize=1,pipelines=%d\n" % (
            kind, self.connections, workload.data.prefix, workload.data.keys, workload.pipeline)

    def measure(self, contestant, workload, seconds, warmup):
        with tempfile.TemporaryDirectory(prefix="farcached-compare-") as folder:
            path, said = os.path.join(folder, "conf"), os.path.join(folder, "said")
            with open(path, "w") as file:
                file.write(self.config(workload))
            with open(said, "wb") as out:
                process = subprocess.Popen([self.tool, "--conf", path, "--ip", contestant.host, "--port",
                                            str(contestant.port)], stdin=subprocess.DEVNULL,
                                           stdout=out, stderr=out, preexec_fn=child_setup(self.cpus))
            try:
                self._wait_until_it_runs(process, contestant, said)
                time.sleep(warmup)
                before, began, first = cpu_of(contestant), time.monotonic(), stats(contestant.port)
                time.sleep(seconds)
                after, ended, last = cpu_of(contestant), time.monotonic(), stats(contestant.port)
            finally:
                process.kill()
                process.wait()
        gets, hits = (int(last[name]) - int(first[name]) for name in ("cmd_get", "get_hits"))
        return measured(gets, ended - began, contestant, before, after, (None, None, None), hits / gets if gets else 0.0)

    @staticmethod
    def _wait_until_it_runs(process, contestant, said):
        end, first = time.monotonic() + GRACE_SECONDS, int(stats(contestant.port)["cmd_get"])
        while int(stats(contestant.port)["cmd_get"]) == first:
            if process.poll() is not None or time.monotonic() > end:
                with open(said, errors="replace") as file:
                    raise Failed("mc-crusher asks for nothing, and says: %s" % (file.read()[-2000:].strip() or "nothing"))
            time.sleep(0.05)
