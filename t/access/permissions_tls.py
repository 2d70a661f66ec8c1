# SPDX-License-Identifier: BSD-3-Clause
"""[permissions] with TLS (-Z): the identity is the common name in a client's verified certificate, also in a resumed session. A
user of -Y replaces it. Clients without a certificate are anonymous."""
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import certificates  # noqa: E402
from farcached import Client, tap  # noqa: E402
from tls_daemon import CA, TlsDaemon, in_each_backend  # noqa: E402

DENIED = "CLIENT_ERROR permission denied"
ALICE, BOB, CAROL, SPACED = CA.issue("alice"), CA.issue("bob"), CA.issue("carol"), CA.issue("the CN=of x")
TWO, NONE = CA.issue("two", subject="/CN=alice/CN=eve"), CA.issue("none", subject="/O=alice")
FOLDER = tempfile.TemporaryDirectory(prefix="farcached-permissions-tls-")
TABLE = ("--permissions", "alice=read,write", "--permissions", "bob=read", "--permissions", "anonymous=stats", "--permissions",
         "the CN=of x=admin", "--permissions", "*=")


def made(certificate=None, version=None):
    return certificates.context(CA, certificate, version)


def can(c):
    """The classes of a client, by its requests."""
    asked = (("read", "get k", "END"), ("write", "delete k", "NOT_FOUND"), ("stats", "stats nothing", "ERROR"),
             ("admin", "verbosity 0", "OK"))
    replies = [(name, c.ask(line), want) for name, line, want in asked]
    wrong = [one for one in replies if one[1] not in (one[2], DENIED)]
    return wrong or [name for name, reply, want in replies if reply == want]


def names(io):
    for version in ("1.2", "1.3"):
        with TlsDaemon(*TABLE, io=io, options=("ssl_ca_cert=" + CA.chain, "ssl_verify_mode=1")) as d:
            for certificate, want in ((ALICE, ["read", "write"]), (BOB, ["read"]), (SPACED, ["admin"]), (None, ["stats"]),
                                      (CAROL, []), (TWO, ["stats"]), (NONE, ["stats"])):
                with d.client(context=made(certificate, version)) as c:
                    tap.is_(can(c), want, "TLS %s: the classes of %s" % (version, certificate and certificate.chain.split("/")[-1]))


def not_verified(io):
    with TlsDaemon(*TABLE, io=io) as d, d.client(context=made(ALICE)) as c:
        tap.is_(can(c), ["stats"], "a certificate that is not requested names no one")


def resumed(io):
    options = ("ssl_ca_cert=" + CA.chain, "ssl_verify_mode=2", "ssl_session_cache")
    with TlsDaemon(*TABLE, io=io, options=options) as d:
        context = made(BOB, "1.2")
        with d.client(context=context) as c:
            tap.is_(can(c), ["read"], "a new session")
            session = c.socket.session
        with d.raw() as raw:
            sock = context.wrap_socket(raw.socket, session=session, suppress_ragged_eofs=False)
            with Client(sock) as c:
                tap.is_((sock.session_reused, can(c)), (True, ["read"]), "and the same one, resumed")


def passwords(io):
    path = os.path.join(FOLDER.name, "passwords")
    with open(path, "w") as f:
        f.write("alice:secret\n")
    with TlsDaemon(*TABLE, "-Y", path, io=io, options=("ssl_ca_cert=" + CA.chain, "ssl_verify_mode=2")) as d, \
            d.client(context=made(BOB)) as c:
        tap.is_(c.ask("get k"), "CLIENT_ERROR unauthenticated", "-Y: a certificate is no password")
        c.send(b"set x 0 0 12\r\nalice secret\r\n")
        tap.is_((c.line(), can(c)), (b"STORED\r\n", ["read", "write"]), "then the user is the identity")


in_each_backend(names, not_verified, resumed, passwords)
tap.done()
