# SPDX-License-Identifier: BSD-3-Clause
"""Handshakes that take long are computed by another thread than the worker: with that thread held up, others are served, clients
vanish, keys are replaced, and the daemon ends."""
import os
import select
import signal
import ssl
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import certificates  # noqa: E402
from daemon import test_program  # noqa: E402
from farcached import Client, Daemon, tap, until  # noqa: E402
from tls_daemon import CA, SECOND, SERVER, Pieces, counters, in_each_backend  # noqa: E402


class HeldDaemon(Daemon):
    """One worker, and a plain port. Each step of its other thread waits for go_on(). groups: OpenSSL's default is these ones."""

    def __init__(self, io, *options, groups=None):
        self.files = certificates.Certificate("held-%d" % id(self))
        SERVER.copy_to(self.files)
        env = {"FARCACHED_FAULTS": "held_handshake=1"}
        if groups is not None:
            env["OPENSSL_CONF"] = self.files.chain + ".cnf"
            with open(env["OPENSSL_CONF"], "w") as f:
                f.write("openssl_conf = all\n[all]\nssl_conf = ssl\n[ssl]\nsystem_default = ours\n[ours]\nGroups = " + groups)
        super().__init__(*self.files.options("io=" + io, *options), "-l", "notls:127.0.0.1:0,127.0.0.1:0", threads=1,
                         binary=test_program("faulty/farcached"), env=env)

    def client(self, timeout=None):
        return Client(self.ports[0][1], timeout=timeout)

    def raw(self):
        return Client(self.ports[1][1])

    def go_on(self):
        self.signal(signal.SIGUSR2)


class Greeting(Pieces):
    """A client that has sent its hello."""

    def __init__(self, d, version="1.3"):
        super().__init__(d, certificates.context(CA, version=version))
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            self.client.send(self.records.read())

    def answer(self, d):
        """Lets the daemon compute a step, and answers it. False: that was not the last one."""
        d.go_on()
        self.received.write(self.client.socket.recv(65536))
        try:
            self.tls.do_handshake()
            return True
        except ssl.SSLWantReadError:
            return False
        finally:
            self.client.send(self.records.read())

    def finish_later(self, d):
        """Behind the steps of others, and in one step. The server's name."""

        def is_answered():
            d.go_on()
            return select.select([self.client.socket], [], [], 0.01)[0] != []

        until(is_answered, bool)
        self.pump(self.tls.do_handshake)
        return self.server()

    def server(self):
        return dict(pair[0] for pair in self.tls.getpeercert()["subject"])["commonName"]

    def finish(self, d, steps):
        """Lets the daemon compute so many steps. The server's name."""
        for _ in range(steps):
            over = self.answer(d)
        if not over:
            self.pump(self.tls.do_handshake)
        return self.server()


def is_served(c, name):
    told = {(c.set("k%d" % i, "v"), c.get("k%d" % i)) for i in range(200)}
    tap.is_(told, {("STORED", b"v")}, name)


def others(io):
    with HeldDaemon(io) as d, d.client() as c:
        first, second = Greeting(d), Greeting(d, "1.2")
        is_served(c, "a handshake is held up: others are served")
        tap.is_(counters(c, "tls_handshakes"), (0,), "and it has not ended")
        tap.is_(first.finish(d, 1), "server", "once it goes on, it ends")
        tap.is_(first.ask(b"get k1\r\n", b"END\r\n"), b"VALUE k1 0 1\r\nv\r\nEND\r\n", "its session is served")
        is_served(c, "the next one is held up: others are served")
        tap.is_(second.finish(d, 2), "server", "TLS 1.2: both its steps")
        tap.is_(second.ask(b"mn\r\n", b"\r\n"), b"MN\r\n", "its session is served, too")
        tap.is_(counters(c, "tls_handshakes", "ssl_handshake_errors"), (2, 0), "they are counted")


def hello_again(io):
    """The server wants a share of another group (TLS 1.3, HelloRetryRequest): its signature follows the second hello."""
    with HeldDaemon(io, groups="P-384") as d, d.client() as c:
        client = Greeting(d)
        tap.is_(client.answer(d), False, "the server refuses the first share: a second hello")
        is_served(c, "its step is held up: others are served")
        tap.is_(select.select([client.client.socket], [], [], 0)[0], [], "and it is not computed")
        tap.is_(client.finish(d, 1), "server", "once it goes on, the handshake ends")
        tap.is_(client.ask(b"mn\r\n", b"\r\n"), b"MN\r\n", "and the session is served")


def vanished(io):
    with HeldDaemon(io) as d, d.client() as c:
        before = counters(c, "curr_connections")
        gone = [Greeting(d) for _ in range(8)]
        closed, broken = Greeting(d), d.raw()
        broken.send(b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00")
        is_served(c, "ten handshakes wait: others are served")
        for client in gone:
            client.client.reset()
        tap.is_(until(lambda: counters(c, "ssl_handshake_errors"), lambda n: n == (8,)), (8,), "clients that reset are counted")
        tap.is_(until(lambda: counters(c, "curr_connections"), lambda n: n == (before[0] + 2,)), (before[0] + 2,),
                "their connections end while one of their steps is held up")
        closed.client.close()

        def left():
            d.go_on()
            return counters(c, "curr_connections")

        tap.is_(until(left, lambda n: n == before), before, "the others' end when it goes on")
        broken.until_close()  # an alert
        tap.is_(counters(c, "ssl_handshake_errors", "tls_handshakes"), (10, 0), "and are counted")
        late = Greeting(d)
        tap.is_(late.finish(d, 1), "server", "a new client is served")


def flooded(io):
    """Hellos that wait for the other thread are clients' buffers: at the limit (1 MB) these clients end, and nobody else."""
    records = b"".join(b"\x16\x03\x01\x3c\x00" + (start + bytes(0x3c00))[:0x3c00] for start in (b"\x01\x00\x7d\x00", b""))
    with HeldDaemon(io, "read_buf_mem_limit=1") as d, d.client() as c:
        flood = []
        while counters(c, "close_buffers_full") == (0,) and len(flood) < 100:
            flood.append(d.raw())
            flood[-1].send(records)
        tap.ok(10 < len(flood) < 100, "hellos wait, and one of their clients ends", len(flood))
        tap.is_((c.set("k", b"v" * 10_000), c.get("k")), ("STORED", b"v" * 10_000), "others are served")
        late = [Greeting(d) for _ in range(20)]
        is_served(c, "new clients send their hellos")
        for one in flood:
            one.reset()
        names = [one.finish_later(d) for one in late]
        tap.is_(names, ["server"] * len(late), "and none of them ended")
        tap.is_(until(lambda: counters(c, "tls_handshakes"), lambda n: n == (20,)), (20,), "which is counted")


def left(io):
    """Clients that send a hello and reset leave nothing behind."""
    with HeldDaemon(io) as d, d.client() as c:
        first = Greeting(d)
        before = until(lambda: counters(c, "curr_connections", "read_buf_bytes"), lambda now: now[1] != 0)
        for _ in range(5):
            gone = [Greeting(d) for _ in range(20)]
            all_there = (before[0] + len(gone),)
            tap.is_(until(lambda: counters(c, "curr_connections"), lambda now: now == all_there), all_there,
                    "clients send their hellos")
            for client in gone:
                client.client.reset()
            tap.is_(until(lambda: counters(c, "curr_connections", "read_buf_bytes"), lambda now: now == before), before,
                    "they reset: their hellos are freed while another's step is held up")
        tap.is_(first.finish(d, 1), "server", "which ends when it goes on")


def refreshed(io):
    with HeldDaemon(io) as d, d.client() as c:
        old = Greeting(d)
        is_served(c, "a handshake is held up")
        SECOND.copy_to(d.files)
        tap.is_(c.ask("refresh_certs"), "OK", "new keys")
        new = Greeting(d)
        new.pump(new.tls.do_handshake)  # with a key of P-256 the worker computes
        tap.is_(new.ask(b"mn\r\n", b"\r\n"), b"MN\r\n", "which a new client gets")
        tap.is_(old.finish(d, 1), "server", "the handshake goes on with the old ones")
        tap.is_(old.ask(b"mn\r\n", b"\r\n"), b"MN\r\n", "and its session is served")


def stopped(io):
    with HeldDaemon(io) as d, d.client() as c:
        greeting = [Greeting(d) for _ in range(5)]
        is_served(c, "handshakes are held up")
        d.signal(signal.SIGTERM)

        def ended():
            d.go_on()
            return d.wait(0.05)

        tap.is_(until(ended, lambda status: status is not None), 0, "the daemon ends meanwhile")
        for one in greeting:
            one.client.until_close()


in_each_backend(others, hello_again, vanished, flooded, left, refreshed, stopped)
tap.done()
