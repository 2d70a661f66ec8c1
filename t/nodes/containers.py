# SPDX-License-Identifier: BSD-3-Clause
"""Proxies write into their containers while the node reads them, and send false lengths and positions. The node goes on serving the
others, whose leases stay their own. It renews no lease for a proxy without one, and counts each ending under its reason."""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from cluster import Cluster, nodes_shown  # noqa: E402
from farcached import deadline, tap, test_program, until  # noqa: E402

SECONDS, VANDALS = 1.5, 2
KEYS = ["k%d" % i for i in range(50)]
OPTIONS = ["access_tracking=report", "report_interval_ms=100", "node_timeout_ms=30000"]


def value_of(key):
    return (key * 40).encode()


def vandals(path):
    program = test_program("faulty/container_vandal")
    return [subprocess.Popen([program, path, str(SECONDS), str(seed * 1000)], stdout=subprocess.PIPE)
            for seed in range(1, VANDALS + 1)]


def served(client):
    return sum(value == value_of(name.decode()) for name, _, value, _ in client.get_many(KEYS))


def main():
    with Cluster("shm", proxies=1, threads=1, local_read=False, options=OPTIONS,
                 node_args=["-t", "2", "--lease-ms", "4000"]) as c, c.proxies[0].client() as client:
        for key in KEYS:
            client.set(key, value_of(key))
        processes = vandals(c.nodes[0].path)
        try:
            wrong = rounds = 0
            while any(process.poll() is None for process in processes):
                rounds += 1
                wrong += served(client) != len(KEYS)
            counts = [process.communicate(timeout=deadline())[0].decode() for process in processes]
        finally:
            for process in processes:
                process.kill()
                process.wait()
        tap.is_([process.returncode for process in processes], [0] * VANDALS, "the node always welcomes another connection")
        found = [tuple(map(int, re.findall(r"\d+", text))) for text in counts]
        tap.ok(all(answered > 0 for _, answered, _ in found), "possible reports are answered", counts)
        tap.is_(wrong, 0, "and the other proxy is served meanwhile, %d times" % rounds)
        shown = until(lambda: c.proxies[0].stats("node n0"),
                      lambda s: int(s["connections_over"]) >= sum(connections for _, _, connections in found))
        ours = int(nodes_shown(c.proxies[0])["n0"]["report_renewed"])
        renewed = int(shown["report_renewed"])
        tap.ok(renewed <= ours + len(KEYS), "no lease is renewed but the proxy's own", renewed, ours)
        shown = c.proxies[0].stats("node n0 connections")
        ended = sum(int(value) for name, value in shown.items() if name.startswith("frame_"))
        lied = sum(reports - answered for reports, answered, _ in found)
        tap.ok(lied - VANDALS <= ended <= lied, "each that is none has ended its connection, by a name", ended, lied)
        tap.diag("; ".join(text.strip() for text in counts))
        tap.diag(" ".join("%s %s" % (name, value) for name, value in shown.items() if name.startswith("frame_") and value != "0"))
    tap.done()


main()
