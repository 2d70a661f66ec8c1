# SPDX-License-Identifier: BSD-3-Clause
"""farbench transport over RDMA: every transport and every way of requests is measured, and our counters agree with the device's. No
speed is checked. Runs in a guest.
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
RPC = ["send", "write", "rfp", "auto"]


def posted(point):
    return point["operations_out_per_op"]


def sends(point):
    return point["node_sends_per_op"]


def is_none(n):
    return abs(n) < 0.05


def is_one(n):
    return abs(n - 1) < 0.05


# Of each way: what is known of its counts per operation.
RPC_CHECKS = {
    "send": [("the node posts one operation", posted, is_one), ("a SEND", sends, is_one)],
    "write": [("the node posts one operation", posted, is_one), ("no SEND, so a WRITE", sends, is_none),
              ("the client posts one WRITE", lambda point: point["writes_per_op"], is_one)],
    "rfp": [("the node posts no operation for a reply that a READ brought",
             lambda point: posted(point) + point["fetched_per_op"], is_one),
            ("and no SENDs for the others", sends, is_none),
            ("round trips are the WRITEs and READs, and the node's operations", lambda point: point["round_trips_per_op"]
             - point["writes_per_op"] - point["fetches_per_op"] - posted(point), is_none)],
}


def farbench(title, folder, *more):
    """The points."""
    program = os.path.join(os.path.dirname(os.environ["FARCACHED"]), "farbench")
    path = os.path.join(folder, "json")
    command = [program, "transport", "--spawn", "verbs", "--quick", "--csv", folder, "--json", path, *more]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    tap.ok(done.returncode == 0, title + ": it runs to its end", done.returncode, *(done.stdout + done.stderr).split("\n"))
    for line in done.stdout.splitlines():
        tap.diag(line)
    with open(path) as file:
        return json.load(file)


def measure(folder):
    check_points(farbench("transports", folder, "--operations", "500"), TRANSPORTS, (1, 2), ("get", "95:5"), "verbs")
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


def check_rpc(folder):
    """Each reply is a SEND or a WRITE of the node, or a READ of the client brings it. A slow node is told to WRITE (fabric/verbs/
    rpc_timing.h), and an emulated one may be slow at any time, so the shares of the two are not known."""
    points = farbench("rpc", folder, "--rpc", "send,write,rfp,auto", "--figures", "4", "--operations", "300", "--warmup", "100")
    tap.is_([(point["rpc"], point["clients"]) for point in points], [(rpc, n) for n in (1, 2) for rpc in RPC], "each way, in order")
    tap.is_(sum(point["errors"] for point in points), 0, "rpc: no errors")
    tap.ok(all(point["rpc_at_end"] == point["rpc"] for point in points if point["rpc"] != "auto"), "each way is the one asked for",
           points)
    for rpc, checks in RPC_CHECKS.items():
        for words, number, good in checks:
            found = [number(point) for point in points if point["rpc"] == rpc]
            tap.ok(found and all(map(good, found)), "%s: %s" % (rpc, words), found)
    drawn = sorted(name for name in os.listdir(folder) if name.startswith("rpc-figure"))
    tap.is_(drawn, ["rpc-figure-4.svg", "rpc-figure-5.svg"], "the charts of the figure are drawn")
    with open(os.path.join(folder, "rpc-trials.csv")) as file:
        trials = file.read()
    again = farbench("rpc, resumed", folder, "--rpc", "send,write,rfp,auto", "--figures", "4", "--operations", "300",
                     "--warmup", "100", "--resume")
    with open(os.path.join(folder, "rpc-trials.csv")) as file:
        tap.is_(file.read(), trials, "a resumed run measures nothing again")
    tap.is_([point["rpc_at_end"] for point in again], [point["rpc_at_end"] for point in points], "and has the same points")
    peak = [[point[name] for name in ("paper_mops", "paper_round_trips", "paper_mean_us")] for point in points
            if point["clients"] == 2 and point["rpc"] == "rfp"]
    tap.is_(peak, [[5.5, 2.005, 5.78]], "the paper's numbers stand beside ours")
    by_length = farbench("lengths", folder, "--rpc", "rfp", "--figures", "7,8,10", "--clients", "1", "--operations", "100",
                         "--warmup", "50")
    tap.is_(sum(point["errors"] for point in by_length), 0, "lengths: no errors")
    fetched = [point["fetched_per_op"] for point in points + by_length if point["rpc"] == "rfp"]
    tap.ok(any(fetched), "READs bring replies", fetched)
    whole = [point["second_reads_per_op"] for point in by_length if point["figure"] == 8 or point["value_bytes"] == 32]
    tap.ok(whole and not any(whole), "a READ of the paper's length holds as long a value as the paper's", whole)
    longer = [(point["second_reads_per_op"], point["fetched_per_op"]) for point in by_length
              if point["figure"] == 7 and point["value_bytes"] > 32]
    tap.ok(longer and all(second < fetched + 0.001 for second, fetched in longer), "the rest of a longer one takes one more READ",
           longer)


def main():
    folder = tempfile.mkdtemp(prefix="farcached-transport-")
    try:
        rows = measure(folder)
        check_counts(rows)
        check_device(rows)
        check_rpc(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    tap.done()


main()
