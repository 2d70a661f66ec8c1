# SPDX-License-Identifier: BSD-3-Clause
"""TLS: the CPU time of full handshakes and of GETs, and the latency of plain GETs beside handshakes, with one certificate for all.

The clients are processes of Python, which keep a server busy for a part of the time. So the throughput is theirs: the CPU time and
the latency of the server's plain clients are the results. This file is also the program of these clients.
"""
import contextlib
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time

if __name__ != "__main__":
    from compare_contestants import DIRECT, URING, Contestant, io_choices
    from compare_load import Workload, measured, cpu_of
    from compare_servers import Failed, child_setup
else:
    Contestant = object

KEYS = {"RSA": ("rsa:2048",), "ECDSA": ("ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")}
RSA_HANDSHAKE, HANDSHAKE, GETS, LARGE_GETS, BESIDE = (
    "TLS, full handshakes (RSA)", "TLS, full handshakes (ECDSA)", "TLS, 64 B, pipeline 1", "TLS, 100 kB, pipeline 1",
    "plain, 64 B, beside 100 handshakes/s (RSA)")
CONNECTIONS = 8
BESIDE_PER_S = 100
BESIDE_RATE = 5000  # plain keys per second of an open loop
KEY = b"compare-tls"


def missing():
    """Why there is no such measurement; empty: nothing is missing."""
    return "" if shutil.which("openssl") else "TLS is left out: there is no openssl command."


def workloads(data):
    """(certificate's kind, workload, bytes of a value; None: no GETs)"""
    return [("RSA", Workload(RSA_HANDSHAKE, data), None), ("ECDSA", Workload(HANDSHAKE, data), None),
            ("ECDSA", Workload(GETS, data), 64), ("ECDSA", Workload(LARGE_GETS, data), 100_000),
            ("RSA", Workload(BESIDE, data, rate=BESIDE_RATE, connections=16, threads=1), None)]


def make_certificate(kind, folder):
    path = os.path.join(folder, kind)
    subprocess.run(["openssl", "req", "-x509", "-newkey", *KEYS[kind], "-nodes", "-keyout", path + ".key", "-out", path + ".pem",
                    "-subj", "/CN=compare", "-days", "30"], check=True, stdin=subprocess.DEVNULL, capture_output=True)
    return path


class WithTls(Contestant):
    """A server with a plain port and one with TLS."""

    def __init__(self, label, setup, cpus, binary, threads, more, ours, certificate):
        super().__init__(label, setup, cpus)
        self.binary, self.threads, self.more, self.ours, self.certificate = binary, threads, more, ours, certificate
        self.group, self.tls_port = DIRECT, None

    def start_front(self, _where):
        options = "ssl_chain_cert=%s.pem,ssl_key=%s.key" % (self.certificate, self.certificate)
        self.run_front_like_memcached(self.binary, ["-t", str(self.threads), "-m", str(self.setup.megabytes)] + self.more +
                                      ["-l", "notls:127.0.0.1", "-Z", "-o", options])
        with open(self.path("front.ports")) as file:
            self.tls_port, self.port = (int(port) for port in re.findall(r"TCP INET: (\d+)", file.read()))


def contestants(setup, cpus, threads, certificate):
    found = [WithTls("farcached" + (URING if io == "uring" else ""), setup, cpus, setup.farcached, threads, more, True, certificate)
             for io, more in (io_choices(setup.farcached) or {"libevent": []}).items()]
    if setup.memcached:
        found.append(WithTls("memcached", setup, cpus, setup.memcached, threads, [], False, certificate))
    return found


# -- The load --------------------------------------------------------------------------------------------------

class TlsLoad:
    """plain: the load for the plain port. sizes: bytes of the values of each workload, None without GETs."""

    name = "farbench"

    def __init__(self, plain, sizes, cpus):
        self.plain, self.sizes, self.cpus = plain, sizes, cpus

    def can(self, contestant, workload):
        return True

    def measure(self, contestant, workload, seconds, warmup):
        size = self.sizes[workload.name]
        if workload.rate is not None:
            with last_cpu_for(self.plain, contestant, self.cpus) as others, \
                    Clients(others, "paced", contestant.tls_port, seconds + warmup) as clients:
                clients.go()
                return self.plain.measure(contestant, workload, seconds, warmup)
        if size is not None:
            store(contestant.port, size)
        with Clients(self.cpus, "gets" if size is not None else "handshakes", contestant.tls_port, seconds, size or 0) as clients:
            before = cpu_of(contestant)
            clients.go()
            count = clients.result()
            return measured(count, seconds, contestant, before, cpu_of(contestant), (None, None, None), 1.0)


@contextlib.contextmanager
def last_cpu_for(load, contestant, cpus):
    """Gives a CPU to the load alone if servers and clients share all: it polls, so it would wait for the server's threads instead
    of for their replies. The value: CPUs of the other clients."""
    if contestant.cpus != cpus or len(cpus) < 2:
        yield cpus
        return
    last = {max(cpus)}
    before, load.cpus = load.cpus, last
    pin_threads(contestant.pid, cpus - last)
    try:
        yield cpus - last
    finally:
        pin_threads(contestant.pid, cpus)
        load.cpus = before


def pin_threads(pid, cpus):
    for thread in os.listdir("/proc/%d/task" % pid):
        with contextlib.suppress(ProcessLookupError):  # that has ended
            os.sched_setaffinity(int(thread), cpus)


class Clients:
    """This file as a program. It tells when it is connected, begins at go(), and tells the number of operations."""

    def __init__(self, cpus, *args):
        self.process = subprocess.Popen([sys.executable, os.path.realpath(__file__)] + [str(a) for a in args],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=child_setup(cpus))

    def __enter__(self):
        if self.process.stdout.readline() != b"connected\n":
            self.__exit__()
            raise Failed("the TLS clients did not connect")
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def go(self):
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def result(self):
        line = self.process.stdout.readline()
        if not line:
            raise Failed("a TLS client lost its connection")
        return json.loads(line)


def store(port, size):
    with socket.create_connection(("127.0.0.1", port), 10) as s:
        s.sendall(b"set %s 0 0 %d\r\n" % (KEY, size) + b"v" * size + b"\r\n")
        if s.recv(100) != b"STORED\r\n":
            raise Failed("a value for TLS was not stored")


# -- The clients -----------------------------------------------------------------------------------------------

def connected(port, context):
    s = socket.create_connection(("127.0.0.1", port), 20)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return context.wrap_socket(s)


def handshake(port, context):
    with connected(port, context) as s:
        s.sendall(b"mn\r\n")
        if s.recv(10) != b"MN\r\n":
            raise SystemExit(1)


def lockstep(clients, end, size):
    reply, count = len(b"VALUE %s 0 %d\r\n" % (KEY, size)) + size + 7, 0
    while time.monotonic() < end:
        for s in clients:
            s.sendall(b"get %s\r\n" % KEY)
        for s in clients:
            left = reply
            while left > 0:
                got = len(s.recv(1 << 17))
                left = left - got if got else sys.exit(1)
        count += len(clients)
    return count


def client_main(what, port, seconds, size=0):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    port, seconds, size, count = int(port), float(seconds), int(size), 0
    if what == "paced":  # the load's plain requests are to wait for the server, not for this client
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    clients = [connected(port, context) for _ in range(CONNECTIONS)] if what == "gets" else []
    handshake(port, context)
    print("connected", flush=True)
    sys.stdin.readline()
    begin = time.monotonic()
    if what == "gets":
        count = lockstep(clients, begin + seconds, size)
    while what == "handshakes" and time.monotonic() < begin + seconds:
        handshake(port, context)
        count += 1
    while what == "paced" and time.monotonic() < begin + seconds:
        time.sleep(max(0, begin + count / BESIDE_PER_S - time.monotonic()))
        handshake(port, context)
        count += 1
    print(json.dumps(count), flush=True)


if __name__ == "__main__":
    client_main(*sys.argv[1:])
