# SPDX-License-Identifier: BSD-3-Clause
"""One load on one server, by memtier_benchmark or by `farbench load`: both give the same few numbers.

Throughput and CPU time are per key, so that a multi-get of 50 keys counts as 50.
"""
import json
import os
import subprocess
import tempfile

from compare_servers import Failed, child_setup

GRACE_SECONDS = 60  # beyond the time that a load is told to take


class Workload:
    """name, and what it asks for. The keys of a data set are stored once and serve all its workloads."""

    def __init__(self, name, data, pipeline=1, multiget=1, ratio="5:95"):
        self.name = name
        self.data = data
        self.pipeline = pipeline
        self.multiget = multiget
        self.ratio = ratio


class Data:
    def __init__(self, name, value_bytes, keys):
        self.name = name
        self.value_bytes = value_bytes
        self.keys = keys


class Load:
    """How loads are made. tool: path of farbench; memtier: of memtier_benchmark, or None."""

    prefix = "compare-"

    def __init__(self, tool, memtier, protocol, threads, connections, cpus):
        self.tool = tool
        self.memtier = memtier
        self.protocol = protocol
        self.threads = threads
        self.connections = connections
        self.cpus = cpus

    @property
    def name(self):
        return "memtier_benchmark" if self.memtier else "farbench load"

    def _run(self, command, seconds):
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True,
                                  timeout=seconds + GRACE_SECONDS, preexec_fn=child_setup(self.cpus))
        except subprocess.TimeoutExpired:
            raise Failed("this load did not end in time: %s" % " ".join(command)) from None
        if done.returncode != 0:
            raise Failed("this load failed: %s\n%s" % (" ".join(command),
                                                      (done.stdout + done.stderr).decode("utf-8", "replace")[-2000:]))

    def _farbench(self, server, data, *args, seconds):
        with tempfile.TemporaryDirectory(prefix="farcached-compare-") as folder:
            path = os.path.join(folder, "results.json")
            self._run([self.tool, "load", "--port", str(server.port), "--protocol", self.protocol, "--threads",
                       str(self.threads), "--keys", str(data.keys), "--key-prefix", self.prefix, "--value-bytes",
                       str(data.value_bytes), "--server-pid", str(server.pid), "--json", path] +
                      (["--back-pid", ",".join(str(pid) for pid in server.back_pids)] if server.back_pids else []) +
                      [str(a) for a in args], seconds)
            with open(path) as file:
                return json.load(file)

    def preload(self, server, data):
        """Stores every key once."""
        self._farbench(server, data, "--connections", 8, "--preload", "--requests", 1, seconds=120)

    def measure(self, server, workload, seconds, warmup):
        if self.memtier:
            return self._measure_memtier(server, workload, seconds)
        got = self._farbench(server, workload.data, "--connections", self.connections, "--pipeline",
                             workload.pipeline, "--multiget", workload.multiget, "--ratio", workload.ratio,
                             "--seconds", seconds, "--warmup", warmup, seconds=seconds + warmup)
        return {"keys_per_s": got["keys_per_s"], "p50_us": got["all_p50_us"], "p99_us": got["all_p99_us"],
                "p999_us": got["all_p999_us"],
                "cpu_s_per_million": got["server_cpu_s_per_million_keys"] + got["back_cpu_s_per_million_keys"],
                "front_cpu_s_per_million": got["server_cpu_s_per_million_keys"],
                "back_cpu_s_per_million": got["back_cpu_s_per_million_keys"],
                "hit_ratio": got["hit_ratio"] if got["keys_read"] else 1.0,
                "client_cpu_share": got["client_cpu_s"] / got["measured_s"] / self.threads}

    def _measure_memtier(self, server, workload, seconds):
        with tempfile.TemporaryDirectory(prefix="farcached-compare-") as folder:
            path = os.path.join(folder, "results.json")
            command = [self.memtier, "-s", "127.0.0.1", "-p", str(server.port), "-P", "memcache_text",
                       "--threads", str(self.threads), "--clients", str(self.connections // self.threads),
                       "--pipeline", str(workload.pipeline), "--ratio", workload.ratio,
                       "--data-size", str(workload.data.value_bytes), "--key-prefix", self.prefix,
                       "--key-minimum", "1", "--key-maximum", str(workload.data.keys - 1),
                       "--key-pattern", "R:R", "--distinct-client-seed",
                       "--test-time", str(max(1, round(seconds))), "--hide-histogram",
                       "--print-percentiles", "50,99,99.9", "--json-out-file", path]
            if workload.multiget > 1:
                command += ["--multi-key-get", str(workload.multiget)]
            before = server.cpu_seconds()
            self._run(command, seconds)
            cpu = server.cpu_seconds() - before
            with open(path) as file:
                return read_memtier(json.load(file), cpu)


def read_memtier(results, cpu):
    """memtier's JSON and the server's CPU seconds, as measure() returns them."""
    stats = results["ALL STATS"]
    totals = stats["Totals"]
    hits, misses = stats["Gets"]["Hits/sec"], stats["Gets"]["Misses/sec"]
    rate = hits + misses + stats["Sets"]["Ops/sec"]
    duration = stats["Runtime"]["Total duration"] / 1000.0
    latency = totals["Percentile Latencies"]
    return {"keys_per_s": rate, "p50_us": latency["p50.00"] * 1000, "p99_us": latency["p99.00"] * 1000,
            "p999_us": latency["p99.90"] * 1000, "cpu_s_per_million": cpu * 1e6 / (rate * duration),
            "hit_ratio": hits / (hits + misses) if hits + misses else 1.0, "client_cpu_share": None}
