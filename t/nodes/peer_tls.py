# SPDX-License-Identifier: BSD-3-Clause
"""TLS of tcp links between farcached and farnode (--peer-cert, --peer-key, --peer-ca): what travels is encrypted, peers without a
certificate of the authority are refused, reloads under load fail no request, and values move to another node over it."""
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import certificates  # noqa: E402
from cluster import Cluster, Table, nodes_shown, until_up  # noqa: E402
from farcached import Daemon, Pace, has_tls, run_binary, tap, until  # noqa: E402
from farnode import Farnode, farnode_binary  # noqa: E402
from http_get import get, http_args, http_env, http_port  # noqa: E402

SIZES = (1, 1000, 60_000, 300_000, 900_000)


options = certificates.peer_options


class Relay(threading.Thread):
    """Passes a port's bytes to another one, and keeps them."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.to, self.seen = port, bytearray()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]

    def run(self):
        while True:
            try:
                here = self.listener.accept()[0]
            except OSError:
                return
            there = socket.create_connection(("127.0.0.1", self.to))
            for a, b in ((here, there), (there, here)):
                threading.Thread(target=self.copy, args=(a, b), daemon=True).start()

    def copy(self, a, b):
        try:
            while data := a.recv(65536):
                self.seen += data
                b.sendall(data)
            b.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def end(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def values(title, proxy):
    wrong = []
    with proxy.client() as c:
        for size in SIZES:
            value = os.urandom(size)
            if c.set("k%d" % size, value) != "STORED" or c.get("k%d" % size) != value:
                wrong.append(size)
    tap.is_(wrong, [], title + ": values of all sizes come back")


def on_the_wire(tls):
    """The bytes between a proxy and a node."""
    with Farnode("--name", "a", *tls) as node:
        relay = Relay(node.port)
        relay.start()
        table = Table()
        try:
            with Daemon("-o", table.options(), "--node", "a=tcp:127.0.0.1:%d" % relay.port, *tls, "-t", "1") as proxy:
                until_up(proxy)
                with proxy.client() as c:
                    c.set("needle-key", b"needle-value" * 1000)
                    found = c.get("needle-key") == b"needle-value" * 1000
        finally:
            relay.end()
            table.unlink()
    return found, bytes(relay.seen)


def encrypted(ours, mine):
    found, seen = on_the_wire(options(ours, mine))
    tap.ok(found, "a value passes a relay")
    tap.ok(b"needle" not in seen and len(seen) > 12_000, "which sees neither key nor value", "%d bytes" % len(seen))
    found, seen = on_the_wire([])
    tap.ok(found and b"needle-key" in seen and b"needle-value" in seen, "and sees both without TLS")


def failures(proxy):
    """The node's connections whose TLS failed."""
    return int(proxy.stats("node n0 connections").get("channel_end_tls", 0))


def refused(ours, mine):
    theirs = certificates.Authority("peer-theirs")
    stranger = theirs.issue("stranger")
    strangers = (("another authority's", options(ours, stranger)),
                 ("no", []))
    with Cluster("tcp", proxies=1, node_args=options(ours, mine), proxy_args=options(ours, mine)) as c:
        proxy, node = c.proxies[0], c.nodes[0]
        values("two peers of one authority", proxy)
        for who, peer_options in strangers:
            before = failures(proxy)
            table = Table()
            with Daemon(*node.option(), "-o", table.options(), *peer_options, "-t", "1") as other:
                tap.ok(until(lambda: failures(proxy), lambda n: n > before) > before, "with %s certificate TLS fails" % who)
                tap.ok(nodes_shown(other)["n0"]["links_up"] == "0", "a proxy with %s certificate gets no link" % who)
                with other.client() as client:
                    tap.is_(client.set("k", "v"), "SERVER_ERROR unavailable", "and changes nothing")
            table.unlink()
        # Of a stranger the node has received no greeting.
        tap.is_(proxy.stats("node n0")["connections_welcomed"], "2", "the node has welcomed only its own proxy's two links")
    with Farnode("--name", "a") as plain:
        table = Table()
        address = "a=tcp:127.0.0.1:%d" % plain.port
        with Daemon("--node", address, "-o", table.options(), *options(ours, mine), "-t", "1") as other:
            until(other.stderr, lambda text: b"node a is down" in text)
            tap.like(other.stderr(), "TLS with the peer failed|reset", "a proxy with TLS refuses a node without")
        table.unlink()


class Asker(threading.Thread):
    """Sets and gets until it is stopped."""

    def __init__(self, daemon):
        super().__init__(daemon=True)
        self.client, self.stopping, self.rounds, self.wrong = daemon.client(), False, 0, []

    def run(self):
        pace = Pace()
        try:
            while not self.stopping and not self.wrong:
                pace.rest()
                self.rounds += 1
                value = b"%d" % self.rounds
                if self.client.set("asked", value) != "STORED" or self.client.get("asked") != value:
                    self.wrong.append(self.rounds)
        except Exception as e:  # a lost connection, too
            self.wrong.append(repr(e))

    def end(self):
        self.stopping = True
        self.join()
        self.client.close()


def reload(daemon, expected):
    before = daemon.stderr().count(expected)
    daemon.signal(signal.SIGHUP)
    return until(daemon.stderr, lambda text: text.count(expected) > before)


def reloads(ours, mine):
    next_ones = certificates.Authority("peer-next")
    chosen = ours.issue("chosen")
    trusted = certificates.Certificate("trusted")
    both = open(ours.chain).read() + open(next_ones.chain).read()
    with open(trusted.chain, "w") as f:
        f.write(both)
    with Cluster("tcp", proxies=1, node_args=options(trusted, chosen), proxy_args=options(trusted, mine)) as c:
        proxy, node = c.proxies[0], c.nodes[0]
        asker = Asker(proxy)
        asker.start()
        for name in ("first", "second", "third"):
            (next_ones if name == "second" else ours).issue(name).copy_to(chosen)
            for daemon in (proxy, node.process):
                reload(daemon, b"reload")
            table = Table()
            with Daemon(*node.option(), "-o", table.options(), *options(trusted, mine), "-t", "1") as other:
                until_up(other)
            table.unlink()
        with open(chosen.chain, "w") as f:
            f.write("no certificate\n")
        reload(node.process, b"no certificate can be read")
        tap.like(node.process.stderr(), "no certificate can be read", "a file that is none is refused, with a sentence")
        table = Table()
        with Daemon(*node.option(), "-o", table.options(), *options(trusted, mine), "-t", "1") as other:
            until_up(other)
            tap.ok(True, "and the former certificate serves on")
        table.unlink()
        asker.end()
        tap.ok(not asker.wrong and asker.rounds > 10, "reloads under load fail no request", "%s" % asker.wrong)


def spills(ours, mine):
    tls = options(ours, mine)
    with Cluster("tcp tcp", proxies=1, node_args=["-m", "4", *tls], spill=["-I", "1m"], proxy_args=tls,
                 lender_args=["-m", "64", "--spill-share", "90"]) as c:
        proxy = c.proxies[0]
        until(lambda: proxy.stats("node n0")["spill_up"], lambda up: up == "1")
        keys = [c.key(c.nodes[0], "s%d" % i) for i in range(400)]
        wrong = 0
        with proxy.client() as client:
            for _ in range(2):
                for key in keys:
                    client.set(key, key.encode() * 2000)
                    client.get(key)
            until(lambda: int(proxy.stats("node n0")["spill_records_stored"]), lambda n: n > 50)
            for key in keys:
                value = client.get(key)
                wrong += value is not None and value != key.encode() * 2000
        tap.is_(wrong, 0, "values that moved to another node over TLS come back")


def bad_options(ours, mine):
    status, _, text = run_binary("--peer-cert", mine.chain, "--tcp", "127.0.0.1:0", binary=farnode_binary())
    tap.ok(status != 0 and b"--peer-cert, --peer-key and --peer-ca, and one is missing" in text, "one of three is refused",
           repr(text))
    status, _, text = run_binary("--peer-cert", mine.chain, "--peer-key", ours.key, "--peer-ca", ours.chain)
    tap.ok(status != 0 and b"no key of that certificate" in text, "so is a wrong key", repr(text))


def end_of(certificate):
    """The end of a certificate's validity, in seconds since 1970."""
    said = subprocess.run(["openssl", "x509", "-noout", "-enddate", "-in", certificate.chain], capture_output=True, check=True)
    return ssl.cert_time_to_seconds(said.stdout.decode().partition("=")[2].strip())


def expiry(ours, mine):
    """Both programs show the end of their certificate, also after a reload."""
    own = ours.issue("own")
    tls = [*options(ours, own), *http_args()]
    with tempfile.TemporaryDirectory(prefix="farcached-peer-tls-") as folder:
        env = {name: http_env(os.path.join(folder, name)) for name in ("farcached", "farnode")}
        for name in env:
            os.mkdir(os.path.join(folder, name))
        with Cluster("tcp", proxies=1, threads=1, node_args=tls, proxy_args=tls, proxy_env=env["farcached"],
                     node_env=env["farnode"]) as c:
            proxy, node = c.proxies[0], c.nodes[0].process

            def shown():
                return tuple(int(proxy.stats(group)["peer_certificate_expires"]) for group in ("proxy", "node n0"))
            first = end_of(own)
            tap.is_(shown(), (first, first), "statistics of farcached and farnode show the end of their certificate")
            ours.issue("later", days=4000).copy_to(own)
            for daemon in (proxy, node):
                reload(daemon, b"reload")
            second = end_of(own)
            tap.ok(second > first, "another certificate ends later")
            tap.is_(until(shown, lambda now: now == (second, second)), (second, second), "after a reload those of the new one")
            for name in env:
                page = get(http_port(os.path.join(folder, name)), "/metrics")[2]
                row = r"(?m)^%s_peer_certificate_expiry_timestamp_seconds %d$" % (name, second)
                tap.like(page, row, "so do metrics of " + name)


def no_effect(ours, mine):
    """Without a link over tcp the options are of no use."""
    words = b"--peer-cert has no effect: links over shm and RDMA are not encrypted, and "
    tls = options(ours, mine)
    with Cluster("shm", proxies=1, threads=1, node_args=tls, proxy_args=tls) as c:
        tap.ok(words + b"this node has none over tcp" in c.nodes[0].process.stderr(), "farnode warns without --tcp")
        tap.ok(words + b"no node has an address of tcp" in c.proxies[0].stderr(), "farcached warns without a node over tcp")
    with Cluster("tls", proxies=1, threads=1) as c:
        said = c.nodes[0].process.stderr() + c.proxies[0].stderr()
        tap.ok(b"no effect" not in said, "with one they do not", said)
        tap.ok("peer_certificate_expires" in c.proxies[0].stats("proxy"), "and show the end of the certificate")
    with Cluster("tcp", proxies=1, threads=1) as c:
        tap.ok("peer_certificate_expires" not in c.proxies[0].stats("proxy"), "not without TLS")


def main():
    if not has_tls():
        tap.skip_all("no OpenSSL in this program, or no openssl command")
    ours = certificates.Authority("peer-ours")
    mine = ours.issue("peer")
    encrypted(ours, mine)
    refused(ours, mine)
    reloads(ours, mine)
    spills(ours, mine)
    bad_options(ours, mine)
    expiry(ours, mine)
    no_effect(ours, mine)
    tap.done()


main()
