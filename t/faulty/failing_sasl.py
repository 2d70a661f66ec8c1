# SPDX-License-Identifier: BSD-3-Clause
"""Running out of memory ends no daemon with -S, and authenticates no stranger (t/faulty/failing_allocations.py). libsasl2's own
allocations do not fail."""
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from binary_client import BinaryClient, op, set_extras  # noqa: E402
from failing import KEPT, Failing, Trial  # noqa: E402
from farcached import is_sanitized, tap  # noqa: E402
from sasl_daemon import HAS_RING, USER, SaslDaemon, plain  # noqa: E402

WRONG = (USER[0], "wrong")


class SaslTrial(Trial):
    """Its clients speak the binary protocol, and are strangers."""

    def begin(self, client, name):
        pass

    def keep(self):
        with self.daemon.member() as b:
            return b.ask(op.SET, "kept", KEPT, set_extras()).status

    def kept(self):
        with self.daemon.member() as b:
            return b.ask(op.GET, "kept").value

    def opening(self):
        return self.command("opening a connection", asks((op.VERSION,)))


def asks(*requests, then=None):
    """Sends the requests one by one; checks the statuses without a failure."""
    def run(client):
        b = BinaryClient(client)
        got = [b.ask(*request) for request in requests]
        if then is not None and got[-1].status != then:
            raise AssertionError("status %#x" % got[-1].status)
        return got
    return run


def stranger(client):
    """A failure lets nobody in."""
    b = BinaryClient(client)
    b.ask(op.SASL_AUTH, "PLAIN", plain(*WRONG))
    replies = b.closes_after(op.GET, "kept")
    if any(r.status != 0x20 for r in replies or []):
        raise AssertionError("a stranger gets %r" % replies)


def in_pieces(client):
    data = b"\x80\x21\x00\x05" + bytes(6) + b"\x00\x00" + bytes(12)
    body = b"PLAIN" + plain(*USER).encode()
    data = data[:8] + len(body).to_bytes(4, "big") + data[12:24] + body
    client.send_split(data, (3,))
    return BinaryClient(client).read()


OPERATIONS = {
    "LIST": asks((op.SASL_LIST,)),
    "PLAIN": asks((op.SASL_AUTH, "PLAIN", plain(*USER)), (op.GET, "kept"), then=0),
    "PLAIN in pieces": in_pieces,
    "LOGIN": asks((op.SASL_AUTH, "LOGIN"), (op.SASL_STEP, "LOGIN", USER[0]), (op.SASL_STEP, "LOGIN", USER[1]), (op.GET, "kept"),
                  then=0),
    "LOGIN that does not end": asks((op.SASL_AUTH, "LOGIN")),
    "a wrong password": stranger,
    "a second attempt": asks(*[(op.SASL_AUTH, "PLAIN", plain(*USER))] * 2, (op.GET, "kept"), then=0),
    "a long response": asks((op.SASL_AUTH, "PLAIN", "v" * 60_000)),
}


def main():
    if is_sanitized():
        tap.skip_all("a sanitizer has its own operator new")
    total = 0
    with tempfile.TemporaryDirectory(prefix="farcached-failing-") as folder:
        for io in ("libevent", "uring") if HAS_RING else ("libevent",):
            failing = Failing(folder, "sasl-" + io)
            with SaslDaemon("-o", "io=" + io, "-m", "64", "-v", env=failing.env, threads=1) as daemon:
                trial = SaslTrial("SASL, io=" + io, daemon, failing)
                tap.is_(trial.keep(), 0, trial.where + ": a value is stored")
                trial.opening()
                trial.each(OPERATIONS)
                total += trial.told()
    tap.ok(total > 0, "allocations failed: %d" % total)
    tap.done()


main()
