# SPDX-License-Identifier: BSD-3-Clause
"""The RDMA device is removed from the host under load, and added again. Its removal is not delayed, and connections that need no
device go on. With a device everything works again, without a restart of any process. Runs in a guest."""
import os
import subprocess
import sys
import time

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(TESTS, "lib"), TESTS, os.path.dirname(os.path.abspath(__file__))]
import nodes.restart as load  # noqa: E402
from cluster import Cluster, nodes_shown  # noqa: E402
from device_tools import add_device, delete_device, netdev, resources  # noqa: E402
from farcached import deadline, slow_factor, tap, until  # noqa: E402

RIGHT = {("STORED", "own"), ("STORED", "miss"), (load.UNAVAILABLE, "own"), (load.UNAVAILABLE, "miss"), (load.UNAVAILABLE, "older")}


def down(proxy):
    return {name: s["down_reason"] for name, s in nodes_shown(proxy).items() if s["links_up"] == "0" and "down_reason" in s}


def removed(askers, c):
    began = time.monotonic()
    try:
        delete_device(deadline())
    except subprocess.TimeoutExpired:
        pass
    took = time.monotonic() - began
    tap.ok(took < deadline(), "the device can be removed while it is in use", "%.1f s" % took)
    tap.diag("the removal took %.2f s" % took)
    far = {n.name for n in c.nodes if n.channel == "verbs"}
    for proxy in c.proxies:
        tap.is_(set(until(lambda: down(proxy), lambda d: set(d) == far)), far, "its nodes are seen to be out of reach")
    tap.diag(down(c.proxies[0]))


def main():
    before, below = resources(), netdev()
    with Cluster("verbs tcp verbs", options=["node_timeout_ms=%d" % (2000 * slow_factor())],
                 node_args=["-v"]) as c:
        askers = [load.Asker(proxy, c.key(node, "asker%d-%d" % (i, n))) for node in c.nodes
                  for n, proxy in enumerate(c.proxies) for i in range(2)]
        near = [a for a in askers if a.key.startswith(c.key(c.nodes[1], ""))]
        for asker in askers:
            asker.start()
        load.so_many_more(askers, "before", 100)
        for asker in askers:
            asker.phase = "removed"
        removed(askers, c)
        load.so_many_more(askers, "removed", 50)
        for asker in askers:
            asker.phase = "returning"
        add_device(below)
        c.until_up()
        for asker in askers:
            asker.phase = "after"
        load.so_many_more(askers, "after", 100)
        for asker in askers:
            asker.end()
        tap.is_([a.failed for a in askers if a.failed], [], "no client's connection is lost")
        for phase in ("before", "removed", "returning", "after"):
            tap.is_(set(load.told(near, phase)), {("STORED", "own")}, "%s: a node over tcp is not touched by it" % phase)
            every = load.told(askers, phase)
            tap.ok(set(every) <= RIGHT, "%s: and no client gets a wrong value" % phase, every)
            tap.diag("%s: %s" % (phase, load.latency(askers, phase)))
        tap.ok(load.told(askers, "after").get(("STORED", "own"), 0) > 0, "after, keys are stored again")
        tap.ok(all(p.alive() for p in c.proxies) and all(n.process.alive() for n in c.nodes), "no process was restarted")
        said = c.nodes[0].process.stderr().decode()
        tap.like(said, "the RDMA device was removed; connections fail until a device is back", "a node logs it")
        tap.like(said, "an RDMA device is back", "and the end of it")
    tap.is_(until(resources, lambda now: now == before), before, "no queue pair and no memory registered is left")
    tap.done()


main()
