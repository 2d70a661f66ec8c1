# SPDX-License-Identifier: BSD-3-Clause
"""Nodes that move values to another node's memory (farnode --spill-to): the right bytes through every channel, and what becomes of
them when that node is full, lost, or has a disk of its own.
"""
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from cluster import Cluster  # noqa: E402
from disk import Disk, get_all_at_once, store_and_read, value  # noqa: E402
from farcached import Daemon, tap, until  # noqa: E402
from farnode import Farnode  # noqa: E402

PATIENT = "node_timeout_ms=30000"
LENDS = ["-m", "64", "--spill-share", "90"]
MOVES = ["--ext_recache_rate", "0"]
COUNT, SIZE = 7000, 2000  # 14 MB of values, for 4 MB of memory


def cluster(channels, local_read=True, spill=MOVES, lender=LENDS, **more):
    """n0 is home, n1 its peer. All keys are n0's: hash tags of one value."""
    return Cluster(channels, local_read=local_read, options=[PATIENT], node_args=["-m", "4", "-t", "2", "--lease-ms", "400"],
                   spill=spill, lender_args=lender, proxies=1, **more)


def of(c, number, name):
    return int(c.proxies[0].stats("node n%d" % number)[name])


def keys_of(c, node, count, start=0):
    """Keys of that node."""
    tag = next(t for t in ("t%d" % i for i in range(1000)) if c.node_of("{%s}" % t) is node)
    return ["{%s}%d" % (tag, i) for i in range(start, start + count)]


def counted(c):
    """The home's counters, for a failed check."""
    return {name: n for name, n in c.proxies[0].stats("node n0").items() if name.startswith("spill_") and n != "0"}


def settled(c):
    """Waits until no value is on its way."""
    until(lambda: of(c, 0, "spill_queue_bytes"), lambda n: n == 0)


def stored(c, client, keys, version=1):
    values = {key: value(key, SIZE, version) for key in keys}
    store_and_read(client, values)
    settled(c)
    return values


def by_channel(title, channels, local_read):
    with cluster(channels, local_read) as c, c.proxies[0].client() as client:
        keys = keys_of(c, c.nodes[0], COUNT)
        values = stored(c, client, keys)
        wrong, hits = get_all_at_once(client, keys, values)
        tap.ok(not wrong and hits > COUNT * 0.95, "%s: values are right, and nearly all there" % title,
               "%s %d %s" % (wrong[:3], hits, counted(c)))
        tap.ok(of(c, 0, "spill_records_stored") > COUNT / 3, "%s: many moved" % title)
        wrong, hits_again = [], 0
        for _ in range(3):
            more_wrong, hits_again = get_all_at_once(client, keys, values)
            wrong += more_wrong
        tap.ok(not wrong and hits_again > COUNT * 0.9, "%s: again, some of them READ there" % title, "%d" % hits_again)
        fresh = stored(c, client, keys[:1500], version=2)
        values.update(fresh)
        wrong, _ = get_all_at_once(client, keys, values)
        tap.is_(wrong, [], "%s: after sets of a third of them" % title)
        gone = [k for k in keys[1500:2000] if client.ask("delete " + k) in ("DELETED", "NOT_FOUND")]
        wrong, hits = get_all_at_once(client, gone, values)
        tap.is_((wrong, hits, len(gone)), ([], 0, 500), "%s: deleted ones are gone" % title)
        told = client.ask("flush_all")
        wrong, hits = get_all_at_once(client, keys, values)
        tap.is_((told, wrong, hits), ("OK", [], 0), "%s: flush_all" % title)
        tap.is_(until(lambda: of(c, 1, "foreign_bytes") >= 0, bool), True, "%s: the peer counts them" % title)


def without_peer():
    with cluster("shm shm") as c, c.proxies[0].client() as client:
        keys = keys_of(c, c.nodes[0], COUNT)
        values = stored(c, client, keys)
        c.kill(c.nodes[1])
        until(lambda: of(c, 0, "spill_up"), lambda up: up == 0)
        wrong, hits = get_all_at_once(client, keys, values)
        tap.ok(not wrong and 0 < hits < COUNT, "the peer is killed: its values are misses, the others right", str(wrong[:3]))
        tap.ok(b"is down" in c.nodes[0].process.stderr(), "and the home says so")
        values.update(stored(c, client, keys[:2000], version=2))
        wrong, _ = get_all_at_once(client, keys, values)
        tap.is_(wrong, [], "sets go on")
        c.restart(c.nodes[1])
        until(lambda: of(c, 0, "spill_up"), lambda up: up == 1)
        moved = of(c, 0, "spill_records_stored")
        values.update(stored(c, client, keys, version=3))
        wrong, hits = get_all_at_once(client, keys, values)
        tap.ok(not wrong and hits > COUNT * 0.9, "it is back, and gets values again", "%s %d %s" % (wrong[:3], hits, counted(c)))
        tap.ok(of(c, 0, "spill_records_stored") > moved, "which the home counts")


def share():
    with cluster("shm shm", lender=["-m", "16", "--spill-share", "10"]) as c, c.proxies[0].client() as client:
        keys = keys_of(c, c.nodes[0], COUNT)
        values = stored(c, client, keys)
        wrong, hits = get_all_at_once(client, keys, values)
        tap.is_(wrong, [], "a small share of the peer: values are right")
        most = 16 * 1024 * 1024 // 10
        tap.ok(most / 4 < of(c, 1, "foreign_bytes") <= most, "it is used, and kept", str(of(c, 1, "foreign_bytes")))
    with cluster("shm shm", lender=["--spill-share", "0"]) as c, c.proxies[0].client() as client:
        values = stored(c, client, keys_of(c, c.nodes[0], 3000))
        wrong, _ = get_all_at_once(client, list(values), values)
        tap.is_((wrong, of(c, 1, "foreign_bytes")), ([], 0), "no share: no value moves")
        tap.ok(of(c, 0, "spill_refused") > 0, "which is counted")


def with_disks():
    """Memory, the peer's memory, the peer's disk; then the home's own disk."""
    with Disk(recache_rate=0, drop_unread=False) as disk:
        with cluster("shm shm", lender=["-m", "4", "--spill-share", "60", *disk.long_options()]) as c, \
                c.proxies[0].client() as client:
            keys = keys_of(c, c.nodes[0], COUNT)
            values = stored(c, client, keys)
            for _ in range(2):
                wrong, hits = get_all_at_once(client, keys, values)
                tap.ok(not wrong, "the peer has a disk: values are right", str(wrong[:3]))
            tap.ok(of(c, 1, "extstore_objects_written") > 0, "some moved on to it", str(counted(c)))
    with Disk(recache_rate=0) as disk:
        with cluster("shm shm", spill=[*MOVES, *disk.long_options()], lender=["--spill-share", "0"]) as c, \
                c.proxies[0].client() as client:
            keys = keys_of(c, c.nodes[0], COUNT)
            values = stored(c, client, keys)
            wrong, hits = get_all_at_once(client, keys, values)
            tap.is_(wrong, [], "a peer without a share, and a disk: values are right")
            tap.ok(of(c, 0, "extstore_objects_written") > COUNT / 4, "they move to the disk")


def to_each_other():
    with tempfile.TemporaryDirectory(prefix="farcached-spill-") as folder:
        a, b = ["shm:%s/%s.sock" % (folder, name) for name in "ab"]
        rules = ["-m", "4", "-t", "2", *MOVES]
        with Farnode("--name", "a", "--shm", a[4:], "--spill-to", "b=" + b, *rules) as first, \
                Farnode("--name", "b", "--shm", b[4:], "--spill-to", "a=" + a, *rules) as second, \
                Daemon("--node", "a=" + a, "--node", "b=" + b, "-o", PATIENT) as d, d.client() as client:
            until(lambda: [d.stats("node " + n)["spill_up"] for n in "ab"], lambda up: up == ["1", "1"])
            values = {"k%d" % i: value("k%d" % i, SIZE) for i in range(COUNT)}
            store_and_read(client, values)
            wrong, _ = get_all_at_once(client, list(values), values)
            moved = [int(d.stats("node " + n)["spill_records_stored"]) for n in "ab"]
            tap.ok(not wrong and min(moved) > 0, "two nodes spill to each other: values are right", "%s %s" % (wrong[:3], moved))
            tap.ok(first.alive() and second.alive(), "and both live")
        with Farnode("--name", "a", "--shm", a[4:], "--spill-to", "a=" + a, *rules) as node:
            said = until(node.stderr, lambda text: b"is this node itself" in text)
            tap.ok(b"no value moves" in said, "a node that names itself says so")
        with Farnode("--name", "a", "--shm", a[4:], "--spill-to", "b=" + b, "-M", *rules) as node:
            tap.like(node.stderr(), "-M: nothing is evicted, so no value moves to --spill-to", "-M: the log says so")


def main():
    by_channel("shm", "shm shm", True)
    by_channel("shm by pointers", "shm shm", False)
    by_channel("tcp", "tcp tcp", True)
    by_channel("tcp home, shm peer", "tcp shm", False)
    without_peer()
    share()
    with_disks()
    to_each_other()
    tap.done()


main()
