# SPDX-License-Identifier: BSD-3-Clause
"""Allocations that fail in a daemon during an operation: the nth alone, and the nth with all later ones, for n = 1, 2, ... until
none fails. At first n takes every value, then it grows in steps; with FARCACHED_TEST_LONG it takes many more.
t/faulty/failing_new.cc makes the allocations fail.

    failing = Failing(folder, "name")
    with Daemon(..., env=failing.env) as daemon:
        trial = Trial("where", daemon, failing)
        trial.run("what", lambda arm: (arm(), do_it()))
"""
import mmap
import os
import struct

from farcached import Closed, TimedOut, tap, test_program, until

LONG = bool(os.environ.get("FARCACHED_TEST_LONG"))
N_MAX = 1000 if LONG else 300
ALONE, WITH_ALL_BEHIND = 1, 2
MODES = (ALONE, WITH_ALL_BEHIND)
KEPT = b"k" * 3000


def numbers(every, mode, most=N_MAX):
    """Every n up to `every`, then steps of a fifth; in the mode with all later ones every other power of two."""
    n = 1
    while n <= most:
        yield n
        if LONG:
            n += 1
        elif mode == WITH_ALL_BEHIND:
            n *= 4
        else:
            n = n + 1 if n < every else n + max(1, n // 5)


class Failing:
    """The four words that t/faulty/failing_new.cc maps."""

    def __init__(self, folder, name):
        self.path = os.path.join(folder, name.replace("/", "-"))
        with open(self.path, "w+b") as f:
            f.write(bytes(mmap.PAGESIZE))
            f.flush()
            self.map = mmap.mmap(f.fileno(), mmap.PAGESIZE)
        self.env = {"LD_PRELOAD": test_program("faulty/failing_new.so"), "FARCACHED_FAILING_NEW": self.path}

    def arm(self, n, mode=ALONE):
        self.map[8:32] = struct.pack("QQQ", n, 0, 0)
        self.map[0:8] = struct.pack("Q", mode)

    def disarm(self):
        """Returns the number of failed allocations."""
        self.map[0:8] = bytes(8)
        return struct.unpack("Q", self.map[16:24])[0]


def descriptors(pid):
    return len(os.listdir("/proc/%d/fd" % pid))


class Trial:
    """One daemon and the operations on it. nodes: other processes that must survive, too."""

    def __init__(self, where, daemon, failing, nodes=(), every=16, modes=MODES, client=None):
        self.where, self.daemon, self.failing, self.nodes, self.every, self.modes = where, daemon, failing, nodes, every, modes
        self.client = client or daemon.client
        self.victim = daemon
        self.pid = daemon.pid
        self.failures = self.operations = 0
        self.settled = None

    def keep(self):
        with self.client() as c:
            return c.set("kept", KEPT)

    def all_alive(self):
        return all(one.alive() for one in [self.daemon, *self.nodes])

    def kept(self):
        """The kept value over a new connection. In front of nodes a link may have to reconnect first."""
        with self.client() as c:
            return c.ask("get kept", end=("END", "SERVER_ERROR")) == ["VALUE kept 0 %d" % len(KEPT), KEPT.decode(), "END"] and KEPT

    def kept_anew(self):
        """After a flush without a reply. It may be under way still, and flush what is stored now."""
        return self.keep() == "STORED" and self.kept() == KEPT

    def served(self, operation, stored_anew):
        """The error after the operation; empty: none."""
        for one in [self.daemon, *self.nodes]:
            if not one.alive():
                return "a daemon ended: " + one.stderr().decode("latin-1")[-1500:]
        try:
            if stored_anew and until(self.kept_anew, lambda kept: kept) is not True:
                return "nothing can be stored"
            if not stored_anew and until(self.kept, lambda value: value == KEPT) != KEPT:
                return "an item stored before is wrong"
            operation()
        except (Closed, ConnectionError):
            return "without the failure its connection ends"
        except TimedOut:
            return "without the failure it is not answered"
        return ""

    def leaks(self):
        """The number of the victim's descriptors that stay open."""
        if self.settled is None:
            self.settled = descriptors(self.victim.pid)
        left = until(lambda: descriptors(self.victim.pid), lambda count: count <= self.settled, timeout=5)
        return left - self.settled if left > self.settled else 0

    def fail(self, name, n, mode, why):
        how = "allocation %d%s: " % (n, " and all behind it" if mode == WITH_ALL_BEHIND else "")
        return tap.ok(False, "%s: %s" % (self.where, name), how + why)

    def run(self, name, armed, operation=None, most=N_MAX, stored_anew=False, may_wait=False):
        """armed: runs the operation and calls its argument to arm the failure. may_wait: the operation may wait for memory."""
        operation = operation or armed
        self.operations += 1
        for mode in self.modes:
            for n in numbers(self.every, mode, most):
                try:
                    armed(lambda n=n: self.failing.arm(n, mode))
                except (Closed, ConnectionError):
                    pass  # the operation was refused this way
                except TimedOut:
                    if not may_wait or mode == ALONE:
                        self.failing.disarm()
                        return self.fail(name, n, mode, "there is no answer, and no end")
                failed = self.failing.disarm()
                self.failures += failed
                wrong = self.served(lambda: operation(lambda: None), stored_anew)
                if wrong:
                    return self.fail(name, n, mode, wrong)
                if not failed:
                    break
            leaks = self.leaks()
            if leaks:
                return self.fail(name, 0, mode, "%d descriptors stay open" % leaks)
        return tap.ok(True, "%s: %s" % (self.where, name))

    def each(self, operations):
        """operations: {name: function of a client whose session has chosen its protocol}."""
        for name, run in operations.items():
            if not self.command(name, run) and not self.all_alive():
                break

    def begin(self, client, name):
        """Makes the session choose its protocol."""
        greet(client, name)

    def command(self, name, run, **more):
        def once(arm):
            with self.client() as c:
                self.begin(c, name)
                arm()
                run(c)
        return self.run(name, once, **more)

    def opening(self):
        def once(arm):
            arm()
            with self.client() as c:
                c.send(b"mn\r\n")
                c.until(b"MN\r\n")
        return self.run("opening a connection", once)

    def told(self):
        tap.diag("%s: %d operations, %d allocations failed" % (self.where, self.operations, self.failures))
        tap.is_(self.daemon.pid, self.pid, self.where + ": it is the same process")
        return self.failures


# -- Clients' requests ---------------------------------------------------------------------------------------

def text(request):
    """Sends the request and a meta no-op; returns all replies up to the no-op's."""
    def run(client):
        client.send(request, b"mn\r\n")
        return client.until(b"MN\r\n")
    return run


def store(command, value):
    return text(b"%s %d\r\n%s\r\n" % (command, len(value), value))


def packet(code, key=b"", extras=b"", value=b""):
    return struct.pack("!BBHBBHIIQ", 0x80, code, len(key), len(extras), 0, 0, len(key) + len(extras) + len(value), 7, 0) \
        + extras + key + value


BINARY_NO_OP = b"\x81\x0a" + bytes(10) + struct.pack("!I", 7) + bytes(8)


def binary(opcode, key=b"", extras=b"", value=b""):
    def run(client):
        client.send(packet(opcode, key, extras, value), packet(0x0a))
        return client.until(BINARY_NO_OP)
    return run


def greet(client, name):
    """Makes the session choose its protocol."""
    is_binary = name.startswith("binary")
    client.send(packet(0x0a) if is_binary else b"mn\r\n")
    client.until(BINARY_NO_OP if is_binary else b"MN\r\n")
