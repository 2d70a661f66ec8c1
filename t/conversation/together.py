# SPDX-License-Identifier: BSD-3-Clause
"""Requests of several clients that arrive together are executed together. Each client gets its own replies, even if other clients
fail in between. The test stops the daemon by a signal while they send, so that all requests are pending when it continues."""
import os
import signal
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from connections import alone, endings, open_files, until_end  # noqa: E402
from farcached import Closed, Daemon, deadline, select_nothing, tap, until  # noqa: E402

KB = 1 << 10


def value_of(i):
    return b"%d:" % i + b"v" * (37 * i)


def reply_of(i):
    return b"VALUE key%d 0 %d\r\n%s\r\nEND\r\n" % (i, len(value_of(i)), value_of(i))


def stored(d, count):
    clients = [d.client() for _ in range(count)]
    tap.is_({c.set("key%d" % i, value_of(i)) for i, c in enumerate(clients)}, {"STORED"}, "%d clients, each with a key" % count)
    return clients


def each_their_own(d, asker):
    clients = stored(d, 99)
    for turn in range(5):
        with d.stopped():
            for i, c in enumerate(clients):
                c.send(b"get key%d\r\n" % i * (1 + i * turn % 7))
        wrong = [i for i, c in enumerate(clients) if c.upto(reply_of(i) * (1 + i * turn % 7)) != reply_of(i) * (1 + i * turn % 7)]
        tap.is_(wrong, [], "99 ask at once, up to seven times each: their own values")
    with d.stopped():
        for i, c in enumerate(clients):
            c.send((b"get key%d\r\n" % i, b"set key%d 0 0 3\r\nnew\r\n" % i, b"mg key%d v\r\n" % i)[i % 3])
    want = [(reply_of(i), b"STORED\r\n", b"VA %d\r\n%s\r\n" % (len(value_of(i)), value_of(i)))[i % 3] for i in range(99)]
    tap.is_([i for i, c in enumerate(clients) if c.upto(want[i]) != want[i]], [], "gets, sets and meta gets at once")
    with d.stopped():
        for i, c in enumerate(clients):
            c.send(b"get key%d\r\nget ke" % i)
    for i, c in enumerate(clients):
        c.send(b"y%d\r\n" % i)
    want = [b"VALUE key%d 0 3\r\nnew\r\nEND\r\n" % i * 2 if i % 3 == 1 else reply_of(i) * 2 for i in range(99)]
    tap.is_([i for i, c in enumerate(clients) if c.upto(want[i]) != want[i]], [], "each with the half of another request behind it")
    for c in clients:
        c.close()
    tap.ok(alone(asker), "all have left")


def seen(d, asker):
    """An access is recorded before its reply is sent, also for requests executed together with others."""
    clients = stored(d, 40)
    with d.stopped():
        for i, c in enumerate(clients):
            c.send(b"mg key%d h\r\n" % i if i % 2 else b"get key%d\r\n" % i)
    for i, c in enumerate(clients):
        c.upto(b"HD h0\r\n" if i % 2 else reply_of(i))
    def told():
        return {asker.ask("mg key%d h" % i) for i in range(40)}

    # With remote pointers the accesses of other workers' clients travel in reports.
    reported = "no_local_read" in os.environ.get("FARCACHED_NODES", "")
    tap.is_(until(told, lambda all_told: all_told == {"HD h1"}) if reported else told(), {"HD h1"},
            "40 keys got at once: all have been hit")
    for c in clients:
        c.close()


def all_endings(d, asker):
    clients = stored(d, 96)
    asker.set("large", b"x" * (900 * KB))
    tap.ok(len(d.stats("conns")) > 96, "all are there")
    before, files = endings(asker), open_files(d)
    with d.stopped():
        for i, c in enumerate(clients):
            c.send(b"get key%d\r\n" % i)
            if i % 8 == 1:
                c.shutdown_send()
            elif i % 8 == 2:
                c.send(b"quit\r\nget key1\r\n")
            elif i % 8 == 3:
                c.reset()
            elif i % 8 == 4:
                c.send(b"get large\r\n" * 9)  # more than its socket holds
            elif i % 8 == 5:
                c.send(b"nonsense\r\n")
            elif i % 8 == 6:
                c.close()
            elif i % 8 == 7:
                c.send(b"set key%d 0 0 1000000\r\n" % i + b"y" * KB).shutdown_send()
    large = b"VALUE large 0 %d\r\n%s\r\nEND\r\n" % (900 * KB, b"x" * (900 * KB))
    wrong = []
    for i, c in enumerate(clients):
        if i % 8 in (3, 6):
            continue
        want = reply_of(i) + (large * 9 if i % 8 == 4 else b"ERROR\r\n" if i % 8 == 5 else b"")
        got = until_end(c) if i % 8 in (1, 2, 7) else c.upto(want)
        if got != want:
            wrong.append((i, len(got), len(want)))
    tap.is_(wrong, [], "96 at once that end their side, quit, reset, do not read, err, leave, break off: the others are answered")
    for i, c in enumerate(clients):
        if i % 8 != 3:
            c.close()
    tap.ok(alone(asker), "all have left")
    now = endings(asker)
    tap.is_(sum(now.values()) - sum(before.values()), 96, "each is counted once")
    tap.is_(now["protocol_close"] - before["protocol_close"], 12, "clients that quit as such")
    tap.ok(len(open_files(d)) <= len(files) - 96, "no descriptor is left")


def watchers(d, asker):
    clients = stored(d, 30)
    with d.stopped():
        for i, c in enumerate(clients):
            c.send(b"get key%d\r\n" % i if i % 3 else b"watch connevents\r\nget key1\r\n")
    want = [reply_of(i) if i % 3 else b"OK\r\n" for i in range(30)]
    tap.is_([i for i, c in enumerate(clients) if c.upto(want[i]) != want[i]], [], "ten of 30 begin to watch: all answers are there")
    for c in clients:
        c.close()
    tap.ok(alone(asker), "all have left")


def at_the_end(d):
    clients = stored(d, 99)
    with d.stopped():
        for i, c in enumerate(clients):
            c.send(b"get key%d\r\n" % i, b"mn\r\n" * (i % 50), (b"", b"get unfinished", b"set k 0 0 100\r\nx")[i % 3])
        d.signal(signal.SIGTERM)
    wrong = [i for i, c in enumerate(clients) if until_end(c) != reply_of(i) + b"MN\r\n" * (i % 50)]
    tap.is_(wrong, [], "99 requests and SIGTERM at once: all are answered")
    tap.is_(d.wait(), 0, "and it ends")


class Busy(threading.Thread):
    """A client whose pipelines keep the worker busy until its end."""

    def __init__(self, client):
        super().__init__(daemon=True)
        self.client, self.over = client, threading.Event()
        self.start()

    def run(self):
        try:
            while not self.over.is_set():
                self.client.send(b"get nothing\r\n" * 6000)
                self.client.upto(b"END\r\n" * 6000)
        except OSError:
            return

    def end(self):
        self.over.set()
        self.join(deadline())


def sent(client, data):
    try:
        client.send(data)
        return True
    except OSError:
        return False


def idle_and_asking(busy_clients):
    """A client whose idle timeout is about to be noticed, and which sends a request at that moment, is answered. The signal wakes a
    sleeping worker without events. A busy worker notices at the end of a loop iteration that began before the request."""
    with Daemon("-t", "1", "-m", "64", "-R", "1", "-o", "idle_timeout=2") as d:
        clients = stored(d, 6)
        senders = [d.client() for _ in range(6)]
        for i, c in enumerate(senders):  # part of a value that is received into the cache's memory
            c.send(b"set large%d 0 0 60000\r\n" % i, b"v" * 20_000)
        busy = [Busy(d.client()) for _ in range(busy_clients)]
        d.client().ask("mn")  # executed together with the value
        with d.stopped():
            select_nothing(4.2)  # more than twice the limit, which counts whole seconds
            for i, c in enumerate(clients):
                c.send(b"get key%d\r\n" % i)
            for c in senders:
                c.send(b"v" * 20_000)
        wrong, lost = [], []
        for i, c in enumerate(clients):
            try:
                wrong += [] if c.upto(reply_of(i)) == reply_of(i) else [i]
            except Closed:
                wrong.append(i)
            if i == 0:  # the worker has checked the timeouts
                lost = [n for n, sender in enumerate(senders) if not sent(sender, b"v" * 20_000 + b"\r\n")]
        tap.is_(wrong, [], "a request that is there when its client has been idle for too long is answered, beside %d busy ones" %
                busy_clients)
        for i, c in enumerate(senders):
            try:
                lost += [] if c.line() == b"STORED\r\n" else [i]
            except (Closed, ConnectionError):
                lost.append(i)
        tap.is_(lost, [], "nor is one closed whose value is partly received, beside %d busy ones" % busy_clients)
        for b in busy:
            b.end()


with Daemon("-t", "1", "-m", "64") as daemon:
    with daemon.client() as first:
        tap.ok(alone(first), "one client")
        for test in (each_their_own, seen, all_endings, watchers):
            test(daemon, first)
    at_the_end(daemon)
for number in (0, 8):
    idle_and_asking(number)
tap.done()
