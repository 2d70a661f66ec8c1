# SPDX-License-Identifier: BSD-3-Clause
"""A cache of 64 MB under pdla, flooded with sets while leases are out. No set is refused, memory stays within its limit, and reads
by pointers go on with right values.

With FARCACHED_TEST_LONG each flood is ten times as long.
"""
import os
import random
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from cluster import Cluster, nodes_shown  # noqa: E402
from farcached import slow_factor, tap  # noqa: E402

MEGABYTES = 64
PARTITIONS_MAX = 64
LONGEST_MS = "256000"
LONG = 10 if os.environ.get("FARCACHED_TEST_LONG") else 1
WRITERS = 3
STORED = b"STORED\r\n"


class Pdla(Cluster):
    """A node whose leases all have the longest term, from the second touch on."""

    def __init__(self):
        super().__init__("shm", threads=2, local_read=False, options=["pointer_table.entries=131072", "node_timeout_ms=60000"],
                         node_args=["-m", MEGABYTES, "--policy", "pdla", "--lease-ms-min", LONGEST_MS,
                                    "--lease-ms-max", LONGEST_MS])

    def node_stats(self):
        return {name: int(value) for name, value in self.proxies[0].stats("node n0").items() if value.isdigit()}

    def keeps_its_limit(self, title):
        stats = self.node_stats()
        tap.ok(stats["pages_used"] <= stats["pages_limit"] == MEGABYTES * 16, title + "pages are within the limit")
        # In addition to the arena's pages there are the index and the records of slots. Each partition's index has its memory in
        # advance, so that no access ends in a SIGBUS: a page of buckets and two of overflow buckets.
        resident = self.nodes[0].process.memory()["RssShmem"]
        ahead = PARTITIONS_MAX * 3 * os.sysconf("SC_PAGE_SIZE")
        most = (MEGABYTES << 20) + stats["hash_bytes"] + ahead + (2 << 20)
        tap.ok(resident <= most, title + "and so is memory", "%d of %d bytes" % (resident, most))
        tap.ok(stats["lease_stops"] == stats["out_of_memory"] == 0, title + "leases never stopped")
        return stats


def set_many(client, items):
    """Returns 1 if a set was refused, else 0."""
    client.send(b"".join(b"set %s 0 0 %d\r\n%s\r\n" % (key, len(value), value) for key, value in items))
    want = STORED * len(items)
    got = client.upto(want)
    if got == want:
        return 0
    tap.diag("a set was answered: %r" % got[-80:])
    return 1


def lease_all(cluster, count):
    """Small items, each stored and read until it is leased; (refused sets, leased bytes)."""
    names = [b"small%d" % i for i in range(count)]
    refused = 0
    with cluster.proxies[0].client() as client:
        for at in range(0, count, 500):
            batch = names[at:at + 500]
            refused += set_many(client, [(name, b"s" * 100) for name in batch])
            for _ in range(2):
                client.get_many(batch)
    return refused, cluster.node_stats()["lease_bytes"]


class Flood(threading.Thread):
    """Sets values of these sizes as fast as they are answered."""

    def __init__(self, proxy, number, sizes, rounds):
        super().__init__()
        self.client, self.number, self.sizes, self.rounds = proxy.client(), number, sizes, rounds
        self.stored = self.refused = 0

    def run(self):
        chance = random.Random(self.number)
        with self.client as client:
            for _ in range(self.rounds):
                size = chance.choice(self.sizes)
                count = max(1, min(200, 300_000 // size))
                value = b"%d" % self.number * size
                items = [(b"f%d.%d" % (self.number, chance.randrange(40_000)), value[:size]) for _ in range(count)]
                self.refused += set_many(client, items)
                self.stored += count
                if self.refused:
                    return


def flooded():
    """All at once: clients that set any items, and one that reads leased items throughout."""
    title = "a flood: "
    rounds = int(200 * LONG / slow_factor())
    with Pdla() as c:
        small = int(60_000 / max(1, slow_factor() / 2))
        refused, leased = lease_all(c, small)
        tap.is_(refused, 0, title + "small items are stored,")
        tap.ok(leased > small * 35, title + "and leased", leased)
        hot = [b"small%d" % i for i in range(200)]
        floods = [Flood(c.proxies[i % 2], i, [100, 100, 1000, 3000, 20_000, 200_000, 900_000], rounds) for i in range(WRITERS)]
        for flood in floods:
            flood.start()
        wrong = found = 0
        with c.proxies[1].client() as reader:
            while any(flood.is_alive() for flood in floods):
                values = [value for _, _, value, _ in reader.get_many(hot)]
                found += len(values)
                wrong += sum(value != b"s" * 100 for value in values)
        for flood in floods:
            flood.join()
        tap.is_(sum(flood.refused for flood in floods), 0, title + "no set is refused")
        tap.ok(found > 0 and wrong == 0, title + "values read meanwhile are right", (found, wrong))
        onesided = sum(int(nodes_shown(p)["n0"]["get_onesided"]) for p in c.proxies)
        tap.ok(onesided > 0, title + "and some of it read one-sided")
        stats = c.keeps_its_limit(title)
        tap.diag("%s%d sets; %d gets meanwhile, %d one-sided; %d leases, %d bytes leased, %d pages drained" % (
            title, sum(flood.stored for flood in floods), found, onesided, stats["lease_granted"], stats["lease_bytes"],
            stats["lease_pages_drained"]))


def large_behind_small():
    """The cache is full of items of 100 bytes, as many as possible with leases of the longest term. Then values of 900 KB are set,
    more than it holds, and small ones again."""
    title = "900 KB behind 100 bytes: "
    count = int(300_000 / max(1, slow_factor()))
    with Pdla() as c:
        refused, leased = lease_all(c, count)
        tap.is_(refused, 0, title + "small items are stored,")
        tap.ok(leased > count * 20, title + "and leased", leased)
        with c.proxies[0].client() as client:
            large = [set_many(client, [(b"large%d" % i, b"l" * 900_000)]) for i in range(100 * LONG)]
            tap.is_(sum(large), 0, title + "no large one is refused")
            again = [set_many(client, [(b"more%d.%d" % (at, i), b"m" * 100) for i in range(500)]) for at in range(40 * LONG)]
            tap.is_(sum(again), 0, title + "nor a small one behind them")
            tap.is_(client.get("large%d" % (100 * LONG - 1)), b"l" * 900_000, title + "the last of them is there")
        c.keeps_its_limit(title)


def main():
    flooded()
    large_behind_small()
    tap.done()


if __name__ == "__main__":
    main()
