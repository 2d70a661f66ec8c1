# SPDX-License-Identifier: BSD-3-Clause
"""farbench compare between two guests: both contestants are measured, gets are one-sided, and each hop has its part of the time. No
speed is checked. Runs on the host."""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from tap_output import tap  # noqa: E402

GETS, MIXED = "verbs, GET, one connection", "verbs, 95:5"
THEIRS, OURS = "memcached over TCP", "farcached -t 1 -> farnode (verbs)"
HOPS = ("hop_client_us", "hop_farcached_us", "hop_read_us")


def main():
    farbench = os.path.join(os.path.dirname(os.environ["FARCACHED"]), "farbench")
    with tempfile.TemporaryDirectory(prefix="farcached-compare-test-") as folder:
        path = os.path.join(folder, "points.json")
        done = subprocess.run([farbench, "compare", "--aims", "--parts", "verbs", "--quick", "--workload", GETS + ";" + MIXED,
                               "--json", path],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=500)
        tap.ok(done.returncode == 0, "it runs to its end", done.returncode, *(done.stdout + done.stderr).split("\n"))
        with open(path) as file:
            points = {(point["contestant"], point["workload"]): point for point in json.load(file)}
    for workload in (GETS, MIXED):
        for who in (OURS, THEIRS):
            point = points.get((who, workload), {})
            tap.ok(point.get("ops_per_s", 0) > 0 and 0 < point["p50_us"] <= point["p99_us"] and
                   (point["cpu_front_s_per_mop"] > 0) == (who == OURS), "%s: %s is measured" % (workload, who), point)
    ours = points[(OURS, GETS)]
    tap.ok(ours["one_sided_share"]["median"] == 1, "gets are one-sided, all of them", ours)
    tap.is_(ours["two_sided"]["median"], 0, "the node executes none of them")
    # A hop is a difference of times. At 50 operations a second, beside other guests, one of them may be negative.
    tap.ok(sum(ours[hop]["median"] for hop in HOPS) > 0, "the hops together take the time", ours)
    tap.like(done.stdout, r"(?m)^  verbs, GET, one connection: keys/s to that of memcached over TCP +farcached.* >= 1\.00 ",
             "the aims are listed")
    tap.done()


main()
