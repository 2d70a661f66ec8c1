# SPDX-License-Identifier: BSD-3-Clause
"""Reads over RDMA that are counted at their node, which then keeps items that are only read one-sided. Every posted READ is
accounted for, however it ends. Runs in a guest."""
import os
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from cluster import READS_OVER, Cluster, Faults, nodes_shown, reads_over  # noqa: E402
from farcached import Pace, deadline, tap, until  # noqa: E402

HOT = ["hot%d" % i for i in range(20)]
UNREAD = ["unread%d" % i for i in range(20)]
VALUE = b"v" * 3000
BATCH, BATCHES = 300, 12  # of other items: more than twice the node's capacity


def numbers(proxy):
    return {name: int(value) for name, value in proxy.stats("proxy").items() if value.isdigit()}


def of_node(proxy, name):
    return int(proxy.stats("node n0")[name])


def store(client, names):
    client.send(*(b"set %s 0 0 %d noreply\r\n%s\r\n" % (name.encode(), len(VALUE), VALUE) for name in names))
    return client.is_idle()


def found(client, names):
    return sum(value == VALUE for _, _, value, _ in client.get_many(names))


def pressed(at_proxy, at_node):
    """Reads some items all the while and leaves others unread, while many more are stored than fit. Returns the remaining ones of
    each kind, and the counters of proxy and node."""
    options = ["pointer_miss=index", "access_tracking=" + at_proxy, "node_timeout_ms=30000"]
    with Cluster("verbs", proxies=1, threads=1, options=options,
                 node_args=["-m", "4", "-t", "1", "--no-lease", "--access_tracking", at_node]) as c:
        proxy = c.proxies[0]
        with proxy.client() as client:
            store(client, HOT + UNREAD)
            found(client, HOT)  # the proxy knows the index from here on
            before = numbers(proxy)
            right = 0
            for batch in range(BATCHES):
                right += found(client, HOT)
                store(client, ["cold%d" % (batch * BATCH + i) for i in range(BATCH)])
            stats = {name: value - before[name] for name, value in numbers(proxy).items() if name in before}
            left = found(client, HOT), found(client, UNREAD)
        return right, left, stats, of_node(proxy, "reads_counted"), of_node(proxy, "accesses")


def accounted(title, proxy):
    shown = until(lambda: nodes_shown(proxy), reads_over)
    tap.ok(reads_over(shown), "%s: READs posted = completed + failed" % title)
    s = numbers(proxy)
    tap.diag("%s: %s" % (title, ", ".join("%s %d" % (name, s[name]) for name in ("reads_posted", *READS_OVER))))
    return s


def counted():
    right, (hot, unread), stats, seen, told = pressed("atomic", "atomic")
    tap.is_(right, len(HOT) * BATCHES, "atomic: each read is answered")
    tap.is_((stats["get_index"], stats["rdma_atomics"]), (right, right), "atomic: one-sided, and counted")
    tap.is_(hot, len(HOT), "atomic: items that are only read one-sided are not evicted")
    tap.is_(unread, 0, "atomic: unread items are")
    tap.ok(seen > 0 and told == 0, "atomic: the node saw the reads by its counters, without a message", seen, told)
    tap.diag("%d READs, %d atomics, %d SENDs, %d doorbells" % (
        stats["rdma_reads"], stats["rdma_atomics"], stats["rdma_sends"], stats["rdma_doorbells"]))

    right, _, stats, seen, told = pressed("none", "atomic")
    tap.is_((right, stats["get_index"]), (len(HOT) * BATCHES,) * 2, "none: each read is answered, one-sided")
    tap.is_((stats["rdma_atomics"], seen), (0, 0), "none: nothing is posted behind it")
    tap.ok(told > 0, "none: the next requests carry the accesses", told)

    right, _, stats, seen, told = pressed("atomic", "none")
    tap.is_((right, stats["rdma_atomics"], seen), (len(HOT) * BATCHES, 0, 0), "a node without counters: read, and not counted")
    tap.ok(told > 0, "a node without counters: it gets the accesses", told)


def faults():
    """READs that fail or complete late, and a node that is killed under them."""
    options = ["pointer_miss=index", "access_tracking=atomic", "node_timeout_ms=1000"]
    with Cluster("verbs", options=options, faults=Faults("fail_read=0.05,delay_read=0.3,delay_ms=3"),
                 node_args=["-t", "2", "--access_tracking", "atomic"]) as c:
        over = threading.Event()

        def load(proxy):
            pace = Pace()
            with proxy.client() as client:
                while not over.is_set():
                    pace.rest()
                    for name in HOT:
                        client.set(name, VALUE)
                    for _ in range(20):
                        client.get_many(HOT)

        threads = [threading.Thread(target=load, args=(proxy,)) for proxy in c.proxies for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(2):
                posted = numbers(c.proxies[0])["reads_posted"]
                until(lambda p=posted: numbers(c.proxies[0])["reads_posted"], lambda n, p=posted: n > p + 200)
                c.restart(c.nodes[0])
        finally:
            over.set()
            for thread in threads:
                thread.join(deadline())
        for i, proxy in enumerate(c.proxies):
            s = accounted("proxy %d" % i, proxy)
            tap.ok(s["reads_completed"] > 0 and s["reads_failed_transport"] > 0, "proxy %d: of both kinds" % i)


def main():
    counted()
    faults()
    tap.done()


main()
