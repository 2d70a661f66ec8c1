# SPDX-License-Identifier: BSD-3-Clause
"""Items are back after a restart with -e: after SIGTERM, SIGUSR1 and SIGKILL, also under load. t/unit/node/restart.cc has each step
of each mutation, t/unit/node/restart_files.cc damaged files.

Under load each writer has keys of its own, and its values have numbers. After the restart a key must have the last value that was
acknowledged, or one sent later. After SIGKILL it may be missing if a request for it was unanswered.
"""
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from farcached import Client, Closed, Daemon, run_binary, tap, until  # noqa: E402

LONG = bool(os.environ.get("FARCACHED_TEST_LONG"))
ENDS = {signal.SIGTERM: "SIGTERM", signal.SIGUSR1: "SIGUSR1", signal.SIGKILL: "SIGKILL"}


@contextlib.contextmanager
def run(path, *args, end=signal.SIGTERM, said=None):
    """One run of the daemon. Its end has no error; `said` gets its messages."""
    with Daemon("-e", path, "-v", *args, expect_exit=-end if end == signal.SIGKILL else 0) as d:
        yield d
        d.stop(end)
        if said is not None:
            said.append(d.stderr().decode())


def message(said, part):
    return any(part in line for line in said[-1].splitlines() if "-e: " in line)


def back(path, end):
    how, said = ENDS[end], []
    with run(path, end=end) as d, d.client() as c:
        tap.is_(d.stats("settings")["memory_file"], path, how + ": `stats settings` names the file")
        tap.is_(os.stat(path).st_mode & 0o777, 0o600, how + ": only its user can read it")
        c.set("key", b"value", flags=5, exptime=1000)
        c.set("large", b"l" * 700_000)
        c.set("gone", b"g")
        c.ask("delete gone")
        c.ask("ms number 1 c\r\n7")
        c.ask("incr number 1")
        unique = c.ask("mg key c")
        before = c.get("number")
    with run(path, said=said) as d, d.client() as c:
        tap.is_((c.get("key"), c.ask("mg key f")), (b"value", "HD f5"), how + ": a value and its flags")
        tap.is_(c.ask("mg key c"), unique, how + ": its cas unique")
        tap.ok(900 < int(c.ask("mg key t").split("t")[1]) <= 1000, how + ": its expiry")
        tap.is_(c.get("large"), b"l" * 700_000, how + ": a large value")
        tap.is_(c.get("gone"), None, how + ": a deleted item is not back")
        tap.is_(c.get("number"), before, how + ": a number")
        tap.is_(d.stats()["curr_items"], "3", how + ": three items")
    tap.ok(message(said, "3 items"), how + ": the log tells how many", said[-1])
    tap.is_(message(said, "was killed"), end == signal.SIGKILL, how + ": and whether the process was killed")


def at_once(path):
    """A stop and a start within one second, three times."""
    with run(path) as d, d.client() as c:
        c.set("key", b"value")
    for _ in range(3):
        with run(path) as d, d.client() as c:
            value = c.get("key")
    tap.is_(value, b"value", "a restart within the same second")


def by_commands(path):
    """Flushes and deletes by prefix; a flush that is scheduled."""
    admin = path + ".admin"
    with run(path, "--admin", admin, end=signal.SIGKILL) as d, d.client() as c:
        c.set("old", b"o")
        c.ask("flush_all")
        for key in ("user:1", "user:2", "session:1"):
            c.set(key, b"v")
        with Client(admin) as operator:
            operator.ask("delete_prefix user:")
        c.set("user:2", b"new")
        c.ask("flush_all 100000")
    with run(path, end=signal.SIGKILL) as d, d.client() as c:
        found = {key.decode(): value for key, _, value, _ in c.get_many(["old", "user:1", "user:2", "session:1"])}
        tap.is_(found, {"user:2": b"new", "session:1": b"v"}, "after SIGKILL nothing that was flushed or deleted by prefix is back")
        c.ask("flush_all 2")
    with run(path) as d, d.client() as c:
        tap.is_(until(lambda: c.get("session:1"), lambda value: value is None), None, "a scheduled flush happens in the next run")


def refused(path):
    """What is wrong with the file or its place costs the items, and no start."""
    said = []
    with open(path, "w", encoding="ascii") as f:
        f.write("not a cache")
    with run(path, said=said) as d, d.client() as c:
        tap.is_(c.set("key", b"value"), "STORED", "a foreign file: the daemon serves")
    tap.ok(message(said, "it was not a node's memory"), "and says why nothing is back", said[-1])
    with open(path + ".damaged", encoding="ascii") as f:
        tap.is_(f.read(), "not a cache", "the foreign file is kept")
    with run(path, said=said) as first, first.client() as c:
        c.set("key", b"value")
        status, _, err = run_binary("-l", "127.0.0.1", "-p", "-1", "-e", path, timeout=60)
        tap.ok(status == 71 and b"another process uses it" in err, "a file in use: a second daemon does not start", err.decode())
        tap.is_(c.get("key"), b"value", "and the first one goes on")
    with run(os.path.join(path, "none"), said=said) as d, d.client() as c:
        tap.is_(c.set("key", b"value"), "STORED", "a folder that does not exist: the daemon serves")
    tap.ok(message(said, "will not be kept"), "and says that items are not kept", said[-1])


def full(folder):
    """A file system that is smaller than -m: items are evicted early, and nothing ends the process."""
    mount = "mount -t tmpfs -o size=24m none " + folder
    if subprocess.run(["unshare", "-m", "bash", "-c", mount], capture_output=True, check=False).returncode != 0:
        return tap.skip("a file system that is too small", "no mount namespace for us here")

    class InSmall(Daemon):
        def command(self):
            return ["unshare", "-m", "bash", "-c", mount + ' && exec "$0" "$@"', *super().command()]

    for size in (10, 100, 1000, 20_000, 200_000):
        with InSmall("-m", "64", "-e", os.path.join(folder, "items"), "-v", threads=2) as d, d.client() as c:
            count = 40_000_000 // (size + 60)
            replies = {"STORED": 0}
            for first in range(0, count, 100):
                c.send(b"".join(b"set k%d 0 0 %d\r\n%s\r\n" % (i, size, b"v" * size) for i in range(first, first + 100)))
                for _ in range(100):
                    reply = c.line().decode().rstrip()
                    replies[reply] = replies.get(reply, 0) + 1
            tap.ok(replies["STORED"] > count // 2 and set(replies) <= {"STORED", "SERVER_ERROR out of memory storing object"},
                   "values of %d bytes in a file system that is full" % size, str(replies))
            tap.ok(int(d.stats()["evictions"]) > 0, "values of %d bytes: items were evicted" % size)
            tap.is_(c.get("k%d" % (first + 99)), b"v" * size, "values of %d bytes: the last one is there" % size)
    return None


class Writer(threading.Thread):
    """Sets its keys, in turn, until the daemon ends; deletes every tenth instead. Keeps the acknowledged and the sent state."""

    def __init__(self, daemon, number, keys):
        super().__init__()
        self.client, self.number, self.keys = daemon.client(), number, keys
        self.acked = {}  # key -> value, None: deleted
        self.sent = None  # (key, value), if unanswered

    def run(self):
        with contextlib.suppress(Closed, OSError):
            for i in range(10_000_000):
                key = "w%d-%d" % (self.number, i * 7 % self.keys)
                value = None if i % 10 == 9 else b"%d:" % i + b"v" * (i % 2000)
                self.sent = (key, value)
                if value is None:
                    self.client.ask("delete " + key)
                elif self.client.set(key, value) != "STORED":
                    return
                self.acked[key] = value
                self.sent = None


def wrong_after(writers, client, killed):
    """Keys whose state is wrong, and the numbers of keys that are back and that must be."""
    wrong, found, wanted = [], 0, 0
    for w in writers:
        states = {key: [value] for key, value in w.acked.items()}
        if w.sent:
            states[w.sent[0]] = states.get(w.sent[0], [None]) + [w.sent[1]] + ([None] if killed else [])
        for key, allowed in states.items():
            value = client.get(key)
            wanted += allowed != [None]
            found += value is not None
            if value not in allowed:
                wrong.append((key, value and value[:20], [a and a[:20] for a in allowed]))
    return wrong, found, wanted


def under_load(path, end, rounds):
    for i in range(rounds):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        with run(path, "-m", "64", end=end) as d:
            writers = [Writer(d, n, keys=300) for n in range(4)]
            for w in writers:
                w.start()
            until(lambda: min(len(w.acked) for w in writers), lambda acked: acked > 250)
            d.stop(end)
            for w in writers:
                w.join()
        with run(path, "-m", "64") as d, d.client() as c:
            wrong, found, wanted = wrong_after(writers, c, end == signal.SIGKILL)
        tap.ok(not wrong, "%s under load, %d: each key has its last value" % (ENDS[end], i), str(wrong[:3]))
        tap.ok(found > wanted * 0.98, "%s under load, %d: the keys are back" % (ENDS[end], i), "%d of %d" % (found, wanted))


def main():
    folder = tempfile.mkdtemp(prefix="farcached-restart-", dir="/dev/shm")
    try:
        for end in ENDS:
            back(os.path.join(folder, "items-%d" % end), end)
        at_once(os.path.join(folder, "at-once"))
        by_commands(os.path.join(folder, "commands"))
        small = os.path.join(folder, "small")
        os.mkdir(small)
        full(small)
        refused(os.path.join(folder, "refused"))
        under_load(os.path.join(folder, "load"), signal.SIGKILL, 10 if LONG else 4)
        under_load(os.path.join(folder, "load"), signal.SIGTERM, 10 if LONG else 2)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    tap.done()


main()
