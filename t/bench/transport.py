# SPDX-License-Identifier: BSD-3-Clause
"""farbench transport: whole runs of a second over shm and tcp, their output files, and interruption. No speed is checked.
t/guest/transport.py has the tests over RDMA.
"""
import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from farcached import deadline, default_binary, tap, until  # noqa: E402
from farnode import Farnode  # noqa: E402
from transport import check_points  # noqa: E402


def program():
    return os.path.join(os.path.dirname(os.path.abspath(default_binary())), "farbench")


def farbench(*args):
    done = subprocess.run([program(), "transport"] + [str(a) for a in args], stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=4 * deadline() + 60)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def farnodes_of(folder):
    """Processes that were started with a file below this folder."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/environ" % pid, "rb") as file:
                if os.fsencode(folder) in file.read():
                    found.append(int(pid))
        except OSError:
            continue
    return found


def rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def check_shm(folder):
    path, out_folder = os.path.join(folder, "shm.json"), os.path.join(folder, "shm")
    status, out, err = farbench("--spawn", "shm", "--quick", "--trials", 2, "--json", path, "--csv", out_folder)
    tap.ok(status == 0, "over shm it runs to its end", status, *(out + err).split("\n"))
    tap.like(err, r"onesided\+atomic is skipped: over shm", "and names what it cannot measure there")
    transports = ["tcp", "twosided", "onesided", "index"]
    with open(path) as file:
        points = json.load(file)
    check_points(points, transports, (1, 2), ("get", "95:5"), "shm")
    tap.like(out, r"(?m)^Throughput and latency; .* Table 3 in McGuinness, Evaluating RDMA ", "the table is printed")
    tap.like(out, r"(?m)^onesided +get +1 .*\| +160\.5 +4\.8 +12$", "with the paper's numbers beside ours")
    tap.ok("Table 4" not in out, "but no table without measurements")
    tap.like(out, r"(?m)^ +1024000 +5122\.7 +\d+\.\d+  \| +230\.4 +-  \| +1539\.5 +-$",
             "Table 1 of the C-Hint paper: our check beside CRC64")
    tap.like(out, r"(?m)^not reproduced: over shm ", "Figure 2: that and why it is none over shm")
    trials = rows(os.path.join(out_folder, "trials.csv"))
    tap.is_(len(trials), 2 * len(points), "a row of trials.csv for each trial")
    by_pointer = [float(row["onesided_share"]) for row in trials if row["transport"] == "onesided" and row["mix"] == "get"]
    tap.ok(all(share > 0.99 for share in by_pointer), "GETs by pointer are one-sided", by_pointer)
    asked = [float(row["onesided_share"]) for row in trials if row["transport"] in ("tcp", "twosided")]
    tap.ok(not any(asked), "others are not", asked)
    means = rows(os.path.join(out_folder, "points.csv"))
    tap.is_(len(means), len(points), "a row of points.csv for each point")
    tap.ok(all(row["p95_us"] and row["mean_us_sd"] and row["node_cpu_us_per_op"] for row in means),
           "with deviations, and the node's CPU time", means)
    tap.is_(sorted(name for name in os.listdir(out_folder) if name.endswith(".svg")), ["figure-%d.svg" % n for n in (2, 3, 4)],
            "the charts are drawn")
    check_resume(out_folder, trials)


def check_resume(out_folder, before):
    path = os.path.join(out_folder, "trials.csv")
    same = ("--spawn", "shm", "--quick", "--trials", 2, "--csv", out_folder, "--resume")
    with open(path) as file:
        text = file.read()
    lines = text.splitlines(keepends=True)
    with open(path, "w") as file:  # like the file of a run that was killed during the write
        file.write("".join(lines[:-3]) + lines[-3][:20])
    status, out, err = farbench(*same)
    tap.ok(status == 0, "a run is resumed", status, *(out + err).split("\n"))
    after = rows(path)
    tap.is_(len(after), len(before), "missing points are measured")
    tap.is_(after[:-3], before[:-3], "and existing points are kept")
    tap.is_(err.count(" trial "), 3, "nothing else was measured")
    status, out, err = farbench(*same, "--seed", 7, "--transports", "tcp", "--mix", "get")
    tap.is_((status, err.count(" trial ")), (0, 4), "of other parameters all is measured")
    tap.is_(len(rows(path)), len(before) + 4, "beside the existing points")


def check_large(folder):
    """Values that follow their requests in chunks, and items in runs of pages."""
    path = os.path.join(folder, "large.json")
    status, out, err = farbench("--spawn", "shm", "--value-bytes", 1024000, "--keys", 8, "--clients", 1, "--operations", 40,
                                "--warmup", 10, "--trials", 1, "--transports", "twosided,onesided", "--mix", "set", "--json", path)
    tap.ok(status == 0, "a megabyte is stored", status, *(out + err).split("\n"))
    with open(path) as file:
        tap.is_([(p["transport"], p["mix"], p["errors"]) for p in json.load(file)],
                [("twosided", "set", 0), ("onesided", "set", 0)], "by SETs only, without an error")
    tap.like(out, r"(?m)^ +1024000 .*\| +1539\.5 +\d+\.\d+$", "in Table 1 beside the paper's")
    status, out, err = farbench("--spawn", "shm", "--value-bytes", 102400, "--keys", 8, "--clients", 1, "--operations", 200,
                                "--warmup", 20, "--trials", 1, "--transports", "onesided", "--mix", "95:5", "--json", path)
    tap.ok(status == 0, "and read one-sided while it is written again", status, *(out + err).split("\n"))


def check_tcp(folder):
    path = os.path.join(folder, "tcp.json")
    status, out, err = farbench("--spawn", "tcp", "--quick", "--json", path)
    tap.ok(status == 0, "over tcp it runs to its end", status, *(out + err).split("\n"))
    tap.like(err, r"onesided is skipped: over tcp only tcp is possible", "and reports that nothing is one-sided there")
    with open(path) as file:
        check_points(json.load(file), ["tcp"], (1, 2), ("get", "95:5"), "tcp")


def check_address(folder):
    path = os.path.join(folder, "address.json")
    with Farnode() as node:
        address = "tcp:127.0.0.1:%d" % node.port
        status, out, err = farbench(address, "--quick", "--wait", "spin", "--profile", "--clients", 1, "--json", path)
        tap.ok(status == 0, "a node that runs already is measured", status, *(out + err).split("\n"))
        tap.like(out, r"(?m)^Parts of an operation", "spinning, and in its parts")
        with open(path) as file:
            points = json.load(file)
        tap.is_([point["node_cpu_us_per_op"] for point in points], [None, None], "its CPU time is not known")
        status, out, err = farbench(address, "--quick", "--node-pid", node.pid, "--json", path)
        with open(path) as file:
            known = [point["node_cpu_us_per_op"] for point in json.load(file)]
        tap.ok(status == 0 and all(known), "unless its id is given", known, *err.split("\n"))


def check_interrupt(folder):
    out_folder = os.path.join(folder, "interrupted")
    path = os.path.join(out_folder, "trials.csv")
    mark = os.path.join(folder, "mark")
    process = subprocess.Popen([program(), "transport", "--spawn", "tcp", "--quick", "--trials", "1000", "--csv", out_folder],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env={**os.environ, "FARBENCH_TEST_MARK": mark})
    try:
        until(lambda: os.path.exists(path) and len(rows(path)) > 1, bool)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=deadline())
    finally:
        process.kill()
        process.wait()
    tap.is_(process.returncode, 1, "an interrupt ends it")
    tap.like(out.decode(), r"(?m)^Throughput and latency; ", "finished measurements are shown")
    tap.like(err.decode(), r"interrupted; continue with --resume", "and a message describes how to continue")
    tap.ok(os.path.exists(os.path.join(out_folder, "points.csv")), "finished measurements are written")
    tap.is_(farnodes_of(mark), [], "the node has ended")
    process = subprocess.Popen([program(), "transport", "--spawn", "tcp", "--quick", "--trials", "1000", "--csv", out_folder],
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               env={**os.environ, "FARBENCH_TEST_MARK": mark})
    try:
        until(lambda: len(farnodes_of(mark)) == 2, bool)
    finally:
        process.kill()
        process.wait()
    tap.is_(until(lambda: farnodes_of(mark), lambda left: not left), [], "killed, it leaves no node")


def check_refusals(folder):
    for arguments, wanted in [
            (["--quick"], "no node given"),
            (["tcp:127.0.0.1:1", "--spawn", "tcp"], "either addresses or --spawn"),
            (["udp:127.0.0.1:1"], "unknown channel 'udp'"),
            (["--spawn", "smoke"], "--spawn smoke is not one of"),
            (["--spawn", "tcp", "--transports", "tcp,tcp"], "has a word twice"),
            (["--spawn", "tcp", "--clients", "1,0"], "is too small"),
            (["--spawn", "tcp", "--mix", "50:50"], "is not one of get, 95:5, set, both"),
            (["--spawn", "tcp", "--resume"], "--resume needs --csv"),
            (["--spawn", "shm", "--rpc", "rfp"], "--rpc needs a node over RDMA"),
            (["--spawn", "verbs", "--rpc", "rfp,recv"], "has a word other than send, write, rfp, auto"),
            (["--spawn", "verbs", "--rpc", "rfp", "--figures", "5"], "has a number other than 4, 6, 7, 8, 9, 10")]:
        status, out, err = farbench(*arguments)
        tap.ok(status == 64 and wanted in err, "refused: %s" % " ".join(arguments), status, err)
    status, out, err = farbench("--spawn", "tcp", "--farnode", os.path.join(folder, "no-such-program"))
    tap.ok(status == 1 and "cannot run" in err, "a farnode that is not there", status, err)
    status, out, err = farbench("--spawn", "tcp", "--transports", "index", "--quick")
    tap.ok(status == 1 and "nothing to measure" in err, "nothing that can be measured", status, err)


def main():
    folder = tempfile.mkdtemp(prefix="farcached-transport-")
    try:
        check_shm(folder)
        check_large(folder)
        check_tcp(folder)
        check_address(folder)
        check_interrupt(folder)
        check_refusals(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    tap.done()


main()
