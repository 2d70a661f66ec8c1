# SPDX-License-Identifier: BSD-3-Clause
"""Each safety rule broken on purpose in whole daemons: two farcached in front of nodes, under the load that checks every reply. The
load must see a wrong reply, and none in the same circumstances while all rules hold. t/faulty/broken_rules.py does the same with
the parts.

Guard, key and check validate every copy that was read by a pointer (S4). So if a broken rule lets a slot change its key, the copy
is rejected and the client gets the right reply from the node. For such rules the test looks for a *sign*:
  awry   a farcached counts reads by pointer that found another item while their lease ran;
  share  few gets are one-sided.

A rule's circumstances make its case frequent: faults of connections and threads (t/faulty/faulty.cc), and events of nodes.
t/nodes/broken.py RULE... runs some of them.
"""
import contextlib
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import consistency_load as load  # noqa: E402
from cluster import AWRY, Cluster, Faults, nodes_shown  # noqa: E402
from farcached import deadline, tap, test_program, until  # noqa: E402
from trouble import Trouble  # noqa: E402

SECONDS = 240  # limit for the detection on a loaded machine; most take less than one
SHARE_SECONDS = 4  # length of the load that measures the share
SHARE_FROM = 4000  # the measurement begins after this number of gets
LONG = bool(os.environ.get("FARCACHED_TEST_LONG"))
HOT = ["--keys", "64", "--value-bytes", "1000"]
LARGE = ["--keys", "2000", "--value-bytes", "200000"]
CLASSES = ["--keys", "64", "--value-bytes", "5000"]  # items that outgrow their slots
MANY = ["--threads", "64", "--keys", "256"]
TORN = "tear_read=0.9,delay_read=0.5,delay_ms=3"
TORN_WORDS = "tear_words=0.9,delay_read=0.5,delay_ms=3"
PATIENT = "node_timeout_ms=30000"  # every node answers in time, also on a busy machine
SPILL = {"spill": ["--ext_item_size", "0", "--ext_recache_rate", "50", "--no_ext_drop_unread"],
         "lender_args": ["-m", "64", "--spill-share", "90"]}
HOSTS = {"tables": 2}  # each farcached has a pointer table of its own


SHARED = ("get_onesided", "get_twosided")


def mixed(mix, of_load=HOT):
    return ["--mix", mix, *of_load]


# t/nodes/auth.py breaks S16, t/fleet/serving_right.py S17, t/fleet/replicas.py S20.
# S1_REVIVE is only in t/faulty/broken_rules.py. A client would have to read both live slots, the revived one first, while the node
# is delayed. One host must have kept its pointer since the slot died, and another one must hold a lease on the other slot. Minutes
# of load with thousands of such delays did not produce this case.
#
# Columns: rule; faults of all, or [of each proxy]; arguments of the load; options of Cluster; other events; sign.
# Events are outages (clients get errors for a node that does not answer), nodes ("replace"), vandal (kind of writes) and orders
# (operators delete by prefix). The sign is given for rules without wrong replies.
CIRCUMSTANCES = {
    "S1": ("", HOT, {}, {}),
    "S1_COMPOSE": ("", mixed("joins"), {}, {}),
    "S1_RECEIVE": ("replacing=0.2,hold_up_us=2000", HOT, {"local_read": True}, {}),
    "S1_NO_DEAD": ("reading=0.01,replacing=0.2,hold_up_us=2000", HOT, {"local_read": True}, {}),
    "S1_HASH": ("", mixed("refill", ["--keys", "4000", "--value-bytes", "100"]), {}, {"sign": "awry"}),
    "S2": ("", mixed("refill"), {}, {"sign": "awry"}),
    "S2_STALE": ("", mixed("refill"), {}, {"sign": "awry"}),
    # A reply so late that its lease has expired and its slot has another key; other hosts go on meanwhile.
    "S3": ("delay_receive=0.0005,delay_ms_min=5100,delay_ms=5500", mixed("refill", MANY + ["--value-bytes", "100"]),
           {"channels": "shm", "lease_ms": 400, **HOSTS}, {"sign": "awry"}),
    # Items overwritten in place and then outgrown, without a message to the other host.
    "S3_CLEAR": ("", mixed("sizes"), HOSTS, {"sign": "awry"}),
    "S4": ("tag_mask=15", HOT, {"local_read": True}, {}),
    # The guard of an item stored around the bytes of one that was deleted before the read began.
    "S4_CHECK": (TORN_WORDS, mixed("refill"), {}, {}),
    # Sets through another host.
    "S4_GENERATION": ("", mixed("50:50", HOT + ["--round", "100000"]), {"proxies": 5, "threads": 1, "tables": 5},
                      {"sign": "share"}),
    "S4_GUARD": ("", HOT, {}, {}),
    # A READ that takes longer than the lease and the node's grace.
    "S4_LEASE": ("tear_read=1,delay_read=0.004,delay_ms_min=3500,delay_ms=5000",
                 mixed("refill", MANY + ["--value-bytes", "20"]), {"channels": "shm", "lease_ms": 400}, {"sign": "awry"}),
    "S5": ("reading=0.001,hold_up_us=2000", HOT, {"local_read": True}, {}),
    "S5_INDEX": (TORN, HOT, {"options": [PATIENT, "pointer_miss=index"]}, {}),
    "S5_POINTER": (TORN, mixed("50:50"), {}, {}),
    # Counted by RDMA (RDMA, below); a client can only see the bytes between key and end of a value.
    "S6": ("", HOT, {"options": [PATIENT, "access_tracking=atomic"], "node_more": ["--access_tracking", "atomic"]}, {}),
    # One proxy finds the new item, in another slot, in the index while the other proxy has a pointer to the old one.
    "S7": ("replacing=0.5,hold_up_us=5000", mixed("sizes", CLASSES), {"local_read": [True, False]}, {}),
    "S7_RESTART": ("", HOT, {"kept": True}, {"outages": True, "nodes": "replace"}),
    "S8": ("", LARGE, {"lease_ms": 60000}, {}),
    "S9": ("", HOT, {}, {"vandal": "places"}),
    # One proxy has connected to the new node while the other has not noticed the old one's death.
    "S9_OWNER": (["delay_end=1,delay_ms_min=60000,delay_ms=60000", ""], MANY + ["--value-bytes", "1000"],
                 {"local_read": True, "threads": 1, "options": ["node_timeout_ms=1000"]}, {"outages": True, "nodes": "replace"}),
    "S10": ("lying=0.05,hold_up_us=1000", HOT, {"local_read": True}, {}),
    # With a longer lease, a pointer leads to a slot that has got other keys since.
    "S10_POINTER": ("", mixed("refill", ["--keys", "10000", "--value-bytes", "100"]), {"lease_ms": 400},
                    {"vandal": "leases", "sign": "awry"}),
    "S11": ("", mixed("flushes"), {"local_read": True}, {}),
    "S11_LEASED": ("", mixed("flushes"), {}, {"orders": True}),
    # Flushed, stored again, flushed.
    "S11_LIST": ("", mixed("flushes"), {}, {}),
    "S12": ("tear_read=0.9,delay_read=0.2,delay_ms=300", HOT, {"options": ["node_timeout_ms=50"]},
            {"outages": True, "sign": "awry"}),
    # A request in the only slot is overwritten by the next one, and its number never arrives.
    "S12_SLOTS": ("", MANY + ["--value-bytes", "1000"],
                  {"options": ["rpc=write", "node_timeout_ms=2000"], "node_more": ["--rfp-slots", "1"]}, {}),
    "S13": ("", HOT, {"local_read": True}, {}),
    # A set of a key whose old value is READ on another node.
    "S15": ("", mixed("50:50", ["--keys", "1800", "--value-bytes", "20000"]), {"node_more": ["-m", "4"], **SPILL}, {}),
    # Keys that changed while their node was drained.
    "S19": ("", HOT, {"proxies": 1, "options": ["failover", "node_timeout_ms=1000"]}, {"outages": True, "nodes": "drain"}),
    # A touch moves the expiry before the end of the lease, and no get goes to the node.
    "S13_POINTER": ("sweeps=0", mixed("ttl", HOT + ["--ttl-keys", "32", "--reads", "20"]), {"lease_ms": 20000}, {}),
}
RDMA = ["S6", "S12_SLOTS"]  # only in a guest that has it (t/guest/run), with FARCACHED_OVER=shm=verbs
# These wait more than they compute, so each list runs in a process beside the others.
WAITING = (["S3", "S9_OWNER"], ["S4_LEASE", "S2_STALE"], ["S10_POINTER", "S13_POINTER"])


def cluster(faults, rule, channels="shm shm shm", local_read=False, options=(PATIENT,), lease_ms=1000, node_more=(), **more):
    plans = faults if isinstance(faults, list) else [faults]
    return Cluster(channels, local_read=local_read, options=options, faults=[Faults(plan, rule) for plan in plans],
                   node_args=["-m", "8", "-t", "2", "--lease-ms", lease_ms, *node_more], **more)


def vandal(table, what):
    """Another process that writes into the pointer table, until the end of the block."""
    return subprocess.Popen([test_program("faulty/pointer_vandal"), table, what], stdin=subprocess.PIPE)


def counted(c, names):
    """Sums over the live farcached."""
    shown = [nodes_shown(p)[n.name] for p in c.proxies if p.alive() for n in c.nodes]
    return {name: sum(int(s[name]) for s in shown) for name in names}


def awry(c):
    return ["%s %d" % found for found in counted(c, AWRY).items() if found[1] > 0]


def share(before, after):
    """The share of one-sided gets between the two counts. The broken rule halves it."""
    gets = {name: after[name] - before[name] for name in SHARED}
    found = gets["get_onesided"] / max(1, sum(gets.values()))
    tap.diag("%.2f of gets are one-sided" % found)
    return found


def signs(c, sign, broken, running):
    """The signs in the counters, polled until there is one, or until the load has ended."""
    if sign == "awry":
        return until(lambda: awry(c) or (None if running.running() else []), lambda found: found is not None,
                     running.timeout) or []
    before = until(lambda: counted(c, SHARED), lambda gets: sum(gets.values()) > SHARE_FROM)
    until(running.running, lambda still: not still, running.timeout)
    found = share(before, counted(c, SHARED))
    return ["%.2f of gets are one-sided" % found] if found < (0.5 if broken else 0.8) else []


def seen(rule, broken, seconds):
    """The errors that the load saw, or the sign, and the proxies that ended before it."""
    faults, of_load, of_cluster, other = CIRCUMSTANCES[rule]
    sign = other.get("sign")
    seconds = SHARE_SECONDS if sign == "share" else seconds
    args = ["--seed", load.seed(), "--seconds", seconds, *of_load]
    args += ["--outages", "1"] if other.get("outages") else []
    wrong = []
    with contextlib.ExitStack() as stack:
        c = stack.enter_context(cluster(faults, rule if broken else "", **of_cluster))
        if "vandal" in other:
            stack.enter_context(vandal(c.table.name, other["vandal"]))
        if other.get("orders"):
            args += ["--admin", ",".join(c.admin(i) for i in range(len(c.proxies)))]
        ports = ",".join(str(p.port) for p in c.proxies)
        running = load.Load(ports, *args, timeout=seconds * 10 + deadline() * 10)
        if "nodes" in other:
            Trouble(c, other["nodes"], 1).while_running(running.running)
        if sign:
            wrong = signs(c, sign, broken, running)
            if wrong:
                running.stop()
        text, errors, _ = running.finish()
        wrong += [title for title in re.findall(r"^not ok \d+ - (.*)", text, re.M) if title in load.WRONG]
        for p in c.proxies:
            if not p.alive():
                p.expect_exit = p.wait()
                wrong.append("a farcached ended with %s" % p.expect_exit)
    counts = re.search(r"# (\d+ gets, \d+ hits, \d+ mutations)", text)
    if errors or not (counts or wrong):
        tap.bail("the load did not run: " + errors)
    tap.diag("%s, %s: %s" % (rule, "broken" if broken else "kept", counts.group(1) if counts else "stopped"))
    return wrong


def check(rule):
    who = "the sign is there" if "sign" in CIRCUMSTANCES[rule][3] else "the load sees it"
    wrong = seen(rule, True, SECONDS)
    tap.ok(wrong, "%s broken: %s" % (rule, who))
    for what in wrong:
        tap.diag("not so: " + what)
    wrong = seen(rule, False, SECONDS if LONG else 1)
    tap.ok(not wrong, "%s kept: there is nothing to be seen" % rule, *wrong)


def beside(rules):
    """Runs these rules in a process of their own."""
    return subprocess.Popen([sys.executable, os.path.abspath(__file__), *rules], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def relay(rules, process):
    """Reports the process's tests as ours."""
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
