# SPDX-License-Identifier: BSD-3-Clause
"""Two workers with one link to a node over RDMA (links_per_node): its queue pairs are counted, and GETs of the worker that borrows
the link are one-sided READs, too. Runs in a guest."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from cluster import AWRY, Cluster, nodes_shown, reads_over  # noqa: E402
from device_tools import resources  # noqa: E402
from farcached import tap, until  # noqa: E402

CLIENTS = 4  # two at each worker
SIZES = (0, 100, 3000, 50_000)
ROUNDS = 5


def queue_pairs():
    return int(re.search(r"qp (\d+)", resources()).group(1))


def shared(links, want):
    title = "links_per_node=%d: " % links
    before = queue_pairs()
    with Cluster("verbs", proxies=1, threads=2, options=["links_per_node=%d" % links, "node_timeout_ms=30000"],
                 node_args=["-t", "1", "--lease-ms", "200000"]) as c:
        proxy = c.proxies[0]
        tap.is_((nodes_shown(proxy)["n0"]["links"], proxy.stats("node n0")["connections_welcomed"]), (str(want),) * 2,
                title + "so many connections")
        tap.is_(queue_pairs() - before, 2 * want, title + "a queue pair at each end of each")
        clients, wrong = [proxy.client() for _ in range(CLIENTS)], []
        for n in range(ROUNDS):
            for i, client in enumerate(clients):
                for size in SIZES:
                    key = "k%d-%d" % (i, size)
                    value = (b"%d %d." % (i, n) * (size // 4 + 1))[:size]
                    if n % 4 == 0 and client.set(key, value) != "STORED":
                        wrong.append("set " + key)
                    value = (b"%d %d." % (i, n - n % 4) * (size // 4 + 1))[:size]
                    if any(reader.get(key) != value for reader in (client, clients[i - 1])):
                        wrong.append("%s in round %d" % (key, n))
        tap.is_(wrong, [], title + "every value is right")
        shown = until(lambda: nodes_shown(proxy), reads_over)
        counts = {name: int(shown["n0"][name]) for name in ("get_onesided", "get_twosided", "pointer_hits", "requests_borrowed")}
        tap.ok(reads_over(shown), title + "each READ that was posted has completed or failed")
        tap.is_([int(shown["n0"][name]) for name in AWRY], [0] * len(AWRY), title + "no pointer led elsewhere")
        borrowed = counts["requests_borrowed"]
        tap.ok((borrowed > 0) == (want == 1), title + "requests are counted as borrowed", counts)
        # More GETs are one-sided than those of the worker with the link.
        tap.ok(counts["pointer_hits"] >= counts["get_onesided"] > counts["get_twosided"] + counts["requests_borrowed"] // 2,
               title + "GETs of both workers are one-sided", counts)
        tap.diag("%s%s" % (title, counts))


def main():
    shared(1, 1)
    shared(0, 2)
    tap.done()


main()
