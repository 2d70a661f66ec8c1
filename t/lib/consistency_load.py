# SPDX-License-Identifier: BSD-3-Clause
"""Runs t/load/consistency against ports and reports its tests as ours. That load checks every reply (consistency.cc).

Environment: CONSISTENCY_SECONDS of load (default: the caller's, another with FARCACHED_TEST_LONG), CONSISTENCY_SEED (default:
random, printed), CONSISTENCY (the program, default t/load/consistency of the build), and FARCACHED_TEST_REST (Pace in daemon.py):
the threads rest so many times as long as each round took.
"""
import os
import re
import subprocess

from farcached import deadline, test_program
from tap_output import tap


# Its verdicts on the replies.
WRONG = ("every request is answered properly", "no get returns a byte that was not stored under its key",
         "nobody sees what is older than an acknowledged mutation or flush", "nothing is seen long after its expiry",
         "no two increments return the same number", "the histories of shared keys are linearizable")


def program():
    return os.environ.get("CONSISTENCY") or test_program("load/consistency")


def seconds(short, long=60):
    return int(os.environ.get("CONSISTENCY_SECONDS") or (long if os.environ.get("FARCACHED_TEST_LONG") else short))


def seed():
    found = os.environ.get("CONSISTENCY_SEED") or str(int.from_bytes(os.urandom(4), "little"))
    tap.diag("CONSISTENCY_SEED=%s" % found)
    return found


def relay(title, text):
    """Reports the program's tests as ours; returns their number."""
    for line in text.splitlines():
        result = re.match(r"(ok|not ok) \d+ - (.*)", line)
        if result:
            tap.ok(result.group(1) == "ok", "%s: %s" % (title, result.group(2)))
        elif line.startswith("#"):
            tap.diag(line[1:].strip())
    return len(re.findall(r"^(?:not )?ok \d+", text, re.M))


class Load:
    """A run in the background: start, then end(title)."""

    def __init__(self, *args, timeout):
        self.timeout, self.begin = timeout, b""
        times = os.environ.get("FARCACHED_TEST_REST")
        rest = ["--rest", times] if times and "--self" not in args else []
        self.process = subprocess.Popen([program(), *[str(a) for a in args], *rest], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)

    def running(self):
        return self.process.poll() is None

    def until_flushed(self):
        """It begins with a flush_all."""
        while b"# flushed" not in self.begin:
            line = self.process.stdout.readline()
            if not line:
                return
            self.begin += line

    def stop(self):
        """Ends the load early."""
        self.process.kill()

    def finish(self):
        """Waits for its end; returns its output, its errors and its exit status."""
        try:
            out, errors = self.process.communicate(timeout=self.timeout)
        finally:
            if self.running():
                self.process.kill()
                self.process.wait()
        return (self.begin + out).decode("utf-8", "replace"), errors.decode("utf-8", "replace"), self.process.returncode

    def end(self, title):
        """The same, and reports its tests as ours; returns its output."""
        text, errors, status = self.finish()
        counted = relay(title, text)
        tap.ok(counted > 0 and not errors and status in (0, 1), "%s: the load itself ran to its end" % title,
               "exit status %s" % status, errors[-4000:])
        return text


def run(title, *args, timeout):
    return Load(*args, timeout=timeout).end(title)


def check_itself():
    if not os.access(program(), os.X_OK):
        tap.bail("there is no %s: `make check` builds it" % program())
    run("the checks", "--self", timeout=deadline() * 3)
