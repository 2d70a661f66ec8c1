# SPDX-License-Identifier: BSD-3-Clause
"""[permissions] with SASL (-S): the identity is the user of libsasl2, and that of the last authentication."""
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from binary_client import op, set_extras, status  # noqa: E402
from farcached import Client, tap  # noqa: E402
from sasl_daemon import HAS_DATABASE, JOHN, MARY, SaslDaemon, cram_md5, plain  # noqa: E402

NO_ACCESS = 0x24
TABLE = ("--permissions", "john=read,write", "--permissions", "mary=read", "--permissions", "anonymous=")


def can(b):
    """The replies to a SET and a GET."""
    return b.ask(op.SET, "k", "v", set_extras()).status, b.ask(op.GET, "k").status


def users(d):
    with d.member(MARY) as b:
        tap.is_(b.ask(op.VERSION).status, 0, "a command without a class")
        tap.is_(can(b), (NO_ACCESS, status.NOT_FOUND), "mary may read only")
        tap.is_(b.ask(op.STAT).status, NO_ACCESS, "and sees no statistics")
    if not HAS_DATABASE:
        return tap.skip("john", "libsasl2 cannot store a password")
    with d.member(JOHN) as b:
        tap.is_(can(b), (0, 0), "john may write")
        tap.is_(b.ask(op.SASL_AUTH, "PLAIN", plain(*MARY)).status, 0, "the same connection, as mary")
        tap.is_(can(b), (NO_ACCESS, 0), "may read only")
        tap.is_(b.ask(op.SASL_AUTH, "PLAIN", plain("john", "wrong")).status, status.AUTH, "a failed attempt")
        tap.is_(b.ask(op.SASL_AUTH, "PLAIN", plain(*JOHN)).status, 0, "and john again")
        tap.is_(can(b), (0, 0), "may write")
    with d.talk() as b:
        challenge = b.ask(op.SASL_AUTH, "CRAM-MD5")
        b.ask(op.SASL_STEP, "CRAM-MD5", cram_md5(challenge.value, *JOHN))
        tap.is_(can(b), (0, 0), "john by CRAM-MD5")


with tempfile.TemporaryDirectory(prefix="farcached-permissions-sasl-") as folder:
    path = os.path.join(folder, "admin")
    with SaslDaemon(*TABLE, "--admin", path) as server:
        users(server)
        with Client(path) as operator:
            stats = operator.stats("proxy")
            tap.ok(int(stats["refused_write"]) >= 1 and int(stats["refused_stats"]) == 1, "refusals are counted")
tap.done()
