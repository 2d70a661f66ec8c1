# SPDX-License-Identifier: BSD-3-Clause
"""farbench hitratio: whole runs of a second, simulated and with real processes, their output files, and refused arguments. The only
check of a ratio is that it lies between 0 and 1."""
import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from cluster import Cluster  # noqa: E402
from farcached import deadline, default_binary, is_sanitized, tap, until  # noqa: E402

OPERATIONS = "5000" if is_sanitized() else "20000"
SMALL = ["--keys", "8000", "--operations", OPERATIONS, "--warmup", OPERATIONS, "--workloads", "zipf-95:5,scan",
         "--ratios", "5/80,0.5", "--policies", "lru,fixed_lease_8"]
FIELDS = ["workload", "cache_ratio", "policy", "total_hit_ratio", "bound_hit_ratio", "pointer_hit_ratio", "invalid_reads",
          "leased_share"]


BENCH = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "bench", "hitratio")


def program():
    return os.path.join(os.path.dirname(os.path.abspath(default_binary())), "farbench")


def farbench(*args):
    done = subprocess.run([program(), "hitratio"] + [str(a) for a in args], stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=4 * deadline() + 60)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def text_of(path):
    with open(path) as file:
        return file.read()


def check_run(folder):
    path, out_folder = os.path.join(folder, "points.json"), os.path.join(folder, "csv")
    status, out, err = farbench(*SMALL, "--json", path, "--csv", out_folder)
    tap.ok(status == 0, "it runs to its end", status, *(out + err).split("\n"))
    points = json.loads(text_of(path))
    tap.is_([(point["workload"], point["cache_ratio"], point["policy"]) for point in points],
            [(workload, ratio, policy) for workload in ("zipf-95:5", "scan") for ratio in (0.0625, 0.5)
             for policy in ("lru", "fixed_lease_8")], "a point for each workload, ratio and policy, in that order")
    tap.ok(all(list(point)[:len(FIELDS)] == FIELDS for point in points), "with the fields in their order", points[0])
    tap.ok(all(0 < point["pointer_hit_ratio"] < point["total_hit_ratio"] <= point["bound_hit_ratio"] + 0.02 < 1
               for point in points if point["policy"] != "lru"), "ratios are ratios", *points)
    tap.ok(not any(point["pointer_hit_ratio"] or point["leased_share"] for point in points if point["policy"] == "lru"),
           "lru has no pointers")
    with open(os.path.join(out_folder, "points.csv"), newline="") as file:
        rows = list(csv.DictReader(file))
    tap.is_([(row["workload"], row["policy"]) for row in rows], [(p["workload"], p["policy"]) for p in points],
            "a row of points.csv for each")
    tap.is_(sorted(os.listdir(out_folder)), ["figure-5.svg", "figure-6.svg", "points.csv"], "and charts")
    tap.is_(err.count(" of 8: "), 8, "each point is printed as it ends")
    tap.like(out, r"(?m)^ +5 +lru +0\.\d+ +0\.\d+ +0\.000 ", "the table")
    status, out, err = farbench(*SMALL, "--workloads", "zipf-100:0", "--ratios", "1/80", "--policies", "lru,pdla_paper,original",
                                "--load")
    tap.ok(status == 0, "the paper's contestants, after a load", status, *(out + err).split("\n"))
    tap.like(out, r"(?m)^before, each key was stored", "the report mentions the load")
    tap.like(out, r"(?m)^total of C-Hint / of lru, 1/80, 100:0 +1\.541 \| +\d\.\d{3} +- +- +-", "the paper's numbers beside ours")
    tap.like(out, r"(?m)^\[1\] not reproduced: ", "and a reason where they are others")
    other = os.path.join(folder, "threads.json")
    status, _, err = farbench(*SMALL, "--threads", 3, "--json", other)
    tap.ok(status == 0 and text_of(other) == text_of(path), "the same numbers, from three threads", status, err)
    status, _, err = farbench(*SMALL, "--seed", 2, "--json", other)
    tap.ok(status == 0 and text_of(other) != text_of(path), "others from another seed", status, err)


def check_servers(folder):
    """Two hosts in front of a node of 1 MiB, which holds a twentieth of the data."""
    path, out_folder = os.path.join(folder, "servers.json"), os.path.join(folder, "servers")
    asked = ["--keys", "20000", "--warmup", "6000", "--operations", "6000", "--rate", "6000", "--workloads", "zipf-95:5"]
    with Cluster("shm", proxies=2, threads=1, local_read=False, options=["access_tracking=report", "report_interval_ms=100"],
                 node_args=["--policy", "pdla", "-m", "1", "-I", "16k", "-t", "1"]) as c:
        servers = ["--servers", ",".join("127.0.0.1:%d" % proxy.port for proxy in c.proxies)]
        status, out, err = farbench(*asked, *servers, "--policies", "pdla", "--json", path, "--csv", out_folder)
        tap.ok(status == 0, "real servers are measured", status, *(out + err).split("\n"))
        points = json.loads(text_of(path))
        tap.is_([(p["workload"], p["policy"]) for p in points], [("zipf-95:5", "pdla")], "one point")
        point = points[0]
        tap.is_(list(point)[:len(FIELDS)], FIELDS, "with the fields of those that are simulated")
        tap.ok(abs(point["cache_ratio"] - (1 << 20) / (20000 * 1047)) < 1e-6, "the cache's size is the node's", point)
        tap.ok(0 < point["pointer_hit_ratio"] < point["total_hit_ratio"] < 1, "some GETs went by remote pointers", point)
        tap.ok(point["report_bytes_per_s"] > 0 and point["evictions"] > 0, "hosts reported, the node evicted", point)
        with open(os.path.join(out_folder, "latency.csv"), newline="") as file:
            rows = list(csv.DictReader(file))
        kinds = ("hit", "miss", "set")
        tap.is_(sorted({row["kind"] for row in rows}), sorted(kinds), "latencies of hits, misses and sets")
        tap.ok(all(abs(sum(float(row["share"]) for row in rows if row["kind"] == kind) - 1) < 1e-6 for kind in kinds),
               "the shares add up to 1")
        answers = {kind: sum(int(row["count"]) for row in rows if row["kind"] == kind) for kind in kinds}
        tap.is_(answers["hit"] + answers["miss"], point["gets"], "and which are those of all GETs")
        tap.is_(answers["set"], 6000 - point["gets"] + answers["miss"], "of the SETs, and of a SET for each miss")
        tap.like(out, r"(?m)^hit +%d " % answers["hit"], "they are shown")
        status, _, err = farbench(*asked, *servers, "--policies", "lru")
        tap.ok(status == 1 and 'policy is "pdla", not lru' in err, "a policy that the node does not have", status, err)
        status, _, err = farbench(*asked, *servers, "--policies", "pdla,lru")
        tap.ok(status == 64 and "requires one --workload" in err, "or two", status, err)


class Left:
    """Leftovers of processes with this temporary folder: the processes, the folder's files, and pointer tables named after
    these."""

    def __init__(self, folder):
        self.folder = folder
        self.seen = set()

    def __call__(self):
        self.seen.update(os.listdir(self.folder))
        found = os.listdir(self.folder)
        found += [name for name in os.listdir("/dev/shm") if any(name.startswith(seen + "-") for seen in self.seen)]
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/environ" % pid, "rb") as file:
                    if os.fsencode("TMPDIR=" + self.folder) in file.read():
                        found.append(pid)
            except OSError:
                continue
        return found


def script(name, folder, *args):
    return subprocess.Popen([sys.executable, os.path.join(BENCH, name), "--build", os.path.dirname(program()), *args],
                            env={**os.environ, "TMPDIR": folder}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, start_new_session=True)


def check_scripts(folder):
    path, temporary = os.path.join(folder, "processes.json"), os.path.join(folder, "temporary")
    os.mkdir(temporary)
    left = Left(temporary)
    small = ["--keys", "20000", "--warmup", "1000", "--operations", "2000", "--rate", "4000"]
    with script("processes", temporary, "--policies", "fixed_lease_8,lru", "--json", path, *small) as process:
        out, err = process.communicate(timeout=8 * deadline())
    tap.ok(process.returncode == 0, "processes and simulation are put side by side", *(out + err).split("\n"))
    points = json.loads(text_of(path))
    tap.is_([point["policy"] for point in points], ["fixed_lease_8", "lru"], "a point for each policy")
    tap.ok(all(point[side]["cache_ratio"] == points[0]["real"]["cache_ratio"] and list(point[side])[:len(FIELDS)] == FIELDS
               for point in points for side in ("real", "simulated")), "both of the same cache", *points)
    tap.is_(left(), [], "nothing is left")
    with script("processes", temporary, "--policies", "lru", *small, "--operations", "1000000") as process:
        until(left, lambda found: sum(name.isdigit() for name in found) == 6)  # hitratio, farbench, a node, three hosts
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=8 * deadline())
    tap.ok(process.returncode == 1 and "interrupted" in err, "an interrupt ends it", out, err)
    tap.is_(until(left, lambda found: found == []), [], "and its child processes")


def check_interrupt(folder):
    path = os.path.join(folder, "interrupted.json")
    shorter = ["--keys", "20000", "--warmup", "1000", "--operations", "100000"]  # a hundred such points remain after the first
    process = subprocess.Popen([program(), "hitratio", "--json", path, *shorter], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    try:
        first = process.stderr.readline().decode()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=4 * deadline())
    finally:
        process.kill()
        process.wait()
    tap.like(first, r"^1 of \d+: zipf-100:0, 1/80, ", "progress is shown")
    tap.is_(process.returncode, 1, "an interrupt ends it")
    tap.like(err.decode(), r"interrupted", "stderr reports the interruption")
    tap.ok(len(json.loads(text_of(path))) > 0, "the simulated points are written")


def check_refusals():
    for arguments, wanted in [
            (["--policies", "best"], "--policies best has an unknown policy"),
            (["--workloads", "zipf-95:5,zipf-95:5"], "has a word twice"),
            (["--ratios", "2"], "not above 0 and at most 1"),
            (["--hosts", "4", "--clients", "3"], "--hosts is more than --clients"),
            (["--partitions", "12"], "is not a power of two"),
            (["--servers", "localhost"], "has an address without a port"),
            (["points"], "is not an option")]:
        status, out, err = farbench(*arguments)
        tap.ok(status == 64 and wanted in err and not out, "refused: %s" % " ".join(arguments), status, err)


def main():
    signal.signal(signal.SIGINT, signal.default_int_handler)  # child processes must not inherit an ignored SIGINT
    folder = tempfile.mkdtemp(prefix="farcached-hitratio-")
    try:
        check_run(folder)
        check_servers(folder)
        check_scripts(folder)
        check_interrupt(folder)
        check_refusals()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    tap.done()


main()
