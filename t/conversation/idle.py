# SPDX-License-Identifier: BSD-3-Clause
"""Ten thousand idle connections while other clients are served; prints the memory per connection.

If the hard limit on open files forbids ten thousand (half of them are the test's), as many as it allows.
"""
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from farcached import Client, Daemon, deadline, is_sanitized, raise_descriptor_limit, tap  # noqa: E402

IDLE_WANTED = int(os.environ.get("IDLE_CONNECTIONS", "10000"))
SPARE = 300            # descriptors of both processes other than idle connections
BYTES_EACH_MAX = 8192  # private memory of the daemon per idle connection


class Load(threading.Thread):
    """A busy client: sets and gets one key after the other, and counts errors."""

    def __init__(self, port, name):
        super().__init__(daemon=True)
        self.client, self.prefix = Client(port), name
        self.stopping = threading.Event()
        self.rounds, self.wrong, self.slowest = 0, [], 0.0

    def run(self):
        while not self.stopping.is_set():
            key, value = "%s-%d" % (self.prefix, self.rounds % 500), b"value %d" % self.rounds
            began = time.monotonic()
            try:
                stored, got = self.client.set(key, value), self.client.get(key)
            except Exception as e:  # any error belongs into the report
                self.wrong.append(repr(e))
                return
            if stored != "STORED" or got != value:
                self.wrong.append((stored, got))
            self.slowest = max(self.slowest, time.monotonic() - began)
            self.rounds += 1

    def end(self):
        self.stopping.set()
        self.join(deadline())


def open_idle(d, count):
    """Connections: a third has sent nothing, a third text, a third binary."""
    binary_noop = bytes([0x80, 0x0a]) + bytes(22)
    idle = []
    for i in range(count):
        c = d.client()
        if i % 3 == 1:
            c.send(b"mn\r\n")
        elif i % 3 == 2:
            c.send(binary_noop)
        idle.append(c)
    for i, c in enumerate(idle):
        if i % 3 == 1:
            assert c.line() == b"MN\r\n"
        elif i % 3 == 2:
            assert c.read(24)[:2] == bytes([0x81, 0x0a])
    return idle


def hold(d, count):
    before = d.memory()["Private"]
    loads = [Load(d.port, "load%d" % i) for i in range(2)]
    for load in loads:
        load.start()
    began = time.monotonic()
    idle = open_idle(d, count)
    tap.diag("%d connections opened in %.1f s" % (count, time.monotonic() - began))
    stats = d.stats()
    tap.ok(int(stats["curr_connections"]) >= count, "%d idle connections are held" % count, stats["curr_connections"])
    tap.is_(stats["listen_disabled_num"], "0", "the listener was never disabled")
    rounds = [load.rounds for load in loads]
    end = time.monotonic() + deadline()
    while any(load.rounds < r + 500 and not load.wrong for load, r in zip(loads, rounds)) and time.monotonic() < end:
        time.sleep(0.01)
    for load, r in zip(loads, rounds):
        tap.ok(not load.wrong and load.rounds >= r + 500, "%s is served meanwhile" % load.prefix, load.wrong[:3])
    each = (d.memory()["Private"] - before) / count
    tap.diag("private memory per idle connection: %.0f bytes; slowest set and get: %.1f ms" % (
        each, 1000 * max(load.slowest for load in loads)))
    name = "an idle connection costs at most %d bytes" % BYTES_EACH_MAX
    if is_sanitized():
        tap.skip(name, "a sanitizer build keeps memory of its own")
    else:
        tap.ok(each <= BYTES_EACH_MAX, name, "%.0f" % each)
    some = range(1, count, 97)
    tap.is_(sum(is_live(idle[i], i) for i in some), len(some), "idle connections still answer")
    for load in loads:
        load.end()
    for c in idle:
        c.close()
    left = d.until_stat("curr_connections", lambda n: int(n) < 50)
    tap.ok(int(left) < 50, "and when they close, they are gone", left)


def is_live(c, i):
    if i % 3 == 2:
        c.send(bytes([0x80, 0x0a]) + bytes(22))
        return c.read(24)[:2] == bytes([0x81, 0x0a])
    return c.is_idle()


def main():
    allowed = raise_descriptor_limit(IDLE_WANTED + SPARE)
    count = min(IDLE_WANTED, allowed - SPARE)
    if count < IDLE_WANTED:
        tap.diag("the hard limit on open files is %d: %d connections instead of %d" % (allowed, count, IDLE_WANTED))
    with Daemon("-m", "64", "-t", "4", "-c", count + 100, "-b", "4096") as d:
        hold(d, count)
        tap.ok(d.client().is_idle(), "the daemon keeps running")
    tap.done()


main()
