# SPDX-License-Identifier: BSD-3-Clause
"""TLS (-Z): its options, listeners and files; handshakes and their failures; requests and replies of any size and in any pieces; new
certificates under load. With clients' sockets by libevent and by io_uring."""
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from connections import endings  # noqa: E402
from farcached import Client, Daemon, connect, deadline, run_binary, tap, until  # noqa: E402
import tls  # noqa: E402

if b"without OpenSSL" in run_binary("--version-full")[1]:
    status, _, said = run_binary("-Z", "-o", "ssl_chain_cert=x")
    tap.is_((status, said), (64, b"This server is not built with TLS support.\n"), "-Z is refused, with the reason")
    tap.done()
if not tls.is_available():
    tap.skip_all("there is no openssl command")

CA, OTHER_CA = tls.Authority("ca"), tls.Authority("other-ca")
SERVER, SECOND, CLIENT, STRANGER = CA.issue("server"), CA.issue("second"), CA.issue("client"), OTHER_CA.issue("stranger")
TRUSTING = tls.context(CA)


class TlsDaemon(Daemon):
    """With -Z, whose own clients speak TLS. Its files may be replaced."""

    def __init__(self, *args, options=(), io="libevent", threads=2, **more):
        self.files = tls.Certificate("in-use-%d" % id(self))
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


# -- The start ---------------------------------------------------------------------------------------------

def starts():
    expired, broken = CA.issue("expired", days=-1), os.path.join(tls.folder(), "broken.pem")
    with open(broken, "w") as f:
        f.write("no certificate\n")
    encrypted = os.path.join(tls.folder(), "encrypted.key")
    tls.openssl("pkcs8", "-topk8", "-in", SERVER.key, "-out", encrypted, "-passout", "pass:secret")
    missing = os.path.join(tls.folder(), "missing.pem")
    both = "ssl_chain_cert=%s,ssl_key=%s" % (SERVER.chain, SERVER.key)
    for args, want in (
            ([], r"^Error loading the certificate chain: .*ssl_chain_cert"),
            (["-o", "ssl_chain_cert=" + missing], r"^Error loading the certificate chain: \S+missing.pem : error:.*No such file"),
            (["-o", "ssl_chain_cert=" + broken], r"^Error loading the certificate chain: \S+broken.pem : error:"),
            (["-o", "ssl_chain_cert=" + SERVER.chain], r"^Error loading the key: \S+server.pem : error:"),
            (["-o", "ssl_chain_cert=%s,ssl_key=%s" % (SERVER.chain, missing)], r"^Error loading the key: \S+missing.pem : error:"),
            (["-o", "ssl_chain_cert=%s,ssl_key=%s" % (SERVER.chain, encrypted)], r"^Error loading the key: \S+encrypted.key : error:"),
            (["-o", "ssl_chain_cert=%s,ssl_key=%s" % (SERVER.chain, SECOND.key)], r"^Error (validating the certificate|loading the key)"),
            (["-o", "ssl_chain_cert=%s,ssl_key=%s" % (expired.chain, expired.key)],
             r"^Error validating the certificate: \S+expired.pem: the certificate has expired$"),
            (["-o", both + ",ssl_ca_cert=" + broken], r"^Error loading the CA certificate: \S+broken.pem : error:"),
            (["-o", both + ",ssl_ciphers=NONE:NOTHING"], r"^Error setting the provided cipher\(s\): NONE:NOTHING$"),
            (["-o", both, "-p", "0"], r"^ERROR: You cannot enable SSL without a TCP port.$")):
        where = [] if "-p" in args else ["-l", "127.0.0.1", "-p", "-1"]
        status, _, said = run_binary("-Z", *args, *where)
        tap.ok(status == 64 and re.search(want, said.decode(), re.M), "no start with " + (" ".join(args) or "-Z alone"), status, said)
    for word in ("notls", "btls", "mtls"):
        status, _, said = run_binary("-l", word + ":127.0.0.1:0")
        want = b"'%s' option is valid only when SSL is enabled\nfailed to listen on " % word.encode()
        tap.ok(status == 71 and said.startswith(want), word + ": without -Z", status, said)
    pem = os.path.join(tls.folder(), "together.pem")
    with open(pem, "wb") as f:
        for path in (SERVER.chain, SERVER.key):
            with open(path, "rb") as part:
                f.write(part.read())
    der = os.path.join(tls.folder(), "server.der")
    tls.openssl("ec", "-in", SERVER.key, "-outform", "DER", "-out", der)
    for options in ("ssl_chain_cert=" + pem, "ssl_chain_cert=%s,ssl_keyformat=2,ssl_key=%s" % (SERVER.chain, der)):
        with Daemon("-Z", "-o", options, threads=1) as d:
            with Client(TRUSTING.wrap_socket(connect(("127.0.0.1", d.port), deadline()))) as c:
                tap.is_(c.set("k", "v"), "STORED", "a start with " + options.split(",")[-1].split("=")[0])


def warnings():
    for args, want in ((["-o", "ssl_key=x"], b"WARNING: The ssl_ options have no effect without -Z"),
                       (SERVER.options("ssl_verify_mode=2"), b"WARNING: Client certificates are required, but")):
        with Daemon(*args, threads=1) as d:
            tap.ok(want in d.stderr(), want.decode(), d.stderr())


# -- Handshakes --------------------------------------------------------------------------------------------

def versions(io):
    with TlsDaemon(io=io) as d:
        for version in ("1.2", "1.3"):
            with d.client(context=tls.context(CA, version=version)) as c:
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
        tap.ok(refusal(lambda: d.client(context=tls.context(CA, version="1.2"))), "ssl_min_version=3 refuses TLS 1.2")
        with d.client() as c:
            tap.is_(c.socket.version(), "TLSv1.3", "and not TLS 1.3")
        tap.is_(counters(d, "ssl_handshake_errors", "close_tls_failed"), (1, 1), "it is counted")
    with TlsDaemon(io=io, options=("ssl_ciphers=ECDHE-ECDSA-CHACHA20-POLY1305",)) as d:
        with d.client(context=tls.context(CA, version="1.2")) as c:
            tap.is_(c.socket.cipher()[0], "ECDHE-ECDSA-CHACHA20-POLY1305", "ssl_ciphers")


def verification(io):
    """(mode, certificate) -> accepted"""
    for mode, allowed in (("0", (None, CLIENT, STRANGER)), ("1", (None, CLIENT)), ("2", (CLIENT,)), ("3", (CLIENT,))):
        with TlsDaemon(io=io, threads=1, options=("ssl_verify_mode=" + mode, "ssl_ca_cert=" + CA.chain)) as d:
            d.context = tls.context(CA, CLIENT)
            for version in ("1.2", "1.3"):
                for certificate in (None, CLIENT, STRANGER):
                    refused = refusal(lambda: d.client(context=tls.context(CA, certificate, version)))
                    tap.is_(refused is None, certificate in allowed, "ssl_verify_mode=%s with %s certificate, TLS %s" % (
                        mode, certificate.name if certificate else "no", version))
            tap.is_(counters(d, "close_tls_failed")[0], 2 * (3 - len(allowed)), "refused handshakes are counted")
            tap.is_(d.stats("settings")["ssl_verify_mode"], {"0": "0", "1": "1", "2": "3", "3": "7"}[mode], "shown as memcached does")


def listeners(io):
    where = ",".join(prefix + "127.0.0.1:0" for prefix in ("notls:", "btls:", "mtls:", "proto[ascii]:mtls:", ""))
    with Daemon(*SERVER.options("ssl_ca_cert=" + CA.chain, "io=" + io, "ssl_verify_mode=1", "ssl_session_cache"),
                "-l", where, threads=1) as d:
        plain, basic, mutual, ascii_mutual, configured = [port for _, port in d.ports]

        def at(port, certificate=None, session=None, version=None):
            sock = connect(("127.0.0.1", port), deadline())
            return Client(tls.context(CA, certificate, version).wrap_socket(sock, session=session))

        with Client(plain) as c:
            tap.is_(c.set("k", "v"), "STORED", "notls: is plain")
        for port, certificate, good, name in (
                (basic, None, True, "btls: without a certificate"), (basic, STRANGER, True, "btls: with any certificate"),
                (mutual, None, False, "mtls: without a certificate"), (mutual, STRANGER, False, "mtls: with an unknown certificate"),
                (mutual, CLIENT, True, "mtls: with a certificate"), (ascii_mutual, CLIENT, True, "mtls: behind proto[ascii]:"),
                (ascii_mutual, None, False, "the same without a certificate"), (configured, None, True, "no prefix: ssl_verify_mode")):
            tap.is_(refusal(lambda: at(port, certificate)) is None, good, name)
        for version in ("1.2", "1.3"):
            context = tls.context(CA, version=version)

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
    folder = os.path.join(tls.folder(), "unix")
    with Daemon(*SERVER.options("io=" + io), "-s", folder, threads=1) as d:
        with d.client() as c:
            tap.is_(c.set("k", "v"), "STORED", "a Unix socket is plain")


def resumption(io):
    for options, reused in ((("ssl_session_cache",), True), ((), False)):
        with TlsDaemon(io=io, options=options) as d:
            for version in ("1.2", "1.3"):
                context = tls.context(CA, version=version)
                with d.client(context=context) as c:
                    c.set("k", "v")
                    session = c.socket.session
                sock = connect(("127.0.0.1", d.port), deadline())
                with Client(context.wrap_socket(sock, session=session)) as c:
                    tap.is_((c.socket.session_reused, c.get("k")), (reused, b"v"), "%s, TLS %s" % (options, version))
            stats = d.stats()
            tap.is_("ssl_new_sessions" in stats, reused, "ssl_new_sessions is shown")
            if reused:
                made = int(stats["tls_handshakes"] if "tls_handshakes" in stats else d.stats("proxy")["tls_handshakes"])
                tap.ok(0 < int(stats["ssl_new_sessions"]) < made, "and does not count resumed ones", stats["ssl_new_sessions"], made)


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


# -- Records -----------------------------------------------------------------------------------------------

def records(io):
    with TlsDaemon(io=io, threads=1) as d:
        for version in ("1.2", "1.3"):
            c = Pieces(d, tls.context(CA, version=version))
            c.pump(c.tls.do_handshake)
            tap.is_(c.ask(b"set k 0 0 5\r\nvalue\r\nget k\r\n", b"END\r\n"), b"STORED\r\nVALUE k 0 5\r\nvalue\r\nEND\r\n",
                    "byte by byte, TLS " + version)
            value = bytes(range(256)) * 400
            c.ask(b"set l 0 0 %d\r\n%s\r\n" % (len(value), value), b"STORED\r\n", sizes=(16384, 7, 1000, 5, 16000, 1))
            tap.is_(c.ask(b"get l\r\n", b"END\r\n"), b"VALUE l 0 %d\r\n%s\r\nEND\r\n" % (len(value), value),
                    "records in pieces of odd sizes")
        c = Pieces(d)
        c.pump(c.tls.do_handshake)
        c.tls.write(b"get k\r\n" * 3000)
        try:
            c.tls.unwrap()
        except ssl.SSLWantReadError:
            pass
        c.client.send(c.records.read())
        got = c.client.until_close()
        c.received.write(got)
        reply = b"VALUE k 0 5\r\nvalue\r\nEND\r\n" * 3000
        plain = b""
        while len(plain) < len(reply):
            plain += c.tls.read(65536)
        tap.ok(plain == reply, "3000 requests and the end of the client's data: all are answered first")
        held = Pieces(d)
        held.pump(held.tls.do_handshake)
        held.tls.write(b"v" * 10000)
        record = held.records.read()
        held.client.send(record[:9000])
        tap.ok(int(d.until_stat("read_buf_bytes", lambda n: int(n) >= 9000)) >= 9000, "the begin of a record is a client's buffer")
        held.client.close()
        tap.is_(d.until_stat("read_buf_bytes", lambda n: n == "0"), "0", "until the client's end")


def sizes(io):
    with TlsDaemon("-m", "256", "-I", "64m", io=io) as d, d.client() as c:
        for size in (0, 1, 100, 16000, 16384, 17000, 100_000, 1_000_000, 40_000_000):
            value = os.urandom(1000) * (size // 1000) + b"x" * (size % 1000)
            c.send(b"set k 0 0 %d\r\n" % size, value, b"\r\n")
            tap.is_(c.line(), b"STORED\r\n", "a value of %d bytes" % size)
            tap.ok(c.get("k") == value, "comes back")
        tap.is_(d.until_stat("read_buf_bytes", lambda n: n == "0"), "0", "no buffer remains")
        many = 2000
        for i in range(50):
            c.set("p%d" % i, b"%d" % i * 500)
        replies = b"".join(b"VALUE p%d 0 %d\r\n%s\r\nEND\r\n" % (i % 50, len(b"%d" % (i % 50) * 500), b"%d" % (i % 50) * 500)
                           for i in range(many))
        c.send(b"".join(b"get p%d\r\n" % (i % 50) for i in range(many)))
        tap.ok(c.read(len(replies)) == replies, "a pipeline of %d gets" % many)
        large = b"x" * 8_000_000
        c.set("large", large)
        with d.client() as slow:
            slow.send(b"get large large large\r\n" * 2)
            tap.is_(c.ask("mn"), "MN", "while a client does not read, others are served")
            reply = b"VALUE large 0 8000000\r\n" + large + b"\r\n"
            tap.ok(slow.read(2 * (3 * len(reply) + 5)) == 2 * (3 * reply + b"END\r\n"), "and it gets all of its replies later")


def limit(io):
    """Begins of records count: at the limit a client that sent one ends."""
    with TlsDaemon("-m", "64", "-c", "300", io=io, threads=1, options=("read_buf_mem_limit=1",)) as d, d.client() as c:
        hoarders = []
        while int(c.stats("proxy")["close_buffers_full"]) == 0 and len(hoarders) < 200:
            hoarders.append(Pieces(d))
            hoarders[-1].pump(hoarders[-1].tls.do_handshake)
            hoarders[-1].tls.write(b"v" * 16000)
            hoarders[-1].client.send(hoarders[-1].records.read()[:-1])
        tap.ok(30 < len(hoarders) < 150, "at the limit a client ends that sent the begin of a record", len(hoarders))
        c.set("k", b"v" * 10_000)
        tap.is_(c.get("k"), b"v" * 10_000, "others are served")
        tap.ok(int(c.stats()["read_buf_bytes"]) <= 1 << 20, "the limit holds")
        for one in hoarders:
            one.client.close()
        tap.is_(d.until_stat("read_buf_bytes", lambda n: n == "0"), "0", "all of it is given back")


def commands(io):
    with TlsDaemon("-Y", passwords(), io=io, threads=1) as d:
        with d.client() as c:
            tap.is_((c.ask("get a"), c.set("a", "u p")), ("CLIENT_ERROR unauthenticated", "STORED"), "passwords")
            for i in range(300):
                c.set("key%d" % i, "v" * 100)
            tap.is_(len(c.ask("lru_crawler metadump all", end="END")), 302, "a dump")
            tap.is_(len(c.get_many(["key%d" % i for i in range(300)])), 300, "a multi-get")
            with d.client() as w:
                w.set("a", "u p")
                tap.is_(w.ask("watch fetchers mutations"), "OK", "watch")
                c.get("key1")
                tap.like(w.until(b"\n"), rb"type=item_get key=key1 status=found".decode(), "and its lines")
            tap.is_(until(lambda: c.stats()["log_watchers"], lambda n: n == "0"), "0", "a watcher's end")
    with TlsDaemon(io=io, threads=1) as d, d.client() as c:
        c.send(b"\x80\x0b" + bytes(22))
        tap.is_(c.read(24)[:4], b"\x81\x0b\x00\x00", "the binary protocol")


def passwords():
    path = os.path.join(tls.folder(), "passwords")
    with open(path, "w") as f:
        f.write("u:p\n")
    return path


def key_update(io):
    """openssl s_client sends a key update, and asks for one, on a line of K."""
    with TlsDaemon(io=io, threads=1) as d:
        talk = subprocess.Popen(["openssl", "s_client", "-connect", "127.0.0.1:%d" % d.port, "-CAfile", CA.chain, "-tls1_3", "-crlf"],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said = b""

        def answer(request, end):
            nonlocal said
            talk.stdin.write(request)
            talk.stdin.flush()
            while end not in said:
                got = os.read(talk.stdout.fileno(), 65536)
                if not got:
                    return False
                said += got
            said = said[said.index(end) + len(end):]
            return True

        tap.ok(answer(b"set k 0 0 1\n1\n", b"STORED\r\n"), "before a key update")
        tap.ok(answer(b"K\n", b"KEYUPDATE"), "a key update")
        tap.ok(answer(b"get k\n", b"END\r\n") and answer(b"mn\n", b"MN\r\n"), "requests and replies after it")
        talk.stdin.close()
        talk.wait()
        talk.stdout.close()


def stops(io):
    for number in (signal.SIGTERM, signal.SIGUSR1):
        with TlsDaemon(io=io) as d:
            clients = [d.client() for _ in range(20)]
            waiting = [d.raw() for _ in range(3)]
            for c in clients:
                c.set("k", "v")
            with d.stopped():
                for c in clients:
                    c.send(b"get k\r\n")
                d.signal(number)
            got = [c.upto(b"VALUE k 0 1\r\nv\r\nEND\r\n") for c in clients]
            tap.is_(set(got), {b"VALUE k 0 1\r\nv\r\nEND\r\n"}, "requests received before a stop are answered")
            tap.ok(all(c.socket.recv(10) == b"" for c in clients), "and each end is marked")
            for c in clients + waiting:
                c.close()


def kernel(io):
    """ssl_kernel_tls. Where the kernel has no TLS, the option changes nothing."""
    with open("/proc/sys/net/ipv4/tcp_available_ulp") as f:
        has_tls = "tls" in f.read().split()
    tap.diag("the kernel has %s TLS" % ("its" if has_tls else "no"))
    has_tls = has_tls and io == "libevent"  # the ring's sends need what such sockets refuse
    with TlsDaemon("-m", "256", "-I", "64m", io=io, threads=1, options=("ssl_kernel_tls",)) as d:
        value = os.urandom(1000) * 20_000
        for version in ("1.2", "1.3"):
            context = tls.context(CA, version=version)
            with d.client(context=context) as c, d.client(context=context) as w, d.client(context=context) as slow:
                tap.is_((c.set("k", value), c.get("k") == value), ("STORED", True), "ssl_kernel_tls: a large value, TLS " + version)
                c.send(b"".join(b"get k%d\r\n" % i for i in range(5000)))
                tap.ok(c.read(5 * 5000) == b"END\r\n" * 5000, "a pipeline")
                slow.send(b"get k k\r\n")
                tap.is_(w.ask("watch fetchers"), "OK", "a watcher")
                c.get("k")
                tap.like(w.line(), "key=k ", "and its line")
                reply = b"VALUE k 0 20000000\r\n" + value + b"\r\n"
                tap.ok(slow.read(2 * len(reply) + 5) == 2 * reply + b"END\r\n", "a reply that waits for its client")
                for one in (c, slow):
                    one.send(b"quit\r\n")
                    tap.is_(one.socket.recv(10), b"", "the end is marked")
        stats = d.stats("proxy")
        tap.ok(int(stats["tls_kernel_handshakes"]) >= 6 if has_tls else stats["tls_kernel_handshakes"] == "0",
               "the kernel encrypts where it can", stats["tls_kernel_handshakes"])


# -- New certificates ----------------------------------------------------------------------------------------

def subject(c):
    """The server's name. A client asks for the certificate in its own form."""
    return dict(pair[0] for pair in c.socket.getpeercert()["subject"])["commonName"]


class Load:
    """Clients that connect, ask and leave; failures are counted."""

    def __init__(self, d, context):
        self.d, self.context, self.failed, self.done, self.stopping = d, context, [], 0, False
        self.threads = [threading.Thread(target=self.run) for _ in range(3)]
        for thread in self.threads:
            thread.start()

    def run(self):
        try:
            with self.d.client(context=self.context) as stays:
                while not self.stopping:
                    with self.d.client(context=self.context) as c:
                        if (c.set("k", "v"), c.get("k"), stays.get("k")) != ("STORED", b"v", b"v"):
                            self.failed.append("wrong reply")
                    self.done += 1
        except Exception as e:
            self.failed.append(repr(e))

    def end(self):
        self.stopping = True
        for thread in self.threads:
            thread.join()


def trust(d, *authorities):
    with open(d.trusted + ".new", "w") as f:
        for authority in authorities:
            with open(authority.chain) as one:
                f.write(one.read())
    os.replace(d.trusted + ".new", d.trusted)


def trusting_daemon(io):
    path = os.path.join(tls.folder(), "trusted-%s.pem" % io)
    shutil.copy(CA.chain, path)
    d = TlsDaemon(io=io, options=("ssl_verify_mode=2", "ssl_ca_cert=" + path))
    d.trusted = path
    d.context = tls.context(CA, CLIENT)
    return d


def by_command(d):
    with d.client() as c:
        return c.ask("refresh_certs")


def by_signal(d):
    def tries():
        stats = d.stats("config")
        return int(stats["config_reloads"]) + int(stats["config_reload_failures"])
    before = tries()
    d.signal(signal.SIGHUP)
    until(tries, lambda n: n > before)
    stats = d.stats("config")
    return "OK" if stats["config_last_result"] == "ok" else stats["config_last_error"]


def refresh(io, how):
    with trusting_daemon(io) as d:
        old = d.client()
        tap.is_(subject(old), "server", "the first certificate")
        load = Load(d, d.context)
        for i in range(6):
            (SECOND if i % 2 == 0 else SERVER).copy_to(d.files)
            done = load.done
            tap.is_(how(d), "OK", "a new certificate")
            until(lambda: load.done, lambda n: n > done + 3)
            with d.client() as c:
                tap.is_(subject(c), "second" if i % 2 == 0 else "server", "new connections get it")
        load.end()
        tap.is_(load.failed, [], "no request and no handshake failed")
        tap.is_(old.set("k", "v"), "STORED", "a connection with the old one stays")
        tap.ok(refusal(lambda: d.client(context=tls.context(CA, STRANGER))), "an unknown issuer is refused")
        trust(d, CA, OTHER_CA)
        tap.is_(how(d), "OK", "a new issuer")
        tap.is_(refusal(lambda: d.client(context=tls.context(CA, STRANGER))), None, "its clients are admitted")
        trust(d, CA)
        tap.is_(how(d), "OK", "an issuer less")
        tap.ok(refusal(lambda: d.client(context=tls.context(CA, STRANGER))), "its clients are refused")
        for path, text, want in ((d.files.key, "no key", "Error loading the key: "),
                                 (d.files.chain, "nothing", "Error loading the certificate chain: "),
                                 (d.trusted, "nothing", "Error loading the CA certificate: ")):
            with open(path) as f:
                good = f.read()
            with open(path, "w") as f:
                f.write(text)
            answer = how(d)
            tap.ok(answer.startswith(want + path + " : error:"), "a broken file is refused, with the reason", answer)
            with d.client() as c:
                tap.is_(subject(c), "server", "and the old certificate stays")
            with open(path, "w") as f:
                f.write(good)
        tap.is_(how(d), "OK", "until the file is whole again")
        old.close()


def changed_options():
    path = os.path.join(tls.folder(), "far.toml")

    def write(**keys):
        with open(path + ".new", "w") as f:
            f.write("enable_ssl = true\n")
            for key, value in keys.items():
                f.write("%s = %s\n" % (key, value))
        os.replace(path + ".new", path)

    def files(certificate):
        return {"ssl_chain_cert": '"%s"' % certificate.chain, "ssl_key": '"%s"' % certificate.key}

    write(**files(SERVER))
    with TlsDaemon() as d:
        tap.is_(d.stats("settings")["ssl_min_version"], "tlsv1.2", "ssl_min_version")
    with Daemon("--config", path, threads=1) as d:
        d.client = lambda context=TRUSTING: Client(context.wrap_socket(connect(("127.0.0.1", d.port), deadline())))
        write(ssl_min_version=3, **files(SECOND))
        tap.is_(by_signal(d), "OK", "a reload with other TLS options")
        with d.client() as c:
            tap.is_((subject(c), c.stats("settings")["ssl_min_version"]), ("second", "tlsv1.3"), "is in effect")
        tap.ok(refusal(lambda: d.client(context=tls.context(CA, version="1.2"))), "also the versions")
        write(ssl_chain_cert='"/no/such.pem"')
        tap.like(by_signal(d), "Error loading the certificate chain: /no/such.pem", "one with a missing file is refused")
        with d.client() as c:
            tap.is_(c.stats("settings")["ssl_chain_cert"], SECOND.chain, "and nothing changes")
            tap.is_(c.ask("refresh_certs"), "OK", "refresh_certs reads the files in use")
    with Daemon(threads=1) as d:
        with d.client() as c:
            tap.is_(c.ask("refresh_certs"), "Error TLS not enabled", "refresh_certs without -Z")


def metrics():
    ports = os.path.join(tls.folder(), "http")
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
warnings()
logged()
changed_options()
metrics()
with TlsDaemon(io="uring", threads=1) as one:
    backends = ["libevent"] + (["uring"] if one.stats()["farcached_io"] == "uring" else [])
for backend in backends:
    for test in (versions, verification, listeners, resumption, failures, records, sizes, limit, commands, key_update, stops, kernel):
        tap.diag("%s, io=%s" % (test.__name__, backend))
        test(backend)
    refresh(backend, by_command)
    refresh(backend, by_signal)
if len(backends) == 1:
    tap.skip("TLS over io_uring", "no io_uring here")
tap.done()
