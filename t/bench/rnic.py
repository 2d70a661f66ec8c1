# SPDX-License-Identifier: BSD-3-Clause
"""farbench rnic: the points that the text of its paper states, each within 10 %, a single run, and refused arguments."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from farcached import deadline, default_binary, tap  # noqa: E402

FIELDS = ["figure", "series", "x", "unit", "paper", "ours", "fitted"]
# (figure, series, x) -> the number of the paper.
STATED = {
    (3, "ConnectX-5", 16384): 0.5, (3, "prefetching", 16384): 1, (3, "ConnectX-5, most queue pairs at the peak", 0): 2048,
    (4, "scheduled", 0): 35, (4, "scheduled", 7): 70, (4, "scheduled, least window at the peak", 0): 7,
    (5, "csrna", 256): 70, (5, "csrna", 512): 40, (5, "scheduled", 512): 70, (5, "scheduled", 4096): 70,
    (6, "none", 4): 2.4, (6, "none", 64): 2.4, (6, "software", 64): 2.4, (6, "none", 128): 2.9, (6, "none", 256): 2.9,
    ("abstract", "throughput with prefetching to without", 16384): 2.25,
    ("abstract", "latency with software prefetching to without", 256): -17.9,
}
FITTED = {(3, "ConnectX-5", 2048), (3, "ConnectX-5, most queue pairs at the peak", 0), (4, "scheduled", 0),
          (4, "scheduled, least window at the peak", 0)}
JAKIRO = {"Figure 4, rfp, values of 32 bytes": 5.5, "Figure 4, write, values of 32 bytes": 2.1,
          "Figure 7, rfp, values of 1024 bytes": 3.1, "Figure 8, rfp, 132 bytes fetched, values of 128": 5.5,
          "Figure 9, send, Zipf 0.99, 95 % GET": 2.1, "Figure 10, rfp, trace, 512 bytes fetched": 5.4}


def farbench(*args):
    program = os.path.join(os.path.dirname(os.path.abspath(default_binary())), "farbench")
    done = subprocess.run([program, "rnic"] + [str(a) for a in args], stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=8 * deadline() + 60)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def points_of(path, *args):
    status, out, err = farbench(*args, "--json", path)
    tap.ok(status == 0 and not err, "farbench rnic %s" % " ".join(args), status, *(out + err).split("\n"))
    with open(path) as file:
        return json.load(file), out


def near(point):
    return abs(point["ours"] / point["paper"] - 1) <= 0.1


def check_figures(path):
    points, out = points_of(path, "--figures", "3,4,5,6")
    tap.ok(all(list(point)[:len(FIELDS)] == FIELDS for point in points), "each point has the fields in their order", points[0])
    by_place = {(point["figure"], point["series"], point["x"]): point for point in points}
    tap.is_(len(by_place), len(points), "no point is there twice")
    tap.is_({place: by_place[place]["paper"] for place in STATED}, STATED, "the numbers of the paper's text")
    tap.is_([point for point in points if point["paper"] is not None and not near(point)], [], "ours are within 10 %")
    tap.is_({place for place, point in by_place.items() if point["fitted"]}, FITTED, "four numbers were fitted")
    drawn = [point for point in points if point["paper"] is None]
    tap.ok(drawn and all("only drawn" in point["note"] for point in drawn), "points only drawn have no number of the paper")
    tap.like(out, r"(?m)^Figure 4  scheduled +0 +Mop/s +35 +\d\d\.\d{3} +[-+]\d\.\d % fitted", "the table")


def check_jakiro(path):
    points, _ = points_of(path, "--figures", "jakiro")
    by_series = {point["series"]: point for point in points}
    tap.is_({series: by_series[series]["paper"] for series in JAKIRO}, JAKIRO, "the numbers of Jakiro's text")
    tap.is_([series for series in JAKIRO if not near(by_series[series])], [], "ours are within 10 %")
    unknown = [point for point in points if point["ours"] is None]
    tap.ok(unknown and all("CPU" in point["note"] for point in unknown), "points without a prediction have a reason", *unknown)


def check_run(path):
    small = ["--queue-pairs", "300", "--cache-entries", "100", "--chunks", "2000", "--warmup-chunks", "500", "--order", "random"]
    first, out = points_of(path, *small, "--prefetch", "scheduled")
    tap.is_(set(first["hit_ratios"]), {"qpc", "wqe", "mpt", "mtt"}, "a single run counts hits of each cache")
    tap.ok(0 < first["mops"] <= 70 and 0 < first["pipeline_share"] <= 1, "and has a rate", first)
    tap.like(out, r"(?m)^cache hits qpc \d", "its text")
    tap.is_(points_of(path, *small, "--prefetch", "scheduled")[0], first, "the same from the same seed")
    tap.ok(points_of(path, *small, "--prefetch", "scheduled", "--seed", "2")[0] != first, "another from another")
    tap.ok(points_of(path, *small)[0]["mops"] < first["mops"], "without prefetching it is slower")


def check_refusals():
    for arguments, wanted in [
            (["--figures", "2"], "--figures 2 has a word that is not 3, 4"),
            (["--chunk", "0"], "--chunk 0 is too small"),
            (["--order", "x"], "--order x is not cyclic, random, alternating or recent"),
            (["points"], '"points" is not an option')]:
        status, out, err = farbench(*arguments)
        tap.ok(status == 64 and wanted in err and not out, "refused: %s" % " ".join(arguments), status, err)
    status, _, err = farbench("--figures", "6", "--json", "/nonexistent/points.json")
    tap.ok(status == 1 and "cannot write /nonexistent/points.json" in err, "a file that cannot be written", status, err)


def main():
    folder = tempfile.mkdtemp(prefix="farcached-rnic-")
    try:
        path = os.path.join(folder, "points.json")
        check_figures(path)
        check_jakiro(path)
        check_run(path)
        check_refusals()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    tap.done()


main()
