# SPDX-License-Identifier: BSD-3-Clause
"""-S over a Unix socket, TLS and io_uring, in front of nodes, behind drop_privileges, through reloads; the operator's socket has no
password."""
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from binary_client import op, packet, set_extras, status  # noqa: E402
from cluster import Nodes, Table, until_up  # noqa: E402
from farcached import Client, has_tls, is_sanitized, run_binary, tap, until  # noqa: E402
from sasl_daemon import HAS_RING, USER, SaslDaemon, path_of, plain  # noqa: E402

ATTEMPT = packet(op.SASL_AUTH, "PLAIN", plain(*USER))
BIG = b"B" * 900_000


def conversation(d, name):
    replies = d.talk().closes_after(op.GET, "a")
    tap.is_([(r.status, r.value) for r in replies or []], [(status.AUTH, b"Auth failure.")], name + ": a stranger gets the end")
    with d.talk() as b:
        b.raw.send_split(packet(op.SASL_AUTH, "LOGIN") + packet(op.SASL_STEP, "LOGIN", USER[0]))
        tap.is_([b.read().value for _ in range(2)], [b"Username:", b"Password:"], name + ": steps")
        tap.is_(b.ask(op.SASL_STEP, "LOGIN", USER[1]).value, b"Authenticated", name + ": the last one")
        tap.is_((b.ask(op.SET, "a", BIG, set_extras()).status, b.ask(op.GET, "a").value == BIG), (0, True), name + ": values")
    # Attempts between requests whose answers may come later.
    with d.talk() as b:
        round_trip = packet(op.SET, "k", "v", set_extras()) + packet(op.GET, "k") + ATTEMPT + packet(op.GET, "a")
        b.raw.send(ATTEMPT + round_trip * 30)
        got = [b.read() for _ in range(1 + 4 * 30)]
        want = [op.SASL_AUTH] + [op.SET, op.GET, op.SASL_AUTH, op.GET] * 30
        tap.is_([r.opcode for r in got], want, name + ": a pipeline's order")
        tap.is_({r.status for r in got}, {0}, name + ": all succeed")
        b.raw.send(packet(op.GET, "k") * 5 + packet(op.SASL_AUTH, "PLAIN", "wrong") + packet(op.GET, "k"))
        tap.is_([b.read().status for _ in range(7)], [0] * 5 + [status.AUTH] * 2, name + ": an attempt that fails behind gets")
        tap.ok(b.closed(), name + ": and the end")


def in_each_backend():
    for io in ("libevent", "uring") if HAS_RING else ("libevent",):
        with SaslDaemon("-o", "io=" + io) as d:
            conversation(d, "io=" + io)
        if not has_tls():
            tap.skip("TLS", "no OpenSSL in this program, or no openssl command")
            continue
        os.environ["FARCACHED_TLS"] = "1.3"
        with SaslDaemon("-o", "io=" + io) as d:
            conversation(d, "TLS, io=" + io)
        del os.environ["FARCACHED_TLS"]
    if not HAS_RING:
        tap.skip("SASL over io_uring", "no io_uring here")


def sockets():
    with SaslDaemon("-s", path_of("unix"), "--admin", path_of("admin")) as d:
        conversation(d, "a Unix socket")
        with Client(path_of("admin")) as operator:
            tap.like(operator.ask("version"), "VERSION", "the operator's socket needs no password")
            tap.is_(operator.stats()["auth_errors"] != "0", True, "and has the statistics")
    with SaslDaemon("-l", "proto[binary]:127.0.0.1:0") as d:
        conversation(d, "a listener with proto[binary]")


def in_front_of_nodes():
    for channels in (["shm", "shm"], ["tcp"]):
        nodes, table = Nodes(channels, ["-m", "64", "-t", "1"]), Table()
        nodes.start()
        try:
            with SaslDaemon(*nodes.options(), "-o", table.options()) as d:
                until_up(d)
                conversation(d, "in front of %s" % channels)
        finally:
            nodes.end()
            table.unlink()


def reloads():
    with SaslDaemon("-v") as d, d.member() as b, d.talk() as half:
        half.ask(op.SASL_AUTH, "LOGIN", USER[0])
        d.signal(signal.SIGHUP)
        until(d.stderr, lambda said: b"reload" in said)
        tap.is_(b.ask(op.SET, "r", "1", set_extras()).status, 0, "a reload: sessions stay")
        tap.is_(half.ask(op.SASL_STEP, "LOGIN", USER[1]).value, b"Authenticated", "a reload: attempts go on")
        tap.ok(d.admits(USER), "a reload: others can authenticate")


def drops_privileges():
    if b"without libseccomp" in run_binary("--version-full")[1]:
        return tap.skip("drop_privileges", "no libseccomp in this program")
    if is_sanitized():
        return tap.skip("drop_privileges", "sanitizers make other system calls")
    with SaslDaemon("-o", "drop_privileges") as d:
        conversation(d, "drop_privileges")


def main():
    in_each_backend()
    sockets()
    in_front_of_nodes()
    reloads()
    drops_privileges()
    tap.done()


main()
