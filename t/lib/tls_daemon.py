# SPDX-License-Identifier: BSD-3-Clause
"""Daemons with TLS whose certificates may be replaced, and clients that pass records on by hand. A script that imports this is
skipped where there is no TLS."""
import os
import ssl
import sys

import certificates
from farcached import Client, Daemon, connect, deadline, run_binary, tap, until  # noqa: F401

if b"without OpenSSL" in run_binary("--version-full")[1]:
    refused, _, why = run_binary("-Z", "-o", "ssl_chain_cert=x")
    tap.is_((refused, why), (64, b"This server is not built with TLS support.\n"), "-Z is refused, with the reason")
    tap.done()
if not certificates.is_available():
    tap.skip_all("there is no openssl command")

CA, OTHER_CA = certificates.Authority("ca"), certificates.Authority("other-ca")
SERVER = CA.issue("server", curve="secp384r1")  # which takes long (daemon/session/handshake_thread.h)
SECOND, CLIENT, STRANGER = CA.issue("second"), CA.issue("client"), OTHER_CA.issue("stranger")
TRUSTING = certificates.context(CA)


class TlsDaemon(Daemon):
    """With -Z, whose own clients speak TLS. Its files may be replaced."""

    def __init__(self, *args, options=(), io="libevent", threads=2, **more):
        self.files = certificates.Certificate("in-use-%d" % id(self))
        SERVER.copy_to(self.files)
        super().__init__(*self.files.options("io=" + io, *options), *args, threads=threads, **more)
        self.context = TRUSTING

    def client(self, timeout=None, port=None, context=None):
        sock = connect(("127.0.0.1", port or self.port), timeout or deadline())
        try:
            return Client((context or self.context).wrap_socket(sock, suppress_ragged_eofs=False), timeout=timeout)
        except BaseException:
            sock.close()
            raise

    def raw(self):
        return Client(self.port)


class Pieces:
    """A TLS client that passes its records on by hand."""

    def __init__(self, d, context=TRUSTING):
        self.client = d.raw()
        self.received, self.records = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.received, self.records)

    def pump(self, call, *args, sizes=(1,)):
        """The result of a call, sending in pieces and receiving as it needs."""
        while True:
            try:
                result = call(*args)
                self.client.send_split(self.records.read(), sizes)
                return result
            except ssl.SSLWantReadError:
                self.client.send_split(self.records.read(), sizes)
                self.received.write(self.client.socket.recv(65536))

    def ask(self, request, end, sizes=(1,)):
        self.pump(self.tls.write, request, sizes=sizes)
        got = b""
        while not got.endswith(end):
            got += self.pump(self.tls.read, 65536)
        return got


def counters(d, *names):
    stats = {**d.stats("proxy"), **d.stats()}
    return tuple(int(stats[name]) for name in names)


def refusal(call):
    """The TLS error of a call that must fail; also one that the client finds later."""
    try:
        with call() as c:
            c.stats()
    except (ssl.SSLError, ConnectionError, OSError) as e:
        return str(e)
    except Exception as e:  # Closed
        return repr(e)
    return None


def in_each_backend(*tests):
    """Runs the tests, or those that an argument names, with clients' sockets by libevent, then by io_uring."""
    tests = [test for test in tests if not sys.argv[1:] or test.__name__ in sys.argv[1:]]
    with TlsDaemon(io="uring", threads=1) as one:
        has_ring = one.stats()["farcached_io"] == "uring"
    for io in ("libevent", "uring") if has_ring else ("libevent",):
        for test in tests:
            tap.diag("%s, io=%s" % (test.__name__, io))
            test(io)
    if not has_ring:
        tap.skip("TLS over io_uring", "no io_uring here")
