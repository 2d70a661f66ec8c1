# SPDX-License-Identifier: BSD-3-Clause
"""farbench transport over RDMA: every transport is measured, and our counters agree with the device's. No speed is checked. Runs in
a guest.
"""
import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from tap_output import tap  # noqa: E402
from transport import check_points  # noqa: E402

TRANSPORTS = ["tcp", "twosided", "onesided", "index", "onesided+atomic"]


def measure(folder):
    farbench = os.path.join(os.path.dirname(os.environ["FARCACHED"]), "farbench")
    command = [farbench, "transport", "--spawn", "verbs", "--quick", "--operations", "500", "--csv", folder, "--json",
               os.path.join(folder, "json")]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=180)
    tap.ok(done.returncode == 0, "it runs to its end", done.returncode, *(done.stdout + done.stderr).split("\n"))
    for line in done.stdout.splitlines():
        tap.diag(line)
    with open(os.path.join(folder, "json")) as file:
        check_points(json.load(file), TRANSPORTS, (1, 2), ("get", "95:5"), "verbs")
    with open(os.path.join(folder, "points.csv"), newline="") as file:
        return list(csv.DictReader(file))


def numbers(rows, transport, mix, name):
    return [float(row[name]) for row in rows if row["transport"] == transport and row["mix"] == mix]


def check_counts(rows):
    def all_of(transport, mix, name, good, words):
        found = numbers(rows, transport, mix, name)
        tap.ok(found and all(map(good, found)), words, found)

    for transport in ("onesided", "onesided+atomic", "index"):
        all_of(transport, "get", "onesided_share", lambda n: n > 0.95, transport + ": GETs are really one-sided")
        all_of(transport, "get", "sends_per_op", lambda n: n < 0.05, transport + ": without SENDs")
    all_of("onesided", "get", "reads_per_op", lambda n: 0.95 < n < 1.05, "onesided: a READ each")
    all_of("onesided", "get", "atomics_per_op", lambda n: n == 0, "onesided: no atomics")
    all_of("onesided+atomic", "get", "atomics_per_op", lambda n: 0.95 < n < 1.05, "onesided+atomic: an atomic each")
    all_of("index", "get", "reads_per_op", lambda n: n > 1.9, "index: two READs each, or more")
    all_of("twosided", "get", "reads_per_op", lambda n: n < 0.05, "twosided: no READs")
    all_of("twosided", "get", "sends_per_op", lambda n: 0.99 < n < 1.5, "twosided: a SEND each")
    all_of("tcp", "get", "onesided_share", lambda n: n == 0, "tcp: nothing is one-sided")
    all_of("onesided", "95:5", "onesided_share", lambda n: n > 0, "onesided with SETs: some GETs are one-sided")


def check_device(rows):
    """Compares with a tolerance: some packets may be sent and not be completed when the counters are read. Some are sent twice in a
    slow guest, because soft-RoCE has the timeout of a real device."""
    measured = [row for row in rows if row["transport"] != "tcp"]
    for what, slack in (("sends", 0.05), ("packets", 0.25)):
        off = [(row["transport"], row["mix"], row["clients"], row["device_%s_per_op" % what], row["expected_%s_per_op" % what])
               for row in measured]
        tap.ok(measured and all(seen and abs(float(seen) - float(ours)) <= slack for _, _, _, seen, ours in off),
               "the device counts as many %s as we" % what, off)


def main():
    folder = tempfile.mkdtemp(prefix="farcached-transport-")
    try:
        rows = measure(folder)
        check_counts(rows)
        check_device(rows)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    tap.done()


main()
