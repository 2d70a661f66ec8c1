# SPDX-License-Identifier: BSD-3-Clause
"""UDP (-U): text, meta and binary in datagrams, replies in several of them, the limit on amplification, what is refused, and the
statistics; with clients' sockets by libevent and by io_uring, with a disk, and in front of nodes.

Arguments: names of parts; default: all.
"""
import ctypes
import fcntl
import os
import random
import socket
import struct
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from binary_client import HEADER, Reply, op, packet, set_extras, status  # noqa: E402
from cluster import Cluster  # noqa: E402
from disk import Disk, to_disk  # noqa: E402
from farcached import Daemon, is_sanitized, run_binary, tap, until  # noqa: E402
from http_get import get, http_args, http_env, http_port, value  # noqa: E402
from udp_client import UdpClient  # noqa: E402

RANDOM = random.Random(3)
TOO_LONG = b"SERVER_ERROR reply exceeds udp_amplification\r\n"
UNFINISHED = b"SERVER_ERROR request does not end in its datagram\r\n"
REFUSED = b"CLIENT_ERROR not allowed over UDP\r\n"
OFF_TCP = "Cannot use UDP with ascii authentication enabled (-U 0 to disable)\n"
OFF_SASL = "ERROR: Cannot enable UDP while using binary SASL authentication.\n"
OFF_TLS = "Cannot use UDP with TLS enabled: datagrams are not encrypted (-U 0 to disable)\n"


def udp_port(d):
    return dict(d.ports)["UDP INET"]


def client(d, **more):
    return UdpClient(udp_port(d), **more)


def replies_in(data):
    found = []
    while data:
        size = HEADER.size + HEADER.unpack(data[:HEADER.size])[6]
        found.append(Reply(data[:HEADER.size], data[HEADER.size:size]))
        data = data[size:]
    return found


# -- One daemon ---------------------------------------------------------------------------------------------

def by_text(u, title):
    for request, reply in ((b"get a\r\n", b"END\r\n"), (b"set a 5 0 1\r\nx\r\n", b"STORED\r\n"),
                           (b"get a\r\n", b"VALUE a 5 1\r\nx\r\nEND\r\n"), (b"add a 0 0 1\r\ny\r\n", b"NOT_STORED\r\n"),
                           (b"append a 0 0 1\r\ny\r\n", b"STORED\r\n"), (b"get b a c\r\n", b"VALUE a 5 2\r\nxy\r\nEND\r\n"),
                           (b"gat 100 a\r\n", b"VALUE a 5 2\r\nxy\r\nEND\r\n"), (b"touch a 0\r\n", b"TOUCHED\r\n"),
                           (b"set n 0 0 1\r\n7\r\n", b"STORED\r\n"), (b"incr n 3\r\n", b"10\r\n"), (b"decr n 1\r\n", b"9\r\n"),
                           (b"delete n\r\n", b"DELETED\r\n"), (b"version\r\n", b"VERSION 1.6.45\r\n"),
                           (b"bogus\r\n", b"ERROR\r\n"),
                           (b"ms m 2 T0\r\nab\r\n", b"HD\r\n"), (b"mg m v s\r\n", b"VA 2 s2\r\nab\r\n"),
                           (b"mg none v\r\n", b"EN\r\n"),
                           (b"ma c N0 v\r\n", b"VA 1\r\n0\r\n"), (b"md m\r\n", b"HD\r\n"), (b"mn\r\n", b"MN\r\n"),
                           (b"set s 0 0 1\r\n1\r\nget s\r\nmg s v\r\nincr s 1\r\n",
                            b"STORED\r\nVALUE s 0 1\r\n1\r\nEND\r\nVA 1\r\n1\r\n2\r\n"),
                           (b"get a\r\nquit\r\nget a\r\n", b"VALUE a 5 2\r\nxy\r\nEND\r\n"),
                           (b"mn\r\n" * 300, b"MN\r\n" * 300), (b"get a\r\n" * 100, b"VALUE a 5 2\r\nxy\r\nEND\r\n" * 100)):
        tap.is_(u.ask(request), reply, "%s: %r" % (title, request[:40]))


def by_binary(u, title):
    def ask(*args, **more):
        return replies_in(u.ask(packet(*args, **more)))
    tap.is_([(r.status, r.opaque) for r in ask(op.SET, b"b", b"value", set_extras(flags=9), opaque=77)], [(0, 77)],
            title + ": binary set")
    [got] = ask(op.GET, b"b", opaque=78)
    tap.is_((got.status, got.opaque, got.flags, got.value), (0, 78, 9, b"value"), title + ": binary get")
    tap.is_([r.status for r in ask(op.GET, b"none")], [status.NOT_FOUND], title + ": a miss")
    [got] = ask(op.INCR, b"count", extras=struct.pack(">QQI", 1, 40, 0))
    tap.is_(got.number, 40, title + ": binary incr")
    got = replies_in(u.ask(packet(op.GETQ, b"none") + packet(op.GETQ, b"b") + packet(op.SETQ, b"b", b"w", set_extras()) +
                           packet(op.GETK, b"b") + packet(op.NOOP)))
    tap.is_([(r.opcode, r.value) for r in got], [(op.GETQ, b"value"), (op.GETK, b"w"), (op.NOOP, b"")],
            title + ": quiet requests, and one reply for all")
    tap.is_([r.status for r in ask(op.DELETE, b"b")], [0], title + ": binary delete")
    tap.is_([(r.status, r.value) for r in ask(op.VERSION)], [(0, b"1.6.45")], title + ": version")
    tap.is_([(r.opcode, r.status) for r in ask(op.QUIT)], [(op.QUIT, 0)], title + ": quit")
    tap.is_([r.status for r in ask(0x70)], [status.UNKNOWN], title + ": an unknown opcode")


def frames(u, title):
    u.ask(b"set f 0 0 1\r\nv\r\n")
    for id in (0, 1, 0x1234, 0xffff):
        tap.is_(u.ask(b"get f\r\n", id=id), b"VALUE f 0 1\r\nv\r\nEND\r\n", "%s: id %d" % (title, id))
    tap.is_(u.ask(b"get f\r\n", number=5, reserved=9), b"VALUE f 0 1\r\nv\r\nEND\r\n", title + ": other bytes are not read")
    for total in (0, 2, 256, 0xffff):
        tap.ok(u.silent(b"get f\r\n", total=total), "%s: a part of %d datagrams gets no reply" % (title, total))
    for datagram in (b"", b"x", b"\0" * 7, struct.pack(">HHHH", 1, 0, 1, 0)):
        tap.ok(u.silent_raw(datagram), "%s: %d bytes" % (title, len(datagram)))
    for reply in (b"ERROR\r\n", b"CLIENT_ERROR x\r\n", b"SERVER_ERROR x\r\n", b"\x81" + bytes(23)):
        tap.ok(u.silent(reply), "%s: a reply is no request: %r" % (title, reply[:12]))
    for request in (b"get f", b"x" * 5000, b"set f 0 0 1 noreply\r\nw\r\n", b"set f 0 0 5 noreply\r\nw", b"quit\r\n", b"\x80",
                    b"\x80" + bytes(22), packet(op.SETQ, b"q", b"v", set_extras())):
        tap.ok(u.silent(request), "%s: no reply to %r" % (title, request[:20]))
    tap.is_(u.ask(b"get f\r\n"), b"VALUE f 0 1\r\nw\r\nEND\r\n", title + ": noreply is executed, an incomplete set is not")
    for request in (b"set f 0 0 5\r\nabc", b"set f 0 0 5\r\n", b"ms f 5\r\nabc", b"set f 0 0 40000\r\n" + b"x" * 30_000):
        tap.is_(u.ask(request), UNFINISHED, "%s: %r does not end" % (title, request[:20]))
    tap.is_(u.ask(b"set f 0 0 1\r\nz\r\nset f 0 0 5\r\nabc"), b"STORED\r\n" + UNFINISHED, title + ": the one before it does")
    [got] = replies_in(u.ask(packet(op.SET, b"f", b"value", set_extras(), opaque=5)[:-1]))
    tap.is_((got.opcode, got.status, got.opaque), (op.SET, status.TOO_LARGE, 5), title + ": a binary one")
    tap.is_(u.ask(b"get f\r\n"), b"VALUE f 0 1\r\nz\r\nEND\r\n", title + ": nothing of them is stored")
    for _ in range(200):
        u.raw(RANDOM.randbytes(RANDOM.randrange(60)))
        u.send(RANDOM.choice((b"get ", b"set ", b"mg ", b"\x80", b"")) + RANDOM.randbytes(RANDOM.randrange(60)))
    mark = u.send(b"mn\r\n", id=0x4242)
    while u.any_reply() != (mark, b"MN\r\n"):
        continue
    tap.ok(True, title + ": garbage")


def sizes(d, u, title):
    with d.client() as c:
        for size in (1391 - 19, 1392 - 19, 1393 - 19, 16_383, 16_384, 20_000):
            value = RANDOM.randbytes(size)
            c.set("v" * 10, value)
            wanted = b"VALUE %s 0 %d\r\n%s\r\nEND\r\n" % (b"v" * 10, size, value)
            tap.ok(u.ask(b"get vvvvvvvvvv\r\n" + b"mn\r\n" * 2) == wanted + b"MN\r\n" * 2,
                   "%s: a value of %d bytes" % (title, size))
        value = RANDOM.randbytes(60_000)
        tap.is_(u.ask(b"set large 0 0 60000\r\n%s\r\n" % value), b"STORED\r\n", title + ": a large set")
        tap.ok(c.get("large") == value, title + ": the same by TCP")
        wanted = b"VALUE %s 0 60000\r\n%s\r\nEND\r\n" % (b"large", value)
        tap.ok(u.ask(b"get " + b"n" * 60 + b" large\r\n") == wanted, title + ": a long reply to a long request")
        tap.is_(u.ask(b"get large\r\n"), TOO_LONG, title + ": to a short one an error")
        tap.is_(u.ask(b"mg large v\r\n"), TOO_LONG, title + ": by meta")
        [got] = replies_in(u.ask(packet(op.GET, b"large", opaque=6)))
        tap.is_((got.opcode, got.status, got.opaque), (op.GET, status.TOO_LARGE, 6), title + ": by binary")
        tap.is_(u.ask(b"get large large large large large large large large\r\n" * 20), TOO_LONG, title + ": at most 1 MiB")
        tap.is_(u.ask(b"mn\r\n" + b"get large\r\n" * 3 + b"set after 0 0 1\r\nx\r\n"), TOO_LONG,
                title + ": the rest is not executed")
        tap.is_(c.get("after"), None, title + ": as a later get shows")


def refusals(d, u, title):
    for request in (b"watch\r\n", b"watch fetchers\r\n", b"lru_crawler metadump all\r\n", b"lru_crawler mgdump all\r\n",
                    b"lru_crawler metadump hash\r\n", b"shutdown\r\n", b"shutdown graceful\r\n", b"verbosity 2\r\n",
                    b"cache_memlimit 32\r\n", b"slabs automove 0\r\n", b"lru tune 10 10 1 1\r\n", b"lru_crawler enable\r\n",
                    b"extstore recache_rate 1\r\n", b"refresh_certs\r\n", b"stats reset\r\n", b"stats detail on\r\n",
                    b"stats detail dump\r\n", b"stats cachedump 1 10\r\n", b"stats hotkeys reset\r\n"):
        tap.is_(u.ask(request), REFUSED, "%s: %s" % (title, request.decode().rstrip()))
    for group in (b"reset", b"detail on", b"detail dump", b"hotkeys reset"):
        [got] = replies_in(u.ask(packet(op.STAT, group)))
        tap.is_((got.status, got.value), (status.AUTH, b"not allowed over UDP"), "%s: binary stat %r" % (title, group))
    tap.is_(d.stats("settings")["detail_enabled"], "no", title + ": none of it is executed")
    tap.ok(u.silent(b"verbosity 2 noreply\r\n"), title + ": without a reply")
    tap.is_(u.ask(b"reload\r\n"), b"ERROR\r\n", title + ": an operator's command")
    tap.ok(d.alive(), title + ": it runs")
    tap.is_(u.ask(b"flush_all\r\n"), b"OK\r\n", title + ": flush_all")
    tap.like(u.ask(b"stats settings\r\n" + b"mn\r\n" * 5), "^STAT maxbytes ", title + ": stats settings")


def many(d, title):
    """Each of many senders gets its own replies."""
    clients = [client(d) for _ in range(40)]
    wrong = []
    for round in range(5):
        asked = []
        for i, u in enumerate(clients):
            asked.append([(u.send(b"set own%d 0 0 5\r\n%05d\r\nget own%d\r\n" % (i, round, i)),
                           b"STORED\r\nVALUE own%d 0 5\r\n%05d\r\nEND\r\n" % (i, round))])
            asked[-1].append((u.send(b"mg own%d k v\r\n" % i), None))
        for u, requests in zip(clients, asked):
            got = dict(u.any_reply() for _ in requests)
            wrong += [(wanted, got.get(id)) for id, wanted in requests if id not in got or wanted not in (None, got[id])]
    tap.is_(wrong, [], title + ": 40 senders")
    tap.is_([u.faults for u in clients if u.faults], [], title + ": all datagrams are well formed")
    for u in clients:
        u.close()


def statistics(d, u, title, threads):
    tap.is_([d.stats("settings")[name] for name in ("udpport", "num_threads_per_udp")], ["-1", str(threads)],
            title + ": settings")
    tap.is_(d.until_stat("curr_connections", lambda n: n == str(1 + threads)), str(1 + threads),
            title + ": a socket counts as a connection")
    conns = d.stats("conns")
    shown = [name.split(":")[0] for name, value in conns.items() if name.endswith(":UDP") and value == "UDP"]
    tap.is_(len(shown), threads, title + ": stats conns has each socket")
    tap.is_({(conns[fd + ":addr"], conns[fd + ":state"]) for fd in shown}, {("udp:127.0.0.1:%d" % udp_port(d), "conn_read")},
            title + ": with address and state")
    proxy = until(lambda: d.stats("proxy"), lambda proxy: proxy["udp_in_flight"] == "0")
    counts = {name: int(proxy[name]) for name in proxy if name.startswith("udp_")}
    tap.ok(counts["udp_datagrams"] > 100 and counts["udp_invalid"] > 10 and counts["udp_replies_refused"] >= 5,
           title + ": counters", str(counts))
    tap.is_([counts[name] for name in ("udp_no_memory", "udp_replies_lost", "udp_in_flight", "udp_dropped")], [0] * 4,
            title + ": nothing is lost, and nothing waits")
    before = int(d.stats("proxy")["udp_datagrams"])
    u.ask(b"mn\r\n")
    tap.is_(int(d.stats("proxy")["udp_datagrams"]), before + 1, title + ": one more")


def one_daemon(io, title, *args):
    with Daemon("-U", "-1", "-A", *args, threads=2) as d:
        if io == "uring" and d.stats()["farcached_io"] != "uring":
            return tap.skip(title, d.stderr().decode().strip())
        with client(d) as u:
            by_text(u, title)
            by_binary(u, title)
            frames(u, title)
            sizes(d, u, title)
            refusals(d, u, title)
            many(d, title)
            statistics(d, u, title, 2)
            tap.is_(u.faults, [], title + ": no faults in frames")
        d.expect_exit = 0


def libevent():
    one_daemon("libevent", "libevent", "-o", "io=libevent")


def uring():
    one_daemon("uring", "uring", "-o", "io=uring")


def limit():
    """udp_amplification, changed by a reload."""
    with tempfile.TemporaryDirectory(prefix="farcached-udp-") as folder:
        path = os.path.join(folder, "far.toml")

        def write(factor):
            with open(path + ".new", "w", encoding="ascii") as f:
                f.write("udp_port = -1\nudp_amplification = %d\n" % factor)
            os.replace(path + ".new", path)
        write(4)
        with Daemon("--config", path, threads=1) as d, client(d) as u, d.client() as c:
            c.set("k", b"v" * 100)
            request = b"get k\r\n"  # of 15 bytes with the frame: 60 may come back
            tap.is_(u.ask(request), TOO_LONG, "a reply above the limit")
            c.set("k", b"v" * 27)  # VALUE k 0 27 ... END is 8 + 14 + 27 + 2 + 5 bytes
            tap.is_(len(u.ask(request)), 48, "one below it")
            c.set("k", b"v" * 31)
            tap.is_(len(u.ask(request)), 52, "one of exactly 60 bytes")
            c.set("k", b"v" * 32)
            tap.is_(u.ask(request), TOO_LONG, "one byte more")
            write(1)
            d.signal(1)
            # Not even the error fits: silence.
            until(lambda: c.ask("stats config", end="END"), lambda lines: "STAT config_reloads 1" in lines)
            tap.ok(u.silent(request), "no reply where the error is too long")
            write(1000)
            d.signal(1)
            until(lambda: c.ask("stats config", end="END"), lambda lines: "STAT config_reloads 2" in lines)
            tap.is_(u.ask(request), b"VALUE k 0 32\r\n" + b"v" * 32 + b"\r\nEND\r\n", "a higher limit")


# -- Later replies ------------------------------------------------------------------------------------------

def disk():
    for io in ("libevent", "uring"):
        with Disk(64, recache_rate=0) as values:
            with Daemon("-m", "4", "-I", "512k", "-U", "-1", "-o", values.options("io=" + io), threads=2) as d, client(d) as u, \
                    d.client() as c:
                stored = to_disk(c, {"k%d" % i: 2000 for i in range(20)})
                wrong = []
                for key, value in stored.items():
                    got = u.ask(b"get none %s\r\nmn\r\n" % key.encode())
                    if got not in (b"VALUE %s 0 2000\r\n%s\r\nEND\r\nMN\r\n" % (key.encode(), value),
                                   b"VALUE %s 5 2000\r\n%s\r\nEND\r\nMN\r\n" % (key.encode(), value)):
                        wrong.append((key, got[:60]))
                tap.is_(wrong, [], "disk, %s: values on the disk" % io)
                ids = {u.send(b"mg %s k v\r\n" % key.encode()): key for key in stored}
                got = dict(u.any_reply() for _ in ids)
                tap.is_({ids[id] for id, reply in got.items() if b" k%s\r\n%s" % (ids[id].encode(), stored[ids[id]]) in reply},
                        set(stored), "disk, %s: several at once" % io)
                tap.is_(u.ask(b"get %s\r\n" % " ".join(stored).encode() * 30), TOO_LONG, "disk, %s: a reply that is too long" % io)
                proxy = until(lambda: d.stats("proxy"), lambda proxy: proxy["udp_in_flight"] == "0")
                tap.is_(proxy["get_unavailable"], "0", "disk, %s: what is read for it later is not unavailable" % io)


def nodes():
    for mode in ("mix,no_local_read", "1shm", "1tcp,io=uring"):
        os.environ["FARCACHED_NODES"] = mode
        try:
            with Daemon("-U", "-1", threads=2) as d, client(d) as u:
                title = "nodes " + mode
                by_text(u, title)
                by_binary(u, title)
                many(d, title)
                with d.client() as c:
                    c.set("large", b"x" * 60_000)
                    tap.is_(u.ask(b"get large\r\n"), TOO_LONG, title + ": too long")
                    c.set("large", b"y" * 10_000)
                tap.is_(len(u.ask(b"get large\r\n" * 2)), 2 * (10_000 + 21 + 7), title + ": a long reply")
                tap.is_(u.ask(b"set f 0 0 5\r\nabc"), UNFINISHED, title + ": an incomplete set")
                tap.is_(u.ask(b"get " + b" ".join(b"many%d" % i for i in range(900)) + b"\r\n"), b"END\r\n",
                        title + ": 900 keys")
                wanted = b"".join(b"STORED\r\nVALUE p%d 0 1\r\nx\r\nEND\r\n" % i for i in range(700))
                tap.ok(u.ask(b"".join(b"set p%d 0 0 1\r\nx\r\nget p%d\r\n" % (i, i) for i in range(700))) == wanted,
                       title + ": 1400 requests in a datagram")
                tap.like(u.ask(b"stats settings\r\n" + b"mn\r\n" * 5), r"(?s)^STAT maxbytes .*\r\nEND\r\n", title + ": stats")
                tap.like(u.ask(b"get p1\r\nstats conns\r\n" + b"mn\r\n" * 5), r"(?s)^VALUE.*UDP UDP\r\n",
                         title + ": stats after a get")
                tap.is_(u.faults, [], title + ": no faults in frames")
        finally:
            del os.environ["FARCACHED_NODES"]


def parked():
    """A node that stands still: requests of several senders wait for it, those for another node do not, and each reply goes to its
    sender. Those of a node that does not return are errors."""
    with Cluster("tcp tcp", proxies=1, threads=1, local_read=False, options=["node_timeout_ms=60000"],
                 proxy_args=["-U", "-1"]) as c:
        d = c.proxies[0]
        slow, other = c.nodes
        senders = [client(d) for _ in range(8)]
        keys = [c.key(slow, "slow%d" % i) for i in range(8)]
        quick = c.key(other, "quick")
        with d.client() as t:
            for i, key in enumerate(keys):
                t.set(key, b"%d" % i * (10 + i))
            t.set(quick, b"q")
        with slow.process.stopped():
            ids = [u.send(b"get %s\r\nget %s\r\n" % (key.encode(), quick.encode())) for u, key in zip(senders, keys)]
            tap.is_(senders[3].ask(b"get %s\r\n" % quick.encode()), b"VALUE %s 0 1\r\nq\r\nEND\r\n" % quick.encode(),
                    "parked: others are answered")
            flood = [senders[0].send(b"mg %s v\r\n" % keys[0].encode()) for _ in range(50)]
            senders[7].close()
        wrong = []
        for i, (u, id, key) in enumerate(list(zip(senders, ids, keys))[1:7], 1):
            got, wanted = u.reply(id), b"VALUE %s 0 %d\r\n%s\r\nEND\r\nVALUE %s 0 1\r\nq\r\nEND\r\n" % (
                key.encode(), 10 + i, b"%d" % i * (10 + i), quick.encode())
            if got != wanted:
                wrong.append((got, wanted))
        tap.is_(wrong, [], "parked: each reply goes to its sender")
        got = dict(senders[0].any_reply() for _ in range(51))
        tap.is_(({got[id] for id in flood}, ids[0] in got), ({b"VA 10\r\n0000000000\r\n"}, True), "parked: many of one sender")
        c.kill(slow)
        until(lambda: senders[1].ask(b"set %s 0 0 1\r\nx\r\n" % keys[1].encode()),
              lambda reply: reply == b"SERVER_ERROR unavailable\r\n")
        tap.is_(senders[1].ask(b"get %s\r\n" % keys[1].encode()), b"END\r\n", "parked: a node that is down")
        ids = [u.send(b"get %s\r\n" % quick.encode()) for u in senders[:7]]
        d.stop()
        tap.is_(d.status, 0, "parked: it stops")
        for u in senders:
            u.close()


def stalled():
    """At 256 datagrams in flight a worker reads no more, and the kernel drops what its buffer does not take. A refused datagram is
    one of them until its node has answered. TCP goes on."""
    with tempfile.TemporaryDirectory(prefix="farcached-udp-") as folder, \
            Cluster("tcp tcp", proxies=1, threads=1, local_read=False, options=["node_timeout_ms=60000"],
                    proxy_args=["-U", "-1", *http_args()], proxy_env=http_env(folder)) as c:
        d = c.proxies[0]
        slow, other = c.nodes
        key, big = c.key(slow, "slow").encode(), c.key(other, "big").encode()

        def shown(name, kind=""):
            return value(get(http_port(folder), "/metrics")[2], "farcached_udp_" + name + kind)
        with d.client() as t, client(d) as u, client(d) as late:
            t.set(key.decode(), "v")
            t.set(big.decode(), "b" * 60_000)
            with slow.process.stopped():
                tap.is_({u.ask(b"get %s\r\nget %s\r\n" % (big, key)) for _ in range(10)}, {TOO_LONG},
                        "stalled: long replies are refused")
                tap.is_(shown("in_flight"), 10.0, "stalled: their places are kept while their node does not answer")
                ids = {u.send(b"get %s\r\n" % key) for _ in range(256 - 10)}
                tap.is_(until(lambda: shown("in_flight"), lambda n: n == 256), 256.0, "stalled: as many as may be in flight")
                behind = late.send(b"mn\r\n")
                while shown("dropped", "_total") == 0:
                    for _ in range(1000):
                        late.send(b"x" * 1000)
                tap.is_(shown("in_flight"), 256.0, "stalled: no more are read, and the kernel drops some")
                tap.ok(t.get(big.decode()) is not None, "stalled: TCP goes on")
            tap.is_(late.any_reply(), (behind, b"MN\r\n"), "stalled: those in the buffer are served afterwards")
            got = dict(u.any_reply() for _ in ids)
            tap.is_((set(got), set(got.values())), (ids, {b"VALUE %s 0 1\r\nv\r\nEND\r\n" % key}), "stalled: so are the others")
            tap.is_(until(lambda: shown("in_flight"), lambda n: n == 0), 0.0, "stalled: none is left")
            tap.ok(int(d.stats("proxy")["udp_dropped"]) > 0, "stalled: dropped datagrams are counted")
            tap.is_(d.stats("proxy")["get_unavailable"], "0", "stalled: late answers to refused ones are not unavailable")
    with Cluster("tcp", proxies=1, threads=1, local_read=False, options=["node_timeout_ms=500"], proxy_args=["-U", "-1"]) as c, \
            client(c.proxies[0]) as u, c.nodes[0].process.stopped():
        ids = {u.send(b"get key\r\n") for _ in range(300)}
        got = dict(u.any_reply() for _ in ids)
        tap.is_((set(got), set(got.values())), (ids, {b"END\r\n"}), "stalled: until node_timeout_ms")


def stopping():
    """Datagrams received before the stop are served."""
    for io in ("libevent", "uring"):
        with Daemon("-U", "-1", "-o", "io=" + io, threads=1) as d, client(d) as u:
            with d.stopped():
                ids = [u.send(b"mn\r\n") for _ in range(20)]
                d.signal(15)
            got = dict(u.any_reply() for _ in ids)
            tap.is_((set(got), set(got.values())), (set(ids), {b"MN\r\n"}), io + ": datagrams before a stop are answered")
            d.wait()


# -- The start ----------------------------------------------------------------------------------------------

def free_port():
    with socket.socket() as s, socket.socket(type=socket.SOCK_DGRAM) as u:
        s.bind(("127.0.0.1", 0))
        u.bind(s.getsockname())
        return s.getsockname()[1]


def start():
    with tempfile.NamedTemporaryFile("w", suffix=".passwords") as f:
        f.write("a:b\n")
        f.flush()
        tap.is_(run_binary("-U", "-1", "-Y", f.name)[::2], (64, OFF_TCP.encode()), "-Y excludes UDP")
    if b"without libsasl2" not in run_binary("--version-full")[1]:
        tap.is_(run_binary("-U", "-1", "-S")[::2], (64, OFF_SASL.encode()), "-S excludes UDP")
    if b"without OpenSSL" not in run_binary("--version-full")[1]:
        tap.is_(run_binary("-U", "-1", "-Z", "-o", "ssl_chain_cert=/nonexist")[::2], (64, OFF_TLS.encode()), "-Z excludes UDP")
    with Daemon(threads=3) as d:
        tap.is_(([kind for kind, _ in d.ports], d.stats("settings")["udpport"]), (["TCP INET"], "0"), "off by default")
    port = free_port()
    with Daemon("-l", "127.0.0.1", "-p", "-1", "-U", port, threads=3) as d:
        tap.is_(udp_port(d), port, "a port of its own")
        tap.is_(run_binary("-l", "127.0.0.1", "-p", "-1", "-U", port)[0], 71, "a port in use")
    with Daemon("-l", "127.0.0.1", "--port=%d" % free_port(), "-U", "-1", threads=1) as d, client(d) as u:
        tap.is_(u.ask(b"mn\r\n"), b"MN\r\n", "one chosen by the kernel")
    port = free_port()
    with Daemon("-l", "127.0.0.1:%d" % port, "-p", "-1", "-U", "-1", threads=3) as d, client(d) as u:
        tap.is_((d.port, udp_port(d), u.ask(b"mn\r\n")), (port, port, b"MN\r\n"), "a port of -l is for both")
    with Daemon("-l", "127.0.0.1,127.0.0.2", "-p", "-1", "-U", "-1", threads=3) as d:
        ports = [port for kind, port in d.ports if kind == "UDP INET"]
        count = d.until_stat("curr_connections", lambda n: n == "3")
        tap.is_((len(ports), d.stats("settings")["num_threads_per_udp"], count), (2, "1", "3"),
                "several addresses: a socket each")
        with UdpClient(ports[1], "127.0.0.2") as u:
            tap.is_(u.ask(b"mn\r\n"), b"MN\r\n", "the second one")
    with tempfile.TemporaryDirectory(prefix="farcached-udp-") as folder:
        with Daemon("-s", os.path.join(folder, "s"), "-U", port, threads=1) as d, UdpClient(port, timeout=1) as u:
            tap.is_(d.until_stat("curr_connections", lambda n: n == "1"), "1", "none with -s")
    with Daemon("-l", "127.0.0.1", "-p", "-1", "-U", "-1", "-B", "ascii", threads=1) as d, client(d) as u:
        tap.ok(u.silent(packet(op.VERSION)), "-B ascii: no binary requests")
    if is_sanitized():
        return tap.skip("with drop_privileges", "sanitizers make other system calls")
    with Daemon("-l", "127.0.0.1", "-p", "-1", "-U", "-1", "-o", "drop_privileges", threads=1) as d, client(d) as u:
        tap.is_(u.ask(b"mn\r\n"), b"MN\r\n", "with drop_privileges")


class OnlyUdp(Daemon):
    def _reachable(self):
        self.ports = self.read_ports()
        return bool(self.ports)


def udp_alone():
    with OnlyUdp("-l", "127.0.0.1", "-p", "0", "-U", "-1", threads=1) as d, client(d) as u:
        tap.is_(([kind for kind, _ in d.ports], u.ask(b"mn\r\n")), (["UDP INET"], b"MN\r\n"), "-p 0: UDP alone")


def has_own_network():
    """From here on this process and its daemons are in a network of their own, which has a loopback device alone."""
    new_user, new_network, set_flags, up = 0x10000000, 0x40000000, 0x8914, 1
    if ctypes.CDLL(None).unshare(new_network | (new_user if os.geteuid() else 0)) != 0:
        return False
    with socket.socket(type=socket.SOCK_DGRAM) as s:
        fcntl.ioctl(s, set_flags, struct.pack("16sh14x", b"lo", up))
    return True


def addresses():
    """The reply comes from the address that the request went to, also at a socket of all addresses."""
    if not has_own_network():
        return tap.skip("all addresses", "no network namespaces here")
    with Daemon("-l", "*", "-p", "-1", "-U", "-1", threads=2) as d:
        for host in ("127.0.0.1", "127.0.0.7"):
            with UdpClient(udp_port(d), host) as u:
                tap.is_(u.ask(b"mn\r\n"), b"MN\r\n", "all addresses: " + host)
        ipv6 = dict(d.ports).get("UDP INET6")
        if ipv6 is None:
            return tap.skip("IPv6", "this host has none")
        with UdpClient(ipv6, "::1") as u:
            tap.is_(u.ask(b"mn\r\n"), b"MN\r\n", "IPv6")
        shown = set(d.stats("conns").values())
        tap.ok("udp6:[::]:%d" % ipv6 in shown and "udp:0.0.0.0:%d" % udp_port(d) in shown, "stats conns", str(shown))


PARTS = {"libevent": libevent, "uring": uring, "limit": limit, "disk": disk, "nodes": nodes, "parked": parked, "stalled": stalled,
         "stopping": stopping, "start": start, "alone": udp_alone, "addresses": addresses}
for part in sys.argv[1:] or PARTS:
    PARTS[part]()
tap.done()
