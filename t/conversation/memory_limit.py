# SPDX-License-Identifier: BSD-3-Clause
"""-m limits item memory, and with -M stores fail with errors and no item is lost.

The bound on private memory has two parts. The first is the limit (items, their page table and descriptors). The second is
OVERHEAD_MB plus a share of the limit for all else: index, connections, buffers, allocator, libraries. Sanitizer builds keep memory
of their own, so only the daemon's own numbers are checked there.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from farcached import Daemon, is_sanitized, tap  # noqa: E402

OVERHEAD_MB = 48
OVERHEAD_SHARE = 0.5  # of -m: small values cost most per byte in index and descriptors
REFUSED_WANTED = 50
MB = 1 << 20
OUT_OF_MEMORY = "SERVER_ERROR out of memory storing object"


def pipelined_sets(client, prefix, first, count, size):
    value = b"v" * size
    client.send(b"".join(b"set %s%d 0 0 %d\r\n%s\r\n" % (prefix, i, size, value) for i in range(first, first + count)))
    return [client.line().decode().rstrip() for _ in range(count)]


def fill_past(d, client, size, memory_bytes):
    """Stores values of this size until items are evicted, and a quarter of that again; returns the wrong replies."""
    wrong, batch = [], max(1, min(500, 2 * MB // size))
    first, last = 0, memory_bytes // size * 3
    while first < last:
        wrong += [r for r in pipelined_sets(client, b"%d-" % size, first, batch, size) if r != "STORED"]
        first += batch
        if last == memory_bytes // size * 3 and int(d.stats()["evictions"]) > 0:
            last = first + first // 4
    return wrong


def evicting(memory_mb, size):
    with Daemon("-m", memory_mb, "-t", "2") as d:
        client = d.client()
        at_start = d.memory()
        wrong = fill_past(d, client, size, memory_mb * MB)
        stats, memory = d.stats(), d.memory()
        title = "-m %d, values of %d bytes: " % (memory_mb, size)
        tap.is_(wrong, [], title + "more than the memory is stored without an error")
        tap.is_(stats["limit_maxbytes"], str(memory_mb * MB), title + "limit_maxbytes")
        tap.ok(int(stats["evictions"]) > 0, title + "items were evicted")
        tap.ok(int(stats["bytes"]) <= memory_mb * MB, title + "bytes are within the limit", stats["bytes"])
        tap.ok(int(stats["bytes"]) >= memory_mb * MB // 3, title + "and the memory is used", stats["bytes"])
        private = memory["Private"]
        bound = memory_mb * MB * (1 + OVERHEAD_SHARE) + OVERHEAD_MB * MB
        tap.diag("%sprivate %.1f MB (at start %.1f), bytes %.1f MB, items %s" % (
            title, private / MB, at_start["Private"] / MB, int(stats["bytes"]) / MB,
            stats["curr_items"]))
        if is_sanitized():
            tap.skip(title + "private memory", "a sanitizer build keeps memory of its own")
        else:
            tap.ok(private <= bound, title + "private memory is below %.0f MB" % (bound / MB), private / MB)


def value_of(i, size):
    return (b"%d-" % i).ljust(size, b"v")


def intact(client, numbers, size):
    """The keys among these that have exactly the stored value."""
    found, batch = set(), max(1, min(100, 2 * MB // size))
    for at in range(0, len(numbers), batch):
        for key, _, value, _ in client.get_many(["k%d" % i for i in numbers[at:at + batch]]):
            if value == value_of(int(key[1:]), size):
                found.add(int(key[1:]))
    return found


def refusing(size):
    """-M: stores until the daemon refuses. All earlier items are still there, and deletes make room."""
    with Daemon("-m", 16, "-M", "-t", "2") as d:
        client = d.client()
        title = "-M, values of %d bytes: " % size
        stored, refused = [], 0
        for i in range(40 * MB // size + REFUSED_WANTED):
            reply = client.set("k%d" % i, value_of(i, size))
            if reply == "STORED":
                stored.append(i)
            elif reply == OUT_OF_MEMORY:
                refused += 1
            else:
                tap.ok(False, title + "a set is stored or refused", reply)
                break
            if refused >= REFUSED_WANTED:
                break
        tap.ok(refused >= REFUSED_WANTED, title + "a full cache answers %s" % OUT_OF_MEMORY, "%d stored" % len(stored))
        lost = sorted(set(stored) - intact(client, stored, size))
        tap.is_(lost, [], title + "all %d values stored before are there" % len(stored))
        stats = d.stats()
        tap.is_(stats["evictions"], "0", title + "nothing was evicted")
        tap.is_(stats["curr_items"], str(len(stored)), title + "curr_items")
        tap.ok(int(stats["store_no_memory"]) >= refused, title + "store_no_memory counts", stats["store_no_memory"])
        tap.ok(int(stats["bytes"]) >= 16 * MB // 3, title + "most of the memory was used", stats["bytes"])
        client.send("set quiet 0 0 %d noreply\r\n%s\r\n" % (size, "v" * size))
        tap.ok(client.is_idle(), title + "a refused noreply set is silent or at least whole")
        for i in stored[:len(stored) // 2]:
            client.ask("delete k%d" % i)
        again = [client.set("n%d" % i, b"v" * size) for i in range(len(stored) // 4)]
        tap.ok(all(r == "STORED" for r in again), title + "after deletes there is room again",
               "%d of %d" % (again.count("STORED"), len(again)))


def main():
    for size in (50, 1000, 30_000):
        evicting(32, size)
    evicting(8, 1000)
    for size in (100, 20_000, 500_000):
        refusing(size)
    tap.done()


main()
