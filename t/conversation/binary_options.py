# SPDX-License-Identifier: BSD-3-Clause
"""Options that change replies of the binary protocol: -C -F -I -M -B; its counters, watchers and detailed statistics."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from farcached import Daemon, remaining, tap
from binary_client import NO_CREATE, TEXT, BinaryClient, arith_extras, op, set_extras, status, touch_extras


def without_cas():
    with Daemon("-C", threads=1) as daemon, BinaryClient(daemon.client()) as b:
        tap.is_(b.ask(op.SET, "k", "1", set_extras()).cas, 0, "-C: set answers cas 0")
        tap.is_(b.ask(op.SET, "k", "2", set_extras(), cas=5).status, status.OK, "-C: set with a cas stores")
        tap.is_(b.ask(op.APPEND, "k", "3", cas=5).status, status.OK, "-C: append with a cas, too")
        tap.is_(b.ask(op.INCR, "k", extras=arith_extras(), cas=5).status, status.EXISTS, "-C: incr with a cas does not")
        tap.is_(b.ask(op.DELETE, "k", cas=5).status, status.EXISTS, "-C: nor does delete")
        reply = b.ask(op.GET, "k")
        tap.is_((reply.value, reply.cas), (b"23", 0), "-C: get answers cas 0")


def without_flush():
    with Daemon("-F", threads=1) as daemon, BinaryClient(daemon.client()) as b:
        b.ask(op.SET, "k", "v", set_extras())
        reply = b.ask(op.FLUSH)
        tap.is_((reply.status, reply.value), (status.AUTH, TEXT[status.AUTH]), "-F: flush is refused")
        tap.is_([r.status for r in b.quiet(op.FLUSHQ, extras=touch_extras(1))], [status.AUTH], "-F: and flushq, aloud")
        tap.is_(b.ask(op.GET, "k").value, b"v", "-F: nothing is flushed")
        tap.is_(b.stat()[1]["cmd_flush"], "0", "-F: nor counted")


def without_dumping():
    with Daemon("-X", threads=1) as daemon, BinaryClient(daemon.client()) as b:
        tap.is_([b.stat(group) for group in ("hotkeys", "slow_log")], [(status.NOT_FOUND, {})] * 2, "-X: no statistics with keys")


def larger_items():
    with Daemon("-I", "2m", "-m", "64", threads=1) as daemon, BinaryClient(daemon.client()) as b:
        value = b"v" * 1500000
        tap.is_(b.ask(op.SET, "k", value, set_extras()).status, status.OK, "-I 2m: 1.5 MB are stored")
        tap.ok(b.ask(op.GET, "k").value == value, "-I 2m: and found")
        tap.is_(b.ask(op.SET, "k", b"v" * 2097152, set_extras()).status, status.TOO_LARGE, "-I 2m: 2 MiB are too large")


def full_without_eviction():
    with Daemon("-M", "-m", "8", threads=1) as daemon, BinaryClient(daemon.client()) as b:
        value = b"v" * 100000
        replies = [b.ask(op.ADD, "full%d" % i, value, set_extras()) for i in range(120)]
        tap.is_(replies[0].status, status.OK, "-M: there is room at first")
        tap.is_((replies[-1].status, replies[-1].value), (status.NO_MEMORY, b"Out of memory allocating item"),
                "-M: then stores fail")
        tap.is_({r.status for r in replies}, {status.OK, status.NO_MEMORY}, "-M: with no other error")
        tap.ok(b.ask(op.GET, "full0").value == value, "-M: stored items stay")
        stored = b.ask(op.SET, "full0", b"v" * 900000, set_extras()).status == status.OK
        tap.is_(b.ask(op.GET, "full0").status, status.OK if stored else status.NOT_FOUND,
                "-M: a set without room leaves no old value")


def only_one_protocol():
    with Daemon("-B", "binary", threads=1) as daemon:
        with BinaryClient(daemon.client()) as b:
            tap.is_(b.ask(op.NOOP).status, status.OK, "-B binary: binary works")
        with daemon.client() as text:
            text.send("get a\r\n", "x" * 40)
            tap.is_(text.until_close(), b"", "-B binary: text closes")
    with Daemon("-B", "ascii", threads=1) as daemon, daemon.client() as text:
        b = BinaryClient(text)
        b.send(op.NOOP).raw.send("\r\n")
        tap.like(text.line(), "ERROR", "-B ascii: a packet is a text error")


def counted():
    wanted = {"cmd_get": 5, "get_hits": 3, "get_misses": 2, "cmd_touch": 4, "touch_hits": 2, "touch_misses": 2,
              "cmd_set": 8, "cas_hits": 1, "cas_misses": 1, "cas_badval": 1, "incr_hits": 1, "incr_misses": 1,
              "decr_hits": 1, "decr_misses": 1, "delete_hits": 1, "delete_misses": 1, "cmd_flush": 1, "cmd_meta": 0,
              "get_expired": 1}
    with Daemon(threads=1) as daemon, BinaryClient(daemon.client()) as b:
        cas = b.ask(op.SET, "k", "10", set_extras()).cas
        for opcode in (op.GET, op.GETQ, op.GETKQ):
            b.quiet(opcode, "k")
        b.quiet(op.GETQ, "none")
        for key in ("k", "none"):
            b.quiet(op.TOUCH, key, extras=touch_extras(0))
            b.quiet(op.GATQ, key, extras=touch_extras(0))
        b.ask(op.SET, "k", "10", set_extras(), cas=cas)
        b.ask(op.SET, "k", "10", set_extras(), cas=cas)
        b.ask(op.SET, "none", "10", set_extras(), cas=cas)
        b.ask(op.ADD, "k", "10", set_extras())
        b.ask(op.REPLACE, "none", "10", set_extras())
        b.ask(op.APPEND, "k", "0")
        for opcode in (op.INCR, op.DECR):
            b.ask(opcode, "k", extras=arith_extras())
            b.ask(opcode, "none", extras=arith_extras(1, 0, NO_CREATE))
            b.quiet(opcode + 0x10, "created%d" % opcode, extras=arith_extras(1, 0, 0))
        b.ask(op.SET, "late", "v", set_extras(0, 2592001))
        b.ask(op.GET, "late")
        b.ask(op.DELETE, "k")
        b.ask(op.DELETE, "k")
        b.ask(op.FLUSH)
        stats = b.stat()[1]
        for name, value in wanted.items():
            tap.is_(stats[name], str(value), "counted: " + name)


def watched():
    with Daemon(threads=1) as daemon, daemon.client() as watcher, BinaryClient(daemon.client()) as b:
        watcher.send("watch fetchers mutations deletions\r\n")
        tap.is_(watcher.line(), b"OK\r\n", "watching")
        b.quiet(op.SETQ, "watched", "four", set_extras(0, 50))
        b.quiet(op.GETQ, "watched")
        b.quiet(op.GETQ, "missing")
        b.quiet(op.DELETEQ, "watched")
        lines = []
        while not lines or b"type=deleted" not in lines[-1]:
            lines.append(watcher.line())
        text = b"".join(lines).decode("latin-1")
        tap.like(text, r"type=item_store key=watched status=stored cmd=set ttl=" + remaining(50) + r" clsid=\d+ cfd=\d+ size=4",
                 "watched: store")
        tap.like(text, r"type=item_get key=watched status=found clsid=\d+ cfd=\d+ size=4", "watched: hit")
        tap.like(text, r"type=item_get key=missing status=not_found clsid=0 cfd=\d+ size=0", "watched: miss")
        tap.like(text, r"type=deleted key=watched cmd=delete", "watched: delete")


def detailed():
    with Daemon("-D", ":", threads=1) as daemon, BinaryClient(daemon.client()) as b:
        b.quiet(op.SETQ, "user:1", "v", set_extras())
        b.quiet(op.GETQ, "user:1")
        b.quiet(op.GETKQ, "user:2")
        b.quiet(op.DELETEQ, "user:1")
        with daemon.client() as text:
            text.send("stats detail dump\r\n")
            tap.is_(text.line(), b"PREFIX user get 2 hit 1 set 1 del 1\r\n", "stats detail knows of binary requests")


without_cas()
without_flush()
without_dumping()
larger_items()
full_without_eviction()
only_one_protocol()
counted()
watched()
detailed()
tap.done()
