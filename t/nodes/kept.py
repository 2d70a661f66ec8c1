# SPDX-License-Identifier: BSD-3-Clause
"""Nodes that keep their items over a restart (farnode -e), behind a farcached that read them one-sided before and does so after."""
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from cluster import Cluster, nodes_shown  # noqa: E402
from farcached import tap  # noqa: E402

KEYS = 500
MOST = 0.9  # of the gets of keys that were read before


def value(key, run):
    return ("%s of run %d" % (key, run)).encode() * 5


def total(proxy, name):
    return sum(int(s[name]) for s in nodes_shown(proxy).values())


def read(c, client, names, run, title):
    """Reads all keys until most gets send no request; the values of each round are compared."""
    share = 0
    for _ in range(20):
        before = total(c.proxies[0], c.unasked_by())
        found = {key.decode(): v for key, _, v, _ in client.get_many(names)}
        if found != {name: value(name, run) for name in names}:
            return tap.ok(False, title + ": all values", "%d of %d keys" % (len(found), len(names)))
        share = (total(c.proxies[0], c.unasked_by()) - before) / len(names)
        if share >= MOST:
            break
    tap.ok(share >= MOST, title + ": all values, most of them without a request", "a share of %.2f" % share)


def restarts(channels, local_read):
    names = ["k%d" % i for i in range(KEYS)]
    with Cluster(channels, proxies=1, local_read=local_read, threads=1, kept=True) as c, c.proxies[0].client() as client:
        one_sided = all(n.channel != "tcp" for n in c.nodes)
        for run, end in enumerate((signal.SIGTERM, signal.SIGKILL, signal.SIGTERM)):
            title = "%s%s, before %s" % (channels, "" if local_read else " by pointers", end.name)
            for name in names:
                client.set(name, value(name, run).decode())
            gone = names[run * 10]
            client.ask("delete " + gone)
            names = [name for name in names if name != gone]
            incarnations = [nodes_shown(c.proxies[0])[n.name]["incarnation"] for n in c.nodes]
            for node in c.nodes:
                node.end(end)
                node.start()
            c.until_up()
            shown = [nodes_shown(c.proxies[0])[n.name]["incarnation"] for n in c.nodes]
            tap.ok(all(a != b for a, b in zip(incarnations, shown)), title + ": all nodes have a new incarnation")
            tap.is_(client.get(gone), None, title + ": the deleted item is not back")
            if one_sided:
                read(c, client, names, run, title)
            else:
                found = {key.decode(): v for key, _, v, _ in client.get_many(names)}
                tap.ok(found == {name: value(name, run) for name in names}, title + ": all values")


restarts("shm shm", local_read=True)
restarts("shm shm", local_read=False)
restarts("tcp", local_read=False)
tap.done()
