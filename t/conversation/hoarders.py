# SPDX-License-Identifier: BSD-3-Clause
"""Which connection is closed when buffer memory is short: the one that holds most, on any worker. Clients that do not read lose
their pins. A reply that cannot be sent anyway closes no connection."""
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from connections import endings  # noqa: E402
from farcached import Closed, Daemon, TimedOut, tap, until  # noqa: E402

MB = 1 << 20
LARGE, SMALL = 700_000, 16 << 10
KEYS = 55


def options(io):
    return ["-o", "io=%s,read_buf_mem_limit=1" % io]


def send(client, *data):
    try:
        client.send(*data)
    except OSError:
        pass  # its connection has ended


def small_keys():
    return b"get " + b" ".join(b"p%d" % i for i in range(KEYS)) + b"\r\n"


def is_open(client):
    client.socket.settimeout(0.01)
    try:
        client.until_close()
        return False
    except TimedOut:
        return True
    except Closed:
        return False


def ended(d):
    return endings(d)["buffers_full"]


def lent(d):
    return int(d.stats("proxy")["node_bytes_lent"])


def readers_hold_half(io):
    """Clients that do not read pin half of -m, another client holds copies and chunks, and half requests hold the rest of
    read_buf_mem_limit. A get is answered nevertheless: one hoarder is closed, which needs the lock that the get held (one
    partition)."""
    # A Unix socket takes a fixed number of bytes that are not read; a TCP socket as many as the machine's settings allow.
    with tempfile.TemporaryDirectory() as folder, Daemon(
            "-s", os.path.join(folder, "socket"), "-m", "3", "-t", "1", *options(io)) as d:
        with d.client() as c, d.client() as looks:
            for i in range(2):
                tap.is_(c.set("large%d" % i, b"L" * LARGE), "STORED", "%s: a large value is stored" % io)
            for i in range(KEYS):
                c.set("p%d" % i, b"p" * SMALL)
            readers = [d.client() for _ in range(3)]
            for i, reader in enumerate(readers):
                send(reader, b"get large%d\r\n" % i * 20 if i < 2 else small_keys() * 40)
                until(lambda: int(looks.stats()["response_obj_count"]), lambda n, i=i: n > i)
            tap.ok(lent(looks) > 2 * LARGE, "%s: pins are nearly spent" % io, lent(looks))
            senders = []
            while int(looks.stats()["read_buf_bytes"]) < MB - SMALL and len(senders) < 80:
                senders.append(d.client())
                senders[-1].send(b"set h%d 0 0 16000\r\n" % len(senders), b"h" * 15_000)
            wrong = []
            for i in range(KEYS):
                c.send(b"get p%d\r\n" % i)
                first = c.line()
                if first.startswith(b"VALUE"):
                    c.read(SMALL + 2)
                    first = c.line()
                if first != b"END\r\n":
                    wrong.append(first)
            tap.is_(set(wrong), set(), "%s: a client that reads is answered" % io)
            tap.ok(ended(looks) > 0, "%s: since others ended" % io, ended(looks))
            tap.is_(c.set("alive", b"v"), "STORED", "%s: and the daemon keeps running" % io)
            for one in readers + senders:
                one.close()
            tap.is_(until(lambda: lent(looks), lambda n: n == 0), 0, "%s: no pin is left" % io)


def silent_readers(io):
    """Values are pinned while there is room for copies: all clients are served, and the silent readers are still closed."""
    with Daemon("-m", "8", "-t", "1", "-o", "io=" + io) as d:
        value = b"s" * 900_000
        with d.client() as c, d.client() as looks:
            for i in range(6):
                c.set("r%d" % i, value)
            readers = [d.client() for _ in range(5)]
            for i, reader in enumerate(readers):
                send(reader, b"get r%d\r\n" % i * 20)
            until(lambda: int(looks.stats()["response_obj_count"]), lambda n: n >= 5)
            spent = lent(looks)

            def asked():
                if c.get("r5") != value:
                    return -1
                return ended(looks)
            gone = until(asked, lambda n: n != 0)
            tap.ok(gone > 0, "%s: a client that reads nothing loses its pins (%d bytes were pinned)" % (io, spent), gone)
            for reader in readers:
                reader.close()


def cannot_be_sent(io):
    """A value that does not fit beside the rest of its own reply: no connection is closed for it."""
    with Daemon("-m", "3", "-I", "1500k", "-t", "1", *options(io)) as d:
        with d.client() as c, d.client() as looks:
            value, large = b"s" * (16 << 10), b"L" * 1_400_000
            for i in range(40):
                c.send(b"set s%d 0 0 %d\r\n%s\r\n" % (i, len(value), value))
                c.line()
            for verb in ("set", "append"):  # half of it arrives at a time
                tap.is_(c.set("large", large[:700_000], verb=verb), "STORED", "%s: a large value is stored" % io)
            senders = [d.client() for _ in range(8)]
            for i, sender in enumerate(senders):
                sender.send(b"set h%d 0 0 16000\r\n" % i, b"h" * 15_000)
            until(lambda: int(looks.stats()["read_buf_bytes"]), lambda n: n > 8 * 15_000)
            small = [b"s%d" % i for i in range(40) if c.get("s%d" % i) is not None]
            c.send(b"get " + b" ".join(small) + b" large\r\n")
            values = 0
            while (line := c.line()).startswith(b"VALUE"):
                c.read(int(line.split()[3]) + 2)
                values += line.split()[1] != b"large"
            tap.ok(values >= 8, "%s: the others of its line are sent" % io, values)
            tap.ok(line.startswith(b"SERVER_ERROR out of memory"), "%s: it is refused" % io, line)
            tap.is_(ended(looks), 0, "%s: and no connection ends" % io)
            tap.ok(all(is_open(sender) for sender in senders), "%s: half requests stay connected" % io)
            for sender in senders:
                sender.close()


def of_another_worker(io):
    """A session of one worker holds most of read_buf_mem_limit. The sessions of the other worker hold little and need more.
    Connections go to the two workers in turn."""
    with Daemon("-m", "3", "-t", "2", *options(io)) as d:
        with d.client() as looks:
            pairs = [(d.client(), d.client()) for _ in range(60)]
            hoarder = pairs[0][0]
            hoarder.send(b"set large 0 0 900000\r\n", b"L" * 400_000)
            until(lambda: int(looks.stats()["read_buf_bytes"]), lambda n: n >= 400_000)
            gone = False
            for i, (_, small) in enumerate(pairs):
                send(small, b"set h%d 0 0 16000\r\n" % i, b"h" * 15_000)
                until(lambda: int(looks.stats()["read_buf_bytes"]), lambda n, i=i: n >= 400_000 + i * 15_000 or ended(looks) > 0)
                if ended(looks) > 0:
                    gone = until(lambda: is_open(hoarder), lambda it_is: not it_is) is False
                    break
            tap.ok(gone, "%s: the session that holds most ends, of whichever worker" % io, ended(looks))
            left = [small for _, small in pairs[:i + 1] if is_open(small)]
            tap.ok(len(left) >= i, "%s: the others stay, except the requesting one" % io, (len(left), i + 1))
            for pair in pairs:
                for c in pair:
                    c.close()


def main():
    for io in ("libevent", "uring"):
        readers_hold_half(io)
        silent_readers(io)
        cannot_be_sent(io)
        of_another_worker(io)
    tap.done()


main()
