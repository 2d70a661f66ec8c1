# SPDX-License-Identifier: BSD-3-Clause
"""farbench as documented: verified load in each protocol, and its reports. No speed is checked.

FARBENCH names the program; the default is the one beside the daemon.
"""
import csv
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(HERE, "lib"))
sys.path.insert(1, os.path.join(os.path.dirname(HERE), "bench", "compare"))
from cluster import Cluster  # noqa: E402
from farcached import Daemon, deadline, default_binary, is_sanitized, slow_factor, tap, until  # noqa: E402
import compare_servers  # noqa: E402


def program():
    named = os.environ.get("FARBENCH")
    if named:
        return named
    built = os.environ.get("abs_top_builddir") or os.path.dirname(os.path.abspath(default_binary()))
    return os.path.join(built, "farbench")


def farbench(*args):
    done = subprocess.run([program()] + [str(a) for a in args], stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=2 * deadline() + 10)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def explain(status, out, err):
    return ["exit status %s" % status] + (out + err).split("\n")


def check_protocol(daemon, folder, protocol, *shape):
    name = " ".join((protocol,) + shape)
    path = os.path.join(folder, "%s.json" % re.sub(r"\W+", "-", name))
    # Slow builds get a longer stall limit; the load stays the same.
    status, out, err = farbench("load", "--port", daemon.port, "--protocol", protocol, "--verify", "--preload",
                                "--requests", "5000", "--warmup", "0.1", "--keys", "2000", "--value-bytes", "24:2000",
                                "--stall", 10 * slow_factor(), "--server-pid", daemon.pid, "--json", path, *shape)
    tap.ok(status == 0, "%s: a verified load succeeds" % name, *explain(status, out, err))
    with open(path) as file:
        results = json.load(file)
    tap.is_([results[k] for k in ("error_replies", "wrong_values", "broken_connections", "first_error")],
            [0, 0, 0, ""], "%s: without errors" % name)
    tap.ok(results["operations"] > 0 and results["operations"] == results["sets"] + results["gets"],
           "%s: operations are counted" % name, results)
    tap.ok(results["keys_read"] == results["hits"] == results["gets"] * results["multiget"],
           "%s: preloaded keys are hit" % name, results)
    tap.ok(0 < results["all_p50_us"] <= results["all_p99_us"] <= results["all_p999_us"] <= results["all_max_us"],
           "%s: latencies are in order" % name, results)
    tap.is_(results["server_measured"], "yes", "%s: the server's CPU time is in the report" % name)
    return results


def check_requests(daemon, folder):
    path = os.path.join(folder, "results.csv")
    for seed in (1, 2):
        status, out, err = farbench("load", "--port", daemon.port, "--requests", 1001, "--connections", 7,
                                    "--threads", 3, "--pipeline", 4, "--distribution", "zipf", "--seed", seed,
                                    "--progress", "--csv", path)
        tap.ok(status == 0, "a number of requests, seed %d" % seed, *explain(status, out, err))
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    tap.is_([row["operations"] for row in rows], ["1001", "1001"], "it makes as many, and CSV lines are appended")
    tap.is_([row["seed"] for row in rows], ["1", "2"], "under one head")


def check_values(daemon, folder):
    status, out, err = farbench("load", "--port", daemon.port, "--requests", 500, "--preload", "--keys", 200, "--verify",
                                "--key-prefix", "sizes-", "--value-bytes", "24:100@8,2000@2")
    tap.ok(status == 0 and "values of 24:100@8,2000@2 bytes, verified" in out, "values of several lengths",
           *explain(status, out, err))


def check_deletes(daemon, folder, protocol):
    """The client that first misses a deleted key stores it."""
    path = os.path.join(folder, "deletes.json")
    before = {name: int(value) for name, value in daemon.stats().items() if value.isdigit()}
    status, out, err = farbench("load", "--port", daemon.port, "--protocol", protocol, "--key-prefix", "gone-", "--keys", 100,
                                "--preload", "--warmup-reads", 3, "--delete-share", 0.1, "--ratio", "0:1", "--requests", 4000,
                                "--connections", 4, "--pipeline", 3, "--verify", "--json", path)
    tap.ok(status == 0, "%s: a load with deletes" % protocol, *explain(status, out, err))
    after = {name: int(value) for name, value in daemon.stats().items() if value.isdigit()}
    grew = {name: after[name] - before[name] for name in ("cmd_get", "get_misses", "cmd_set", "delete_hits", "delete_misses")}
    with open(path) as file:
        results = json.load(file)
    tap.ok(300 < results["deletes"] < 500, "%s: so many are deletes" % protocol, results["deletes"])
    tap.is_(grew["delete_hits"] + grew["delete_misses"], results["deletes"], "%s: each is carried out" % protocol)
    tap.is_(results["deletes"] + results["gets"], 4000, "%s: and the others are gets" % protocol)
    tap.is_(grew["cmd_get"], 300 + results["gets"], "%s: every key was read three times before" % protocol)
    misses = results["keys_read"] - results["hits"]
    tap.is_((grew["get_misses"], grew["cmd_set"]), (misses, 100 + misses), "%s: every miss is stored at once" % protocol)
    tap.is_(results["sets"], misses, "%s: and nothing else" % protocol)
    tap.ok(0 < misses <= results["deletes"] * 4, "%s: as many as deletes make" % protocol, misses)
    tap.like(out, r"(?m)^every key read 3 times in ", "%s: the report shows it" % protocol)
    tap.is_(results["one_sided_measured"], "no", "%s: a farcached without nodes has no one-sided GETs" % protocol)


def check_shares(folder):
    """Through a farcached with a node, for GETs that hit: the share of one-sided ones, and the reasons of the others."""
    path = os.path.join(folder, "shares.json")
    with Cluster("shm", proxies=1, local_read=False) as cluster:
        client = cluster.proxies[0].client()
        before = client.stats("proxy")
        status, out, err = farbench("load", "--port", cluster.proxies[0].port, "--keys", 100, "--preload", "--warmup-reads", 2,
                                    "--ratio", "0:1", "--requests", 5000, "--connections", 4, "--json", path)
        after = client.stats("proxy")
    tap.ok(status == 0, "a load on a farcached with a node", *explain(status, out, err))
    with open(path) as file:
        results = json.load(file)
    tap.is_(results["one_sided_measured"], "yes", "its GETs are looked at")
    counted = results["get_onesided"] + results["get_twosided"]
    tap.is_(counted, 5000, "those that were counted, and not the warm-up's")
    tap.ok(0.5 < results["get_onesided_share"] <= results["get_onesided_share_of_hits"] <= 1, "many are one-sided", results)
    tap.is_("%.6f" % results["get_onesided_share"], "%.6f" % (results["get_onesided"] / counted), "the share is that of counters")
    tap.like(out, r"(?m)^GETs one-sided: [01]\.\d{4} of all, [01]\.\d{4} of those that hit$", "the report shows it")
    reasons = [name for name in after if name.startswith("get_reason_")]
    tap.ok(len(reasons) > 15, "stats proxy has reasons", *reasons)
    tap.is_([name for name in reasons if name not in results], [], "and each is in the results")
    tap.ok(all(results[name] <= int(after[name]) - int(before[name]) for name in reasons), "of the load alone")


def check_unix_socket(folder):
    path = os.path.join(folder, "socket")
    with Daemon("-s", path) as daemon:
        status, out, err = farbench("load", "--unix", daemon.path, "--requests", 500, "--verify")
        tap.ok(status == 0, "over a Unix socket", *explain(status, out, err))


def check_failures(daemon):
    """Errors are printed, and set the exit status."""
    with daemon.client() as c:
        c.send("set wrong-0 0 0 64\r\n" + "x" * 64 + "\r\n").read(len("STORED\r\n"))
    status, out, err = farbench("load", "--port", daemon.port, "--key-prefix", "wrong-", "--keys", 1, "--ratio", "0:1",
                                "--requests", 10, "--verify")
    tap.is_(status, 1, "a value that was not stored by it fails a verified load")
    tap.like(out, r"10 wrong values", "and is counted")
    status, out, err = farbench("load", "--port", daemon.port, "--value-bytes", 2 << 20, "--ratio", "1:0",
                                "--requests", 3, "--connections", 1)
    tap.is_(status, 1, "so does an error reply")
    tap.like(out, r"SERVER_ERROR object too large for cache", "which is shown")
    status, out, err = farbench("load", "--unix", "/nonexistent/socket", "--requests", 1)
    tap.is_((status, out), (1, ""), "no server listens")
    tap.like(err, r"cannot connect to /nonexistent/socket: No such file", "it prints a message")
    status, out, err = farbench("load", "--server-pid", 1 << 22, "--port", daemon.port, "--requests", 1)
    tap.is_(status, 1, "a process that does not exist")
    status, out, err = farbench("load", "--warmup", "soon")
    tap.is_(status, 64, "an argument that is no number")
    tap.like(err, r"--warmup soon is not a number", "is named")
    tap.is_(farbench("lode")[0], 64, "there is no such command")


def check_back(daemon, folder):
    """The servers behind are counted separately."""
    path = os.path.join(folder, "back.json")
    with Daemon("-m", "8") as back:
        status, out, err = farbench("load", "--port", daemon.port, "--requests", 1000, "--server-pid", daemon.pid,
                                    "--back-pid", "%d,%d" % (back.pid, back.pid), "--json", path)
    tap.ok(status == 0, "with servers behind", *explain(status, out, err))
    with open(path) as file:
        results = json.load(file)
    tap.is_([results[k] for k in ("server_measured", "back_measured")], ["yes", "yes"], "both are measured")
    tap.ok(results["back_cpu_s"] <= 0.05, "a server without requests uses hardly any CPU time", results)
    tap.like(out, r"(?m)^back: 0\.0\d CPU seconds", "the report shows it")
    status, out, err = farbench("load", "--back-pid", 1 << 22, "--port", daemon.port, "--requests", 1)
    tap.is_(status, 1, "a process behind that does not exist")


class Stalling(threading.Thread):
    """A server of one connection that answers nothing until `go` is set, then every request. requests: number of received
    requests."""

    def __init__(self):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.came = threading.Event()
        self.go = threading.Event()
        self.requests = 0
        self.start()

    def run(self):
        connection, _ = self.listener.accept()
        with connection:
            while True:
                got = connection.recv(65536)
                if not got:
                    return
                self.requests += got.count(b"\r\n")
                self.came.set()
                self.go.wait()
                connection.sendall(b"END\r\n" * got.count(b"\r\n"))

    def close(self):
        self.go.set()
        self.listener.close()


def check_rate(daemon, folder):
    """A low rate: all due requests are sent and answered."""
    path, steps = os.path.join(folder, "rate.json"), os.path.join(folder, "steps.csv")
    for arrivals in ("even", "poisson"):
        status, out, err = farbench("load", "--port", daemon.port, "--rate", 2000, "--seconds", 1, "--arrivals", arrivals,
                                    "--stall", 10 * slow_factor(), "--json", path, "--histogram", steps)
        tap.ok(status == 0, "a rate, %s" % arrivals, *explain(status, out, err))
        with open(path) as file:
            results = json.load(file)
        tap.is_((results["rate"], results["arrivals"], results["unsent"]), (2000, arrivals, 0), "%s: nothing is left" % arrivals)
        tap.ok(results["operations"] == 2000 if arrivals == "even" else 1500 < results["operations"] < 2500,
               "%s: so many requests were due, and were answered" % arrivals, results["operations"])
    with open(steps, newline="") as file:
        rows = list(csv.DictReader(file))
    tap.is_(sorted({row["kind"] for row in rows}), ["all", "get", "set"], "a histogram of sets, of gets and of all")
    whole = [row for row in rows if row["kind"] == "all"]
    tap.is_((int(whole[-1]["count_up_to"]), float(whole[-1]["quantile"])), (results["operations"], 1.0), "it counts all")
    tap.ok(all(float(a["us"]) < float(b["us"]) for a, b in zip(whole, whole[1:])), "in rising steps")


def check_intended_time(folder):
    """A request that waits for the previous one is measured from its due time, and is counted."""
    server, path = Stalling(), os.path.join(folder, "stall.json")
    process = subprocess.Popen([program(), "load", "--port", str(server.port), "--rate", "100", "--requests", "40",
                                "--connections", "1", "--threads", "1", "--ratio", "0:1", "--stall",
                                str(20 * slow_factor()), "--json", path],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        tap.ok(server.came.wait(deadline()), "the first request arrives")
        time.sleep(1)  # waits for no event: the length of the server's stall
        tap.is_(server.requests, 1, "the others wait for the connection")
        server.go.set()
        out, err = process.communicate(timeout=deadline())
    finally:
        process.kill()
        process.wait()
        server.close()
    tap.ok(process.returncode == 0, "a stall", *explain(process.returncode, out.decode(), err.decode()))
    with open(path) as file:
        results = json.load(file)
    tap.is_((results["operations"], results["unsent"]), (40, 0), "all is answered in the end")
    tap.ok(results["late"] >= 39, "all behind it found no connection free", results["late"])
    # In a stall of one second, the k-th request (due after 10 k ms) waits at least for the rest of it.
    tap.ok(results["all_p50_us"] >= 790_000 and results["all_max_us"] >= 1_000_000, "and the stall is in all latencies",
           results["all_p50_us"], results["all_max_us"])
    status, out, err = stalled_for_good()
    tap.is_(status, 1, "nothing is ever answered")
    tap.like(out, r"THE RATE WAS NOT HELD: 20 requests were due and never sent, or not answered", "the report counts all of them")


def stalled_for_good():
    server = Stalling()
    try:
        return farbench("load", "--port", server.port, "--rate", 100, "--seconds", 0.2, "--connections", 1, "--threads", 1,
                        "--stall", 0.5)
    finally:
        server.close()


def port_written_in(path):
    if not os.path.exists(path):
        return None
    with open(path) as file:
        found = re.fullmatch(r"TCP INET: (\d+)\n", file.read())
    return found and found.group(1)


def check_floor(folder):
    ports = os.path.join(folder, "floor.port")
    process = subprocess.Popen([program(), "floor", "--value-bytes", "100", "--port-file", ports], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        tap.like(process.stdout.readline().decode(), r"^listening at 127\.0\.0\.1 port \d+", "the floor prints its port")
        port = until(lambda: port_written_in(ports), bool)
        for shape in (["--pipeline", "16"], ["--multiget", "20"]):
            status, out, err = farbench("load", "--port", port, "--requests", 2000, "--value-bytes", 100, *shape)
            tap.ok(status == 0 and "hit ratio 1.0000" in out, "it answers %s" % " ".join(shape), *explain(status, out, err))
        process.terminate()
        out, err = process.communicate(timeout=deadline())
    finally:
        process.kill()
        process.wait()
    tap.is_((process.returncode, out.decode(), err.decode()), (0, "4002 requests\n", ""),
            "and counts them, with a question for statistics of each load")
    tap.is_(farbench("floor", "--threads", "0")[0], 64, "without threads it does not begin")


READS_A_FILE = """
import mmap, sys
with open(sys.argv[1], "rb") as file:
    seen = mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ)
print(sum(seen[0::4096]), flush=True)
sys.stdin.readline()
written = mmap.mmap(-1, len(seen), mmap.MAP_PRIVATE)
written[:] = b"w" * len(seen)
print("written", flush=True)
sys.stdin.readline()
"""

PRIVATE = (compare_servers.private_bytes, compare_servers.private_dirty_bytes)


def check_private_memory(folder):
    """compare counts pages that a process wrote, and not the text of libraries, which are mapped files."""
    size, path = 32 << 20, os.path.join(folder, "mapped")
    with open(path, "wb") as file:
        file.write(b"t" * size)
    with subprocess.Popen([sys.executable, "-c", READS_A_FILE, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        read = [measure(process.pid) for measure in PRIVATE]
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.stdout.readline()
        written = [measure(process.pid) for measure in PRIVATE]
        process.stdin.close()
    for measure, before, after in zip(PRIVATE, read, written):
        tap.ok(before < size, "%s: a file that is read is not counted" % measure.__name__, before)
        tap.ok(after >= before + size, "  and memory that is written is", after)


KEYS = ["contestant", "workload", "ops_per_s", "p50_us", "p99_us", "p999_us", "cpu_front_s_per_mop", "cpu_back_s_per_mop"]
DIRECT, PROXIED = ["farcached", "floor", "old farcached"], ["farcached -t 1 -> 2 farnode (shm)"]


def check_compare(folder):
    """A short round of our own contestants, with all output files."""
    path, lines, drawn, charts = (os.path.join(folder, name) for name in ("compare.json", "compare.csv", "compare.svg", "charts"))
    status, out, err = farbench("compare", "--quick", "--contestant", "farcached -t 1 -> 2 farnode (shm),farcached,floor",
                                "--parts", "direct,proxied,idle", "--workload", "64 B, pipeline 1;proxied, pipeline 16",
                                "--aims", "--farcached", default_binary(), "--old", os.path.dirname(default_binary()),
                                "--json", path, "--csv", lines, "--svg", drawn, "--charts", charts)
    tap.ok(status == 0, "farbench compare", *explain(status, out, err))
    with open(path) as file:
        points = json.load(file)
    tap.ok(all(list(point)[:len(KEYS)] == KEYS for point in points), "objects with the fields in their order", points[:1])
    seen = [(point["contestant"], point["workload"]) for point in points]
    wanted = [(who, "64 B, pipeline 1") for who in DIRECT] + [(who, "proxied, pipeline 16") for who in PROXIED]
    tap.is_([pair for pair in wanted if pair not in seen], [], "one for each contestant and workload")
    tap.is_(len(set(seen)), len(seen), "and no second one")
    for point in points:
        name = "%(workload)s, %(contestant)s" % point
        latencies = [point[key] for key in ("p50_us", "p99_us", "p999_us")]
        if "(mc-crusher)" in name:
            tap.is_(latencies, [None] * 3, "%s: mc-crusher reports no latencies" % name)
        else:
            tap.ok(0 < latencies[0] <= latencies[1] <= latencies[2], "%s: latencies" % name, point)
        tap.ok(point["ops_per_s"] > 0 and
               point["cpu_front_s_per_mop"] > 0 and (point["cpu_back_s_per_mop"] > 0) == ("->" in point["contestant"]),
               "%s: measured, front and back" % name, point)
    ours = next(point for point in points if point["contestant"] == "farcached")
    tap.ok(ours["bytes, idle connections"] > 1 << 20, "and the memory of idle connections", ours)
    tap.ok(ours["bytes, each of 50 idle connections"] > 0, "and of each of them", ours)
    tap.ok(0 < ours["ratios to floor"]["cpu_s_per_million"]["median"] < 1000, "beside the floor", ours)
    tap.ok(0 < ours["ratios to the old build"]["cpu_s_per_million"]["median"] < 1000, "and beside the old build", ours)
    with open(lines, newline="") as file:
        rows = {(row["contestant"], row["workload"], row["generator"]) for row in csv.DictReader(file)}
    tap.is_({(who, what if by == "farbench" else "%s (%s)" % (what, by)) for who, what, by in rows}, set(seen),
            "lines of CSV for the same")
    for svg in [drawn] + [os.path.join(charts, name) for name in ("64-B-pipeline-1.svg", "proxied-pipeline-16.svg")]:
        texts = [e.text for e in xml.etree.ElementTree.parse(svg).iter() if e.tag.endswith("}text")]
        tap.ok(any("farcached" in text for text in texts), "%s is drawn" % os.path.basename(svg), *texts)
        tap.ok({"ratio, logarithmic", "CPU seconds per million keys, user and system"} & set(texts), "  its axis has a unit",
               *texts)
    tap.like(out, r"(?m)^  64 B, pipeline 1: CPU to that of floor +farcached +<= 1\.08 +\d", "the aims are listed")
    tap.like(out, r"(?m)^  64 B, pipeline 1: CPU to that of floor .* (met|MISSED)$", "with verdicts")
    status, out, err = farbench("compare", "--contestant", "nobody")
    tap.is_(status, 1, "an unknown contestant")
    tap.like(err, r"no contestant is called nobody; there are: farcached; ", "and the message lists the known ones")
    tap.is_(farbench("compare", "--parts", "all")[0], 64, "an unknown part")


def check_lost(folder):
    """A failing generator or contestant costs its own rows; the others are measured."""
    here, path = os.path.join(folder, "broken"), os.path.join(folder, "lost.json")
    os.mkdir(here)
    for name, does in (("mc-crusher", "echo no such option; exit 1"), ("memcached", "exit 1")):
        with open(os.path.join(here, name), "w") as file:
            file.write("#!/bin/sh\n%s\n" % does)
        os.chmod(os.path.join(here, name), 0o755)
    done = subprocess.run([program(), "compare", "--quick", "--contestant", "farcached,memcached,floor", "--parts", "direct,memory",
                           "--generator", "crusher,farbench", "--workload", "64 B, pipeline 1", "--farcached", default_binary(),
                           "--memcached", os.path.join(here, "memcached"), "--json", path],
                          env={**os.environ, "PATH": here + ":" + os.environ["PATH"]}, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=deadline() + 60)
    tap.is_(done.returncode, 1, "something was lost")
    tap.like(done.stdout, r"(?m)^Lost, and not in the tables: memcached: ", "a contestant that does not start is named")
    tap.like(done.stdout, r"(?m)^Lost, and not in the tables: farcached, 64 B, pipeline 1 \(mc-crusher\): "
             r"mc-crusher asks for nothing, and says: no such option$", "and a generator without load, with its output")
    with open(path) as file:
        seen = {(point["contestant"], point["workload"]) for point in json.load(file)}
    tap.ok(("farcached", "64 B, pipeline 1") in seen and ("floor", "64 B, pipeline 1") in seen, "the others are measured", seen)
    tap.is_([pair for pair in seen if pair[0] == "memcached" or "mc-crusher" in pair[1]], [], "lost ones have no row")
    tap.like(done.stdout, r"(?m)^private memory, item of 64 B", "nor is a part behind it")
    tap.ok(not re.search(r"Aims|met$|MISSED", done.stdout, re.M), "without --aims there are no verdicts", *done.stdout.split("\n"))


def check_no_guests(folder):
    """Without the programs for guests the part verbs prints a message."""
    here = os.path.join(folder, "path")
    os.mkdir(here)
    os.symlink(os.path.realpath(sys.executable), os.path.join(here, "python3"))
    done = subprocess.run([program(), "compare", "--parts", "verbs", "--farcached", default_binary(), "--memcached", "/bin/true"],
                          env={**os.environ, "PATH": here}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=deadline() + 10)
    tap.is_((done.returncode, done.stdout), (1, ""), "no QEMU, so no guests")
    tap.like(done.stderr, r"(?m)^farbench compare: no guests for verbs: there is no qemu-system-x86_64 here: install ",
             "it names the missing packages")


def check_help():
    status, out, err = farbench("--help")
    tap.is_((status, err), (0, ""), "--help")
    for option in ("host", "port", "unix", "protocol", "threads", "connections", "pipeline", "seconds", "requests",
                   "ratio", "keys", "key-prefix", "value-bytes", "distribution", "theta", "multiget", "preload",
                   "warmup", "seed", "json", "csv", "progress", "verify", "server-pid", "back-pid", "rate",
                   "arrivals", "warmup-reads", "delete-share", "histogram", "quick", "rounds", "port-file"):
        tap.like(out, r"(?m)^  --%s\b.* \S{3}" % option, "--help describes --%s" % option)
    commands = re.findall(r"(?m)^Usage: farbench ([a-z]+) ", out)
    tap.is_(commands, ["load", "compare", "floor", "transport", "hitratio", "reports", "rnic", "capacity",
                   "buffer"], "of every command")
    whole = out
    own = ("rate", "old", "port-file", "mix", "policies", "ways", "queue-pairs", "memory", "tiers")
    for command, option, other in zip(commands, own, ("old", "rate") * 5):
        status, out, err = farbench("help", command)
        tap.is_((status, err), (0, ""), "help %s" % command)
        tap.like(out, r"\AUsage: farbench %s \[?[A-Z].*\n\S" % command, "  begins with its use")
        tap.ok("  --%s " % option in out and "  --%s " % other not in out, "  and describes its own options alone")
        wide = [line for line in out.split("\n") if len(line) > 100 or line.endswith(" ")]
        tap.is_(wide, [], "  in lines of at most 100 characters")
        tap.is_([farbench(*words) for words in ((command, "--help"), (command, "--seconds", "1", "-h"))], [(0, out, "")] * 2,
                "  %s --help and -h are the same" % command)
        tap.ok(out.split("\n\n")[1] in whole, "  and part of --help")
    tap.is_([farbench("-h"), farbench("help")], [(0, whole, "")] * 2, "-h and help are --help")
    tap.is_(farbench("help", "lode"), (64, "", 'farbench: unknown command "lode".\nTry farbench --help.\n'),
            "help of no command")
    tap.like(farbench("load", "--lode")[2], r"(?m)^Try farbench load --help\.$", "an error names the help")
    version = farbench("--version")
    tap.like(version[1], r"\Afarbench \d+\.\d+\S*\n\Z", "--version")
    tap.is_(farbench("-V"), version, "and -V")


def main():
    if not os.access(program(), os.X_OK):
        tap.bail("there is no %s" % program())
    check_help()
    with tempfile.TemporaryDirectory(prefix="farbench-test-") as folder:
        with Daemon("-m", "64") as daemon:
            for protocol in ("text", "meta", "binary"):
                check_protocol(daemon, folder, protocol, "--pipeline", "8")
                check_protocol(daemon, folder, protocol, "--multiget", "20", "--distribution", "zipf")
            check_requests(daemon, folder)
            check_failures(daemon)
            check_back(daemon, folder)
            check_rate(daemon, folder)
            check_values(daemon, folder)
            for protocol in ("text", "meta", "binary"):
                check_deletes(daemon, folder, protocol)
        check_shares(folder)
        check_intended_time(folder)
        check_floor(folder)
        check_unix_socket(folder)
        if not is_sanitized():  # compare gives up on a slow start
            check_private_memory(folder)
            check_compare(folder)
            check_lost(folder)
            check_no_guests(folder)
    tap.done()


main()
