# SPDX-License-Identifier: BSD-3-Clause
"""Clients' sockets by io_uring: the choice of back end, its display, and the message on a refusal. Then errors that only a ring can
have: buffers run out, sockets accept a part of a send, clients disconnect during their replies."""
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from connections import Sender, alone, endings, open_files, unsent  # noqa: E402
from farcached import Client, Daemon, deadline, default_binary, is_sanitized, run_binary, tap, until  # noqa: E402
from without_call import WithoutCall  # noqa: E402

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MB = 1 << 20


def ring(asker, name):
    return int(asker.stats("proxy")["ring_" + name])


# -- Choice of the back end --------------------------------------------------------------------------------

def chosen():
    with Daemon("-t", "1") as d:
        tap.is_((d.stats("settings")["io"], d.stats()["farcached_io"]), ("libevent", "libevent"), "libevent by default")
    status, _, said = run_binary("-o", "io=epoll")
    tap.ok(status != 0 and b"libevent" in said and b"uring" in said, "io=epoll is refused, with the list of back ends", said)


def without(call="io_uring_setup"):
    return WithoutCall(call, default_binary())


def refused(built_in):
    why = r"io_uring_setup: Operation not permitted" if built_in else r"this farcached was built without liburing"
    line = r"\Aio=%s: no io_uring \(" + why + r"\): using libevent for client sockets\n\Z"
    with without() as binary:
        with Daemon("-t", "2", "-o", "io=uring", binary=binary) as d:
            with d.client() as c:
                tap.is_((c.set("k", "v"), c.get("k")), ("STORED", b"v"), "a sandbox refuses io_uring: it serves")
            tap.like(d.stderr().decode(), line % "uring", "and logs one line")
            tap.is_((d.stats("settings")["io"], d.stats()["farcached_io"]), ("uring", "libevent"),
                    "stats settings: the option; stats: the back end in use")
        with Daemon("-t", "2", "-o", "io=auto", binary=binary) as d:
            tap.is_((d.stats()["farcached_io"], d.stderr()), ("libevent", b""), "io=auto: not a word")
        with Daemon("-t", "2", "-v", "-o", "io=auto", binary=binary) as d:
            tap.is_((d.stats()["farcached_io"], len(re.findall(line[2:-2] % "auto", d.stderr().decode()))), ("libevent", 1),
                    "but with -v: the same line")


def refused_in_part():
    for call in ("io_uring_enter", "io_uring_register"):
        with without(call) as binary, Daemon("-t", "1", "-o", "io=uring", binary=binary) as d, d.client() as c:
            tap.is_((c.set("k", "v"), d.stats()["farcached_io"]), ("STORED", "libevent"), "without %s alone: it serves" % call)
            tap.like(d.stderr().decode(), r"\Aio=uring: no io_uring \(" + call + r".*: Operation not permitted\)", "with reason")


def in_use():
    with Daemon("-t", "2", "-o", "io=auto") as d, d.client() as c:
        tap.is_((d.stats("settings")["io"], d.stats()["farcached_io"]), ("auto", "uring"), "io=auto: a ring where there is one")
        tap.is_(d.stderr(), b"", "without a word")
        before = {name: ring(c, name) for name in ("sends", "receives", "enters")}
        for _ in range(100):
            c.ask("mn")
        moved = {name: ring(c, name) - n for name, n in before.items()}
        tap.ok(moved["sends"] >= 100 and moved["receives"] >= 100, "it receives and sends", moved)
        tap.is_([c.stats("proxy")[name] for name in ("read_calls", "write_calls")], ["0", "0"], "and nothing else does")
    folder = tempfile.TemporaryDirectory(prefix="farcached-uring-")
    path = os.path.join(folder.name, "socket")
    with Daemon("-t", "1", "-o", "io=uring", "-s", path) as d, d.client() as c:
        value = b"x" * 300000
        tap.is_((c.set("k", value), c.get("k") == value, d.stats()["farcached_io"]), ("STORED", True, "uring"), "a Unix socket")
    folder.cleanup()


# -- Errors of a ring --------------------------------------------------------------------------------------

def one_call_for_many(d, asker):
    """All clients send while the daemon is stopped: serving them then takes few system calls."""
    clients = [d.client() for _ in range(100)]
    for c in clients:
        c.ask("mn")
    before = ring(asker, "enters"), ring(asker, "sends")
    with d.stopped():
        for c in clients:
            c.send(b"get k\r\n")
    tap.is_({c.line() for c in clients}, {b"END\r\n"}, "100 clients ask at once")
    after = ring(asker, "enters"), ring(asker, "sends")
    tap.ok(after[1] - before[1] >= 100 and after[0] - before[0] < 50, "and are answered with few system calls", before, after)
    for c in clients:
        c.close()


def buffers_run_out(d, asker):
    """Many clients send much at once, into sockets with large receive buffers."""
    clients = [d.client() for _ in range(30)]
    value = b"".join(b"%07d " % i for i in range(120000))  # 960,000 bytes
    for i, c in enumerate(clients):
        for _ in range(3):
            c.set("big%d" % i, value)
    with d.stopped():
        senders = [Sender(c, b"set big%d 0 0 %d\r\n%s\r\n" % (i, len(value), value[::-1])) for i, c in enumerate(clients)]
        until(lambda: sum(unsent(c) for c in clients), lambda n: n > 0)
    tap.is_({c.line() for c in clients}, {b"STORED\r\n"}, "30 large values at once: all are stored")
    for sender in senders:
        sender.join(deadline())
    tap.ok(ring(asker, "buffers_exhausted") > 0, "though buffers ran out", ring(asker, "buffers_exhausted"))
    tap.ok(all(asker.get("big%d" % i) == value[::-1] for i in range(30)), "as they were sent")
    for c in clients:
        c.close()
    tap.ok(alone(asker), "all have left")


def large_replies(d, asker):
    """Some megabytes for each of 40 clients, more than sockets hold: some read them, some read one byte and disconnect."""
    value = os.urandom(MB - 200)
    tap.is_(asker.set("large", value), "STORED", "a value of almost a megabyte")
    want = b"VALUE large 0 %d\r\n" % len(value) + value + b"\r\nEND\r\n"
    files, before = open_files(d), endings(asker)
    clients = [d.client() for _ in range(40)]
    for i, c in enumerate(clients):
        c.send(b"get large\r\n" * (8 + i % 3))
    until(lambda: ring(asker, "sends_short"), lambda n: n > 0)
    for i, c in enumerate(clients):
        if i % 4 == 3:
            c.read(1)
            (c.reset if i % 8 == 3 else c.close)()
    right = all(c.upto(want * (8 + i % 3)) == want * (8 + i % 3) for i, c in enumerate(clients) if i % 4 != 3)
    tap.ok(right, "40 clients, up to 10 of it each: those that stay get every byte")
    for i, c in enumerate(clients):
        if i % 4 != 3:
            c.shutdown_send()
            right = right and c.until_close() == b""
            c.close()
    tap.ok(right, "and the end of the connection after its own")
    tap.ok(alone(asker), "all have left")
    tap.is_(open_files(d), files, "no descriptor is left")
    now = endings(asker)
    lost = sum(now[r] - before[r] for r in ("send_failed", "peer_reset"))
    tap.is_((lost, now["client_closed"] - before["client_closed"]), (10, 30), "clients that left in the middle are counted as lost")
    tap.ok(ring(asker, "sends_short") > 0, "sends fell short", ring(asker, "sends_short"))


def flood(d, asker):
    """A client sends without end and reads nothing: the amount received ahead is bounded."""
    asker.set("v", b"y" * 100000)
    before = int(asker.stats()["bytes_read"])
    with d.client() as c:
        sender = Sender(c, b"get v\r\n" * 8000000)
        until(lambda: ring(asker, "receives_cancelled"), lambda n: n > 0)
        read = int(asker.stats()["bytes_read"]) - before
        tap.ok(read < 16 * MB, "56 MB from a client that reads nothing: reading stops soon", read)
        tap.ok(ring(asker, "receives_cancelled") > 0, "its receive is cancelled", ring(asker, "receives_cancelled"))
        tap.is_(asker.get("v")[:3], b"yyy", "others are served")
        c.socket.shutdown(socket.SHUT_RDWR)  # wakes the sender, too
        sender.join(deadline())
    tap.ok(alone(asker), "it has left")


def half_close(d, asker):
    """All requests before the end of the client's stream are answered, for any depth of the pipeline."""
    wrong = 0
    for depth in (1, 16, 64, 1000, 5000):
        with d.client() as c:
            c.send(b"get k\r\n" * depth).shutdown_send()
            wrong += c.until_close() != b"END\r\n" * depth
    tap.is_(wrong, 0, "half-closed behind 1 to 5000 requests: all are answered, then the end")
    with d.client() as c:
        c.send(b"mn\r\n" * 100 + b"quit\r\n" + b"z" * 50000)
        tap.is_(c.until_close(), b"MN\r\n" * 100, "quit behind 100 requests: the replies are sent first")


def deep(d, port):
    """Pipelines of 64 on many connections at once: every reply, in order."""
    wrong = []

    def ask(number):
        with Client(port) as c:
            for turn in range(30):
                block = b"".join(b"set d%d-%d 0 0 %d\r\n%s\r\nget d%d-%d\r\n" % (
                    number, i, len(b"%d" % (turn + i)), b"%d" % (turn + i), number, i) for i in range(32))
                want = b"".join(b"STORED\r\nVALUE d%d-%d 0 %d\r\n%d\r\nEND\r\n" % (
                    number, i, len(b"%d" % (turn + i)), turn + i) for i in range(32))
                c.send(block)
                if c.upto(want) != want:
                    wrong.append((number, turn))
                    return
    threads = [threading.Thread(target=ask, args=(n,), daemon=True) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(deadline())
    tap.is_(wrong, [], "16 clients, pipelines of 64: every answer, in its order")


def stopping():
    """Requests received before the stop are answered in order, also in front of an incomplete request."""
    value = b"x" * 100000
    with Daemon("-t", "1", "-o", "io=uring") as d:
        clients = [d.client() for _ in range(99)]
        for i, c in enumerate(clients):
            c.set("k%d" % i, value[:i * 1000])
        for i, c in enumerate(clients):
            c.send(b"get k%d\r\n" % i, b"mn\r\n" * 50, (b"", b"get unfinished", b"set k 0 0 100\r\nx")[i % 3])
        d.stop()
        wrong = [i for i, c in enumerate(clients)
                 if c.until_close() != b"VALUE k%d 0 %d\r\n%s\r\nEND\r\n" % (i, i * 1000, value[:i * 1000]) + b"MN\r\n" * 50]
        tap.is_(wrong, [], "SIGTERM: all earlier requests are answered")


class ClosedLoop:
    """Clients in a process of their own (t/lib/closed_loop.py)."""

    def __init__(self, port, clients):
        script = os.path.join(HERE, "lib", "closed_loop.py")
        lines = 4 if is_sanitized() else 18  # a daemon with a sanitizer takes as long for fewer
        self.process = subprocess.Popen([sys.executable, script, str(port), str(clients), str(lines)], stdout=subprocess.PIPE)

    def until_begun(self):
        self.process.stdout.readline()

    def end(self):
        """Its last output, within the deadline."""
        try:
            return self.process.communicate(timeout=deadline())[0]
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.communicate()[0] + b"killed\n"


def without_end():
    """Clients that send again at once, more than the worker can answer: it serves others, too, and stops on request."""
    with Daemon("-t", "1", "-c", "1024", "-o", "io=uring") as d:
        loads = [ClosedLoop(d.port, 250) for _ in range(3)]
        try:
            for load in loads:
                load.until_begun()
            with d.client() as c:
                tap.is_(c.ask("mn"), "MN", "750 clients that never pause: another is served")
                c.send(b"mn\r\n" * 50)
                tap.is_(c.upto(b"MN\r\n" * 50), b"MN\r\n" * 50, "in a pipeline, too")
                until(lambda: ring(c, "receives"), lambda n: n > 5000)
                tap.is_(c.ask("mn"), "MN", "and stays served")
            d.signal(signal.SIGTERM)
            tap.is_(d.wait(), 0, "SIGTERM ends it under their load")
        finally:
            wrong = [load.end() for load in loads]
        tap.is_(wrong, [b"closed\n"] * 3, "all of their replies were right")


def idle_timeout():
    with Daemon("-t", "1", "-o", "io=uring,idle_timeout=1") as d:
        with d.client() as c:
            tap.is_(c.ask("mn"), "MN", "idle_timeout=1")
            tap.is_(c.until_close(), b"", "a silent client is closed, while the ring sleeps")
        tap.is_(endings(d.client())["idle_timeout"], 1, "and counted")


chosen()
_, versions, _ = run_binary("--version-full", as_is=True)
built_in = b"without liburing" not in versions
refused(built_in)
with Daemon("-t", "1", "-o", "io=uring") as probe:
    there = probe.stats()["farcached_io"] == "uring"
    why = probe.stderr().decode().strip()
if there:
    refused_in_part()
    in_use()
    with Daemon("-t", "1", "-m", "256", "-o", "io=uring") as daemon, daemon.client() as first:
        tap.ok(alone(first), "one client")
        for test in (one_call_for_many, buffers_run_out, large_replies, flood, half_close):
            test(daemon, first)
        deep(daemon, daemon.port)
    stopping()
    without_end()
    idle_timeout()
else:
    tap.skip("sockets by io_uring", why)
tap.done()
