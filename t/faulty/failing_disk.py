# SPDX-License-Identifier: BSD-3-Clause
"""The same as t/faulty/failing_allocations.py, for a farcached whose values go to a disk and come from there."""
import itertools
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from disk import Disk, to_disk  # noqa: E402
from failing import Failing, Trial, binary, text  # noqa: E402
from farcached import Daemon, is_sanitized, tap  # noqa: E402


def everything(daemon, failing, where):
    trial = Trial(where, daemon, failing)
    with trial.client() as c:
        away = to_disk(c, {"away%d" % i: 2000 for i in range(300)})
    tap.is_(trial.keep(), "STORED", where + ": a value is stored")
    names, fresh = itertools.cycle(away), itertools.count()

    def some(count):
        return [next(names).encode() for _ in range(count)]

    def moving(client):
        """Sets that make others move. Each is read, to move later."""
        keys = [b"more%07d" % next(fresh) for _ in range(60)]
        text(b"".join(b"set %s 0 0 2000\r\n%s\r\n" % (key, b"m" * 2000) for key in keys))(client)
        text(b"".join(b"mg %s\r\n" % key for key in keys))(client)
    trial.each({
        "get": lambda c: text(b"get %s\r\n" % some(1)[0])(c),
        "gets of several": lambda c: text(b"gets %s\r\n" % b" ".join(some(20)))(c),
        "pipeline": lambda c: text(b"".join(b"get %s\r\nmg %s v\r\n" % (key, key) for key in some(20)))(c),
        "gat": lambda c: text(b"gat 0 %s\r\n" % some(1)[0])(c),
        "mg": lambda c: text(b"mg %s v s c\r\n" % some(1)[0])(c),
        "binary get": lambda c: binary(0x00, some(1)[0])(c),
        "stats": text(b"stats\r\n"),
        "stats extstore": text(b"stats extstore\r\n")})
    tap.ok(int(daemon.stats()["get_extstore"]) > 200, where + ": the disk was read")
    if trial.all_alive():
        trial.command("values move", moving, stored_anew=True)
    with trial.client() as c:
        found = {key.decode(): v for key, _, v, _ in c.get_many(list(away)[:200])}
    tap.is_([key for key, v in found.items() if v != away[key]], [], where + ": no value is wrong")
    return trial.told()


def main():
    if is_sanitized():
        tap.skip_all("a sanitizer has its own operator new")
    total = 0
    with tempfile.TemporaryDirectory(prefix="farcached-failing-") as folder:
        for io in ("libevent", "uring"):
            failing = Failing(folder, "disk-" + io)
            with Disk(recache_rate=3) as disk:
                args = ["-m", "4", "-I", "512k", "-o", disk.options("io=" + io)]
                with Daemon(*args, env=failing.env, threads=1) as daemon:
                    total += everything(daemon, failing, "a disk, io=" + io)
    tap.ok(total > 0, "allocations failed: %d" % total)
    tap.done()


main()
