# SPDX-License-Identifier: BSD-3-Clause
"""Running out of memory over UDP (-U), as in failing_allocations.py: a datagram without memory is lost, or its requests are
refused. The daemon goes on, leaves no descriptor open, keeps stored items, and answers the next datagram."""
import os
import struct
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from cluster import Nodes, Table, until_up  # noqa: E402
from failing import Failing, Trial, packet  # noqa: E402
from farcached import Daemon, TimedOut, is_sanitized, slow_factor, tap  # noqa: E402
from udp_client import UdpClient  # noqa: E402

LARGE = b"V" * 30_000
REQUESTS = {
    "get": b"get kept\r\n", "a long reply": b"get kept kept kept\r\n", "a reply that is too long": b"get large\r\n",
    "set": b"set op 0 0 1\r\nx\r\n", "a large set": b"set large 0 0 30000\r\n" + LARGE + b"\r\n",
    "an incomplete set": b"set large 0 0 40000\r\n" + LARGE,
    "many keys": b"get " + b" ".join(b"m%d" % i for i in range(300)) + b"\r\n",
    "many requests": b"get kept\r\nset op 0 0 1\r\nx\r\nmg op v\r\nmn\r\n" * 15,
    "meta": b"ms op 3\r\nabc\r\nmg op v t f\r\nmd op\r\n",
    "stats": b"stats\r\n" + b"mn\r\n" * 20, "a refused command": b"watch\r\n", "noreply": b"set op 0 0 1 noreply\r\nx\r\n",
    "binary get": packet(0x00, b"kept"), "binary set": packet(0x01, b"op", bytes(8), b"v"),
    "binary incr": packet(0x05, b"number", struct.pack("!QQI", 1, 1, 0)) * 3,
}


def wait(u, tries):
    """Until a request behind the others is answered, or its tries are used up: it, too, may find no memory."""
    u.socket.settimeout(0.05 * slow_factor())
    for _ in range(tries):
        mark = u.send(b"mn\r\n")
        try:
            while u.any_reply()[0] != mark:
                continue
            return True
        except TimedOut:
            continue
    return False


def answered(port, request):
    with UdpClient(port) as u:
        u.send(request)
        if not wait(u, 400):
            raise TimedOut(b"")


def run(trial, port):
    def operation(name):
        def once(arm):
            with UdpClient(port) as u:
                arm()
                u.send(REQUESTS[name])
                wait(u, 4)
        return once
    tap.is_(trial.keep(), "STORED", trial.where + ": a value is stored")
    for name, request in REQUESTS.items():
        trial.run(name, operation(name), lambda arm, request=request: answered(port, request))
        if not trial.all_alive():
            break
    return trial.told()


def embedded(folder, io):
    failing = Failing(folder, io)
    with Daemon("-U", "-1", "-o", "io=" + io, "-m", "64", env=failing.env, threads=1) as d:
        return run(Trial("embedded, io=" + io, d, failing), dict(d.ports)["UDP INET"])


def in_front_of_a_node(folder, io):
    failing, nodes, table = Failing(folder, "nodes-" + io), Nodes(["tcp"], ["-m", "64", "-t", "1"]), Table()
    try:
        nodes.start()
        with Daemon("-U", "-1", *nodes.options(), "-o", table.options() + ",io=" + io, env=failing.env, threads=1) as d:
            until_up(d)
            trial = Trial("in front of a node, io=" + io, d, failing, [node.process for node in nodes.all], every=8)
            return run(trial, dict(d.ports)["UDP INET"])
    finally:
        nodes.end()
        table.unlink()


if is_sanitized():
    tap.skip_all("a sanitizer has its own operator new")
total = 0
with tempfile.TemporaryDirectory(prefix="farcached-failing-") as folder:
    for part in (embedded, in_front_of_a_node):
        for io in ("libevent", "uring"):
            total += part(folder, io)
tap.ok(total > 0, "allocations failed: %d" % total)
tap.done()
