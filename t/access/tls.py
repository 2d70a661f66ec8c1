# SPDX-License-Identifier: BSD-3-Clause
"""TLS (-Z): its options, files and listeners; handshakes, and how they fail."""
import os
import re
import ssl
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import certificates  # noqa: E402
from connections import endings  # noqa: E402
from farcached import Client, Daemon, StartFailed, connect, deadline, run_binary, tap, until  # noqa: E402
from service import Service, listening  # noqa: E402
from tls_daemon import (CA, CLIENT, SECOND, SERVER, STRANGER, TRUSTING, Pieces, TlsDaemon, counters, in_each_backend,  # noqa: E402
                        refusal)


# -- The start ---------------------------------------------------------------------------------------------

def starts():
    broken = os.path.join(certificates.folder(), "broken.pem")
    with open(broken, "w") as f:
        f.write("no certificate\n")
    encrypted = os.path.join(certificates.folder(), "encrypted.key")
    certificates.openssl("pkcs8", "-topk8", "-in", SERVER.key, "-out", encrypted, "-passout", "pass:secret")
    missing = os.path.join(certificates.folder(), "missing.pem")

    def files(key, chain=SERVER.chain):
        return ["-o", "ssl_chain_cert=%s,ssl_key=%s" % (chain, key)]

    both = files(SERVER.key)[1]
    for args, want in (
            ([], r"^Error loading the certificate chain: .*ssl_chain_cert"),
            (["-o", "ssl_chain_cert=" + missing], r"^Error loading the certificate chain: \S+missing.pem : error:.*No such"),
            (["-o", "ssl_chain_cert=" + broken], r"^Error loading the certificate chain: \S+broken.pem : error:"),
            (["-o", "ssl_chain_cert=" + SERVER.chain], r"^Error loading the key: \S+server.pem : error:"),
            (files(missing), r"^Error loading the key: \S+missing.pem : error:"),
            (files(encrypted), r"^Error loading the key: \S+encrypted.key : error:"),
            (files(SECOND.key), r"^Error (validating the certificate|loading the key)"),
            (["-o", both + ",ssl_ca_cert=" + broken], r"^Error loading the CA certificate: \S+broken.pem : error:"),
            (["-o", both + ",ssl_ciphers=NONE:NOTHING"], r"^Error setting the provided cipher\(s\): NONE:NOTHING$"),
            (["-o", both, "-p", "0"], r"^ERROR: You cannot enable SSL without a TCP port.$")):
        where = [] if "-p" in args else ["-l", "127.0.0.1", "-p", "-1"]
        status, _, said = run_binary("-Z", *args, *where)
        tap.ok(status == 64 and re.search(want, said.decode(), re.M), "no start with " + (" ".join(args) or "-Z alone"),
               status, said)
    for word in ("notls", "btls", "mtls"):
        status, _, said = run_binary("-l", word + ":127.0.0.1:0")
        want = b"'%s' option is valid only when SSL is enabled\nfailed to listen on " % word.encode()
        tap.ok(status == 71 and said.startswith(want), word + ": without -Z", status, said)
    status, _, said = run_binary("-Z", "-o", both, "-l", "mtls:notls:127.0.0.1:0")
    want = b'Second TLS prefix: "notls:127.0.0.1:0" (one of notls:, btls: and mtls:)\nfailed to listen on '
    tap.ok(status == 71 and said.startswith(want), "two prefixes at one address", status, said)
    pem = os.path.join(certificates.folder(), "together.pem")
    with open(pem, "wb") as f:
        for path in (SERVER.chain, SERVER.key):
            with open(path, "rb") as part:
                f.write(part.read())
    der = os.path.join(certificates.folder(), "server.der")
    certificates.openssl("ec", "-in", SERVER.key, "-outform", "DER", "-out", der)
    for options in ("ssl_chain_cert=" + pem, "ssl_chain_cert=%s,ssl_keyformat=2,ssl_key=%s" % (SERVER.chain, der)):
        with Daemon("-Z", "-o", options, threads=1) as d:
            with Client(TRUSTING.wrap_socket(connect(("127.0.0.1", d.port), deadline()))) as c:
                tap.is_(c.set("k", "v"), "STORED", "a start with " + options.split(",")[-1].split("=")[0])


def passed_sockets():
    """They have the TLS of ssl_verify_mode. A prefix that would demand more, or less, is refused."""
    options = SERVER.options("ssl_ca_cert=" + CA.chain)
    with listening() as tcp:
        for where in ("mtls:127.0.0.1:0", "btls:127.0.0.1:0", "127.0.0.1:0,notls:127.0.0.1:0"):
            service = Service(None, *options, "-l", where, sockets=[(tcp, "farcached.socket")])
            try:
                service.start().wait()
            except StartFailed:
                pass
            tap.is_(service.stop(), 71, "passed sockets and -l " + where)
            tap.like(service.stderr_at_end.decode(), r"^-l %s: .* no effect on sockets from the service manager" % where, "why")
        with Service(None, *options, "-o", "ssl_verify_mode=2", "-l", "127.0.0.1:0", sockets=[(tcp, "farcached.socket")]):
            def at(certificate):
                sock = connect(tcp.getsockname(), deadline())
                return Client(certificates.context(CA, certificate).wrap_socket(sock, suppress_ragged_eofs=False))
            tap.is_(refusal(lambda: at(CLIENT)), None, "ssl_verify_mode: a client with a certificate is served")
            tap.ok(refusal(lambda: at(None)), "and one without is refused")


def warnings():
    for args, want in ((["-o", "ssl_key=x"], b"WARNING: The ssl_ options have no effect without -Z"),
                       (SERVER.options("ssl_verify_mode=2"), b"WARNING: Client certificates are required, but")):
        with Daemon(*args, threads=1) as d:
            tap.ok(want in d.stderr(), want.decode(), d.stderr())


# -- Handshakes --------------------------------------------------------------------------------------------

def versions(io):
    with TlsDaemon(io=io) as d:
        for version in ("1.2", "1.3"):
            with d.client(context=certificates.context(CA, version=version)) as c:
                tap.is_((c.socket.version(), c.set("k", "v" + version), c.get("k")),
                        ("TLSv" + version, "STORED", b"v" + version.encode()), "TLS " + version)
                c.send(b"quit\r\n")
                tap.is_(c.socket.recv(100), b"", "and its end is marked")
        settings = d.stats("settings")
        tap.is_((settings["ssl_enabled"], settings["ssl_min_version"], settings["ssl_verify_mode"], settings["ssl_chain_cert"]),
                ("yes", "tlsv1.2", "0", d.files.chain), "settings")
        names = list(d.stats())
        at = names.index("ssl_handshake_errors")
        tap.is_(names[at - 1:at + 4], ["log_watchers", "ssl_handshake_errors", "ssl_proto_errors", "time_since_server_cert_refresh",
                                       "unexpected_napi_ids"], "statistics, in memcached's place")
    with TlsDaemon(io=io, options=("ssl_min_version=3",)) as d:
        tap.ok(refusal(lambda: d.client(context=certificates.context(CA, version="1.2"))), "ssl_min_version=3 refuses TLS 1.2")
        with d.client() as c:
            tap.is_(c.socket.version(), "TLSv1.3", "and not TLS 1.3")
        tap.is_(counters(d, "ssl_handshake_errors", "close_tls_failed"), (1, 1), "it is counted")
    with TlsDaemon(io=io, options=("ssl_ciphers=ECDHE-ECDSA-CHACHA20-POLY1305",)) as d:
        with d.client(context=certificates.context(CA, version="1.2")) as c:
            tap.is_(c.socket.cipher()[0], "ECDHE-ECDSA-CHACHA20-POLY1305", "ssl_ciphers")


def verification(io):
    """(mode, certificate) -> accepted"""
    for mode, allowed in (("0", (None, CLIENT, STRANGER)), ("1", (None, CLIENT)), ("2", (CLIENT,)), ("3", (CLIENT,))):
        with TlsDaemon(io=io, threads=1, options=("ssl_verify_mode=" + mode, "ssl_ca_cert=" + CA.chain)) as d:
            d.context = certificates.context(CA, CLIENT)
            for version in ("1.2", "1.3"):
                for certificate in (None, CLIENT, STRANGER):
                    refused = refusal(lambda: d.client(context=certificates.context(CA, certificate, version)))
                    tap.is_(refused is None, certificate in allowed, "ssl_verify_mode=%s with %s certificate, TLS %s" % (
                        mode, certificate.name if certificate else "no", version))
            tap.is_(counters(d, "close_tls_failed")[0], 2 * (3 - len(allowed)), "refused handshakes are counted")
            shown = {"0": "0", "1": "1", "2": "3", "3": "7"}
            tap.is_(d.stats("settings")["ssl_verify_mode"], shown[mode], "shown as memcached does")


def listeners(io):
    where = ",".join(prefix + "127.0.0.1:0" for prefix in ("notls:", "btls:", "mtls:", "proto[ascii]:mtls:", ""))
    with Daemon(*SERVER.options("ssl_ca_cert=" + CA.chain, "io=" + io, "ssl_verify_mode=1", "ssl_session_cache"),
                "-l", where, threads=1) as d:
        plain, basic, mutual, ascii_mutual, configured = [port for _, port in d.ports]

        def at(port, certificate=None, session=None, version=None):
            sock = connect(("127.0.0.1", port), deadline())
            return Client(certificates.context(CA, certificate, version).wrap_socket(sock, session=session))

        with Client(plain) as c:
            tap.is_(c.set("k", "v"), "STORED", "notls: is plain")
        for port, certificate, good, name in (
                (basic, None, True, "btls: without a certificate"), (basic, STRANGER, True, "btls: with any certificate"),
                (mutual, None, False, "mtls: without a certificate"),
                (mutual, STRANGER, False, "mtls: with an unknown certificate"),
                (mutual, CLIENT, True, "mtls: with a certificate"), (ascii_mutual, CLIENT, True, "mtls: behind proto[ascii]:"),
                (ascii_mutual, None, False, "the same without a certificate"), (configured, None, True, "no prefix")):
            tap.is_(refusal(lambda: at(port, certificate)) is None, good, name)
        for version in ("1.2", "1.3"):
            context = certificates.context(CA, version=version)

            def again(port, session=None):
                sock = connect(("127.0.0.1", port), deadline())
                try:
                    c = Client(context.wrap_socket(sock, session=session))
                    c.stats()
                    return c.socket.session_reused, c.socket.session
                except (OSError, Exception):
                    return None, None

            _, session = again(basic)
            tap.is_(again(basic, session)[0], True, "a session at btls: is resumed, TLS " + version)
            tap.is_(again(mutual, session)[0], None, "but not at mtls:")
    folder = os.path.join(certificates.folder(), "unix")
    with Daemon(*SERVER.options("io=" + io), "-s", folder, threads=1) as d:
        with d.client() as c:
            tap.is_(c.set("k", "v"), "STORED", "a Unix socket is plain")


def resumption(io):
    for options, reused in ((("ssl_session_cache",), True), ((), False)):
        with TlsDaemon(io=io, options=options) as d:
            for version in ("1.2", "1.3"):
                context = certificates.context(CA, version=version)
                with d.client(context=context) as c:
                    c.set("k", "v")
                    session = c.socket.session
                sock = connect(("127.0.0.1", d.port), deadline())
                with Client(context.wrap_socket(sock, session=session)) as c:
                    tap.is_((c.socket.session_reused, c.get("k")), (reused, b"v"), "%s, TLS %s" % (options, version))
            stats = d.stats()
            tap.is_("ssl_new_sessions" in stats, reused, "ssl_new_sessions is shown")
            if reused:
                made, all_made = counters(d, "ssl_new_sessions", "tls_handshakes")
                tap.ok(0 < made < all_made, "and does not count resumed ones", made, all_made)


def failures(io):
    with TlsDaemon(io=io, threads=1, options=("ssl_handshake_timeout=1",)) as d, d.client() as asker:
        before = endings(asker)

        def since(*reasons):
            now = endings(asker)
            return sum(now[r] - before[r] for r in reasons)

        for request in (b"get a\r\n", b"GET / HTTP/1.1\r\n\r\n", b"\x80" + bytes(23), b"\x16\x03\x01\xff\xff" + bytes(100),
                        b"\x16\x03\x01\x00\x05hello", b"\x17\x03\x03\x00\x10" + bytes(16), os.urandom(70000)):
            with d.raw() as c:
                c.send(request)
                c.until_close()
        tap.is_(until(lambda: since("tls_failed"), lambda n: n >= 6) >= 6, True, "plain requests and garbage end their connections")
        tap.ok(counters(d, "ssl_handshake_errors")[0] >= 6, "and are counted as failed handshakes")
        errors = counters(d, "ssl_handshake_errors")[0]
        for hello in (b"\x16\x03\x01\x00\x04\x01\x01\x00\x00", b"\x16\x03\x01\x00\x01\x01\x16\x03\x01\x00\x03\x01\x00\x00"):
            with d.raw() as c:
                c.send(hello)
                c.until_close()
        tap.is_(counters(d, "ssl_handshake_errors")[0], errors + 2, "a hello that announces 64 KiB, or whose head is divided")
        half = Pieces(d)
        try:
            half.tls.do_handshake()
        except ssl.SSLWantReadError:
            pass
        hello = half.records.read()
        half.client.send(hello[:len(hello) // 2])
        silent, started = d.raw(), d.raw()
        started.send(hello)
        tap.ok(half.client.is_closed(), "half a handshake, then silence: the connection ends")
        tap.ok(silent.is_closed(), "so it does without a byte")
        started.until_close()
        tap.is_(since("tls_timeout"), 3, "for the reason tls_timeout")
        reset = Pieces(d)
        try:
            reset.tls.do_handshake()
        except ssl.SSLWantReadError:
            pass
        errors = counters(d, "ssl_handshake_errors")[0]
        with reset.client as c:
            c.send(reset.records.read())
        until(lambda: counters(d, "ssl_handshake_errors")[0], lambda n: n > errors)
        tap.is_(counters(d, "ssl_handshake_errors")[0], errors + 1, "a client that gives up is counted, too")
        broken = Pieces(d)
        broken.pump(broken.tls.do_handshake)
        tap.is_(broken.ask(b"mn\r\n", b"\r\n"), b"MN\r\n", "a session")
        broken.client.send(b"\x17\x03\x03\x00\x20" + bytes(32))
        broken.client.until_close()
        tap.is_(until(lambda: counters(d, "ssl_proto_errors")[0], lambda n: n > 0), 1, "an invalid record ends it, and is counted")
        tap.is_(asker.ask("mn"), "MN", "others were served")
        lines = d.stderr()
        tap.ok(b"TLS" not in lines, "nothing is logged without -v", lines)


def logged():
    with TlsDaemon("-v", threads=1) as d:
        with d.raw() as c:
            c.send(b"get a\r\n")
            c.until_close()
        said = until(lambda: d.stderr().decode(), lambda text: "TLS" in text)
        tap.like(said, r"a client's TLS failed: .+client=tcp:127.0.0.1:\d+", "with -v: the reason and the client")
    with TlsDaemon("-v", threads=1, options=("ssl_handshake_timeout=1",)) as d:
        with d.raw() as c:
            tap.ok(c.is_closed(), "a silent client")
        said = until(lambda: d.stderr().decode(), lambda text: "TLS" in text)
        tap.like(said, "a client's TLS failed: no TLS handshake within ssl_handshake_timeout", "is logged, too")


def metrics():
    ports = os.path.join(certificates.folder(), "http")
    with TlsDaemon("--http", "127.0.0.1:0", threads=1, env={"FARCACHED_HTTP_PORT_FILENAME": ports}) as d:
        with d.client() as c:
            c.set("k", "v")
        with open(ports) as f:
            port = int(re.search(r"\d+", f.read().split(":")[-1]).group())
        with Client(port) as http:
            http.send(b"GET /metrics HTTP/1.0\r\n\r\n")
            page = http.until_close().decode()
        for name in ("tls_handshakes_total", "ssl_handshake_errors_total", "ssl_proto_errors_total", "ssl_new_sessions_total",
                     "tls_certificate_age_seconds", "tls_certificate_expiry_timestamp_seconds"):
            tap.like(page, r"(?m)^farcached_%s \d+" % name, name)


starts()
passed_sockets()
warnings()
logged()
metrics()
in_each_backend(versions, verification, listeners, resumption, failures)
tap.done()
