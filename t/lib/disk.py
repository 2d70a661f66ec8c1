# SPDX-License-Identifier: BSD-3-Clause
"""Values on the disk (-o ext_path): their bytes, and how a test gets them there.

    with Disk(recache_rate=0) as disk, Daemon("-m", "4", "-I", "512k", "-o", disk.options()) as d, d.client() as c:
        stored = to_disk(c, {"k%d" % i: 2000 for i in range(10)})    # {key: value}

V1  A value names its key and its version, and all of its bytes follow from these two and its length. So one value is never taken
    for another, or for a part of another.
"""
import hashlib
import itertools
import os
import re
import shutil
import tempfile
import threading
import time

from daemon import deadline, until


def value(key, size, version=1):
    """Bytes of a value of that size."""
    name = ("%s#%d:" % (key, version)).encode()
    return (name + hashlib.shake_128(name).digest(size))[:size]


# Rules by which every value moves to the disk, and back when it is read.
BUSY = {"megabytes": 24, "item_size": 0, "item_age": 0, "recache_rate": 2, "drop_unread": False}


class Disk:
    """The file of a disk tier, in a folder of its own. rules: recache_rate=0, ..., by the names of the options."""

    def __init__(self, megabytes=64, drop_unread=True, **rules):
        self.megabytes, self.drop_unread = megabytes, drop_unread
        self.rules = {"page_size": 1, "wbuf_size": 1, **rules}

    @classmethod
    def at(cls, path, **rules):
        """At that path, in a folder of the caller's."""
        disk = cls(**rules)
        disk.path = path
        return disk

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="farcached-disk-")
        self.path = os.path.join(self.folder, "values")
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder, ignore_errors=True)

    def _options(self):
        named = [("ext_" + name, rule) for name, rule in self.rules.items()]
        return ["%s=%s" % one for one in [("ext_path", "%s:%dM" % (self.path, self.megabytes)), *named]] + \
            ([] if self.drop_unread else ["no_ext_drop_unread"])

    def options(self, *more):
        """For farcached's -o, with other options of it."""
        return ",".join(self._options() + list(more))

    def long_options(self):
        """For farnode."""
        return ["--" + one for one in self._options()]


def pipelined(client, requests, ends):
    """Sends all requests at once; returns the replies, each up to one of its last lines."""
    client.send(*requests)
    replies = []
    for _ in requests:
        lines = [client.line()]
        while not lines[-1].startswith(ends):
            lines.append(client.line())
        replies.append(b"".join(lines))
    return replies


def store_and_read(client, values, at_once=10):
    """Stores the values and reads each of them once, a few at a time: an item that was never read is evicted, not moved."""
    pairs = list(values.items())
    for i in range(0, len(pairs), at_once):
        some = pairs[i:i + at_once]
        told = pipelined(client, [b"set %s 5 0 %d\r\n%s\r\n" % (k.encode(), len(v), v) for k, v in some], (b"",))
        if set(told) - {b"STORED\r\n"}:
            raise AssertionError("set: %s" % told)
        pipelined(client, [b"mg %s\r\n" % k.encode() for k, _ in some], (b"",))


def hit(key, v, flags=5, cas=None):
    """A VALUE line with its value, as a get or gets answers it; store_and_read() stores with 5 as flags."""
    return b"VALUE %s %d %d%s\r\n%s\r\n" % (key.encode(), flags, len(v), b"" if cas is None else b" %d" % cas, v)


def get_all_at_once(client, keys, values):
    """A get of each key in one pipeline, answered in order: (what was wrong, hits)."""
    sender = threading.Thread(target=client.send, args=[b"get %s\r\n" % key.encode() for key in keys] + [b"mn\r\n"])
    sender.start()
    wrong, hits = [], 0
    for key in keys:
        line = client.line()
        if line != b"END\r\n":
            hits += 1
            if line + client.read(len(values[key]) + 7) != hit(key, values[key]) + b"END\r\n":
                wrong.append((key, line))
    sender.join()
    if client.line() != b"MN\r\n":
        wrong.append("no end")
    return wrong, hits


def reads(client):
    """The number of gets that the embedded node's disk was asked for."""
    return int(client.stats()["get_extstore"])


def classes(client, keys):
    """{key: its size class}, of the keys that exist. Nothing is read. An item whose value is on the disk is in a smaller class."""
    client.send(*[b"me %s\r\n" % key.encode() for key in keys])
    found = {}
    for key in keys:
        line = client.line().decode()
        if line != "EN\r\n":
            found[key] = int(re.search(r" cls=(\d+)", line).group(1))
    return found


def fill(client, size, key_bytes, numbers):
    """Other items of the class of such an item."""
    names = ["fill-%d-%d" % (size, next(numbers)) for _ in range(max(1, 300_000 // size))]
    store_and_read(client, {name: b"f" * (size + key_bytes - len(name)) for name in names})
    pipelined(client, [b"mg %s\r\n" % name.encode() for name in names], (b"",))  # items read once do not displace others (s3fifo)


def to_disk(client, sizes, version=1, leave_room=False):
    """Stores a value of each key, and other items until all of them are on the disk; {key: value}. sizes: {key: bytes}. A few
    are evicted on their way, and stored again. leave_room: deletes the other items, so that no more are evicted."""
    values = {key: value(key, size, version) for key, size in sizes.items()}
    numbers = itertools.count()
    for size in sorted(set(sizes.values())):
        some = {key: v for key, v in values.items() if len(v) == size}
        store_and_read(client, some)
        whole = max(classes(client, some).values())
        end = time.monotonic() + deadline()
        while True:
            fill(client, size, len(next(iter(some))), numbers)
            now = classes(client, some)
            store_and_read(client, {key: v for key, v in some.items() if key not in now})
            if sum(now[key] < whole for key in now) == len(some):
                break
            if time.monotonic() > end:
                stay = {key: one for key, one in now.items() if one >= whole}
                raise AssertionError("values of %d bytes do not leave memory: %s" % (size, stay))
        if leave_room:
            client.send(b"".join(b"md fill-%d-%d q\r\n" % (size, i) for i in range(next(numbers))), b"mn\r\n").upto(b"MN\r\n")
    missing = set(sizes) - set(classes(client, sizes))
    if missing:
        raise AssertionError("%d of %d values are lost" % (len(missing), len(sizes)))
    return values


def settled(daemon):
    """Waits until no read of the disk is under way; their number."""
    return until(lambda: int(daemon.stats()["extstore_io_queue"]), lambda n: n == 0)
