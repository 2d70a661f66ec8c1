# SPDX-License-Identifier: BSD-3-Clause
"""farbench reports: whole runs of a second over shm and tcp, their output files, and refused arguments. No speed is checked.
t/guest/reports.py has the tests over RDMA.
"""
import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from farcached import deadline, default_binary, tap  # noqa: E402
from farnode import Farnode  # noqa: E402

KEYS = ["way", "bytes", "trials", "mean_us", "p50_us", "p99_us", "node_us", "node_cpu_us", "client_cpu_us", "writes_per_report",
        "sends_per_report", "doorbells_per_report"]


def farbench(*args):
    program = os.path.join(os.path.dirname(os.path.abspath(default_binary())), "farbench")
    done = subprocess.run([program, "reports"] + [str(a) for a in args], stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=4 * deadline() + 60)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def check_run(folder):
    path, out_folder = os.path.join(folder, "points.json"), os.path.join(folder, "csv")
    status, out, err = farbench("--spawn", "shm", "--quick", "--trials", 2, "--bytes", "32,8192", "--json", path,
                                "--csv", out_folder)
    tap.ok(status == 0, "it runs to its end", status, *(out + err).split("\n"))
    tap.like(err, r"verbs-write is skipped: the node has no address", "and names what it cannot measure")
    with open(path) as file:
        points = json.load(file)
    tap.ok(all(list(point) == KEYS for point in points), "each point has its keys and no others", points)
    tap.is_([(point["way"], point["bytes"], point["trials"]) for point in points],
            [(way, size, 2) for way in ("tcp", "shm-send", "shm-write") for size in (32, 8192)], "every point is there, once")
    tap.ok(all(0 < point["p50_us"] <= point["p99_us"] and point["node_cpu_us"] >= 0 < point["client_cpu_us"] for point in points),
           "latencies are in order, and CPU times known", points)
    tap.like(out, r"(?m)^Figure 10 of C-Hint .* up to 115 %\nway .*\nshm-send +32 ", "frames beside containers")
    with open(os.path.join(out_folder, "points.csv"), newline="") as file:
        rows = list(csv.DictReader(file))
    tap.ok(os.path.exists(os.path.join(out_folder, "figure-10.svg")), "the chart is drawn")
    tap.ok(len(rows) == len(points) and all(row["mean_us_sd"] for row in rows), "a row of points.csv for each, with deviations")


def check_node():
    """A node that runs already; it counts the reports that it gets."""
    with Farnode("--tcp", "127.0.0.1:0", "-t", "1") as node:
        status, out, err = farbench("tcp:127.0.0.1:%d" % node.port, "--node-pid", node.pid, "--quick", "--bytes", "1024")
        tap.ok(status == 0 and "tcp" in out, "of a node that runs already", status, err)


def check_refusals():
    for arguments, wanted in [
            ([], "no node given"),
            (["--spawn", "shm", "tcp:127.0.0.1:1"], "either addresses or --spawn"),
            (["--spawn", "pigeon"], "is not one of shm, tcp, verbs"),
            (["--ways", "tcp,tcp"], "has a word twice"),
            (["--ways", "letters"], "has a word other than tcp"),
            (["--bytes", "31"], "is too small"),
            (["--bytes", "8193"], "is too large"),
            (["--wait", "long"], "is not spin or sleep")]:
        status, out, err = farbench(*arguments)
        tap.ok(status == 64 and wanted in err and not out, "refused: %s" % " ".join(arguments), status, err)
    status, _, err = farbench("tcp:127.0.0.1:1", "--quick")
    tap.ok(status == 1 and "no listener at this address" in err, "a node that is not there", status, err)


def main():
    folder = tempfile.mkdtemp(prefix="farcached-reports-")
    try:
        check_run(folder)
        check_node()
        check_refusals()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    tap.done()


main()
