# SPDX-License-Identifier: BSD-3-Clause
"""Sixteen threads against a daemon short of memory: no torn value, no foreign value, none older than acknowledged.

Starts the daemon and t/load/consistency (consistency.cc describes the checks) in several shapes. lib/consistency_load.py lists the
environment variables.
"""
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import consistency_load as load  # noqa: E402
from farcached import Daemon, deadline, tap  # noqa: E402

# The shapes differ in the load's demand for memory, and in the number of workers.
SHAPES = [
    ("values to 200 KB, 16 MB", ["-m", "16", "-t", "4"], ["--keys", "2000", "--value-bytes", "200000", "--mutations", "3000"]),
    ("few hot keys, small values", ["-m", "8", "-t", "4"], ["--keys", "64", "--value-bytes", "1000"]),
    ("many keys, one worker, one request at a time", ["-m", "8", "-t", "1", "-R", "1"],
     ["--keys", "20000", "--value-bytes", "100000", "--mutations", "3000"]),
]
# Shapes that must run out of memory.
EVICTING = {"values to 200 KB, 16 MB", "many keys, one worker, one request at a time"}


def main():
    seconds, seed = load.seconds(5), load.seed()
    load.check_itself()
    folder = tempfile.mkdtemp(prefix="farcached-consistency-")
    try:
        run_shapes(seconds, seed, os.path.join(folder, "admin"))
    finally:
        shutil.rmtree(folder)
    tap.done()


def run_shapes(seconds, seed, admin):
    for title, daemon_args, load_args in SHAPES:
        with Daemon(*daemon_args, "--admin", admin) as d:
            load.run(title, d.port, "--seed", seed, "--seconds", seconds, "--admin", admin, *load_args,
                     timeout=seconds * 10 + deadline() * 3)
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


main()
