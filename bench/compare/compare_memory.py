# SPDX-License-Identifier: BSD-3-Clause
"""Memory per item and per idle connection: private memory of newly started processes."""
import resource
import socket
import time

from compare_contest import PEER
from compare_load import Data
from compare_servers import Failed, stats

DESCRIPTORS_BESIDE = 200
CONNECTIONS_PER_ADDRESS = 20_000  # fewer than the kernel's ephemeral ports
PATIENCE_SECONDS = 60
BIND_ADDRESS_NO_PORT = 24  # <netinet/in.h>; Python has no name for it
ITEMS_PER_BUCKET_MAX = 1.5  # of memcached: above it a thread grows the hash table, a second later
START_SECONDS, LOOKS = 10, 6
FEW_CONNECTIONS = 1000
THERE_BEFORE = 2  # items stored before the first measurement: half of them; the first stores allocate memory that is not theirs


def table_grows(told):
    """Will the hash table grow soon, or is its old copy still allocated? Taken from `stats`."""
    buckets = 1 << int(told["hash_power_level"])
    return told["hash_is_expanding"] != "0" or int(told["curr_items"]) > ITEMS_PER_BUCKET_MAX * buckets


def wait_for_table(contestant):
    """Waits until memcached's hash table has stopped growing. Ours grows with the items."""
    end = time.monotonic() + PATIENCE_SECONDS
    while contestant.label == PEER and table_grows(stats(contestant.port)):
        if time.monotonic() > end:
            raise Failed("%s does not stop growing its hash table" % contestant.label)
        time.sleep(0.05)


def settled(contestant):
    wait_for_table(contestant)
    return contestant.front.private_bytes()


def started(contestant):
    """Waits until the memory after the start is stable."""
    end, seen = time.monotonic() + START_SECONDS, []
    while time.monotonic() < end and (len(seen) < LOOKS or len(set(seen[-LOOKS:])) > 1):
        time.sleep(0.2)
        seen.append(contestant.front.private_bytes())


def of_items(make, load, keys, value_bytes):
    """Bytes per item with values of this size and keys of at most ten characters. make(): a contestant that does not run yet."""
    name = "%d B values" % value_bytes
    contestant = make().start()
    try:
        started(contestant)
        load.preload(contestant, Data(name, value_bytes, keys // THERE_BEFORE, prefix="key-"))
        before = settled(contestant)
        load.preload(contestant, Data(name, value_bytes, keys, prefix="key-"))
        after = settled(contestant)
        items = int(stats(contestant.port)["curr_items"])
        if items < keys:
            raise Failed("%s holds only %d of %d items" % (contestant.label, items, keys))
        return (after - before) / (items - keys // THERE_BEFORE)
    finally:
        contestant.stop()


def allow_descriptors(wanted):
    """Raises the limit on descriptors, which child processes inherit; returns the number of connections that it allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + DESCRIPTORS_BESIDE
    if soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return min(wanted, soft - DESCRIPTORS_BESIDE)


def connect(port, number):
    """A connection after its first request."""
    s = socket.socket()
    s.settimeout(PATIENCE_SECONDS)
    s.setsockopt(socket.IPPROTO_IP, BIND_ADDRESS_NO_PORT, 1)  # connect() chooses the port: closed ones are reused
    s.bind(("127.0.0.%d" % (1 + number // CONNECTIONS_PER_ADDRESS), 0))
    s.connect(("127.0.0.1", port))
    s.sendall(b"get nothing\r\n")
    if s.recv(64) != b"END\r\n":
        raise Failed("a connection is not served: number %d" % number)
    return s


def each_of(number):
    return "each of %d idle connections" % number


def numbers_of_connections(most):
    return sorted({min(FEW_CONNECTIONS, most), most})


def with_idle_connections(make, numbers):
    """(private bytes with all connections, {number: growth since the start per connection}). Every connection has been used once.
    The growth includes memory of the first use, so fewer connections cost more each."""
    contestant = make().start()
    opened, each = [], {}
    try:
        started(contestant)
        before = contestant.front.private_dirty_bytes()
        for number in numbers:
            while len(opened) < number:
                opened.append(connect(contestant.port, len(opened)))
            taken = contestant.front.private_dirty_bytes()
            each[number] = (taken - before) / number
        return taken, each
    finally:
        for s in opened:
            s.close()
        contestant.stop()
