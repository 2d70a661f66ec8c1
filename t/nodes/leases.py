# SPDX-License-Identifier: BSD-3-Clause
"""Uses and limits of pointers. One proxy's pointer serves another proxy, and gets by pointer are no work for the node. A set can
have memory even if all of it is leased (S8).

With FARCACHED_TEST_LONG the node is watched for a minute.
"""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from cluster import Cluster, nodes_shown  # noqa: E402
from farcached import is_sanitized, slow_factor, tap  # noqa: E402

LONGEST_MS = 256_000
TICKS = os.sysconf("SC_CLK_TCK")


def total(proxy, name):
    return sum(int(s[name]) for s in nodes_shown(proxy).values())


def read_until_held(proxy, client, names):
    """Reads the keys until each read is one-sided."""
    for _ in range(20):
        before = total(proxy, "get_onesided")
        client.get_many(names)
        if total(proxy, "get_onesided") - before == len(names):
            return True
    return False


def shared():
    """Set through A, read through A until it holds the pointer, then one GET through B."""
    for channels in ("shm", "shm shm shm"):
        with Cluster(channels, local_read=False, node_args=["--lease-ms", "60000"]) as c:
            a, b = c.proxies
            with a.client() as through_a, b.client() as through_b:
                through_a.set("k", "value")
                tap.ok(read_until_held(a, through_a, ["k"]), "%s: A holds the pointer" % channels)
                tap.is_(through_b.get("k"), b"value", "%s: one get through B" % channels)
            stats = b.stats("proxy")
            for name, want in (("get_onesided", "1"), ("get_twosided", "0"), ("pointer_shared_hits", "1")):
                tap.is_(stats[name], want, "%s: stats proxy of B: %s %s" % (channels, name, want))


def idle_node(local_read):
    """Gets by pointer or from mapped memory: the node does nothing for some seconds. The table is so large that five keys hardly
    ever share one of its sets, where one of them would always need a request."""
    seconds = 60 if os.environ.get("FARCACHED_TEST_LONG") else 3
    title = "local_read %s, gets only: " % ("on" if local_read else "off")
    with Cluster("shm", proxies=1, local_read=local_read, options=["pointer_table.entries=131072"],
                 node_args=["--lease-ms", LONGEST_MS]) as c:
        proxy, node = c.proxies[0], c.nodes[0]
        names = ["k%d" % i for i in range(500)]
        request = b"get " + b" ".join(n.encode() for n in names) + b"\r\n"
        counter = c.unasked_by()
        with proxy.client() as client:
            for name in names:
                client.set(name, "v" * 64)
            for _ in range(3):
                client.get_many(names)
            want = b"".join(b"VALUE %s 0 64\r\n%s\r\n" % (n.encode(), b"v" * 64) for n in names) + b"END\r\n"
            asked, before, ticks = total(proxy, "get_twosided"), total(proxy, counter), node.cpu_ticks()
            began, rounds, right = time.monotonic(), 0, 0
            while time.monotonic() - began < seconds:
                client.send(request)
                right += client.upto(want) == want
                rounds += 1
            ticks = node.cpu_ticks() - ticks
        read = total(proxy, counter) - before
        tap.diag("%s%d gets in %d s, %d ms of the node's CPU time" % (
            title, rounds * len(names), seconds, ticks * 1000 // TICKS))
        tap.is_(right, rounds, title + "each is answered")
        tap.is_((read, total(proxy, "get_twosided") - asked), (rounds * len(names), 0), title + "none asks the node")
        if is_sanitized():
            tap.skip(title + "the node's CPU time does not grow", "a sanitizer build has threads of its own")
        else:
            tap.ok(ticks <= TICKS * seconds // 50, title + "the node's CPU time does not grow", "%d ticks" % ticks)


def refused(client, names, size):
    """The number of sets that were not stored."""
    value = b"v" * size
    return [n for n in names if client.set(n, value) != "STORED"]


def all_leased(channel, local_read=False):
    """A cache full of small items, each leased for the longest term, and then sets of 900 KB: none is refused. Then those are
    leased, too, and small and large ones are stored again."""
    title = "%s, all leased: " % channel
    count = int(50_000 / max(1, slow_factor() / 2))
    with Cluster(channel, proxies=1, local_read=local_read, options=["pointer_table.entries=131072"],
                 node_args=["-m", "8", "--lease-ms", LONGEST_MS]) as c:
        proxy = c.proxies[0]
        names = [b"small%d" % i for i in range(count)]
        with proxy.client() as client:
            for at in range(0, count, 500):
                batch = names[at:at + 500]
                client.send(b"".join(b"set %s 0 0 100 noreply\r\n%s\r\n" % (n, b"s" * 100) for n in batch), b"mn\r\n")
                client.until(b"MN\r\n")
                for _ in range(3):
                    client.get_many(batch)
            leases, stats = proxy.stats("leases"), proxy.stats()
            tap.ok(int(leases["lease_granted"]) > count // 4, title + "items are leased", leases)
            tap.diag("%s items, evictions %s; leases granted %s, denied for want of room %s, %s bytes leased" % (
                stats["curr_items"], stats["evictions"], leases["lease_granted"], leases["lease_denied_no_room"],
                leases["lease_bytes"]))
            large = ["large%d" % i for i in range(60)]
            tap.is_(refused(client, large, 900_000), [], title + "60 sets of 900 KB are stored")
            for name in large * 3:
                client.get(name)
            tap.is_(refused(client, ["more%d" % i for i in range(2000)], 100), [], title + "2000 of 100 bytes, too")
            tap.is_(refused(client, large[::-1], 900_000), [], title + "and the large ones again")
            tap.is_(client.get(large[0]), b"v" * 900_000, title + "and are there")
            leases = proxy.stats("leases")
            tap.diag("leases granted %s, pending %s bytes" % (leases["lease_granted"], leases["reclaim_pending_bytes"]))


def main():
    shared()
    idle_node(True)
    idle_node(False)
    all_leased("shm")
    tap.done()


if __name__ == "__main__":
    main()
