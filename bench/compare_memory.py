# SPDX-License-Identifier: BSD-3-Clause
"""What memory is taken: of an item, and with idle connections. Resident memory of fresh processes."""
import resource
import socket
import time

from compare_servers import Failed, stats
from compare_load import Data

DESCRIPTORS_BESIDE = 200
CONNECTIONS_PER_ADDRESS = 20_000  # fewer than ports that the kernel gives out
PATIENCE_SECONDS = 60
BIND_ADDRESS_NO_PORT = 24  # <netinet/in.h>; Python has no name for it
SETTLE_SECONDS, RESTS = 10, 6
ALL_TO_FIRST = 10  # of connections
THERE_BEFORE = 2  # one of so many items: what a process takes when it first stores something is not theirs


def settled(process):
    """Resident bytes, once they rest: a table may still be growing."""
    end, seen = time.monotonic() + SETTLE_SECONDS, [process.resident_bytes()]
    while time.monotonic() < end and (len(seen) < RESTS or len(set(seen[-RESTS:])) > 1):
        time.sleep(0.2)
        seen.append(process.resident_bytes())
    return seen[-1]


def of_items(make, load, keys, value_bytes):
    """Bytes that an item of so many bytes and keys of at most ten characters takes. make(): a contestant, not running."""
    name = "%d B values" % value_bytes
    contestant = make().start()
    try:
        settled(contestant.front)
        load.preload(contestant, Data(name, value_bytes, keys // THERE_BEFORE, prefix="key-"))
        before = settled(contestant.front)
        load.preload(contestant, Data(name, value_bytes, keys, prefix="key-"))
        after = settled(contestant.front)
        items = int(stats(contestant.port)["curr_items"])
        if items < keys:
            raise Failed("%s holds only %d of %d items" % (contestant.label, items, keys))
        return (after - before) / (items - keys // THERE_BEFORE)
    finally:
        contestant.stop()


def allow_descriptors(wanted):
    """How many connections there may be. What is started from here inherits the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + DESCRIPTORS_BESIDE
    if soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return min(wanted, soft - DESCRIPTORS_BESIDE)


def connect(port, number):
    """One that has asked for something once."""
    s = socket.socket()
    s.settimeout(PATIENCE_SECONDS)
    s.setsockopt(socket.IPPROTO_IP, BIND_ADDRESS_NO_PORT, 1)  # the port when it connects: those of connections that ended serve
    s.bind(("127.0.0.%d" % (1 + number // CONNECTIONS_PER_ADDRESS), 0))
    s.connect(("127.0.0.1", port))
    s.sendall(b"get nothing\r\n")
    if s.recv(64) != b"END\r\n":
        raise Failed("a connection is not served: number %d" % number)
    return s


def with_idle_connections(make, connections):
    """(resident bytes, growth by each connection but the first ones). Every connection was used once."""
    contestant = make().start()
    opened = []
    try:
        settled(contestant.front)
        first = connections // ALL_TO_FIRST
        for number in range(connections):
            if number == first:
                before = settled(contestant.front)
            opened.append(connect(contestant.port, number))
        after = settled(contestant.front)
        return after, (after - before) / (connections - first)
    finally:
        for s in opened:
            s.close()
        contestant.stop()
