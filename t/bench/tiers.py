# SPDX-License-Identifier: BSD-3-Clause
"""farbench compare --parts tiers: look-aside caches with and without a disk. farcached is its own peer. No speed is checked."""
import csv
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(HERE, "lib"))
from farcached import Daemon, deadline, default_binary, is_sanitized, tap  # noqa: E402

WORKLOAD = "zipf 0.99, data 2 times memory"
OURS = ["farcached", "farcached + disk", "farcached + disk (all values)", "farcached + peer"]
PEERS = ["memcached", "memcached + disk"]
ALIKE = "ratios to memcached with the same options"


def program():
    built = os.environ.get("abs_top_builddir") or os.path.dirname(os.path.abspath(default_binary()))
    return os.environ.get("FARBENCH") or os.path.join(built, "farbench")


def farbench(*args):
    return subprocess.run([program()] + [str(a) for a in args], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=4 * deadline() + 60)


def explain(done):
    return ["exit status %d" % done.returncode] + (done.stdout + done.stderr).split("\n")


def check_fill_misses(folder):
    path = os.path.join(folder, "load.json")
    with Daemon("-m", "64") as daemon:
        done = farbench("load", "--port", daemon.port, "--keys", 100, "--ratio", "0:1", "--requests", 1000, "--connections", 4,
                        "--verify", "--fill-misses", "--json", path)
        stored = int(daemon.stats()["cmd_set"])
    tap.ok(done.returncode == 0, "a load that stores what it misses", *explain(done))
    with open(path) as file:
        results = json.load(file)
    misses = results["keys_read"] - results["hits"]
    tap.is_((results["gets"], results["sets"], stored), (1000, misses, misses), "every miss is followed by a set")
    tap.ok(50 < misses <= 400, "as many as there are keys, or a few more", misses)


def look_aside(folder, *args):
    """The results of a load that stores what it misses; the gets and items of its server."""
    path = os.path.join(folder, "look_aside.json")
    with Daemon("-m", "64") as daemon:
        done = farbench("load", "--port", daemon.port, "--threads", 1, "--connections", 1, "--ratio", "0:1", "--fill-misses",
                        "--distribution", "zipf", "--json", path, *args)
        stats = daemon.stats()
    tap.ok(done.returncode == 0, "a load with %s" % " ".join(map(str, args)), *explain(done))
    with open(path) as file:
        return json.load(file), int(stats["cmd_get"]), int(stats["curr_items"])


def check_traces(folder):
    results, gets, items = look_aside(folder, "--keys", 50, "--requests", 3000, "--warmup-requests", 1000, "--once-share", 0.25)
    tap.is_((results["keys_read"], gets), (3000, 4000), "requests before the measurement are not counted")
    once = items - 50
    tap.ok(850 < once < 1150, "a quarter of the keys are new", once)
    tap.ok(0.70 < results["hit_ratio"] < 0.80, "and never come again", results["hit_ratio"])
    _, _, items = look_aside(folder, "--keys", 8000, "--theta", 6, "--requests", 2400)
    _, _, shifted = look_aside(folder, "--keys", 8000, "--theta", 6, "--requests", 2400, "--shift-requests", 300)
    tap.ok(items < 12 and 3 * items < shifted < 9 * items, "popular keys that change seven times", items, shifted)


def tiers(folder, *args):
    return farbench("compare", "--parts", "tiers", "--quick", "--workload", WORKLOAD, "--farcached", default_binary(),
                    "--generator", "farbench", "--json", os.path.join(folder, "tiers.json"), *args)


def points_in(folder):
    with open(os.path.join(folder, "tiers.json")) as file:
        return {point["contestant"]: point for point in json.load(file)}


def check_with_peer(folder):
    lines, charts, drawn = (os.path.join(folder, name) for name in ("tiers.csv", "charts", "tiers.svg"))
    done = tiers(folder, "--memcached", default_binary(), "--csv", lines, "--charts", charts, "--svg", drawn)
    tap.ok(done.returncode == 0, "the part tiers", *explain(done))
    points = points_in(folder)
    tap.is_(sorted(points), sorted(OURS + PEERS), "contestants with and without a disk")
    for label, point in points.items():
        tap.ok(0 < point["hit_ratio"] <= 1 and 0 < point["p50_us"] <= point["p99_us"] <= point["p999_us"] and
               point["cpu_front_s_per_mop"] > 0, "%s: measured" % label, point)
        tap.is_(point["written_per_set"] is not None, "disk" in label, "%s: bytes on the disk, if it has one" % label)
        tap.is_(ALIKE in point, label in OURS, "%s: ours have ratios" % label)
    tap.ok(points[OURS[2]]["hit_ratio"] > points[OURS[0]]["hit_ratio"], "a disk of all values answers more gets", *points.values())
    tap.ok(points[OURS[3]]["hit_ratio"] > points[OURS[0]]["hit_ratio"], "and so does a peer", *points.values())
    for label in OURS:
        tap.ok(points[label][ALIKE]["hit_ratio"]["median"] > 0, "%s: beside its peer" % label, points[label])
    with open(lines, newline="") as file:
        rows = list(csv.DictReader(file))
    tap.is_(sorted(row["contestant"] for row in rows), sorted(OURS + PEERS), "lines of CSV for the same")
    tap.ok(all(float(row["hit_ratio"]) > 0 for row in rows), "with their hit ratios", *rows)
    for path, wanted in ((drawn, "farcached + disk, hit ratio"), (os.path.join(charts, "tiers.svg"), "data, times memory")):
        texts = [e.text for e in xml.etree.ElementTree.parse(path).iter() if e.tag.endswith("}text")]
        tap.ok(wanted in texts, "%s is drawn" % os.path.basename(path), *texts)
    tap.like(done.stdout, r"(?m)^  ratio of hit ratio to that of memcached with the same options$", "the table has ratios")
    tap.like(done.stderr, r"(?m)^%s: farcached: warm-up, hit ratios( \d\.\d+){4}" % WORKLOAD, "progress shows the warm-up")


def check_alone(folder):
    """Without a memcached, and with one that has no extstore."""
    done = tiers(folder, "--memcached", os.path.join(folder, "none"), "--contestant", "farcached + disk")
    tap.ok(done.returncode == 0, "without a memcached", *explain(done))
    tap.is_(sorted(points_in(folder)), OURS[1:3], "ours are measured alone")
    tap.like(done.stdout, r"(?m)^There is no memcached .*: no peers take part\.$", "and the report says so")
    old = os.path.join(folder, "old-memcached")
    with open(old, "w") as file:
        file.write('#!/bin/sh\n[ "$1" != -h ] || exit 0\nexec %s "$@"\n' % default_binary())
    os.chmod(old, 0o755)
    done = tiers(folder, "--memcached", old, "--contestant", "memcached")
    tap.ok(done.returncode == 0, "a memcached without extstore", *explain(done))
    tap.is_(sorted(points_in(folder)), ["memcached"], "has no disk")
    tap.like(done.stdout, r"(?m)^%s has no extstore: farcached's disk has no peer\.$" % old, "and the report says so")


def main():
    if not os.access(program(), os.X_OK):
        tap.bail("there is no %s" % program())
    with tempfile.TemporaryDirectory(prefix="farbench-tiers-") as folder:
        check_fill_misses(folder)
        check_traces(folder)
        if not is_sanitized():  # compare gives up on a slow start
            check_with_peer(folder)
            check_alone(folder)
    tap.done()


main()
