# SPDX-License-Identifier: BSD-3-Clause
"""Guarantees of workers to connections. Input may be split anywhere, replies are complete and in order, and memory for clients that
do not read is bounded. Each ending is counted by its reason, and nothing is left behind."""
import os
import re
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from binary_client import op, packet, set_extras  # noqa: E402
from connections import Sender, alone, ended_as, endings, open_files, state_of, states, unsent  # noqa: E402
from farcached import Daemon, deadline, is_sanitized, remaining, tap, until  # noqa: E402

MB = 1 << 20
FOLDER = tempfile.mkdtemp(prefix="farcached-connections-")


# -- Input in pieces -------------------------------------------------------------------------------------

TEXT_BLOCK = (b"set k 7 0 5\r\nhello\r\nget k\r\ngets missing k \r\nadd k 0 0 1\r\nx\r\nms m 3 T90\r\nabc\r\n"
              b"mg m v t\r\nmn\r\nset gone 0 0 3 noreply\r\nxyz\r\ndelete gone\r\nset k 0 0 2\r\nlonger\r\nget k\r\n")
TEXT_REPLY = (b"STORED\r\nVALUE k 7 5\r\nhello\r\nEND\r\n", rb"VALUE k 7 5 \d+\r\nhello\r\nEND\r\n",
              b"NOT_STORED\r\nHD\r\nVA 3 t(89|" + remaining(90).encode() + b")\r\n"
              b"abc\r\nMN\r\nDELETED\r\nCLIENT_ERROR bad data chunk\r\nERROR\r\n",
              b"VALUE k 7 5\r\nhello\r\nEND\r\n")
TEXT_REPLY = re.compile(b"".join(TEXT_REPLY))

BINARY_BLOCK = (packet(op.SET, b"bk", b"value", set_extras(flags=9), opaque=1) + packet(op.GETQ, b"nope", opaque=2)
                + packet(op.GETK, b"bk", opaque=3) + packet(op.SETQ, b"bk", b"second", set_extras(), opaque=4)
                + packet(op.GET, b"bk", opaque=5) + packet(op.NOOP, opaque=6))


def binary_replies(c):
    found = []
    while not found or found[-1][1] != 6:
        header = c.read(24)
        body = c.read(int.from_bytes(header[8:12], "big"))
        found.append((header[1], int.from_bytes(header[12:16], "big"), int.from_bytes(header[6:8], "big"), body))
    return found


BINARY_REPLY = [(op.SET, 1, 0, b""), (op.GETK, 3, 0, b"\0\0\0\x09bkvalue"), (op.GET, 5, 0, b"\0\0\0\0second"),
                (op.NOOP, 6, 0, b"")]


def byte_by_byte(d):
    with d.client() as c:
        c.send_split(TEXT_BLOCK)
        tap.like(c.until(b"NOT_STORED\r\n") + c.until(b"hello\r\nEND\r\n"),
                 "(?s)^" + TEXT_REPLY.pattern.decode("latin-1") + "$", "text, one byte at a time")
        tap.ok(c.is_idle(), "and not a byte more")
    with d.client() as c:
        c.send_split(BINARY_BLOCK)
        tap.is_(binary_replies(c), BINARY_REPLY, "binary, one byte at a time")


def every_split(d):
    """Two receives for one block, split at every byte: a reply proves that the first part has arrived."""
    wrong = []
    with d.client() as c:
        for at in range(len(TEXT_BLOCK)):
            c.send(b"mn\r\n" + TEXT_BLOCK[:at])
            fence = c.read(4)
            c.send(TEXT_BLOCK[at:], b"mn\r\n")
            got = c.until(b"hello\r\nEND\r\nMN\r\n")
            if fence != b"MN\r\n" or not TEXT_REPLY.fullmatch(got[:-4]):
                wrong.append((at, got))
    tap.is_(wrong[:2], [], "text, split in two at every byte")
    wrong = []
    noop = packet(op.NOOP, opaque=6)
    with d.client() as c:
        for at in range(len(BINARY_BLOCK)):
            c.send(noop + BINARY_BLOCK[:at])
            fence = binary_replies(c)
            c.send(BINARY_BLOCK[at:])
            got = binary_replies(c)
            if len(fence) != 1 or got != BINARY_REPLY:
                wrong.append((at, fence, got))
    tap.is_(wrong[:2], [], "binary, split in two at every byte")


def half_requests(d, asker):
    before = endings(asker)
    halves = [b"g", b"get k", b"get k k k", b"set k 0 0 5\r\n", b"set k 0 0 5\r\nhel", b"set k 0 0 5\r\nhello\r",
              b"ms k 5", b"set k 0 0 2000000\r\nabc", b"\x80", BINARY_BLOCK[:23], BINARY_BLOCK[:30]]
    for half in halves:
        d.client().send(half).close()
    silent = 0
    for half in halves:
        with d.client() as c:
            c.send(half).shutdown_send()
            got = c.until_close()
            silent += got == b"" or half.startswith((b"get k k", b"set k 0 0 2000000"))
    tap.is_(silent, len(halves), "half a request and the end of the stream: closed without a reply")
    # A reset, noticed in receive or send, if the client closed before it had read its replies.
    ended_as(asker, before, ["client_closed", "peer_reset", "send_failed"], 2 * len(halves), "counted as closed by the client")
    with d.client() as c:
        c.send(b"set k 0 0 5\r\nhello\r\n" + b"get k\r\n" * 3000 + b"get ").shutdown_send()
        tap.ok(c.until_close() == b"STORED\r\n" + b"VALUE k 0 5\r\nhello\r\nEND\r\n" * 3000,
               "3000 requests and a half-close: all are answered first")


def pipeline(d):
    """Far more than one receive holds; all replies differ."""
    count = 40000
    with d.client() as c:
        c.set("n", "0")
        request = b"".join(b"incr n 1\r\n" + b"get absent%d\r\n" % i * (i % 3 == 0) for i in range(count))
        want = b"".join(b"%d\r\n" % (i + 1) + b"END\r\n" * (i % 3 == 0) for i in range(count))
        sender = Sender(c, request)
        got = c.upto(want)
        tap.ok(got == want, "%d requests in one go (%d KB): every reply, in order" % (
            request.count(b"\n"), len(request) >> 10), "got %d of %d bytes" % (len(got), len(want)), got[-60:])
        sender.join(deadline())
        tap.ok(c.is_idle(), "and nothing else")
    block = b"".join(packet(op.INCR, b"bn", extras=b"\0" * 7 + b"\1" + b"\0" * 12, opaque=i) for i in range(5000))
    with d.client() as c:
        sender = Sender(c, block)
        replies = c.read(32 * 5000)
        right = all(replies[32 * i + 12:32 * i + 16] == i.to_bytes(4, "big")
                    and replies[32 * i + 24:32 * i + 32] == i.to_bytes(8, "big") for i in range(5000))
        tap.ok(right, "5000 binary requests in one go: every reply, in order")
        sender.join(deadline())


def large_value(d):
    value = b"".join(b"%07d " % i for i in range(90000))  # 720,000 bytes
    others = [d.client() for _ in range(8)]               # on every worker
    served = 0
    with d.client() as c:
        c.send(b"set large 0 0 %d\r\n" % len(value))
        for at in range(0, len(value), 8000):
            c.send(value[at:at + 8000])
            other = others[at // 8000 % len(others)]
            served += other.set("o", "%d" % at) == "STORED" and other.get("o") == b"%d" % at
        tap.is_(served, 90, "others are served while a large value arrives")
        tap.ok(others[0].get("large") is None, "which is not there before it is whole")
        c.send(b"\r\nget o\r\n")
        tap.is_((c.line(), c.line()), (b"STORED\r\n", b"VALUE o 0 6\r\n"), "and then is stored")
        tap.ok(others[0].get("large") == value, "as it was sent")
    for other in others:
        other.close()


def endless_line(d, asker):
    before = endings(asker)
    for start in (b"", b"set ", b"gat 0 k k ", b"mg ", b"watch ", b"stats "):
        with d.client() as c:
            c.send(start + b"x" * 2000)
            c.send(b"y" * 100)
            tap.ok(c.is_closed(), "%s and no end of the line: closed" % (start.decode() or "a word"))
    ended_as(asker, before, ["protocol_close"], 6, "counted as closed for their requests")
    with d.client() as c:
        c.send(b"x" * 2000 + b"\r\nmn\r\n")
        c.expect(b"ERROR\r\nMN\r\n", "a line of 2000 bytes may be wrong")
        c.set("k", "v")
        keys = b" k" * 60000
        cas = c.get_many(["k"], "gets")[0][3]
        for verb, value in ((b"get", b"VALUE k 0 1\r\nv\r\n"), (b"gets", b"VALUE k 0 1 %d\r\nv\r\n" % cas)):
            sender = Sender(c, verb + keys + b"\r\n")
            want = value * 60000 + b"END\r\n"
            tap.ok(c.upto(want) == want, "%s of 60,000 keys (%d KB) is answered" % (verb.decode(), len(keys) >> 10))
            sender.join(deadline())


# -- Clients that do not read ----------------------------------------------------------------------------

def fill(c):
    """Stores 100 keys of 10,000 bytes. Returns the requests for 100 MB, and the replies to 100 of them."""
    values = [b"VALUE v%02d 0 10000\r\n" % i + (b"%03d " % i) * 2500 + b"\r\nEND\r\n" for i in range(100)]
    for i in range(100):
        c.set("v%02d" % i, (b"%03d " % i) * 2500)
    return b"".join(b"get v%02d\r\n" % (i % 100) for i in range(10000)), b"".join(values)


def rest_is(c, hundred):
    """The client receives `hundred` 100 times, and nothing after it."""
    for _ in range(100):
        if c.upto(hundred) != hundred:
            return False
    return c.is_idle()


def never_reads(d, asker):
    request, hundred = fill(asker)
    asker.ask("mn")
    before = d.memory()["Private"]
    with d.client() as c:
        sender = Sender(c, request)
        stuck = until(lambda: "conn_mwrite" in states(d), bool)
        tap.ok(stuck, "a client that does not read is not read from: conn_mwrite")
        busy = [d.client() for _ in range(8)]
        tap.is_([b.get("v07") for b in busy], [b"007 " * 2500] * 8, "others are served")
        written = asker.stats()["bytes_written"]
        grown = d.memory()["Private"] - before
        if is_sanitized():
            tap.skip("100 MB of unread replies", "a sanitizer build keeps memory of its own")
        else:
            tap.ok(grown < 16 * MB, "100 MB of unread replies take %d KB" % (grown >> 10))
        tap.ok(int(written) < 60 * MB, "they have not even been made", written)
        tap.ok(rest_is(c, hundred), "read at last: every byte, in order")
        sender.join(deadline())
        for b in busy:
            b.close()
    before = endings(asker)
    for leave in ("close", "reset"):
        gone = d.client()
        sender = Sender(gone, request)
        until(lambda: "conn_mwrite" in states(d), bool)
        getattr(gone, leave)()
        sender.join(deadline())
        tap.ok(alone(asker), "or never: %s ends it" % leave)
    ended_as(asker, before, ["send_failed", "peer_reset"], 2, "counted as lost")


def resets(d, asker):
    before, files = endings(asker), open_files(d)
    for i in range(100):
        c = d.client()
        c.send(b"mn\r\nset half 0 0 500000\r\n" + b"x" * (1 + 997 * i))
        c.read(4)
        c.reset()
    tap.ok(alone(asker), "100 resets in the middle of a value")
    ended_as(asker, before, ["peer_reset"], 100, "counted as resets")
    tap.is_(asker.get("half"), None, "nothing of it is stored")
    before = endings(asker)
    for i in range(40):
        c = d.client()
        c.send(b"get v01\r\n" * 2000)
        c.read(1 + 1009 * i)
        c.reset()
    tap.ok(alone(asker), "40 resets in the middle of the replies")
    ended_as(asker, before, ["peer_reset", "send_failed"], 40, "counted as lost")
    tap.is_(open_files(d), files, "no descriptor is left")


# -- Endings ---------------------------------------------------------------------------------------------

def short_connections(d, asker):
    tap.ok(alone(asker), "no other client is connected")
    files, before, total = open_files(d), endings(asker), int(asker.stats()["total_connections"])
    wrong = 0
    for i in range(5000):
        with d.client() as c:
            wrong += c.ask("mn") != "MN"
    tap.is_(wrong, 0, "5000 connections, each asks and closes")
    tap.ok(alone(asker), "curr_connections is unchanged")
    tap.is_(open_files(d), files, "and so is the number of descriptors")
    tap.ok(int(asker.stats()["total_connections"]) - total >= 5000, "total_connections counts them")
    ended = endings(asker)
    tap.ok(ended["client_closed"] - before["client_closed"] >= 5000, "and their ends", ended)


def every_ending(d, asker):
    tap.is_(set(endings(asker)), {"client_closed", "protocol_close", "peer_reset", "send_failed", "idle_timeout",
                              "became_watcher", "no_memory", "buffers_full", "tls_failed", "tls_timeout", "server_stopped"},
            "stats proxy: the endings")
    # A watcher's connection may close before its worker has counted the handover.
    until(lambda: sum(endings(asker).values()) - int(asker.stats()["total_connections"]), lambda n: n == -1)
    before = endings(asker)
    for last in (b"quit\r\n", b"GET / HTTP/1.1\r\n\r\n", packet(op.QUITQ),
                 packet(op.GET, b"k", magic=0x80, keylen=300)):
        with d.client() as c:
            c.send(last)
            c.until_close()
    ended_as(asker, before, ["protocol_close"], 4, "quit and invalid requests")
    with d.client() as c:
        tap.is_(c.ask("watch connevents"), "OK", "a connection becomes a watcher")
        ended_as(asker, before, ["became_watcher"], 1, "has left its worker")
        # An ended connection is counted before its descriptor is closed.
        left = until(lambda: asker.stats()["curr_connections"], lambda n: n == "2")
        tap.is_(left, "2", "and is a connection still")
        d.client().close()
        tap.like(c.line(), r"type=conn_new", "which does not see its own end")
    with d.client() as c:
        c.send(b"mn\r\nquit\r\n" + b"x" * 200000)
        tap.is_(c.until_close(), b"MN\r\n", "bytes behind quit do not drop the reply before it")
    tap.ok(alone(asker), "all have left")
    tap.is_(sum(endings(asker).values()), int(asker.stats()["total_connections"]) - 1, "every connection that left is counted once")


def shown_states(d, asker):
    with d.client() as silent, d.client() as half, d.client() as line, d.client() as swallowed:
        half.send(b"mn\r\nset k 0 0 10\r\nabc")
        line.send(b"mn\r\nset k 0 ")
        swallowed.send(b"set k 0 0 2000000\r\n" + b"x" * 1000)
        half.read(4)
        line.read(4)
        swallowed.line()
        for c, state in ((silent, "conn_read"), (half, "conn_nread"), (line, "conn_read"),
                         (swallowed, "conn_swallow")):
            tap.is_(until(lambda: state_of(d, c), lambda s: s == state), state, "stats conns: " + state)
        half.send(b"defghij\r\nmn\r\n")
        half.until(b"MN\r\n")
        tap.is_(state_of(d, half), "conn_read", "and conn_read again when the value is whole")
        conns = asker.stats("conns")
        mine = [k for k, v in conns.items() if v.endswith(":%d" % asker.socket.getsockname()[1])][0].split(":")[0]
        tap.is_(conns[mine + ":state"], "conn_parse_cmd", "the asking connection is in conn_parse_cmd")
        tap.ok("conn_listening" in conns.values(), "and one is in conn_listening")


def behind_others(d, asker):
    """Input that waits in the session during a dump, or behind a refused watch."""
    for i in range(3000):
        asker.send(b"set dumped-key-number-%d 0 0 1 noreply\r\nx\r\n" % i)
    asker.ask("mn")
    with d.client() as c:
        c.send(b"lru_crawler metadump all\r\nversion\r\nset behind 0 0 500000\r\n" + b"y" * 500000 + b"\r\nmn\r\n")
        dump = c.until(re.compile(rb"(END|ERROR .*)\r\n"))  # an error where the items are in nodes
        tap.ok(dump.startswith(b"OK\r\n") and dump.count(b"dumped-key") == 3000, "a dump is whole")
        c.expect(b"VERSION 1.6.45\r\nSTORED\r\nMN\r\n", "requests behind it are answered behind it")
    gone = d.client()
    gone.send(b"lru_crawler metadump all\r\n" + b"get v01\r\n" * 5000)
    gone.read(4)
    gone.reset()
    tap.ok(alone(asker), "a client that disconnects in a dump is gone")
    watchers = [d.client() for _ in range(20)]
    tap.is_({w.ask("watch") for w in watchers}, {"OK"}, "20 watchers")
    with d.client() as c:
        c.send(b"watch\r\nversion\r\nmn\r\n")
        c.expect(b"WATCHER_TOO_MANY log watcher limit reached\r\nVERSION 1.6.45\r\nMN\r\n",
                 "one too many: its next requests are answered")
    for i, w in enumerate(watchers):  # close and reopen at once
        w.close()
        watchers[i] = d.client()
        watchers[i].send(b"watch fetchers\r\n")
    for w in watchers:
        w.close()
    with d.client() as last:  # the last connection is answered last, so none waits to be accepted any more
        last.ask("mn")
    tap.ok(alone(asker), "and watchers leave without a trace")


# -- Together --------------------------------------------------------------------------------------------

def pieces(d):
    with d.client() as asker:
        alone(asker)
        byte_by_byte(d)
        every_split(d)
        half_requests(d, asker)
        pipeline(d)
        large_value(d)
        endless_line(d, asker)


def main():
    with Daemon("-m", "64", "-t", "4") as d:
        pieces(d)
        with d.client() as asker:
            alone(asker)
            never_reads(d, asker)
            resets(d, asker)
            shown_states(d, asker)
            short_connections(d, asker)
            behind_others(d, asker)
            every_ending(d, asker)
    tap.diag("over a Unix socket")
    with Daemon("-m", "64", "-s", os.path.join(FOLDER, "socket")) as d:
        pieces(d)
        with d.client() as asker:
            alone(asker)
            never_reads(d, asker)
    tap.done()


try:
    main()
finally:
    shutil.rmtree(FOLDER, ignore_errors=True)
