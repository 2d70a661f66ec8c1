# SPDX-License-Identifier: BSD-3-Clause
"""Large values over RDMA: a node READs values of sets from the proxy's memory, and the proxy READs values of leased items. Runs in
a guest."""
import os
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from cluster import Cluster, nodes_shown  # noqa: E402
from farcached import deadline  # noqa: E402
from tap_output import tap  # noqa: E402

SIZES = (60_000, 65_536, 70_000, 300_001, 1_000_000)


def value(size, seed):
    piece = b"%d of %d " % (seed, size)
    return (piece * (size // len(piece) + 1))[:size]


def counted(cluster, what):
    return sum(int(n[what]) for p in cluster.proxies for n in nodes_shown(p).values())


def one_by_one(cluster, client):
    wrong = []
    for size in SIZES:
        for seed in range(3):
            wanted = value(size, seed)
            if client.set("k%d" % size, wanted) != "STORED" or client.get("k%d" % size) != wanted:
                wrong.append(size)
    tap.is_(wrong, [], "large values are read as they were stored")
    lent, sent = counted(cluster, "values_lent"), counted(cluster, "values_sent")
    tap.ok(lent == sent and lent >= 9, "all values of sets were lent", (lent, sent))
    tap.is_(counted(cluster, "values_unlent"), 0, "and READ")
    wrong, onesided = [], counted(cluster, "get_onesided")
    for size in SIZES:
        client.set("r%d" % size, value(size, 7))
        wrong += [size for _ in range(4) if client.get("r%d" % size) != value(size, 7)]
    tap.is_(wrong, [], "those of gets, too")
    read = counted(cluster, "get_onesided") - onesided
    tap.ok(read >= 2 * len(SIZES), "leased items of any size are READ", read)


def at_once(cluster):
    """More values at once than there are buffers; each thread has keys of its own."""
    wrong = []

    def work(number):
        with cluster.proxies[0].client(timeout=deadline()) as client:
            for seed in range(4):
                wanted = value(900_000 + number, seed)
                if client.set("t%d" % number, wanted) != "STORED":
                    wrong.append("%d: not stored" % number)
                elif client.get("t%d" % number) not in (wanted, None):
                    wrong.append("%d: another value" % number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tap.is_(wrong, [], "twelve at once are stored, lent or in pieces")
    lent, sent = counted(cluster, "values_lent"), counted(cluster, "values_sent")
    tap.diag("%d values sent, %d of them lent, %d of these in pieces all the same" % (
        sent, lent, counted(cluster, "values_unlent")))


def main():
    with Cluster("verbs", proxies=1, local_read=False, options=["node_timeout_ms=30000"],
                 node_args=["-m", "64", "-t", "2", "--lease-ms", "60000"]) as cluster:
        with cluster.proxies[0].client() as client:
            one_by_one(cluster, client)
        at_once(cluster)
        with cluster.proxies[0].client() as client:
            tap.is_(client.set("big", value(1_048_577, 1)), "SERVER_ERROR object too large for cache",
                    "too large a value is refused")
    tap.done()


main()
