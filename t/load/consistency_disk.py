# SPDX-License-Identifier: BSD-3-Clause
"""Sixteen threads against a daemon with little memory and a disk, so that values move there and back all the time: no torn
value, no foreign value, none older than acknowledged. t/load/consistency.py does the same without a disk.
lib/consistency_load.py lists the environment variables.
"""
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import consistency_load as load  # noqa: E402
from disk import BUSY, Disk  # noqa: E402
from farcached import Daemon, deadline, tap, test_program  # noqa: E402

# Title, rules of the disk, arguments of the daemon, those of the load.
SHAPES = [
    ("values to 5 KB", {}, ["-m", "4", "-t", "4"], ["--keys", "4000", "--value-bytes", "5000", "--mix", "sizes"]),
    ("values to 200 KB, io_uring", {}, ["-m", "8", "-t", "2", "-o", "io=uring"], ["--keys", "600", "--value-bytes", "200000"]),
    ("few hot keys, a small file", {"megabytes": 2}, ["-m", "2", "-t", "4"], ["--keys", "64", "--value-bytes", "4000"]),
    ("short-lived values", {}, ["-m", "2", "-t", "4"],
     ["--keys", "4000", "--value-bytes", "4000", "--mix", "ttl", "--ttl-keys", "100"]),
]
# With injected faults: reads and writes of the file are late, and some fail. (A read of a buffer is neither.)
FAULTY = ("a slow disk that fails", {"megabytes": 4}, ["-m", "4", "-t", "4"],
          ["--keys", "4000", "--value-bytes", "5000", "--mix", "sizes"])
FAULTS = {"FARCACHED_FAULTS": "slow_disk=0.05,hold_up_us=20000,fail_disk_read=0.05,fail_disk_write=0.05"}
COUNTED = ("get_extstore", "recache_from_extstore", "miss_from_extstore", "extstore_objects_written", "extstore_page_allocs",
           "extstore_page_evictions", "extstore_dropped_no_buffer", "extstore_write_errors", "extstore_read_errors", "evictions")


def run(shape, seed, seconds, admin, *, last=False, **faulty):
    """False: a busy machine moved too few values in these seconds."""
    title, rules, daemon_args, load_args = shape
    with Disk(**{**BUSY, **rules}) as disk, Daemon(*daemon_args, "-o", disk.options(), "--admin", admin, **faulty) as d:
        load.run(title, d.port, "--seed", seed, "--seconds", seconds, "--admin", admin, "--disk", "1", *load_args,
                 timeout=seconds * 10 + deadline() * 3)
        if not tap.ok(d.alive(), "%s: the daemon lives" % title):
            return True
        stats = {name: int(d.stats()[name]) for name in COUNTED}
        tap.diag(", ".join("%s %d" % one for one in stats.items()))
        moved = stats["get_extstore"] > 100 and stats["recache_from_extstore"] > 50
        if not moved and not last:
            return False
        tap.ok(moved, "%s: values moved" % title)
        if faulty:
            tap.ok(stats["extstore_read_errors"] > 0, "%s: reads failed" % title)
        with d.client() as c:
            tap.ok(c.is_idle(), "%s: the daemon answers" % title)
    return True


def main():
    seconds, seed = load.seconds(3), load.seed()
    folder = tempfile.mkdtemp(prefix="farcached-consistency-")
    admin = os.path.join(folder, "admin")
    try:
        for shape in SHAPES + [FAULTY]:
            more = {"binary": test_program("faulty/farcached"), "env": FAULTS} if shape is FAULTY else {}
            if not run(shape, seed, seconds, admin, **more):
                run(shape, seed, 5 * seconds, admin, last=True, **more)
    finally:
        shutil.rmtree(folder)
    tap.done()


main()
