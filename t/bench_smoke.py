# SPDX-License-Identifier: BSD-3-Clause
"""farbench does what it says: a second of verified load in each protocol, and its reports. No speed is asserted.

FARBENCH names the program, else it is looked for beside the daemon.
"""
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from farcached import Daemon, deadline, default_binary, is_sanitized, slow_factor, tap  # noqa: E402


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
    # Slow builds are given time, not the machine.
    status, out, err = farbench("load", "--port", daemon.port, "--protocol", protocol, "--verify", "--preload",
                                "--seconds", "1", "--warmup", "0.1", "--keys", "2000", "--value-bytes", "24:2000",
                                "--stall", 10 * slow_factor(), "--server-pid", daemon.pid, "--json", path, *shape)
    tap.ok(status == 0, "%s: a verified load succeeds" % name, *explain(status, out, err))
    with open(path) as file:
        results = json.load(file)
    tap.is_([results[k] for k in ("error_replies", "wrong_values", "broken_connections", "first_error")],
            [0, 0, 0, ""], "%s: without errors" % name)
    tap.ok(results["operations"] > 0 and results["operations"] == results["sets"] + results["gets"],
           "%s: operations are counted" % name, results)
    tap.ok(results["keys_read"] == results["hits"] == results["gets"] * results["multiget"],
           "%s: what was preloaded is hit" % name, results)
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


def check_unix_socket(folder):
    path = os.path.join(folder, "socket")
    with Daemon("-s", path) as daemon:
        status, out, err = farbench("load", "--unix", daemon.path, "--requests", 500, "--verify")
        tap.ok(status == 0, "over a Unix socket", *explain(status, out, err))


def check_failures(daemon):
    """What is wrong is said, and shows in the exit status."""
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
    tap.is_((status, out), (1, ""), "nobody listens")
    tap.like(err, r"cannot connect to /nonexistent/socket: No such file", "it says so")
    status, out, err = farbench("load", "--server-pid", 1 << 22, "--port", daemon.port, "--requests", 1)
    tap.is_(status, 1, "a process that does not exist")
    status, out, err = farbench("load", "--warmup", "soon")
    tap.is_(status, 64, "an argument that is no number")
    tap.like(err, r"--warmup soon is not a number", "is named")
    tap.is_(farbench("lode")[0], 64, "there is no such command")


def check_back(daemon, folder):
    """The servers behind are counted apart."""
    path = os.path.join(folder, "back.json")
    with Daemon("-m", "8") as back:
        status, out, err = farbench("load", "--port", daemon.port, "--requests", 1000, "--server-pid", daemon.pid,
                                    "--back-pid", "%d,%d" % (back.pid, back.pid), "--json", path)
    tap.ok(status == 0, "with servers behind", *explain(status, out, err))
    with open(path) as file:
        results = json.load(file)
    tap.is_([results[k] for k in ("server_measured", "back_measured")], ["yes", "yes"], "both are measured")
    tap.ok(results["back_cpu_s"] <= 0.05, "who was not asked has done next to nothing", results)
    tap.like(out, r"(?m)^back: 0\.0\d CPU seconds", "which the report says")
    status, out, err = farbench("load", "--back-pid", 1 << 22, "--port", daemon.port, "--requests", 1)
    tap.is_(status, 1, "a process behind that does not exist")


def compare(*args):
    script = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bench", "compare")
    done = subprocess.run([sys.executable, script, "--farcached", default_binary(), "--farbench", program()] + list(args),
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=10 * deadline())
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def check_proxied(folder):
    """A round of the contest of proxies, ours alone, with all that is written of it."""
    path, charts = os.path.join(folder, "proxied.json"), os.path.join(folder, "charts")
    wanted = ["farcached -t 1 -> 2 farnode (%s)" % how for how in ("shm", "shm, no local_read", "tcp")]
    status, out, err = compare(
        "--proxied", "--contestant", "farcached -t 1", "--rounds", "1", "--seconds", "0.3", "--warmup", "0",
        "--keys", "1000", "--connections", "4", "--megabytes", "16", "--json", path, "--charts", charts)
    tap.ok(status == 0, "a contest of proxies", *explain(status, out, err))
    with open(path) as file:
        about = json.load(file)
    tap.is_([r["workload"] for r in about["results"]], ["pipeline 1", "pipeline 16", "multi-get of 50 keys"],
            "its workloads")
    for result in about["results"]:
        name = result["workload"]
        tap.is_([c["label"] for c in result["contestants"]], wanted, "%s: the contestants that were asked for" % name)
        for c in result["contestants"]:
            m = {key: spread["median"] for key, spread in c["metrics"].items()}
            tap.ok(m["keys_per_s"] > 0 and 0 < m["p50_us"] <= m["p99_us"] <= m["p999_us"] and
                   abs(m["front_cpu_s_per_million"] + m["back_cpu_s_per_million"] - m["cpu_s_per_million"]) < 1e-6,
                   "%s: %s is measured, front and back" % (name, c["label"]), m)
        chart = os.path.join(charts, "proxied-%s.svg" % name.replace(" ", "-"))
        drawn = [e.text for e in xml.etree.ElementTree.parse(chart).iter() if e.tag.endswith("}text")]
        tap.is_([label for label in wanted if label not in drawn], [], "%s: a chart shows them" % name)
    status, out, err = compare("--proxied", "--contestant", "nobody")
    tap.is_(status, 1, "a contestant that there is not")
    tap.like(err, r"no contestant is called so; there are: farcached -t 1", "and who there is")
    status, out, err = compare("--proxied", "--csv", os.path.join(folder, "x.csv"), "--contestant", "farcached -t 1")
    tap.is_(status, 2, "what the contest cannot write is refused")


def check_help():
    status, out, err = farbench("--help")
    tap.is_((status, err), (0, ""), "--help")
    for option in ("host", "port", "unix", "protocol", "threads", "connections", "pipeline", "seconds", "requests",
                   "ratio", "keys", "key-prefix", "value-bytes", "distribution", "theta", "multiget", "preload",
                   "warmup", "seed", "json", "csv", "progress", "verify", "server-pid", "back-pid"):
        tap.like(out, r"(?m)^  --%s\b.* \S{3}" % option, "--help describes --%s" % option)


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
        check_unix_socket(folder)
        if not is_sanitized():  # bench/compare gives up on what is slow to start
            check_proxied(folder)
    tap.done()


main()
