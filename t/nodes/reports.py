# SPDX-License-Identifier: BSD-3-Clause
"""access_tracking=report, the default where items are read by remote pointers: reports tell a node of reads that send no request.
So it does not evict the most read items, as it would by requests alone. It renews the leases of reported items, which saves the
proxy a request. Reports and their replies are written into containers."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from cluster import Cluster, nodes_shown  # noqa: E402
from farcached import tap, until  # noqa: E402

HOT = ["hot%d" % i for i in range(20)]
VALUE = b"v" * 3000
BATCH, BATCHES = 300, 12  # of other items: more than twice the node's capacity


def store(client, names):
    client.send(*(b"set %s 0 0 %d noreply\r\n%s\r\n" % (name.encode(), len(VALUE), VALUE) for name in names))
    return client.is_idle()


def found(client, names):
    return sum(value == VALUE for _, _, value, _ in client.get_many(names))


def of(proxy, name):
    """A counter of a proxy; `stats nodes` sends no request to a node."""
    return int(nodes_shown(proxy)["n0"][name])


class Pair:
    """A node, a proxy whose clients only read, and one whose clients store."""

    def __init__(self, tracking, local_read):
        options = ["access_tracking=" + tracking, "report_interval_ms=100", "node_timeout_ms=30000"]
        self.cluster = Cluster("shm", threads=1, local_read=local_read, options=options,
                               node_args=["-m", "4", "-t", "1", "--lease-ms", "256000"])

    def __enter__(self):
        self.cluster.__enter__()
        self.reader, self.writer = self.cluster.proxies
        return self

    def __exit__(self, *_):
        return self.cluster.__exit__()

    def read_unasked(self, client):
        """Reads all of HOT, once each, without a request by this proxy's counters."""
        counter = self.cluster.unasked_by()
        before = of(self.reader, counter)
        return found(client, HOT) == len(HOT) and of(self.reader, counter) - before == len(HOT)

    def heard(self):
        """The accesses that the node has learned of, through the other proxy."""
        return int(self.writer.stats("node n0")["accesses"])


def by_containers(title, proxy, asker):
    """All reports of a proxy, in its counters and the node's; `asker` is a proxy without reads."""
    shown = nodes_shown(proxy)["n0"]
    sent, written, answered = (int(shown[name]) for name in ("reports_sent", "reports_written", "report_answers_written"))
    tap.ok(sent > 0 and written == sent, title + "reports are written into the node's container", shown)
    tap.ok(sent - 1 <= answered <= sent, title + "and their answers into the proxy's", shown)
    node = asker.stats("node n0")
    tap.is_((node["reports_written"], node["report_answers_written"]), (node["reports"],) * 2, title + "as the node counts them")


def unasked(local_read):
    title = "%s: " % ("local reads" if local_read else "remote pointers")
    with Pair("report", local_read) as p, p.reader.client() as reader, p.writer.client() as writer:
        store(writer, HOT)
        tap.ok(until(lambda: p.read_unasked(reader), bool), title + "no request goes to the node")
        frames, reports, heard = of(p.reader, "node_frames"), of(p.reader, "reports_sent"), p.heard()
        tap.ok(until(lambda: found(reader, HOT) and p.heard(), lambda n: n > heard) > heard, title + "and learns of reads")
        tap.ok(of(p.reader, "reports_sent") > reports, title + "by reports")
        read = of(p.reader, p.cluster.unasked_by())
        tap.is_(until(lambda: of(p.reader, "accesses_sent"), lambda n: n >= read), read, title + "of each in the end")
        tap.is_(of(p.reader, "node_frames"), frames, title + "without a request")
        tap.is_(of(p.reader, "arc_t2"), len(HOT), title + "they are the items read often")
        by_containers(title, p.reader, p.writer)
        tap.diag("%s%s reports of %s items, %s bytes" % (
            title, *(of(p.reader, name) for name in ("reports_sent", "report_items", "report_bytes"))))


def pressed(tracking, wait):
    """Reads some items one-sided throughout, while many more are stored than fit. Returns how many of them are found after each
    batch."""
    with Pair(tracking, True) as p, p.reader.client() as reader, p.writer.client() as writer:
        store(writer, HOT)
        left = []
        for batch in range(BATCHES):
            heard = p.heard()
            left.append(found(reader, HOT))
            if wait:
                until(p.heard, lambda n, before=heard: n > before)
            store(writer, ["cold%d" % (batch * BATCH + i) for i in range(BATCH)])
        left.append(found(reader, HOT))
        evicted = int(p.writer.stats()["evictions"])
        tap.ok(evicted > BATCH * BATCHES // 3, tracking + ": most stored items had to be evicted", evicted)
        return left


def leased(tracking):
    """A node with leases of a second, and a proxy that reads one key for five seconds of reports, which renew the lease every 100
    ms. Returns the numbers of requests to the node, and of one-sided gets."""
    options = ["access_tracking=" + tracking, "report_interval_ms=100", "node_timeout_ms=30000"]
    with Cluster("shm", proxies=1, threads=1, local_read=False, options=options,
                 node_args=["-t", "1", "--lease-ms", "1000"]) as c, c.proxies[0].client() as client:
        proxy = c.proxies[0]
        store(client, ["hot"])

        def gets():
            for _ in range(20):
                if client.get("hot") != VALUE:
                    raise AssertionError("the key is there")

        def asked():
            return of(proxy, "get_twosided")

        until(lambda: gets() or of(proxy, "get_onesided"), bool)
        before, first = asked(), of(proxy, "get_onesided")
        if tracking == "report":
            until(lambda: gets() or of(proxy, "report_renewed"), lambda n: n >= 5 * 5)
            tap.ok(of(proxy, "report_renewed") >= 5 * 5, "report: leases are renewed by reports")
        else:
            until(lambda: gets() or asked(), lambda n: n >= before + 3)
            tap.is_(of(proxy, "report_renewed"), 0, tracking + ": none is renewed")
        shown = proxy.stats("node n0")
        names = ("reports", "report_records", "report_renewed", "report_cut_short", "report_us")
        tap.diag("%s: the node: %s" % (tracking, " ".join("%s %s" % (name, shown[name]) for name in names)))
        return asked() - before, of(proxy, "get_onesided") - first


def by_default():
    """The default of access_tracking: reports for a proxy with remote pointers, piggybacking on requests for one with mapped
    memory."""
    options = ["report_interval_ms=100", "node_timeout_ms=30000"]
    for local_read in (False, True):
        with Cluster("shm", proxies=1, threads=1, local_read=local_read, options=options, node_args=["-t", "1"]) as c, \
                c.proxies[0].client() as client:
            proxy = c.proxies[0]
            store(client, HOT)
            until(lambda: found(client, HOT) and of(proxy, c.unasked_by()), lambda n: n >= 2 * len(HOT))
            if local_read:
                store(client, ["other"])
                found(client, ["none"])
                sent = until(lambda: of(proxy, "accesses_sent"), bool)
                tap.ok(sent and of(proxy, "reports_sent") == 0, "by default reads of mapped memory travel with requests", sent)
            else:
                renewed = until(lambda: found(client, HOT) and of(proxy, "report_renewed"), bool)
                tap.ok(renewed and of(proxy, "reports_sent"), "by default reads by remote pointers are reported", renewed)


def main():
    by_default()
    unasked(True)
    unasked(False)
    tap.is_(pressed("report", wait=True), [len(HOT)] * (BATCHES + 1), "report: read items are never evicted")
    left = pressed("none", wait=False)
    tap.ok(left[0] == len(HOT) and left[-1] < len(HOT), "none: the node evicts items without known reads", left)
    asked, read = leased("report")
    tap.ok(asked <= 3 and read > 100 * asked, "report: in five leases' time a key that is read stays one-sided", (asked, read))
    asked, read = leased("none")
    tap.ok(asked >= 3, "none: a request at the end of each lease", (asked, read))
    tap.done()


if __name__ == "__main__":
    main()
