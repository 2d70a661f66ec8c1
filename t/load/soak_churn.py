# SPDX-License-Identifier: BSD-3-Clause
"""A long load with clients that connect, break off and disconnect: no leaks, no torn values.

Runs only with FARCACHED_TEST_LONG or SOAK_SECONDS (contrib/check --long). It takes SOAK_SECONDS (default 600) in rounds of a
minute, each with a seed of its own, against one daemon. Beside the consistency load, connections are opened and left in every
state: mid-line, mid-value, mid-reply, reset. After the first quarter, private memory must have stopped growing.
"""
import os
import random
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import consistency_load as load  # noqa: E402
from farcached import Closed, Daemon, TimedOut, deadline, is_sanitized, tap  # noqa: E402

SECONDS = int(os.environ.get("SOAK_SECONDS", "600"))
SPELL = 60
GROWTH_MAX_MB = 16


class Churn(threading.Thread):
    """Connections that end in any state. They use keys of their own and leave the load's alone."""

    UNFINISHED = [
        b"get churn", b"set churn 0 0 100000\r\nabc", b"set churn 0 0 10\r\n0123456789", b"mg churn v q",
        b"\x80", b"\x80\x01\x00\x05\x08" + b"\0" * 15, b"x" * 1500, b"get " + b"churn " * 300, b"ms churn 500\r\n",
    ]
    UNREAD = [b"get churnbig\r\n" * 50, b"mg churnbig v\r\n" * 50, b"stats\r\n" * 20]

    def __init__(self, daemon, seed):
        super().__init__(daemon=True)
        self.of, self.random = daemon, random.Random(seed)
        self.stopping, self.count, self.failed = threading.Event(), 0, None

    def run(self):
        try:
            while not self.stopping.is_set():
                self.one()
                self.count += 1
        except Exception as e:  # the main thread reports it
            self.failed = repr(e)

    def one(self):
        client = self.of.client()
        try:
            what = self.random.randrange(4)
            if what == 0:
                client.send(self.random.choice(self.UNFINISHED))
            elif what == 1:
                client.set("churnbig", b"b" * 300_000)
                client.send(self.random.choice(self.UNREAD))
            elif what == 2:
                client.send(b"mn\r\nquit\r\n")
                client.until_close()
            else:
                client.send(bytes(self.random.randrange(256) for _ in range(200)), b"\r\n")
                client.shutdown_send()
                client.until_close()
        except (Closed, TimedOut, ConnectionError) as e:
            if isinstance(e, TimedOut):
                raise
        if self.random.randrange(2):
            client.reset()
        else:
            client.close()


def measure(d):
    memory = d.memory()
    return memory["Private"] / (1 << 20), len(os.listdir("/proc/%d/fd" % d.pid))


def spell(d, seed, seconds):
    done = subprocess.run([load.program(), str(d.port), "--seed", str(seed), "--seconds", str(seconds)],
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds * 10 + 3 * deadline())
    bad = [line for line in done.stdout.decode().splitlines() if line.startswith(("not ok", "# fault", "#   "))]
    return bad + ([] if done.returncode == 0 else ["exit status %d %s" % (done.returncode, done.stderr.decode())])


def main():
    if not os.environ.get("FARCACHED_TEST_LONG") and "SOAK_SECONDS" not in os.environ:
        tap.skip_all("a soak: set FARCACHED_TEST_LONG=1")
    first = int(os.environ.get("CONSISTENCY_SEED") or int.from_bytes(os.urandom(4), "little"))
    spells = max(2, SECONDS // SPELL)
    with Daemon("-m", "16", "-t", "4", "-c", "2000") as d:
        churn = Churn(d, first)
        churn.start()
        grown_from = None
        for i in range(spells):
            bad = spell(d, first + i, min(SPELL, max(1, SECONDS // spells)))
            tap.ok(not bad, "spell %d of %d, seed %d: all checks hold" % (i + 1, spells, first + i), *bad[:40])
            private, descriptors = measure(d)
            tap.diag("private %.1f MB, %d descriptors, %d churned connections" % (private, descriptors, churn.count))
            if i + 1 == max(1, spells // 4):
                grown_from = private
        churn.stopping.set()
        churn.join(deadline())
        tap.ok(churn.failed is None and churn.count > spells, "clients connected, broke off and disconnected", churn.failed)
        left = d.until_stat("curr_connections", lambda n: int(n) <= 10)
        tap.ok(int(left) <= 10, "no connection is left behind", left)
        if is_sanitized():
            tap.skip("private memory stopped growing", "a sanitizer build keeps memory of its own")
        else:
            tap.ok(measure(d)[0] - grown_from <= GROWTH_MAX_MB,
                   "private memory stopped growing after the first quarter", "from %.1f to %.1f MB" % (grown_from, measure(d)[0]))
    tap.done()


main()
