# SPDX-License-Identifier: BSD-3-Clause
"""What happens to the nodes of a cluster while a load runs."""
import random

from cluster import nodes_shown
from farcached import Client, until


def timeouts(cluster):
    return sum(int(nodes_shown(p)[n.name]["node_timeouts"]) for p in cluster.proxies for n in cluster.nodes)


def gets(cluster):
    return sum(int(p.stats()["cmd_get"]) for p in cluster.proxies)


class Trouble:
    """Nodes end, stop or are drained, one at a time, as long as the load runs; between two of these all are up and asked."""

    def __init__(self, cluster, kinds, seed):
        self.cluster, self.kinds, self.random = cluster, kinds.split(), random.Random(seed)
        self.ended = self.stopped = self.drained = 0

    def while_running(self, running):
        first = self.random.sample(self.kinds, len(self.kinds))  # each happens, however few there are
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
        """Another is there before anybody looks."""
        self.cluster.restart(node, wait=False)
        self.ended += 1

    def stop(self, node, running):
        """Until somebody gave up waiting for it."""
        before = timeouts(self.cluster)
        with node.process.stopped():
            until(lambda: timeouts(self.cluster) > before or not running(), bool)
        self.stopped += 1

    def drain(self, node, running):
        """One farcached asks it for no key, while others do."""
        with Client(self.cluster.admin(self.random.randrange(len(self.cluster.proxies)))) as admin:
            if admin.ask("drain " + node.name) != "OK":
                raise AssertionError("%s is not drained" % node.name)
            self.while_served(running)
            admin.ask("undrain " + node.name)
        self.drained += 1
