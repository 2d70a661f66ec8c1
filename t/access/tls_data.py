# SPDX-License-Identifier: BSD-3-Clause
"""Requests and replies over TLS: of any size, in any pieces, at the limit of clients' buffers, and when the server stops."""
import os
import signal
import ssl
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import certificates  # noqa: E402
import tls_library  # noqa: E402
from farcached import tap, until  # noqa: E402
from tls_daemon import CA, Pieces, TlsDaemon, in_each_backend  # noqa: E402


# -- Records -----------------------------------------------------------------------------------------------

def records(io):
    with TlsDaemon(io=io, threads=1) as d:
        for version in ("1.2", "1.3"):
            c = Pieces(d, certificates.context(CA, version=version))
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
        stats = c.stats()
        tap.is_((stats["response_obj_oom"], stats["read_buf_oom"] > "0"), ("0", True), "which is counted as a read")
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
    path = os.path.join(certificates.folder(), "passwords")
    with open(path, "w") as f:
        f.write("u:p\n")
    return path


def key_update(io):
    """openssl s_client sends a key update, and asks for one, on a line of K."""
    with TlsDaemon(io=io, threads=1) as d:
        talk = subprocess.Popen(
            ["openssl", "s_client", "-connect", "127.0.0.1:%d" % d.port, "-CAfile", CA.chain, "-tls1_3", "-crlf"],
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


def key_update_while_writing(io):
    """The answer to a key update leaves behind the records that were sealed before it."""
    if not tls_library.is_available():
        tap.skip("a key update beside a reply", "no libssl for Python")
        return
    size, times = 300_000, 200
    reply = b"VALUE k 0 %d\r\n" % size + b"v" * size + b"\r\nEND\r\n"
    with TlsDaemon("-m", "256", io=io, threads=1) as d, d.client() as c:
        c.set("k", b"v" * size)
        with tls_library.Connection(d.port, CA.chain) as talk:
            right = 0
            for i in range(times):
                talk.write(b"get k\r\n")
                end = time.monotonic() + (i % 40) * 10e-6  # while the first records are being sealed, or leave
                while time.monotonic() < end:
                    pass
                talk.ask_for_new_key()
                right += talk.read(len(reply)) == reply
            tap.is_(right, times, "replies among answers to key updates")


def kernel_key_update(io):
    """The kernel cannot change its key: the connection ends, with the reason in the log."""
    if not tls_library.is_available():
        tap.skip("a key update with ssl_kernel_tls", "no libssl for Python")
        return
    with TlsDaemon("-v", io=io, threads=1, options=("ssl_kernel_tls",)) as d, d.client():
        in_kernel = int(d.stats("proxy")["tls_kernel_handshakes"]) > 0
        with tls_library.Connection(d.port, CA.chain) as talk:
            talk.write(b"mn\r\n")
            tap.is_(talk.read(4), b"MN\r\n", "ssl_kernel_tls: before a key update")
            talk.ask_for_new_key()
            talk.write(b"mn\r\n")
            if in_kernel:
                tap.is_(d.until_stat("ssl_proto_errors", lambda n: n == "1"), "1", "after it the connection ends")
                tap.like(until(d.stderr, lambda text: b"a new key" in text), "a new key, which ssl_kernel_tls cannot use",
                         "and the log says so")
            else:
                tap.is_(talk.read(4), b"MN\r\n", "after it, without the kernel's TLS")


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
        warning = b"ssl_kernel_tls has no effect"
        said = d.stderr() if has_tls else until(d.stderr, lambda text: warning in text)
        tap.is_(warning in said, not has_tls, "ssl_kernel_tls: the log tells where it has no effect")
        value = os.urandom(1000) * 20_000
        for version in ("1.2", "1.3"):
            context = certificates.context(CA, version=version)
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


in_each_backend(records, sizes, limit, commands, key_update, key_update_while_writing, stops, kernel, kernel_key_update)
tap.done()
