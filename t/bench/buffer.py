# SPDX-License-Identifier: BSD-3-Clause
"""farbench buffer --tiers: a whole short run over shm and tcp, with a restart of all tiers, its output files, and refused
arguments. The program verifies each value. No speed is checked.
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

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(default_binary())), "farbench")
TIMES = ["min_us", "mean_us", "median_us", "max_us"]
KEYS = ["figure", "operation", "place", "transport", "how", "calls", "in_file", "rounds", "median_us_low", "median_us_high",
        *TIMES, *["paper_" + name for name in TIMES]]
PAPER = {("FReadF", "local"): [21, 22, 22, 47], ("FReadF", "remote"): [459, 495, 668, 922],
         ("FPrintF", "local"): [70, 114, 106, 198], ("FPrintF", "remote"): [27192, 34801, 38531, 55404]}
CALLS, ROUNDS = 60, 2


def farbench(*args):
    done = subprocess.run([PROGRAM, "buffer"] + [str(a) for a in args], stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=4 * deadline() + 120)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def check_files(points):
    """Figures 11 and 12."""
    some = [point for point in points if point["figure"] != 14]
    tap.is_([(p["figure"], p["operation"], p["place"], p["transport"]) for p in some],
            [(11, "FReadF", "local", None), (12, "FPrintF", "local", None), (12, "FPrintF", "local", None),
             *[(figure, operation, "remote", transport) for transport in ("shm", "tcp")
               for figure, operation in ((11, "FReadF"), (12, "FPrintF")) for _ in ("kept", "new")]],
            "reads and writes of the file, here and over each transport")
    tap.is_([p for p in some if p["calls"] != CALLS], [], "as many calls as asked for")
    tap.is_([p for p in some if [p["paper_" + name] for name in TIMES] != PAPER[p["operation"], p["place"]]], [],
            "the paper's numbers beside them")
    tap.is_([p for p in some if p["operation"] == "FReadF" and p["in_file"] != CALLS], [], "all values were read from the file")
    links = [p["how"] for p in some if p["place"] == "remote"]
    tap.is_(links, ["get through a link", "get, a new link for each", "set through a link", "set, a new link for each"] * 2,
            "over one link, and over a new one for each call")
    tap.is_([p for p in some if "flush" in p["how"] and p["in_file"] != CALLS], [], "those flushed are in it")


def check_pages(points):
    """Figure 14."""
    for transport in ("shm", "tcp"):
        some = {(p["operation"], p["place"]): p for p in points if p["figure"] == 14 and p["transport"] == transport}
        fixes = {place: (p["calls"], p["in_file"]) for (operation, place), p in some.items() if operation == "fix"}
        tap.is_(fixes, {"home, new": (150, 0), "remote, new": (150, 0), "home, from its file": (150, 150),
                        "remote, from the node's file": (150, 150)},
                "%s: half of the pages at home, half remote; after the restart all are read from files" % transport)
        unfixes = {place: p["calls"] for (operation, place), p in some.items() if operation == "unfix"}
        places = ["%s, %s the restart" % (place, when) for place in ("home", "remote") for when in ("before", "after")]
        tap.is_(unfixes, dict.fromkeys(places, 150), "%s: and all unfixed" % transport)
        tap.is_({p["paper_min_us"] for p in some.values()}, {None}, "%s: the paper has no numbers for these" % transport)


def check_run(folder):
    path, out_folder, files = (os.path.join(folder, name) for name in ("points.json", "csv", "files"))
    os.mkdir(files)
    status, out, err = farbench("--tiers", "--calls", CALLS, "--rounds", ROUNDS, "--json", path, "--csv", out_folder,
                                "--folder", files)
    tap.ok(status == 0, "it runs to its end", status, *(out + err).split("\n"))
    tap.is_(os.listdir(files), [], "and removes its files")
    with open(path) as file:
        points = json.load(file)
    tap.ok(all(list(point) == KEYS for point in points), "each point has its keys and no others", points)
    tap.ok(all(0 < p["min_us"] <= p["median_us"] <= p["max_us"] and p["min_us"] <= p["mean_us"] <= p["max_us"] for p in points),
           "times are in order", points)
    tap.ok(all(p["rounds"] == ROUNDS and p["median_us_low"] <= p["median_us_high"] for p in points), "of two rounds", points)
    check_files(points)
    check_pages(points)
    with open(os.path.join(out_folder, "points.csv"), newline="") as file:
        rows = list(csv.DictReader(file))
    tap.is_([list(row) for row in rows], [KEYS for _ in points], "a row of points.csv for each")
    with open(os.path.join(out_folder, "calls.csv"), newline="") as file:
        calls = list(csv.DictReader(file))
    tap.is_(len(calls), sum(p["calls"] for p in points), "and one of calls.csv for each call")
    for operation in ("fix", "unfix"):
        numbers = sorted(int(c["call"]) for c in calls if (c["operation"], c["transport"]) == (operation, "shm"))
        tap.is_(numbers, list(range(1, 601)), "%s: all calls in their order" % operation)
    tap.is_([name for name in sorted(os.listdir(out_folder)) if name.endswith(".svg")],
            ["buffer-figure-%d.svg" % number for number in (11, 12, 14)], "the charts are drawn")
    tap.like(out, r"(?m)^FPrintF remote, the paper +27192\.0 +34801\.0 +38531\.0 +55404\.0\n  set through a link, shm ",
             "the paper's row above ours")
    tap.like(out, r"(?m)^remote over shm .*\n  fix +home, new ", "fixes by place")
    tap.like(out, r"(?m)^  fix takes longer than unfix, .* \d+\.\d\d$", "and what the paper observes of them")


def children(pid):
    path = "/proc/%d/task/%d/children" % (pid, pid)
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return file.read().split()


def check_interrupt(folder):
    """An interrupt ends a long run, and its farnode."""
    process = subprocess.Popen([PROGRAM, "buffer", "--tiers", "--rounds", "1000", "--transports", "shm", "--folder", folder],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        progress = b""
        while b", shm\n" not in progress:  # the embedded node has been measured
            line = process.stderr.readline()
            if not line:
                break
            progress += line
        nodes = until(lambda: children(process.pid), bool)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=deadline())
    finally:
        process.kill()
        process.wait()
    tap.is_(process.returncode, 1, "interrupted")
    tap.like(err.decode(), r"(?m)^farbench buffer: interrupted$", "it says so")
    tap.like(out.decode(), r"(?m)^  get, embedded node ", "and prints the results so far")
    tap.ok(not any(os.path.exists("/proc/" + node) for node in nodes) and not os.listdir(folder), "nothing stays", nodes)


def check_refusals():
    for arguments, wanted in [
            ([], "nothing to measure: use --tiers"),
            (["--tiers", "--transports", "shm,shm"], "has a word twice"),
            (["--tiers", "--transports", "pigeon"], "is not one of shm, tcp, verbs"),
            (["--tiers", "--calls", "0"], "is too small"),
            (["--tiers", "--calls", "4001"], "is too large"),
            (["--tiers", "--rounds", "0"], "is too small"),
            (["--tiers", "--wait", "long"], "is not spin or sleep"),
            (["--tiers", "tcp:127.0.0.1:1"], "unknown option tcp:127.0.0.1:1")]:
        status, out, err = farbench(*arguments)
        tap.ok(status == 64 and wanted in err and not out, "refused: %s" % " ".join(arguments), status, err)
    status, _, err = farbench("--tiers", "--quick", "--folder", "/nonexistent")
    tap.ok(status == 1 and "cannot make /nonexistent/farbench-" in err, "a folder that is not there", status, err)
    status, _, err = farbench("--tiers", "--quick", "--farnode", "/nonexistent")
    tap.ok(status == 1 and "farnode did not start" in err, "a farnode that is not there", status, err)


def main():
    folder = tempfile.mkdtemp(prefix="farcached-buffer-")
    try:
        check_run(folder)
        interrupted = os.path.join(folder, "interrupted")
        os.mkdir(interrupted)
        check_interrupt(interrupted)
        check_refusals()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    tap.done()


main()
