# SPDX-License-Identifier: BSD-3-Clause
"""Running out of memory while items come from warm_from, as in failing_allocations.py: a request is answered or refused, and none
that waits for another one of its key, or for a flush, is lost."""
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from cluster import Nodes, until_up  # noqa: E402
from failing import Failing, Trial, binary, greet, text  # noqa: E402
from farcached import Daemon, is_sanitized, tap  # noqa: E402

REQUESTS = {
    "get": text(b"get op\r\n"), "many gets": text(b"get op\r\nget kept op x\r\nget op\r\nmg op v\r\n"),
    "set": text(b"set op 0 0 1\r\nx\r\n"), "append": text(b"append op 0 0 1\r\nx\r\n"),
    "waiting for a key": text(b"get op\r\nset op 0 0 1\r\n1\r\nget op\r\ndelete op\r\nget op\r\nincr op 1\r\nmd op\r\n"),
    "waiting for a flush": text(b"set op 0 0 1\r\n1\r\nflush_all 1000\r\nget op\r\nset op 0 0 1\r\n1\r\nset b 0 0 1\r\n1\r\n"
                                b"flush_all 1000\r\nget b\r\ndelete b\r\n"),
    "binary": lambda c: binary(0x00, b"op")(c) and binary(0x04, b"op")(c),
}


def run(where, daemon, failing, old, nodes=()):
    trial = Trial(where, daemon, failing, nodes, every=12)
    tap.is_(trial.keep(), "STORED", where + ": a value is stored")
    for name, request in REQUESTS.items():
        def once(arm, name=name, request=request):
            old.set("op", "1")
            with daemon.client() as c:
                greet(c, name)
                arm()
                request(c)
        trial.run(name, once)
        if not trial.all_alive():
            break
    return trial.told()


if is_sanitized():
    tap.skip_all("a sanitizer has its own operator new")
total = 0
with tempfile.TemporaryDirectory(prefix="farcached-failing-") as folder:
    with Daemon(binary=shutil.which("memcached") or None, threads=1) as source, source.client() as old:
        options = "warm_from=127.0.0.1:%d" % source.port
        failing = Failing(folder, "embedded")
        with Daemon("-m", "64", "-o", options, env=failing.env, threads=1) as d:
            total += run("embedded", d, failing, old)
        failing, nodes = Failing(folder, "nodes"), Nodes(["tcp"], ["-m", "64", "-t", "1"])
        try:
            nodes.start()
            with Daemon(*nodes.options(), "-o", options, env=failing.env, threads=1) as d:
                until_up(d)
                total += run("in front of a node", d, failing, old, [node.process for node in nodes.all])
        finally:
            nodes.end()
tap.ok(total > 0, "allocations failed: %d" % total)
tap.done()
