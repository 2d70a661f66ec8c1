# SPDX-License-Identifier: BSD-3-Clause
"""Each safety rule broken on purpose in whole daemons, two farcached in front of nodes, under the load whose every answer
is checked: it must see a wrong answer, and none in the same circumstances where no rule is broken. broken_rules.py does
the same with the parts.

Circumstances: which faults befall connections and threads (t/faulty.cc), and what happens to nodes meanwhile, such that
what the rule is there for happens often. nodes_broken.py RULE... runs some of them.
"""
import contextlib
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import consistency_load as load  # noqa: E402
from cluster import Cluster, Faults  # noqa: E402
from farcached import deadline, tap, test_program  # noqa: E402
from trouble import Trouble  # noqa: E402

SECONDS = 240  # until it must have been seen, on a loaded machine; most are within one
LONG = bool(os.environ.get("FARCACHED_TEST_LONG"))
HOT = ["--keys", "64", "--value-bytes", "1000"]
LARGE = ["--keys", "2000", "--value-bytes", "200000"]
MANY = ["--threads", "64", "--keys", "256"]
TORN = "tear_read=0.9,delay_read=0.5,delay_ms=3"
PATIENT = "node_timeout_ms=30000"  # every node answers, however loaded the machine is

# rule: faults of all, or [of each proxy]; arguments of the load; options of Cluster; and what else happens: outages
# (clients are told that a node does not answer), nodes ("replace"), vandal (what he writes).
CIRCUMSTANCES = {
    "S1": ("", HOT, {}, {}),
    "S2": (TORN, HOT, {}, {}),
    # A reply so late that what it leases has expired; over one connection, so that nobody else asks for that meanwhile.
    "S3": ("delay_receive=0.001,delay_ms_min=5100,delay_ms=5500,sweeps=0", MANY + ["--value-bytes", "1000", "--ttl-keys", "16"],
           {"channels": "shm", "proxies": 1, "threads": 1, "lease_ms": 400}, {}),
    "S4": ("tag_mask=15", HOT, {"local_read": True}, {}),
    "S4_GUARD": ("", HOT, {}, {}),
    # A READ that takes longer than the lease and what the node adds.
    "S4_LEASE": ("tear_read=1,delay_read=0.004,delay_ms_min=3500,delay_ms=5000",
                 MANY + ["--value-bytes", "20", "--reads", "3", "--round", "10000"], {"channels": "shm", "lease_ms": 400}, {}),
    "S5": ("reading=0.001,hold_up_us=2000", HOT, {"local_read": True}, {}),
    "S5_INDEX": (TORN, HOT, {"options": [PATIENT, "cold_get=index"]}, {}),
    # Counted by RDMA (RDMA, below); the bytes between key and end of a value are what a client can see.
    "S6": ("", HOT, {"options": [PATIENT, "access_tracking=atomic"], "node_more": ["--access-tracking", "atomic"]}, {}),
    # One proxy finds the new item in the index while the other has a pointer to the old.
    "S7": ("replacing=0.5,hold_up_us=5000", HOT, {"local_read": [True, False]}, {}),
    "S8": ("", LARGE, {"lease_ms": 60000}, {}),
    "S9": ("", HOT, {}, {"vandal": "places"}),
    # One proxy has found the new node while the other was not told that the old one is dead.
    "S9_OWNER": (["delay_end=1,delay_ms_min=60000,delay_ms=60000", ""], MANY + ["--value-bytes", "1000"],
                 {"local_read": True, "threads": 1, "options": ["node_timeout_ms=1000"]}, {"outages": True, "nodes": "replace"}),
    "S10": ("lying=0.05,hold_up_us=1000", HOT, {"local_read": True}, {}),
    # With a longer lease, what has expired is seen, which nobody asks the node for.
    "S10_POINTER": ("sweeps=0", HOT + ["--reads", "100"], {}, {"vandal": "leases"}),
    "S11": ("", HOT, {"local_read": True}, {}),
    "S12": ("tear_read=0.9,delay_read=0.2,delay_ms=300", HOT, {"options": ["node_timeout_ms=50"]}, {"outages": True}),
    "S13": ("", HOT, {"local_read": True}, {}),
}
RDMA = ["S6"]  # only in a guest that has it (t/guest/run), with FARCACHED_OVER=shm=verbs
WAITING = (["S3", "S9_OWNER"], ["S4_LEASE"], ["S10_POINTER"])  # more than they compute: beside one another and the others


def cluster(faults, rule, channels="shm shm shm", local_read=False, options=(PATIENT,), lease_ms=1000, node_more=(), **more):
    plans = faults if isinstance(faults, list) else [faults]
    return Cluster(channels, local_read=local_read, options=options, faults=[Faults(plan, rule) for plan in plans],
                   node_args=["-m", "8", "-t", "2", "--lease-ms", lease_ms, *node_more], **more)


def vandal(table, what):
    """Somebody else who writes into the table of pointers, until the block is left."""
    return subprocess.Popen([test_program("pointer_vandal"), table, what], stdin=subprocess.PIPE)


def wrong_answers(rule, broken, seconds):
    """What the load saw, and which proxies did not live to its end: titles."""
    faults, of_load, of_cluster, other = CIRCUMSTANCES[rule]
    args = ["--seed", load.seed(), "--seconds", seconds, *of_load]
    args += ["--outages", "1"] if other.get("outages") else []
    with contextlib.ExitStack() as stack:
        c = stack.enter_context(cluster(faults, rule if broken else "", **of_cluster))
        if "vandal" in other:
            stack.enter_context(vandal(c.table.name, other["vandal"]))
        ports = ",".join(str(p.port) for p in c.proxies)
        running = load.Load(ports, *args, timeout=seconds * 10 + deadline() * 10)
        if "nodes" in other:
            Trouble(c, other["nodes"], 1).while_running(running.running)
        text, errors, _ = running.finish()
        wrong = [title for title in re.findall(r"^not ok \d+ - (.*)", text, re.M) if title in load.WRONG]
        for p in c.proxies:
            if not p.alive():
                p.expect_exit = p.wait()
                wrong.append("a farcached ended with %s" % p.expect_exit)
    counts = re.search(r"# (\d+ gets, \d+ hits, \d+ mutations)", text)
    if errors or not counts:
        tap.bail("the load did not run: " + errors)
    tap.diag("%s, %s: %s" % (rule, "broken" if broken else "kept", counts.group(1)))
    return wrong


def check(rule):
    wrong = wrong_answers(rule, True, SECONDS)
    tap.ok(wrong, "%s broken: the load sees it" % rule)
    for what in wrong:
        tap.diag("not so: " + what)
    wrong = wrong_answers(rule, False, SECONDS if LONG else 1)
    tap.ok(not wrong, "%s kept: the load sees nothing" % rule, *wrong)


def beside(rules):
    """These, in a process of their own."""
    return subprocess.Popen([sys.executable, os.path.abspath(__file__), *rules], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def relay(rules, process):
    """Its tests, made ours."""
    text = process.communicate(timeout=SECONDS * 10)[0].decode("utf-8", "replace")
    load.relay("beside", text)
    tap.is_(process.returncode, 0, "%s ran to their end" % " ".join(rules))


def main():
    if sys.argv[1:]:
        for rule in sys.argv[1:]:
            check(rule)
        return
    others = []
    try:
        for rules in WAITING:
            others.append((rules, beside(rules)))
        for rule in CIRCUMSTANCES:
            if not any(rule in rules for rules in (*WAITING, RDMA)):
                check(rule)
        for rules, process in others:
            relay(rules, process)
    finally:
        for _, process in others:
            if process.poll() is None:
                process.kill()  # its daemons end with it
                process.wait()


main()
tap.done()
