# SPDX-License-Identifier: BSD-3-Clause
"""Two farcached in front of three nodes, short of memory, under the load whose every answer is checked: over shm and
tcp, read in their memory, by pointers, or asked; then while nodes are killed, started again and stopped.

What is promised. Failover off: all that the load checks (consistency_load.h, C1 to C6): no torn or foreign byte, nothing
older than acknowledged, linearizable histories, where a change that was answered as unavailable has an unknown outcome
and a miss may mean that a node was not asked. Failover on: no torn or foreign byte, and nothing after its expiry; an old
value may be seen when a node is back that others stood in for (C7), and how often that was is told.

Arguments: titles of the runs that are wanted; none: all. lib/consistency_load.py says which environment it heeds. With
FARCACHED_TEST_LONG every channel in every mode, together ten million operations at least.
"""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import consistency_load as load  # noqa: E402
from cluster import Cluster, Faults, nodes_shown, reads_over  # noqa: E402
from farcached import deadline, tap, until  # noqa: E402
from trouble import Trouble  # noqa: E402

LONG = bool(os.environ.get("FARCACHED_TEST_LONG"))
OPERATIONS_WANTED = 10_000_000 if LONG else 0
LARGE = ["--keys", "2000", "--value-bytes", "200000", "--mutations", "2000"]
HOT = ["--keys", "64", "--value-bytes", "1000"]
FAST = ["node_timeout_ms=300"]
# A little of everything that t/faulty.cc can do while every rule is kept.
FAULTS = Faults("tear_read=0.5,delay_read=0.3,fail_read=0.01,delay_send=0.05,delay_receive=0.05,split_receive=0.2,"
                "delay_end=0.5,delay_ms=3,tag_mask=255,probing=0.001,reading=0.0001,replacing=0.01,hold_up_us=300")
PATIENT = ["node_timeout_ms=30000"]  # where every node answers, however loaded the machine is

# title, channels, options of Cluster, arguments of the load, what happens to nodes meanwhile
SHORT_RUNS = [
    ("shm", "shm shm shm", {"local_read": True, "options": PATIENT}, LARGE, None),
    ("shm by pointers", "shm shm shm", {"local_read": False, "options": PATIENT}, HOT, None),
    ("shm by index", "shm shm shm", {"local_read": False, "options": PATIENT + ["cold_get=index"]}, LARGE, None),
    ("tcp and shm by pointers", "tcp shm tcp", {"local_read": False, "options": PATIENT}, LARGE, None),
    ("shm, late and torn", "shm shm shm", {"local_read": [True, False], "options": PATIENT, "faults": FAULTS}, HOT, None),
    ("shm by index, late and torn", "shm shm shm",
     {"local_read": False, "options": PATIENT + ["cold_get=index"], "faults": FAULTS}, LARGE, None),
    ("nodes end, mixed, late and torn", "shm tcp shm",
     {"local_read": [True, False], "options": FAST, "faults": FAULTS}, HOT, "end"),
    ("nodes end, mixed", "shm tcp shm", {"local_read": True, "options": FAST}, HOT, "end"),
    ("nodes end and stop, shm by pointers", "shm shm shm", {"local_read": False, "options": FAST}, LARGE, "end stop"),
    ("nodes end, failover", "shm shm tcp", {"local_read": True, "options": FAST + ["failover"]}, HOT, "end"),
]


def long_runs():
    modes = [("in memory", True, []), ("by pointers", False, []), ("by index", False, ["cold_get=index"])]
    for channels in ("shm shm shm", "tcp tcp tcp", "shm tcp shm"):
        for mode, local_read, options in modes:
            for meanwhile in (None, "end stop"):
                for shape, of_load in (("large", LARGE), ("hot", HOT)):
                    yield ("%s, %s, %s%s" % (channels, mode, shape, ", nodes end and stop" if meanwhile else ""), channels,
                           {"local_read": local_read, "options": options + (FAST if meanwhile else PATIENT)}, of_load, meanwhile)
            for meanwhile in (None, "end"):
                yield ("%s, %s, late and torn%s" % (channels, mode, ", nodes end" if meanwhile else ""), channels,
                       {"local_read": local_read, "options": options + (FAST if meanwhile else PATIENT), "faults": FAULTS},
                       HOT, meanwhile)
    for channels in ("shm shm shm", "shm tcp shm"):
        for mode, local_read, options in modes:
            yield ("%s, %s, failover" % (channels, mode), channels,
                   {"local_read": local_read, "options": options + FAST + ["failover"]}, HOT, "end stop")


def run(title, channels, of_cluster, of_load, meanwhile, seed, seconds):
    """How many operations there were."""
    args = ["--seed", seed, "--seconds", seconds, *of_load]
    args += ["--outages", "1"] if meanwhile else []
    args += ["--failover", "1"] if "failover" in of_cluster["options"] else []
    with Cluster(channels, node_args=["-m", "8", "-t", "2", "--lease-ms", "1000"], **of_cluster) as c:
        ports = ",".join(str(p.port) for p in c.proxies)
        args += ["--admin", ",".join(c.admin(i) for i in range(len(c.proxies)))]
        started = load.Load(ports, *args, timeout=seconds * 10 + deadline() * 3)
        if meanwhile:
            trouble = Trouble(c, meanwhile, int(seed))
            trouble.while_running(started.running)
        text = started.end(title)
        if meanwhile:
            tap.ok(trouble.ended > 0, "%s: nodes were ended %d times and stopped %d times" % (
                title, trouble.ended, trouble.stopped))
        tap.ok(all(p.alive() for p in c.proxies) and all(n.process.alive() for n in c.nodes), "%s: all live" % title)
        accounted = [reads_over(until(lambda p=p: nodes_shown(p), reads_over)) for p in c.proxies]
        tap.ok(all(accounted), "%s: each READ that was posted has completed or failed" % title)
        shown = [nodes_shown(p)[n.name] for p in c.proxies for n in c.nodes]
        tap.diag(", ".join("%s %d" % (name, sum(int(s[name]) for s in shown))
                           for name in ("get_local", "get_onesided", "get_index", "get_twosided")))
    found = re.search(r"# (\d+) gets, \d+ hits, (\d+) mutations", text)
    return int(found.group(1)) + int(found.group(2)) if found else 0


def main():
    seconds, seed = load.seconds(3), load.seed()
    load.check_itself()
    total = 0
    for title, *how in long_runs() if LONG else SHORT_RUNS:
        if sys.argv[1:] and title not in sys.argv[1:]:
            continue
        total += run(title, *how, seed, seconds)
    tap.diag("%d operations" % total)
    tap.ok(total >= OPERATIONS_WANTED, "as many operations as there should be")
    tap.done()


main()
