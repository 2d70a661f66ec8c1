# SPDX-License-Identifier: BSD-3-Clause
"""Faults of a cluster's nodes during a load."""
import random

from cluster import nodes_shown
from farcached import Client, until


def timeouts(cluster):
    return sum(int(nodes_shown(p)[n.name]["node_timeouts"]) for p in cluster.proxies for n in cluster.nodes)


def gets(cluster):
    return sum(int(p.stats()["cmd_get"]) for p in cluster.proxies)


class Trouble:
    """Ends, stops or drains one node at a time during the load. Between two faults all nodes are up and serve requests."""

    def __init__(self, cluster, kinds, seed):
        self.cluster, self.kinds, self.random = cluster, kinds.split(), random.Random(seed)
        self.ended = self.stopped = self.drained = 0

    def while_running(self, running):
        first = self.random.sample(self.kinds, len(self.kinds))  # each kind happens, even in a short run
        while running():
            node = self.random.choice(self.cluster.nodes)
            getattr(self, first.pop() if first else self.random.choice(self.kinds))(node, running)
            self.cluster.until_up()
            self.while_served(running)

    def while_served(self, running):
        served = gets(self.cluster)
        until(lambda: gets(self.cluster) - served > 2000 or not running(), bool)

    def end(self, node, running):
        if self.random.randrange(2):
            self.cluster.kill(node)
            self.cluster.until_seen_down(node)
        self.cluster.restart(node, wait=False)
        self.ended += 1

    def replace(self, node, running):
        """Replaces the node before a proxy notices."""
        self.cluster.restart(node, wait=False)
        self.ended += 1

    def stop(self, node, running):
        """Stops the node until a request to it has timed out."""
        before = timeouts(self.cluster)
        with node.process.stopped():
            until(lambda: timeouts(self.cluster) > before or not running(), bool)
        self.stopped += 1

    def drain(self, node, running):
        """One farcached drains the node, while others use it."""
        with Client(self.cluster.admin(self.random.randrange(len(self.cluster.proxies)))) as admin:
            if admin.ask("drain " + node.name) != "OK":
                raise AssertionError("%s is not drained" % node.name)
            self.while_served(running)
            admin.ask("undrain " + node.name)
        self.drained += 1
