# SPDX-License-Identifier: BSD-3-Clause
"""The cost of clients that hold memory: private memory of a server with one worker, and the latency of another client meanwhile."""
import contextlib
import socket
import time
import types

PATIENCE_SECONDS = 20
MB = 1 << 20
KEY = b"exhaustion"

# name; -m; -I; number of clients; requests of each one after `value_bytes` were stored under KEY
CASES = [
    types.SimpleNamespace(name="15 clients ask for 60 MB and do not read", megabytes=256, item="64m", clients=15,
                          value_bytes=60 * MB, sends=lambda: b"get %s\r\n" % KEY),
    types.SimpleNamespace(name="200 clients send 1 MB but its last byte", megabytes=64, item="1m", clients=200,
                          value_bytes=100, sends=lambda: b"set %s 0 0 %d\r\n" % (KEY, MB - 1000) + b"u" * (MB - 1001)),
]
QUICK = 0.05  # share of clients and values in a quick run, whose numbers mean nothing


def connected(port):
    s = socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s


def answer(s, request, end):
    s.sendall(request)
    got = b""
    while not got.endswith(end):
        piece = s.recv(1 << 16)
        if not piece:
            raise OSError("a connection ended: %r" % got[-60:])
        got += piece
    return got


def send_all(s, data):
    """Sends as much as the server accepts; it may refuse the rest."""
    s.settimeout(PATIENCE_SECONDS)
    with contextlib.suppress(OSError):
        s.sendall(data)


def of_case(contestant, case, seconds, quick):
    """(maximum of private bytes, [seconds of each get of another client])"""
    clients = max(1, int(case.clients * QUICK)) if quick else case.clients
    value_bytes = max(1, int(case.value_bytes * QUICK)) if quick else case.value_bytes
    contestant.start()
    opened = []
    try:
        other = connected(contestant.port)
        opened.append(other)
        answer(other, b"set %s 0 0 %d\r\n" % (KEY, value_bytes) + b"v" * value_bytes + b"\r\n", b"\r\n")
        answer(other, b"set small 0 0 1\r\n1\r\n", b"\r\n")
        for _ in range(clients):
            s = connected(contestant.port)
            opened.append(s)
            send_all(s, case.sends())
        most, waits, end = 0, [], time.monotonic() + seconds
        while time.monotonic() < end or not waits:
            began = time.monotonic()
            answer(other, b"get small\r\n", b"END\r\n")
            waits.append(time.monotonic() - began)
            if len(waits) % 100 == 1:
                most = max(most, contestant.front.private_bytes())
        return most, waits
    finally:
        for s in opened:
            s.close()
        contestant.stop()


def words(case, waits):
    """waits: {label: seconds of each get}"""
    def of(label):
        ordered = sorted(waits[label])
        return "%s %.2f ms (99 %%) and %.2f ms (longest)" % (label, ordered[len(ordered) * 99 // 100] * 1e3, ordered[-1] * 1e3)
    return "While %s, a get of another client takes at most: %s." % (case.name, "; ".join(of(label) for label in waits))
