# SPDX-License-Identifier: BSD-3-Clause
"""A full cache accepts values of another size: SET after SET without an error.

A cache of 64 MB is filled with values of 100 bytes until it evicts. Then it must accept values of 10 KB, then of 900 KB, then of
100 bytes again: whole cold pages change their class. After each shift the cache serves the new size. A page's age is in whole
seconds, so the test pauses before each shift.
"""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from farcached import Daemon, select_nothing, tap  # noqa: E402

MEMORY_MB = 64
BATCH = 64
COLD_S = 3  # a class that evicts new items takes a page of another class that was not used for a second or two


def value_of(phase, i, size):
    """A value that contains its number."""
    mark = b"%s-%d;" % (phase.encode(), i)
    return (mark * (size // len(mark) + 1))[:size]


def store(client, phase, first, count, size):
    """Sends pipelined sets of the keys from phase-first on; returns the replies other than STORED."""
    wrong = []
    batch = max(1, min(BATCH, 4_000_000 // size))
    for at in range(first, first + count, batch):
        numbers = range(at, min(at + batch, first + count))
        client.send(b"".join(b"set %s-%d 0 0 %d\r\n%s\r\n" % (phase.encode(), i, size, value_of(phase, i, size))
                             for i in numbers))
        for i in numbers:
            reply = client.line()
            if reply != b"STORED\r\n":
                wrong.append((i, reply))
    return wrong


def held(client, phase, first, count, size):
    """The number of keys that are present; wrong values are reported as a failed test."""
    found = 0
    for at in range(first, first + count, BATCH):
        keys = ["%s-%d" % (phase, i) for i in range(at, min(at + BATCH, first + count))]
        for key, _, value, _ in client.get_many(keys):
            found += 1
            i = int(key.split(b"-")[1])
            if value != value_of(phase, i, size):
                tap.ok(False, "%s-%d has its stored value" % (phase, i))
    return found


def shift(d, client, phase, size, cache_fulls):
    """Stores cache_fulls times the memory in values of `size`; the newest quarter of a cache must be present."""
    count = int(MEMORY_MB * (1 << 20) * cache_fulls) // size
    before = int(d.stats()["evictions"])
    started = time.monotonic()
    wrong = store(client, phase, 0, count, size)
    tap.ok(not wrong, "%s: %d values of %d bytes are all stored" % (phase, count, size),
           "%d were not, the first: %r" % (len(wrong), wrong[:1]))
    took = time.monotonic() - started
    stats = d.stats()
    tap.diag("%s: %.1f s, %d evictions, %s items, %s bytes" % (
        phase, took, int(stats["evictions"]) - before, stats["curr_items"], stats["bytes"]))
    tap.ok(int(stats["bytes"]) <= int(stats["limit_maxbytes"]), "%s: bytes stay within the limit" % phase)
    recent = max(1, int(count / max(1, cache_fulls)) // 4)
    got = held(client, phase, count - recent, recent, size)
    tap.ok(got >= recent * 9 // 10, "%s: the newest values are there" % phase, "%d of %d" % (got, recent))
    return count


def main():
    with Daemon("-m", MEMORY_MB, "-t", "2") as d:
        client = d.client()
        shift(d, client, "small", 100, 0.8)
        tap.ok(int(d.stats()["evictions"]) > 0, "small: the cache is full")
        for phase, size, cache_fulls in (("middle", 10_000, 2), ("large", 900_000, 4), ("again", 100, 0.5)):
            select_nothing(COLD_S)
            shift(d, client, phase, size, cache_fulls)
        tap.is_(d.stats()["store_no_memory"], "0", "no store ran out of memory")
        # At last all sizes mixed: each one gets memory beside the others.
        wrong = []
        for i in range(200):
            for phase, size in (("x100", 100), ("x10k", 10_000), ("x900k", 900_000)):
                wrong += store(client, phase, i, 1, size)
        tap.ok(not wrong, "all three sizes in turn are stored", repr(wrong[:1]))
        tap.ok(client.is_idle(), "no other reply")
    tap.done()


main()
