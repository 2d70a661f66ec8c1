# SPDX-License-Identifier: BSD-3-Clause
"""The share of keys that stays when many nodes join within a second.

Four nodes have all keys. Then further ones start together. Each proxy takes several lists one after the other, and tells all nodes
of each. Afterwards a client reads a sample of the keys. Ideal is the share of the old nodes in all nodes; the ring makes it vary.
"""
import os
import subprocess
import time

from fleet_processes import Connection, Failed, Fleet, median_and_range, stats

OLD, NEW, PROXIES, KEYS, SAMPLE = 4, 20, 20, 200_000, 2_000


def burst(build, etcd, number):
    """(share of keys that are there afterwards, share of the old nodes by the ring, seconds until all nodes are in use)"""
    with Fleet(build, etcd, "burst%d" % number, ttl_s=10, megabytes=64) as fleet:
        fleet.start_nodes(OLD)
        labels = ["p%d" % proxy for proxy in range(PROXIES)]
        for label in labels:
            fleet.launch_proxy(label)
        for label in labels:
            fleet.wait_for_proxy(label)
        fleet.until_up()
        old = set(fleet.nodes)
        done = subprocess.run([os.path.join(build, "farbench"), "load", "--port", str(fleet.ports["p0"]), "--threads", "1",
                               "--pipeline", "64", "--keys", str(KEYS), "--preload", "--requests", "1"],
                              capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise Failed("farbench load: " + (done.stdout + done.stderr)[-500:])
        begin, names = time.monotonic(), ["%s-n%d" % (fleet.prefix, OLD + node) for node in range(NEW)]
        for name in names:
            fleet.launch_node(name)
        for name in names:
            fleet.wait_for_node(name)
        fleet.until_up()
        seconds = time.monotonic() - begin
        keys = ["farbench-%d" % key for key in range(0, KEYS, KEYS // SAMPLE)]
        client = Connection(fleet.ports["p0"])
        hits = sum(client.ask(b"get " + key.encode()).startswith(b"VALUE") for key in keys)
        client.close()
        stay = sum(stats(fleet.ports["p0"], "route " + key)["node"] in old for key in keys)
        return hits / len(keys), stay / len(keys), seconds


def bursts(build, etcd, rounds):
    print("\n## %d nodes join %d within a second, %d proxies: median (range) of %d\n" % (NEW, OLD, PROXIES, rounds))
    found = [burst(build, etcd, number) for number in range(rounds)]
    for words, column in (("share of keys that are there afterwards", 0), ("share of the old nodes by the ring", 1),
                          ("seconds until each proxy uses all nodes", 2)):
        print("%s: %s" % (words, median_and_range([row[column] for row in found], 3)))
    print("ideal: %.3f" % (OLD / (OLD + NEW)), flush=True)
    return found
