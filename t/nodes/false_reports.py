# SPDX-License-Identifier: BSD-3-Clause
"""Proxies that send a real farnode false reports, too many, or none, beside an honest farcached. The node renews no lease of an
absent item. The leases that a proxy renews stay within its share. Impossible frames end their connection and are counted. All other
clients are served. Frames are made by hand, over shared memory, where reports count.
"""
import itertools
import os
import random
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from cluster import Cluster, Table, nodes_shown, until_up  # noqa: E402
from farcached import Closed, Daemon, TimedOut, slow_factor, tap, until  # noqa: E402
from farnode import Farnode, NodeClient  # noqa: E402
from raw_proxy import ACCESSES, RECORDS_MAX, ShmProxy, access_record  # noqa: E402

NUMBERS = itertools.count()
MOST = 2**32 - 1
TERM_MS = 1000
MEGABYTES = 8


class Stage:
    """A node, a farcached in front of it that reports, and any number of hand-made proxies."""

    def __init__(self, *node_args):
        self.folder = tempfile.TemporaryDirectory(prefix="farcached-reports-")
        self.path = os.path.join(self.folder.name, "n")
        self.node = Farnode("--shm", self.path, "--tcp", "127.0.0.1:0", "--name", "n0", "-m", MEGABYTES, *node_args,
                            threads=2)
        self.table = Table()

    def __enter__(self):
        self.node.start()
        with NodeClient(self.node.port) as c:
            c.learn_layout()
        self.honest = Daemon("--node", "n0=shm:" + self.path, "-o", self.table.options() + ",no_local_read," +
                             "access_tracking=report,report_interval_ms=100", threads=1).start()
        until_up(self.honest)
        self.client = self.honest.client()
        self.client.set("honest", "value")
        return self

    def __exit__(self, kind, value, trace):
        self.client.close()
        self.honest.__exit__(kind, value, trace)
        self.node.__exit__(kind, value, trace)
        self.table.unlink()
        self.folder.cleanup()

    def proxy(self, name=b"liar"):
        made = ShmProxy(self.path, NodeClient.layout)
        made.greet(name=name)
        return made

    def stats(self):
        with self.node.node_client() as c:
            c.greet()
            found = c.node_stats(b"general")
            found.update(c.node_stats(b"connections"))
        return {name: int(value) for name, value in found.items() if value.isdigit()}

    def served(self):
        """Are the honest farcached's clients served by set, get, and a read of an old key?"""
        key, value = "served%d" % next(NUMBERS), b"%d" % next(NUMBERS)
        return self.client.set(key, value) == "STORED" and self.client.get(key) == value and \
            self.client.get("honest") == b"value"


def key(i):
    return b"key%05d" % i


def lies_of(right, old, chance):
    """Records of absent items, each one with some wrong field."""
    hashed, generation, offset, _, _ = right

    def changed(**what):
        record = dict(hash=hashed, generation=generation, offset=offset, region=0, count=1)
        record.update(what)
        return tuple(record.values())

    lies = [changed(hash=hashed ^ 1), changed(hash=0), changed(hash=2**64 - 1), changed(offset=0),
            changed(offset=(1 << 40) - 16), changed(offset=offset + 16), changed(offset=offset + 65536),
            changed(offset=1 << 39), changed(region=1), changed(region=15), changed(hash=hashed ^ 1, count=MOST),
            changed(hash=hashed ^ 1, generation=0), old, old[:4] + (MOST,)]
    while len(lies) < RECORDS_MAX:
        lies.append(changed(offset=offset + 16 * chance.randrange(1, 1 << 18), generation=chance.getrandbits(62),
                            hash=chance.choice((hashed, chance.getrandbits(64))), count=chance.getrandbits(8) | 1))
    return lies


def lies():
    """Repeated reports of absent items, by frames of reports and with requests: they have no effect."""
    chance = random.Random(3)
    with Stage("--lease-ms", "60000") as stage, stage.proxy() as liar:
        right = liar.leased(key(1))
        old = liar.leased(key(2))
        liar.delete(key(2))
        tap.ok(right and old, "two leases")
        before = stage.stats()
        answered = [liar.report(lies_of(right, old, chance)) for _ in range(20)]
        tap.ok(all(not any(terms) for terms in answered), "no lie is answered with a lease")
        for _ in range(20):
            liar.post_report(lies_of(right, old, chance), kind=ACCESSES)
        after = stage.stats()
        tap.is_([after[n] - before[n] for n in ("report_renewed", "lease_bytes", "lease_renewed", "end_bad_frame")],
                [0] * 4, "nothing is renewed by it, and no connection ends")
        looked_at = sum(len(terms) for terms in answered)
        tap.is_(after["report_unknown_items"] - before["report_unknown_items"], looked_at, "each lie is counted")
        tap.is_(after["report_refused_stranger"], after["report_unknown_items"], "also under its old name")
        tap.ok(liar.get(key(1)) == b"v" and liar.get(key(2)) is None, "the liar, too, is served")
        tap.ok(stage.served(), "and so are others")
        before = stage.stats()
        most = liar.report([right[:4] + (MOST,)] * RECORDS_MAX)
        tap.ok(most and all(0 < term <= 60_000 for term in most), "the highest count of one item is one lease", most[:3])
        tap.is_(stage.stats()["lease_bytes"], before["lease_bytes"], "of the same bytes")


def impossible():
    """Invalid reports: the connection ends, and its reason is counted."""
    record = access_record(1, 2, 48, 0, 1)
    cases = [
        ("no records", 0, b""),
        ("a count of none", 1, access_record(1, 2, 48, 0, 0)),
        ("fewer records than its count", 9, record),
        ("more records than its count", 1, record * 2),
        ("half a record", 1, record[:-8]),
        ("more records than a report may have", RECORDS_MAX + 1, record * (RECORDS_MAX + 1)),
        ("65535 records", 65535, record * 200),
    ]
    with Stage() as stage:
        for title, count, body in cases:
            before = stage.stats()
            with stage.proxy() as liar:
                liar.post_report([], count=count, body=body)
                try:
                    while liar.frame().kind != "goodbye":
                        pass
                    ended = True
                except Closed:
                    ended = True
            after = until(stage.stats, lambda s: s["end_bad_frame"] == before["end_bad_frame"] + 1)
            counted = [n for n, value in after.items() if n.startswith("frame_") and value != before[n]]
            tap.ok(ended and len(counted) == 1, title + ": ends that connection, for one reason", counted)
            tap.ok(stage.served(), title + ": others are served")


def too_much():
    """One proxy leases as much as possible, and then reports all of it as fast as it can: under its name again, and under new
    names."""
    count, size = 3000, 1000
    percent = 5  # so that a slow node, too, handles more records in its 500 us than it may renew
    with Stage("--lease-ms", TERM_MS, "--report-share", percent) as stage:
        liar = stage.proxy()
        records = [record for record in (liar.leased(key(i), b"v" * size) for i in range(count)) if record]
        zone = MEGABYTES << 19  # half of the pages
        share = zone * percent // 100
        tap.ok(len(records) * size > 2 * share, "more is leased than twice a proxy's share of renewals", len(records))
        reports = answers = refused = 0
        highest = 0
        names = itertools.count()
        began = time.monotonic()
        # Leases earned by gets expire after four seconds, or one to two seconds later if saved credit extends them. The measurement
        # begins two seconds after that.
        while time.monotonic() - began < 8.5 or reports < 2000:
            for at in range(0, len(records), RECORDS_MAX):
                liar.post_report(records[at:at + RECORDS_MAX])
                reports += 1
            while answers < reports:
                liar.answer()
                answers += 1
            if time.monotonic() - began > 6.5:
                stats = stage.stats()
                highest = max(highest, stats["lease_bytes"])
                refused = stats["report_refused_quota"]
                liar.close()
                liar = stage.proxy()  # under the same name
                answers = reports
        tap.diag("%d reports; at most %d bytes were leased by them, of %d that may be" % (reports, highest, zone))
        tap.ok(refused > 0, "reports that would keep more than the proxy's share are refused")
        tap.ok(highest <= 2 * share + (256 << 10), "and keep no more than twice that", (highest, share))
        tap.ok(stage.served(), "others are served")
        liar.close()
        highest = 0
        for _ in range(40):
            with stage.proxy(b"name%d" % next(names)) as other:
                for at in range(0, len(records), RECORDS_MAX):
                    other.report(records[at:at + RECORDS_MAX])
            highest = max(highest, stage.stats()["lease_bytes"])
        tap.ok(highest <= zone, "under ever new names it is no more than the lease zone", highest)
        refused_sets = [i for i in range(500) if stage.client.set("s%d" % i, b"s" * 20_000) != "STORED"]
        tap.is_(refused_sets, [], "no set is refused")
        stage.client.set("honest", b"value")  # the sets may have evicted it
        tap.ok(stage.served(), "and others are served")


def flood():
    """Thousands of reports whose replies are not read."""
    with Stage("--lease-ms", "60000") as stage:
        liar = stage.proxy()
        right = liar.leased(key(1))
        liar.timeout = 2 * slow_factor()
        posted = 0
        try:
            liar.deaf = True
            for _ in range(5000):
                liar.post_report([right] * RECORDS_MAX)
                posted += 1
        except TimedOut:  # its ring is full, because the node stops while its replies are not read
            tap.diag("the node takes no more after %d reports" % posted)
        good = [stage.served() for _ in range(200)]
        tap.ok(all(good), "others are served while thousands of reports wait, or their answers")
        until(lambda: stage.served() and nodes_shown(stage.honest)["n0"], lambda s: int(s["report_renewed"]) > 0)
        tap.ok(int(nodes_shown(stage.honest)["n0"]["report_renewed"]) > 0, "and the honest one's own reports are answered")
        liar.close()
        with stage.proxy() as again:
            tap.ok(any(again.report([right])), "and the node answers reports afterwards")


HOT, VALUE, BATCHES, BATCH = 20, b"v" * 3000, 12, 300


def silent_beside_one_that_reports():
    """Two farcached read one-sided, each its own keys, and only one of them reports; a third stores. Reported items stay.
    Unreported ones are evicted, because the node does not know of their reads. Both farcached are answered."""
    options = ["report_interval_ms=100", "node_timeout_ms=30000"]
    with Cluster("shm", proxies=0, threads=1, options=options, node_args=["-m", "4", "-t", "1"]) as c:
        told, silent, writer = [c.start_proxy("-o", "access_tracking=" + tracking) for tracking in ("report", "none", "none")]
        c.proxies += [told, silent, writer]
        keys = {daemon: ["%s%d" % (name, i) for i in range(HOT)] for name, daemon in (("told", told), ("silent", silent))}

        def store(client, names):
            client.send(*(b"set %s 0 0 %d noreply\r\n%s\r\n" % (n.encode(), len(VALUE), VALUE) for n in names))
            return client.is_idle()

        def found(client, names):
            return sum(value == VALUE for _, _, value, _ in client.get_many(names))

        def unreported():
            """Accesses of which the node does not know. One report may have a part of a round's."""
            shown = {name: int(value) for name, value in nodes_shown(told)["n0"].items() if value.isdigit()}
            return shown["get_local"] + shown["get_onesided"] + shown["get_index"] - shown["accesses_sent"]

        with told.client() as reader, silent.client() as other, writer.client() as client:
            store(client, keys[told] + keys[silent])
            until(lambda: found(reader, keys[told]) and int(nodes_shown(told)["n0"]["reports_sent"]), lambda n: n > 0)
            left = []
            for batch in range(BATCHES):
                left.append((found(reader, keys[told]), found(other, keys[silent])))
                until(unreported, lambda count: count == 0)
                store(client, ["cold%d" % (batch * BATCH + i) for i in range(BATCH)])
            left.append((found(reader, keys[told]), found(other, keys[silent])))
        tap.is_([of_told for of_told, _ in left], [HOT] * (BATCHES + 1), "reported items are never evicted")
        tap.ok(left[0][1] == HOT and left[-1][1] < HOT, "unreported ones are", left)
        tap.is_(nodes_shown(silent)["n0"]["reports_sent"], "0", "because no report contains them")


def main():
    lies()
    impossible()
    too_much()
    flood()
    silent_beside_one_that_reports()
    tap.done()


if __name__ == "__main__":
    main()
