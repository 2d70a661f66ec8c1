# SPDX-License-Identifier: BSD-3-Clause
"""The rules of warm_from broken on purpose (base/broken.h): a get after an acknowledged delete returns the old value. The same
checks see nothing while the rules hold."""
import os
import select
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from farcached import Daemon, deadline, tap, test_program  # noqa: E402
from warm_source import Source  # noqa: E402


def fill_after_delete(source, first, second):
    """A get has read the old value at the source; the key is deleted before the get stores it."""
    source.hold("k")
    first.send(b"get k\r\n")
    source.held.wait(deadline())
    second.ask("delete k")
    source.go.set()
    first.until(b"END\r\n")
    return second.get("k") is not None


def delete_before_source(source, first, second):
    """A delete is acknowledged while the source still has the key."""
    source.hold_delete("k")
    first.send(b"delete k\r\n")
    source.held.wait(deadline())
    second.ask("mn", end="MN")
    early = bool(select.select([first.socket], [], [], 0)[0])
    source.go.set()
    first.until(b"\r\n")
    return early


def caught(rule, check, threads):
    options = ["-o", "warm_timeout_ms=60000", "-o"]
    with Source(k="old") as source:
        with Daemon(*options, "warm_from=127.0.0.1:%d" % source.port, binary=test_program("faulty/farcached"), threads=threads,
                    env={"FARCACHED_BREAK": rule}) as d, d.client() as first, d.client() as second:
            return check(source, first, second)


# On one worker the delete would wait for the get.
for broken, examine, workers in (("S7_MARK", fill_after_delete, 2), ("S7_SOURCE", delete_before_source, 1)):
    tap.ok(not caught("", examine, workers), "nothing is seen where no rule is broken")
    tap.ok(caught(broken, examine, workers), "it is seen that %s is broken" % broken)
tap.done()
