# SPDX-License-Identifier: BSD-3-Clause
"""Sixteen threads against a daemon short of memory: nothing torn, nothing foreign, nothing older than acknowledged.

Starts the daemon and t/consistency (consistency.cc says what is checked) in several shapes. Environment:
CONSISTENCY_SECONDS of load per shape (default 5; 60 with FARCACHED_TEST_LONG), CONSISTENCY_SEED (default: random, printed),
CONSISTENCY (the program, default t/consistency of the build).
"""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from farcached import Daemon, deadline, default_binary, tap  # noqa: E402

# What the load asks of memory differs; so do the workers it meets.
SHAPES = [
    ("values to 200 KB, 16 MB", ["-m", "16", "-t", "4"], ["--keys", "2000", "--value-bytes", "200000", "--mutations", "3000"]),
    ("few hot keys, small values", ["-m", "8", "-t", "4"], ["--keys", "64", "--value-bytes", "1000"]),
    ("many keys, one worker, one request at a time", ["-m", "8", "-t", "1", "-R", "1"],
     ["--keys", "20000", "--value-bytes", "100000", "--mutations", "3000"]),
]
# Shapes in which memory must have run out.
EVICTING = {"values to 200 KB, 16 MB", "many keys, one worker, one request at a time"}


def program():
    named = os.environ.get("CONSISTENCY")
    if named:
        return named
    return os.path.join(os.path.dirname(os.path.abspath(default_binary())), "t", "consistency")


def relay(title, text):
    """Make the program's tests ours; how many there were."""
    for line in text.splitlines():
        result = re.match(r"(ok|not ok) \d+ - (.*)", line)
        if result:
            tap.ok(result.group(1) == "ok", "%s: %s" % (title, result.group(2)))
        elif line.startswith("#"):
            tap.diag(line[1:].strip())
    return len(re.findall(r"^(?:not )?ok \d+", text, re.M))


def run(title, command, timeout):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=timeout)
    counted = relay(title, done.stdout.decode("utf-8", "replace"))
    errors = done.stderr.decode("utf-8", "replace")
    tap.ok(counted > 0 and not errors and done.returncode in (0, 1), "%s: the load itself ran to its end" % title,
           "exit status %s" % done.returncode, errors[-4000:])


def main():
    if not os.access(program(), os.X_OK):
        tap.bail("there is no %s: `make check` builds it" % program())
    seconds = int(os.environ.get("CONSISTENCY_SECONDS") or ("60" if os.environ.get("FARCACHED_TEST_LONG") else "5"))
    seed = os.environ.get("CONSISTENCY_SEED") or str(int.from_bytes(os.urandom(4), "little"))
    tap.diag("CONSISTENCY_SEED=%s" % seed)
    run("the checks", [program(), "--self"], deadline() * 3)
    for title, daemon_args, load_args in SHAPES:
        with Daemon(*daemon_args) as d:
            run(title, [program(), str(d.port), "--seed", seed, "--seconds", str(seconds)] + load_args,
                seconds * 10 + deadline() * 3)
            tap.ok(d.alive(), "%s: the daemon lives" % title)
            if not d.alive():
                continue
            stats = d.stats()
            evictions = int(stats["evictions"])
            tap.diag("evictions %d, items %s" % (evictions, stats["curr_items"]))
            if title in EVICTING:
                tap.ok(evictions > 0, "%s: there were evictions" % title)
            with d.client() as c:
                tap.ok(c.is_idle(), "%s: the daemon answers" % title)
    tap.done()


main()
