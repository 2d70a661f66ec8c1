# SPDX-License-Identifier: BSD-3-Clause
"""Two farcached in front of three nodes, short of memory, under the load that checks every reply. Channels are shm and tcp; reads
go to mapped memory, by pointers, or by request; the farcached are on one host or on two. Every mix runs. Then nodes are killed,
started again, stopped and drained during the load. Some nodes have a disk, to which values move, and back.

Guarantees without failover: all checks of the load (consistency_load.h, C1 to C6). No torn or foreign byte, no value older than
acknowledged, and linearizable histories. There a mutation answered as unavailable has an unknown outcome, and a miss may mean that
the node was not reached. With failover and one proxy the same holds (S19). With failover and several proxies: no torn or foreign
byte, and no value after its expiry. An old value may appear while their views of a node differ (C7); the run prints how often. In
every run, while its lease runs, a pointer leads to no other key, to no older item, and to no impossible length (S1, S2).

Arguments: titles of the runs to make; default: all. lib/consistency_load.py lists the environment variables. FARCACHED_TEST_LONG
runs every channel in every mode under every mix, with at least ten million operations together.
"""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import consistency_load as load  # noqa: E402
from cluster import AWRY, Cluster, Faults, nodes_shown, reads_over  # noqa: E402
from disk import BUSY  # noqa: E402
from farcached import deadline, has_tls, tap, until  # noqa: E402
from trouble import Trouble  # noqa: E402

LONG = bool(os.environ.get("FARCACHED_TEST_LONG"))
OPERATIONS_WANTED = 10_000_000 if LONG else 0
MIXES = ("everything", "95:5", "50:50", "refill", "joins", "sizes", "ttl", "flushes")  # consistency_mix.h


def large(mix):
    return ["--mix", mix, "--keys", "2000", "--value-bytes", "200000", "--mutations", "1000"]


def hot(mix):
    """Few keys; the mix "sizes" varies values from empty to several KiB."""
    return ["--mix", mix, "--keys", "64", "--value-bytes", "5000" if mix == "sizes" else "1000"]


def cold(mix):
    """More keys than the nodes' memory has room for."""
    return ["--mix", mix, "--keys", "6000", "--value-bytes", "6000", "--ttl-keys", "50"]


FAST = ["node_timeout_ms=300"]
# A little of every fault that t/faulty/faulty.cc can inject without breaking a rule.
FAULTY = ("tear_read=0.3,tear_words=0.4,delay_read=0.3,shuffle_read=0.3,fail_read=0.01,delay_send=0.05,delay_receive=0.05,"
          "split_receive=0.2,delay_end=0.5,delay_ms=3,tag_mask=255,probing=0.001,reading=0.0001,replacing=0.01,"
          "hold_up_us=300,fetch_always=1")
FAULTS = Faults(FAULTY)
SLOW_DISK = Faults(FAULTY + ",slow_disk=0.3")
SMALL_DISK = {**BUSY, "megabytes": 3}
PATIENT = ["node_timeout_ms=30000"]  # every node answers in time, also on a busy machine
INDEX = ["pointer_miss=index"]
SHARED = ["links_per_node=1"]
SPILL = {"spill": ["--ext_item_size", "0", "--ext_recache_rate", "50", "--no_ext_drop_unread"],
         "lender_args": ["-m", "64", "--spill-share", "90"]}
HOSTS = {"tables": 2}  # each farcached has a pointer table of its own


def cluster(local_read, options=PATIENT, **more):
    return {"local_read": local_read, "options": options, **more}


# title, channels, options of Cluster, arguments of the load, faults of nodes meanwhile
SHORT_RUNS = [
    ("shm", "shm shm shm", cluster(True), large("everything"), None),
    ("shm, ttl", "shm shm shm", cluster(True), hot("ttl"), None),
    ("shm by pointers, 95:5", "shm shm shm", cluster(False), hot("95:5"), None),
    ("shm by pointers, joins, nodes are drained", "shm shm shm", cluster(False, FAST), hot("joins"), "drain"),
    ("two hosts, 50:50", "shm shm shm", cluster(False, **HOSTS), hot("50:50"), None),
    ("two hosts, refill, late and torn", "shm shm shm", cluster(False, faults=FAULTS, **HOSTS), hot("refill"), None),
    ("two hosts, sizes, nodes end", "shm shm shm", cluster(False, FAST, **HOSTS), hot("sizes"), "end"),
    ("shm by index", "shm shm shm", cluster(False, PATIENT + INDEX), large("everything"), None),
    ("tcp and shm by pointers", "tcp shm tcp", cluster(False), large("sizes"), None),
    ("shm, late and torn", "shm shm shm", cluster([True, False], faults=FAULTS), hot("flushes"), None),
    ("shm by index, late and torn", "shm shm shm", cluster(False, PATIENT + INDEX, faults=FAULTS), large("everything"), None),
    ("nodes end, mixed, late and torn", "shm tcp shm", cluster([True, False], FAST, faults=FAULTS), hot("ttl"), "end"),
    ("nodes end, mixed", "shm tcp shm", cluster(True, FAST), hot("everything"), "end drain"),
    ("nodes end and keep their items", "shm tcp shm", cluster([True, False], FAST, kept=True), hot("everything"), "end"),
    ("nodes end and keep their items, by pointers", "shm shm shm", cluster(False, FAST, kept=True), hot("refill"), "end"),
    ("shm, sizes, values on disks", "shm shm shm", cluster(True, disk=BUSY), cold("sizes"), None),
    ("shm by pointers, values on disks", "shm shm shm", cluster(False, disk=BUSY), cold("everything"), None),
    ("shm by index, values on disks, late and torn", "shm shm shm",
     cluster(False, PATIENT + INDEX, disk=SMALL_DISK, faults=SLOW_DISK), cold("everything"), None),
    ("tcp, values on disks", "tcp tcp tcp", cluster(True, PATIENT + SHARED, disk=BUSY), large("everything"), None),
    ("nodes end and keep their items, on disks", "shm tcp shm", cluster([True, False], FAST, kept=True, disk=BUSY),
     cold("ttl"), "end"),
    ("shm by pointers, values on another node", "shm shm shm", cluster(False, **SPILL), cold("everything"), None),
    ("shm, values on another node", "shm shm shm", cluster(True, **SPILL), cold("ttl"), None),
    ("nodes end and stop, values on another node", "shm tcp shm", cluster(False, FAST, **SPILL), cold("refill"), "end stop"),
    ("two hosts, values on another node, late and torn", "shm shm shm", cluster(False, **HOSTS, **SPILL, faults=FAULTS),
     cold("flushes"), None),
    ("nodes end and stop, shm by pointers", "shm shm shm", cluster(False, FAST), large("refill"), "end stop"),
    ("tls, nodes end", "tls shm tls", cluster(False, FAST), large("everything"), "end"),
    ("tls, shared links, late and torn", "tls tls tls", cluster(True, PATIENT + SHARED, faults=FAULTS), hot("sizes"), None),
    ("tcp, shared links, late and torn", "tcp tcp tcp", cluster(True, PATIENT + SHARED, faults=FAULTS), hot("sizes"), None),
    ("nodes end and stop, tcp, shared links", "tcp tcp tcp", cluster(True, FAST + SHARED), large("refill"), "end stop"),
    ("nodes end, failover", "shm shm tcp", cluster(True, FAST + ["failover"]), hot("everything"), "end"),
    ("nodes end, stop and are drained, failover, one proxy", "shm shm tcp",
     cluster(True, FAST + ["failover"], proxies=1, kept=True), hot("everything") + ["--threads", "8"], "end stop drain"),
]


def long_runs():
    modes = [("in memory", True, [], {}), ("by pointers", False, [], {}), ("by pointers of two hosts", False, [], HOSTS),
             ("by index", False, INDEX, {})]
    for channels in ("shm shm shm", "tcp tcp tcp", "shm tcp shm"):
        for mode, local_read, options, more in modes:
            if channels == "tcp tcp tcp" and mode != "in memory":
                continue  # every read is two-sided there
            for mix in MIXES:
                for faults in ({}, {"faults": FAULTS}):
                    for meanwhile in (None, "end stop drain"):
                        yield ("%s, %s, %s%s%s" % (channels, mode, mix, ", late and torn" if faults else "",
                                                   ", nodes end, stop and are drained" if meanwhile else ""), channels,
                               cluster(local_read, options + (FAST if meanwhile else PATIENT), **faults, **more), hot(mix),
                               meanwhile)
            for meanwhile in (None, "end stop"):
                yield ("%s, %s, large%s" % (channels, mode, ", nodes end and stop" if meanwhile else ""), channels,
                       cluster(local_read, options + (FAST if meanwhile else PATIENT), **more), large("everything"), meanwhile)
    for channels in ("shm shm shm", "shm tcp shm"):
        for mode, local_read, options, more in modes:
            yield ("%s, %s, failover" % (channels, mode), channels,
                   cluster(local_read, options + FAST + ["failover"], **more), hot("everything"), "end stop")


def summed(c, names):
    shown = [nodes_shown(p)[n.name] for p in c.proxies for n in c.nodes]
    return {name: sum(int(s[name]) for s in shown) for name in names}


def fill(c):
    """On a slow machine the load may not fill the nodes' memory."""
    with c.proxies[0].client() as client:
        for n in range(20_000):
            if n % 200 == 0 and any(int(c.proxies[0].stats("node " + node.name)["spill_records_stored"]) for node in c.nodes[:-1]):
                return
            client.set("filler-%d" % n, "x" * 3000)


def check_spills(title, c):
    """Checks that values moved to another node, and were read there, by the nodes and by the farcached."""
    fill(c)
    shown = [c.proxies[0].stats("node " + node.name) for node in c.nodes[:-1]]
    moved = {name: sum(int(of_node[name]) for of_node in shown) for name in ("spill_records_stored", "spill_reads", "recached",
                                                                             "subleases", "waits_for_sublease")}
    read = summed(c, ("get_onesided_spilled",))
    tap.diag(", ".join("%s %d" % one for one in [*moved.items(), *read.items()]))
    tap.ok(moved["spill_records_stored"] > 0, "%s: values moved to another node" % title)


MOVED = ("extstore_objects_written", "extstore_page_allocs", "extstore_objects_read", "recached", "get_value_lost")


def check_reads(title, c):
    """Checks the farcached's counters of reads."""
    tap.ok(all(reads_over(until(lambda p=p: nodes_shown(p), reads_over)) for p in c.proxies),
           "%s: each READ that was posted has completed or failed" % title)
    gets = summed(c, ("get_local", "get_onesided", "get_index", "get_twosided"))
    tap.diag("%s; %.2f one-sided" % (", ".join("%s %d" % one for one in gets.items()),
                                     1 - gets["get_twosided"] / max(1, sum(gets.values()))))
    if not all(c.local_read) and any(n.transport() != "tcp" for n in c.nodes):
        tap.ok(gets["get_onesided"] > 0, "%s: some gets were by pointers" % title)
    if not any("pointer_miss=index" in str(arg) for arg in c.proxy_args):
        tap.is_(summed(c, AWRY), dict.fromkeys(AWRY, 0), "%s: no pointer led elsewhere while its lease ran" % title)


def check_disks(title, c):
    """Checks that values moved to the disks and back."""
    shown = [c.proxies[0].stats("node " + node.name) for node in c.nodes]
    moved = {name: sum(int(of_node[name]) for of_node in shown) for name in MOVED}
    tap.diag(", ".join("%s %d" % one for one in moved.items()))
    tap.ok(moved["recached"] > 0 and moved["extstore_objects_read"] > 0, "%s: values moved to the disks and back" % title)


def run(title, channels, of_cluster, of_load, meanwhile, seed, seconds):
    """Returns the number of operations."""
    args = ["--seed", seed, "--seconds", seconds, *of_load]
    args += ["--outages", "1"] if meanwhile else []
    args += ["--disk", "1"] if {"disk", "spill"} & set(of_cluster) or os.environ.get("FARCACHED_DISK") else []
    args += ["--failover", "1"] if "failover" in of_cluster["options"] and of_cluster.get("proxies", 2) > 1 else []
    memory = 4 if {"disk", "spill"} & set(of_cluster) else 8
    with Cluster(channels, node_args=["-m", memory, "-t", "2", "--lease-ms", "1000"], **of_cluster) as c:
        ports = ",".join(str(p.port) for p in c.proxies)
        args += ["--admin", ",".join(c.admin(i) for i in range(len(c.proxies)))]
        started = load.Load(ports, *args, timeout=seconds * 10 + deadline() * 3)
        if meanwhile:
            trouble = Trouble(c, meanwhile, int(seed))
            trouble.while_running(started.running)
        text = started.end(title)
        if meanwhile:
            tap.ok(trouble.ended + trouble.stopped + trouble.drained > 0, "%s: nodes were ended %d times, stopped %d times, "
                   "drained %d times" % (title, trouble.ended, trouble.stopped, trouble.drained))
        tap.ok(all(p.alive() for p in c.proxies) and all(n.process.alive() for n in c.nodes), "%s: all live" % title)
        check_reads(title, c)
        if "disk" in of_cluster:
            check_disks(title, c)
        if "spill" in of_cluster and not meanwhile:
            check_spills(title, c)
    found = re.search(r"# (\d+) gets, \d+ hits, (\d+) mutations", text)
    return int(found.group(1)) + int(found.group(2)) if found else 0


def main():
    seconds, seed = load.seconds(3, long=15), load.seed()
    load.check_itself()
    total = 0
    for title, *how in long_runs() if LONG else SHORT_RUNS:
        if sys.argv[1:] and title not in sys.argv[1:]:
            continue
        if "tls" in how[0] and not has_tls():
            tap.skip(title, "no OpenSSL in this program, or no openssl command")
            continue
        total += run(title, *how, seed, seconds)
    tap.diag("%d operations" % total)
    tap.ok(total >= OPERATIONS_WANTED, "as many operations as there should be")
    tap.done()


main()
