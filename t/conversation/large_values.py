# SPDX-License-Identifier: BSD-3-Clause
"""Values above 16 KiB are sent from the cache's memory and received into it. They are right in every protocol and for every split,
do not change for slow readers, and share the limit of all clients' buffers (read_buf_mem_limit).

Builds without a sanitizer compare the memory with -m, a quarter of it, and 32 MB.
"""
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from binary_client import op, packet, set_extras  # noqa: E402
from connections import endings  # noqa: E402
from farcached import Closed, Daemon, TimedOut, is_sanitized, tap, until  # noqa: E402

MB = 1 << 20
SIZES = (16383, 16384, 20_000, 65_000, 65_536, 300_000, MB - 200)
NO_ROOM_TO_READ = b"SERVER_ERROR out of memory reading request\r\n"
NO_ROOM_TO_WRITE = b"SERVER_ERROR out of memory writing get response\r\n"
RANDOM = random.Random(7)


def text_set(key, value, verb=b"set", end=b"\r\n"):
    return b"%s %s 5 0 %d\r\n%s%s" % (verb, key, len(value), value, end)


def hit(key, value):
    return b"VALUE %s 5 %d\r\n%s\r\n" % (key, len(value), value)


def binary_answer(c):
    header = c.read(24)
    return int.from_bytes(header[6:8], "big"), c.read(int.from_bytes(header[8:12], "big"))


# -- Right bytes -----------------------------------------------------------------------------------------

def each_protocol(d, io):
    wrong = []
    with d.client() as c, d.client() as b:
        for size in SIZES:
            value = RANDOM.randbytes(size)
            c.send(text_set(b"t", value), b"get t\r\ngets nothing t t\r\ngat 0 t\r\nmg t v f\r\nmg t s\r\n")
            c.send(b"ms m %d\r\n%s\r\nmg m v\r\n" % (size, value))
            expected = [b"STORED\r\n" + hit(b"t", value) + b"END\r\n"]
            got = [c.read(len(expected[0]))]
            gets = c.until(b"\r\n")
            cas = gets.split()[4]
            got.append(gets + c.read(len(value) + 2) + c.until(b"\r\n") + c.read(len(value) + 7))
            line = b"VALUE t 5 %d %s\r\n%s\r\n" % (size, cas, value)
            expected.append(line + line + b"END\r\n")
            expected.append(hit(b"t", value) + b"END\r\n" + b"VA %d f5\r\n%s\r\nHD s%d\r\nHD\r\nVA %d\r\n%s\r\n" % (
                size, value, size, size, value))
            got.append(c.read(len(expected[2])))
            wrong += [(size, part) for part, (g, e) in enumerate(zip(got, expected)) if g != e]
            b.send(packet(op.SET, b"b", value, set_extras(flags=5)), packet(op.GET, b"b"), packet(op.GETK, b"b"),
                   packet(op.GET, b"t"))
            answers = [binary_answer(b) for _ in range(4)]
            flags = b"\0\0\0\5"
            if answers != [(0, b""), (0, flags + value), (0, flags + b"b" + value), (0, flags + value)]:
                wrong.append((size, "binary"))
            # The value is the last of its reply, and the socket takes it in parts.
            b.send_split(packet(op.SET, b"b", value[::-1], set_extras(flags=5)), sizes=(3000, 60_000, 7))
            if [binary_answer(b), binary_answer(b.send(packet(op.GET, b"b")))] != [(0, b""), (0, flags + value[::-1])]:
                wrong.append((size, "binary, in parts"))
    tap.is_(wrong, [], "%s: every size, by every protocol" % io)


def mutations(d, io):
    """Stores of large values with options and in other commands."""
    with d.client() as c:
        value, other = RANDOM.randbytes(50_000), RANDOM.randbytes(50_000)
        told = []
        for request in (text_set(b"n", value, b"replace"), text_set(b"n", value, b"add"), text_set(b"n", other, b"add"),
                        text_set(b"n", other, b"append"), text_set(b"n", other, b"prepend"),
                        text_set(b"n", other, end=b"zz")):
            c.send(request)
            told.append(c.line())
        tap.is_(told, [b"NOT_STORED\r\n", b"STORED\r\n", b"NOT_STORED\r\n", b"STORED\r\n", b"STORED\r\n",
                       b"CLIENT_ERROR bad data chunk\r\n"], "%s: add, replace, append, prepend, and an end that is none" % io)
        c.send(b"\r\nmn\r\n")
        c.until(b"MN\r\n")
        c.send(b"get n\r\n")
        joined = hit(b"n", other + value + other) + b"END\r\n"
        tap.ok(c.read(len(joined)) == joined, "%s: the joined value is complete" % io)
        c.send(b"set n 0 -1 50000 noreply\r\n", value, b"\r\nset o 0 0 50000 noreply\r\n", value, b"\r\nget n o\r\n")
        alone = b"VALUE o 0 50000\r\n%s\r\nEND\r\n" % value
        tap.ok(c.read(len(alone)) == alone, "%s: noreply, and an expiry time that has passed" % io)
        c.send(b"ms dHQ= 50000 b T60\r\n", value, b"\r\nget tt\r\n")
        decoded = b"HD\r\nVALUE tt 0 50000\r\n%s\r\nEND\r\n" % value
        tap.ok(c.read(len(decoded)) == decoded, "%s: a key in base64" % io)


def in_pieces(d, io):
    """Values in random pieces, on several connections in turn. Some are never completed."""
    clients = [d.client() for _ in range(6)]
    values = [RANDOM.randbytes(RANDOM.randrange(16_384, 200_000)) for _ in clients]
    requests = [text_set(b"p%d" % i, value) + b"get p%d\r\n" % i for i, value in enumerate(values)]
    for i in (0, 3):
        requests[i] = requests[i][:len(values[i]) // 2]  # and then its connection ends
    sent = [0] * len(clients)
    while any(at < len(request) for at, request in zip(sent, requests)):
        i = RANDOM.randrange(len(clients))
        piece = RANDOM.choice((1, 2, 100, 1448, 40_000))
        clients[i].send(requests[i][sent[i]:sent[i] + piece])
        sent[i] = min(sent[i] + piece, len(requests[i]))
    wrong = []
    for i, (c, value) in enumerate(zip(clients, values)):
        if i not in (0, 3):
            answer = b"STORED\r\n" + hit(b"p%d" % i, value) + b"END\r\n"
            if c.read(len(answer)) != answer:
                wrong.append(i)
        c.close()
    tap.is_(wrong, [], "%s: values in pieces" % io)
    left = until(lambda: int(d.stats("proxy")["node_bytes_arriving"]), lambda n: n == 0)
    tap.is_(left, 0, "%s: and incomplete values leave no memory behind" % io)


def slow_readers(d, io):
    """A slow reader gets the value at the time of its request, even if the key changes afterwards."""
    size = 900_000
    changes = (b"delete k\r\n", b"flush_all\r\n", b"touch k 1000\r\n", text_set(b"k", b"x" * size), text_set(b"k", b"small"),
               text_set(b"k", b"tail", b"append"), b"md k I\r\n", b"md k x\r\n")
    wrong = []
    with d.client() as writer:
        for change in changes:
            value = RANDOM.randbytes(size)
            writer.send(text_set(b"k", value))
            writer.line()
            readers = [d.client() for _ in range(4)]
            for c in readers:
                c.send(b"get k\r\n" * 16)  # more than sockets hold
            until(lambda: int(d.stats()["response_obj_count"]), lambda n: n >= 4)
            writer.send(change)
            writer.line()
            for i in range(20):
                writer.send(text_set(b"fill%d" % i, b"f" * size))
                writer.line()
            for c in readers:
                first = hit(b"k", value)
                if c.read(len(first)) != first:
                    wrong.append(change[:20])
                c.close()
    tap.is_(wrong, [], "%s: slow readers get the value at their request" % io)
    left = until(lambda: int(d.stats("proxy")["node_bytes_lent"]), lambda n: n == 0)
    tap.is_(left, 0, "%s: and then no value is pinned" % io)


# -- Bounds ----------------------------------------------------------------------------------------------

def within(d, memory_mb, what):
    private = d.memory()["Private"]
    if is_sanitized():
        tap.skip("%s: memory" % what, "a sanitizer build keeps memory of its own")
        return
    tap.ok(private <= (memory_mb * 1.25 + 32) * MB, "%s: memory is at most -m, a quarter and 32 MB" % what, private / MB)
    tap.diag("%s: private memory %.1f MB at -m %d" % (what, private / MB, memory_mb))


def serves(d, what):
    with d.client() as c:
        tap.ok(c.set("alive", b"v" * 100) == "STORED" and c.get("alive") == b"v" * 100, "%s: others are served" % what)


def told_or_open(c):
    """The reply to a client that sent half a request, if its connection has ended."""
    c.socket.settimeout(0.01)
    try:
        return c.until_close()
    except (TimedOut, Closed):
        return None


def unread_values(io):
    """Clients that request a large value again and again, and never read."""
    with Daemon("-m", 256, "-I", "64m", "-t", "2", "-o", "io=" + io) as d:
        value = b"L" * (60 * MB)
        with d.client() as c:
            tap.is_(c.set("large", value), "STORED", "%s: 60 MB are stored" % io)
        readers = [d.client() for _ in range(15)]
        for c in readers:
            c.send(b"get large\r\n" * 3)
        until(lambda: int(d.stats()["response_obj_count"]), lambda n: n >= 15)
        serves(d, "%s: 15 clients that do not read 60 MB" % io)
        within(d, 256, "%s: 15 clients that do not read 60 MB" % io)
        ok = readers[0].read(len("VALUE large 0 %d\r\n" % len(value)))
        tap.ok(readers[0].read(len(value)) == value, "%s: and one that reads then gets it" % io, ok)
        for c in readers:
            c.close()


def half_uploads(io):
    with Daemon("-m", 64, "-t", "2", "-o", "io=" + io) as d:
        size = MB - 1000
        senders = [d.client() for _ in range(200)]
        for i, c in enumerate(senders):
            try:
                c.send(b"set u%d 0 0 %d\r\n" % (i, size), b"u" * (size - 1))
            except OSError:
                pass  # it got an error and was closed
        serves(d, "%s: 200 uploads without their last byte" % io)
        within(d, 64, "%s: 200 uploads without their last byte" % io)
        stats = d.stats()
        tap.ok(int(stats["read_buf_oom"]) > 0, "%s: refused ones are counted" % io, stats["read_buf_oom"])
        ended = until(lambda: endings(d), lambda e: e["buffers_full"] >= int(stats["read_buf_oom"]))
        tap.ok(ended["buffers_full"] >= int(stats["read_buf_oom"]), "%s: and their connections ended by that name" % io, ended)
        tap.ok(200 - ended["buffers_full"] >= 16, "%s: a quarter of -m could arrive" % io, ended)
        told = {told_or_open(c) for c in senders}
        tap.ok(told <= {None, NO_ROOM_TO_READ, b""} and None in told, "%s: they get the reason" % io, told)
        for c in senders:
            c.close()
        left = until(lambda: int(d.stats()["read_buf_bytes"]), lambda n: n == 0)
        tap.is_(left, 0, "%s: nothing is kept of them" % io)


def half_requests(io):
    """Small values, which sessions keep themselves."""
    with Daemon("-m", 64, "-t", "2", "-c", "2000", "-o", "io=%s,read_buf_mem_limit=1" % io) as d:
        senders = [d.client() for _ in range(200)]
        for i, c in enumerate(senders):
            try:
                c.send(b"set h%d 0 0 16000\r\n" % i, b"h" * 15_000)
            except OSError:
                pass
        until(lambda: int(d.stats()["read_buf_oom"]), lambda n: n > 0)
        serves(d, "%s: read_buf_mem_limit is reached" % io)
        stats = d.stats()
        tap.ok(int(stats["read_buf_bytes"]) <= MB, "%s: and not exceeded" % io, stats["read_buf_bytes"])
        tap.ok(int(stats["read_buf_oom"]) > 100, "%s: later clients were refused" % io, stats["read_buf_oom"])
        for c in senders:
            c.close()


def unread_replies(io):
    """Small values, whose copies wait for their clients."""
    with Daemon("-m", 64, "-t", "2", "-o", "io=%s,read_buf_mem_limit=2" % io) as d:
        with d.client() as c:
            for i in range(100):
                c.set("s%d" % i, b"s" * 10_000)
        readers = [d.client() for _ in range(40)]
        line = b"get " + b" ".join(b"s%d" % i for i in range(100)) + b"\r\n"
        for c in readers:
            try:
                c.send(line * 30)
            except OSError:
                pass
        serves(d, "%s: 40 clients that do not read" % io)
        stats = d.stats()
        held = int(stats["read_buf_bytes"])
        tap.ok(held <= 2 * MB, "%s: their replies are within read_buf_mem_limit" % io, held)
        within(d, 64, "%s: 40 clients that do not read" % io)
        for c in readers:
            c.close()


def refused_values(io):
    """No value can be pinned and no copy fits: the reply is a SERVER_ERROR."""
    with Daemon("-m", 8, "-t", "1", "-o", "io=%s,read_buf_mem_limit=1" % io) as d:
        value = b"r" * 900_000
        with d.client() as c:
            for i in range(6):
                c.set("r%d" % i, value)
            readers = [d.client() for _ in range(6)]
            for i, reader in enumerate(readers):
                reader.send(b"get r%d\r\n" % i * 20)
            until(lambda: int(d.stats()["response_obj_count"]), lambda n: n >= 4)
            half = d.client()
            half.send(b"set half 0 0 16000\r\n", b"h" * 15_000)
            told = set()
            for i in range(6):
                c.send(b"get r%d none\r\n" % i)
                line = c.line()
                if line.startswith(b"VALUE"):
                    c.read(len(value) + 2)
                    line = c.line()
                told.add(line)
            tap.ok(told <= {b"END\r\n", NO_ROOM_TO_WRITE}, "%s: values are sent, missing, or refused with a reason" % io, told)
            for reader in readers:
                reader.close()
        serves(d, "%s: refused values" % io)


def main():
    for io in ("libevent", "uring"):
        with Daemon("-m", "64", "-t", "2", "-o", "io=" + io) as d:
            each_protocol(d, io)
            mutations(d, io)
            in_pieces(d, io)
            slow_readers(d, io)
        unread_values(io)
        half_uploads(io)
        half_requests(io)
        unread_replies(io)
        refused_values(io)
    tap.done()


main()
