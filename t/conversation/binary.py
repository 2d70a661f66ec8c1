# SPDX-License-Identifier: BSD-3-Clause
"""The binary protocol over real sockets: every opcode and its quiet twin, every error, framing, order."""
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from farcached import Daemon, deadline, tap
from binary_client import (NO_CREATE, TEXT, BinaryClient, arith_extras, op, packet, set_extras, status,
                           touch_extras)

STORED_AT_MOST = 1024 * 1024


def is_error(reply, code, name):
    return tap.ok((reply.status, reply.value, reply.key, reply.extras, reply.cas) == (code, TEXT[code], b"", b"", 0),
                  name, "got:    %r" % reply, "wanted: status %#x %r" % (code, TEXT[code]))


def is_ok(reply, name, value=b"", key=b"", extras=b"", cas=None):
    good = (reply.status, reply.value, reply.key, reply.extras) == (status.OK, value, key, extras)
    return tap.ok(good and cas in (None, reply.cas), name, "got:    %r" % reply,
                  "wanted: value %r key %r extras %r cas %r" % (value, key, extras, cas))


def is_value(client, key, value, name, flags=0):
    return is_ok(client.ask(op.GET, key), name, value, extras=struct.pack(">I", flags))


def is_missing(client, key, name):
    return is_error(client.ask(op.GET, key), status.NOT_FOUND, name)


def silent(client, name, *args, **kwargs):
    return tap.is_(client.quiet(*args, **kwargs), [], name)


def loud(client, code, name, opcode, *args, **kwargs):
    """A quiet request that must get a reply nevertheless."""
    replies = client.quiet(opcode, *args, **kwargs)
    if tap.is_(len(replies), 1, name + ": one reply"):
        is_error(replies[0], code, name)
        tap.is_(replies[0].opcode, opcode, name + ": of its opcode")


def gets(b):
    cas = b.ask(op.SET, "get", "value", set_extras(0xDEADBEEF)).cas
    tap.ok(cas != 0, "set answers with a cas")
    flags = b"\xde\xad\xbe\xef"
    is_ok(b.ask(op.GET, "get"), "get", b"value", extras=flags, cas=cas)
    is_ok(b.ask(op.GETK, "get"), "getk", b"value", key=b"get", extras=flags, cas=cas)
    is_error(b.ask(op.GET, "missing"), status.NOT_FOUND, "get of a missing key")
    reply = b.ask(op.GETK, "missing")
    tap.is_((reply.status, reply.key, reply.value, reply.extras), (status.NOT_FOUND, b"missing", b"", b""),
            "getk of a missing key: the key and no text")
    for opcode, key in ((op.GETQ, b""), (op.GETKQ, b"get")):
        replies = b.quiet(opcode, "get")
        if tap.is_(len(replies), 1, "opcode %02x of a present key is answered" % opcode):
            is_ok(replies[0], "opcode %02x" % opcode, b"value", key=key, extras=flags, cas=cas)
        silent(b, "opcode %02x of a missing key is silent" % opcode, opcode, "missing")
    for i in range(3):
        b.send(op.SETQ, "multi%d" % i, "v%d" % i, set_extras(i))
    for i, key in enumerate(["multi0", "none", "multi1", "multi2", "none"]):
        b.send(op.GETQ, key, opaque=100 + i)
    tap.is_([(r.opaque, r.value) for r in b.until_noop()], [(100, b"v0"), (102, b"v1"), (103, b"v2")],
            "a multi-get of quiet gets: hits only, in order")


def touches(b):
    cas = b.ask(op.SET, "touched", "value", set_extras(7, 100)).cas
    flags = b"\0\0\0\7"
    is_ok(b.ask(op.TOUCH, "touched", extras=touch_extras(200)), "touch: flags and cas, no value", extras=flags, cas=cas)
    is_ok(b.ask(op.GAT, "touched", extras=touch_extras(0)), "gat", b"value", extras=flags, cas=cas)
    is_ok(b.ask(op.GATK, "touched", extras=touch_extras(0)), "gatk", b"value", key=b"touched", extras=flags)
    is_error(b.ask(op.TOUCH, "missing", extras=touch_extras(0)), status.NOT_FOUND, "touch of a missing key")
    is_error(b.ask(op.GAT, "missing", extras=touch_extras(0)), status.NOT_FOUND, "gat of a missing key")
    reply = b.ask(op.GATK, "missing", extras=touch_extras(0))
    tap.is_((reply.status, reply.key, reply.value), (status.NOT_FOUND, b"missing", b""), "gatk of a missing key")
    for opcode, key in ((op.GATQ, b""), (op.GATKQ, b"touched")):
        replies = b.quiet(opcode, "touched", extras=touch_extras(0))
        if tap.is_(len(replies), 1, "opcode %02x of a present key is answered" % opcode):
            is_ok(replies[0], "opcode %02x" % opcode, b"value", key=key, extras=flags)
        silent(b, "opcode %02x of a missing key is silent" % opcode, opcode, "missing", extras=touch_extras(0))
    b.ask(op.TOUCH, "touched", extras=touch_extras(2592001))
    is_missing(b, "touched", "touched with a date long past: gone")


def stores(b):
    is_error(b.ask(op.REPLACE, "st", "x", set_extras()), status.NOT_FOUND, "replace of a missing key")
    is_error(b.ask(op.APPEND, "st", "x"), status.NOT_STORED, "append to a missing key")
    is_error(b.ask(op.PREPEND, "st", "x"), status.NOT_STORED, "prepend to a missing key")
    is_ok(b.ask(op.ADD, "st", "one", set_extras(5)), "add")
    is_error(b.ask(op.ADD, "st", "two", set_extras(6)), status.EXISTS, "add of a present key")
    is_value(b, "st", b"one", "add left it alone", 5)
    is_ok(b.ask(op.REPLACE, "st", "three", set_extras(8)), "replace")
    is_ok(b.ask(op.APPEND, "st", " more"), "append")
    is_ok(b.ask(op.PREPEND, "st", "no "), "prepend")
    is_value(b, "st", b"no three more", "all of it", 8)
    is_ok(b.ask(op.SET, "st", "", set_extras(1)), "set of an empty value")
    is_value(b, "st", b"", "is an empty value", 1)
    every = bytes(range(256))
    is_ok(b.ask(op.SET, every[:250], every * 40, set_extras()), "set with a key and a value of every byte")
    is_value(b, every[:250], every * 40, "and get")
    is_ok(b.ask(op.DELETE, "st"), "delete", cas=0)
    is_error(b.ask(op.DELETE, "st"), status.NOT_FOUND, "delete of a missing key")
    is_ok(b.ask(op.SET, "st", "x", set_extras(0, 2592001)), "set with a date long past")
    is_missing(b, "st", "is not there")
    is_ok(b.ask(op.SET, "st", "x", set_extras(0, 0xFFFFFFFF)), "set with the last date")
    is_value(b, "st", b"x", "is there")


def quiet_stores(b):
    silent(b, "setq is silent", op.SETQ, "q", "1", set_extras(82))
    is_value(b, "q", b"1", "and stores", 82)
    loud(b, status.EXISTS, "addq of a present key", op.ADDQ, "q", "2", set_extras())
    silent(b, "addq is silent", op.ADDQ, "q2", "2", set_extras())
    loud(b, status.NOT_FOUND, "replaceq of a missing key", op.REPLACEQ, "q3", "3", set_extras())
    silent(b, "replaceq is silent", op.REPLACEQ, "q", "3", set_extras())
    silent(b, "appendq is silent", op.APPENDQ, "q", "4")
    silent(b, "prependq is silent", op.PREPENDQ, "q", "2")
    is_value(b, "q", b"234", "all of it happened")
    loud(b, status.NOT_STORED, "appendq to a missing key", op.APPENDQ, "q3", "4")
    loud(b, status.NOT_STORED, "prependq to a missing key", op.PREPENDQ, "q3", "4")
    silent(b, "deleteq is silent", op.DELETEQ, "q")
    loud(b, status.NOT_FOUND, "deleteq of a missing key", op.DELETEQ, "q")
    silent(b, "incrq that creates is silent", op.INCRQ, "qn", extras=arith_extras(0, 0, 0))
    silent(b, "incrq is silent", op.INCRQ, "qn", extras=arith_extras(8, 0, 0))
    silent(b, "decrq is silent", op.DECRQ, "qn", extras=arith_extras(3, 0, 0))
    tap.is_(b.ask(op.INCR, "qn", extras=arith_extras(0)).number, 5, "they counted")
    loud(b, status.NOT_FOUND, "incrq that may not create", op.INCRQ, "q3", extras=arith_extras(1, 0, NO_CREATE))
    loud(b, status.NOT_FOUND, "decrq that may not create", op.DECRQ, "q3", extras=arith_extras(1, 0, NO_CREATE))
    silent(b, "flushq is silent", op.FLUSHQ)
    is_missing(b, "q2", "and flushes")
    b.send(op.SETQ, "o", "v", set_extras(), opaque=1).send(op.ADDQ, "o", "v", set_extras(), opaque=2)
    b.send(op.GETQ, "none", opaque=3).send(op.GETKQ, "o", opaque=4).send(op.DELETE, "none", opaque=5)
    b.send(op.APPENDQ, "o", "w", opaque=6).send(op.GET, "o", opaque=7)
    tap.is_([(r.opaque, r.status, r.value) for r in b.until_noop()],
            [(2, 2, TEXT[2]), (4, 0, b"v"), (5, 1, TEXT[1]), (7, 0, b"vw")], "quiet and loud mixed: in order")


def compare_and_swap(b):
    for opcode in (op.SET, op.ADD, op.REPLACE):
        name = "opcode %02x with a cas" % opcode
        is_error(b.ask(opcode, "no cas", "x", set_extras(), cas=0x7FFFFFFFFF), status.NOT_FOUND, name + ": missing key")
        cas = b.ask(op.SET, "cas", "old", set_extras()).cas
        is_error(b.ask(opcode, "cas", "x", set_extras(), cas=cas + 1), status.EXISTS, name + ": another")
        is_value(b, "cas", b"old", name + ": nothing happened")
        reply = b.ask(opcode, "cas", "new", set_extras(), cas=cas)
        tap.ok(reply.status == 0 and reply.cas not in (0, cas), name + ": the right one, answered with the next")
        is_error(b.ask(opcode, "cas", "x", set_extras(), cas=cas), status.EXISTS, name + ": used up")
        is_value(b, "cas", b"new", name + ": happened once")
    cas = b.ask(op.SET, "cas", "7", set_extras()).cas
    is_error(b.ask(op.APPEND, "cas", "x", cas=cas + 1), status.EXISTS, "append with another cas")
    is_error(b.ask(op.PREPEND, "cas", "x", cas=cas + 1), status.EXISTS, "prepend with another cas")
    is_error(b.ask(op.INCR, "cas", extras=arith_extras(), cas=cas + 1), status.EXISTS, "incr with another cas")
    is_error(b.ask(op.DECR, "cas", extras=arith_extras(), cas=cas + 1), status.EXISTS, "decr with another cas")
    is_error(b.ask(op.DELETE, "cas", cas=cas + 1), status.EXISTS, "delete with another cas")
    reply = b.ask(op.INCR, "cas", extras=arith_extras(), cas=cas)
    tap.ok(reply.number == 8 and reply.cas != cas, "incr with the right cas")
    reply = b.ask(op.APPEND, "cas", "9", cas=reply.cas)
    is_value(b, "cas", b"89", "append with the right cas")
    is_ok(b.ask(op.DELETE, "cas", cas=reply.cas), "delete with the right cas")


def arithmetic(b):
    for opcode in (op.INCR, op.DECR):
        is_error(b.ask(opcode, "n", extras=arith_extras(1, 5, NO_CREATE)), status.NOT_FOUND,
                 "opcode %02x of a missing key, expiration 0xffffffff" % opcode)
        reply = b.ask(opcode, "n", extras=arith_extras(1, 5, 0))
        tap.ok((reply.number, len(reply.value), reply.extras) == (5, 8, b"") and reply.cas,
               "opcode %02x creates: 8 bytes and a cas" % opcode)
        tap.is_(b.ask(op.GET, "n").cas, reply.cas, "opcode %02x: it is the item's" % opcode)
        b.ask(op.DELETE, "n")
    tap.is_(b.ask(op.INCR, "n", extras=arith_extras(1, 0, 0)).number, 0, "first incr is the initial value")
    tap.is_(b.ask(op.INCR, "n", extras=arith_extras(211)).number, 211, "then it counts")
    tap.is_(b.ask(op.INCR, "n", extras=arith_extras(2**33)).number, 211 + 2**33, "beyond 32 bits")
    tap.is_(b.ask(op.INCR, "n", extras=arith_extras(2**64 - 1)).number, 210 + 2**33, "and wraps at 64")
    tap.is_(b.ask(op.DECR, "n", extras=arith_extras(2**33)).number, 210, "decr")
    tap.is_(b.ask(op.DECR, "n", extras=arith_extras(211)).number, 0, "ends at zero")
    b.ask(op.SET, "n", "", set_extras())
    is_error(b.ask(op.INCR, "n", extras=arith_extras()), status.NON_NUMERIC, "incr of an empty value")
    b.ask(op.SET, "n", "abc", set_extras())
    is_error(b.ask(op.DECR, "n", extras=arith_extras()), status.NON_NUMERIC, "decr of letters")
    b.ask(op.SET, "n", "18446744073709551615", set_extras(3))
    tap.is_(b.ask(op.INCR, "n", extras=arith_extras()).number, 0, "2^64-1 and one is zero")
    tap.is_(b.ask(op.GET, "n").flags, 3, "flags stay")
    b.ask(op.INCR, "expired", extras=arith_extras(1, 1, 2592001))
    is_missing(b, "expired", "created with a date long past")


def too_large(b):
    huge = b"x" * (STORED_AT_MOST + 1)
    for opcode in (op.SET, op.SETQ, op.ADD, op.ADDQ, op.REPLACE, op.APPEND, op.PREPENDQ):
        name = "too large, opcode %02x" % opcode
        b.ask(op.SET, "big", "small", set_extras())
        appends = opcode in (op.APPEND, op.PREPENDQ)
        replies = b.quiet(opcode, "big", huge, b"" if appends else set_extras())
        if tap.is_(len(replies), 1, name + ": one reply, and the connection lives"):
            is_error(replies[0], status.TOO_LARGE, name)
        if opcode in (op.SET, op.SETQ):
            is_missing(b, "big", name + ": the old value is gone")
        else:
            is_value(b, "big", b"small", name + ": the old value stays")
    half = b"h" * 600000
    b.ask(op.SET, "big", half, set_extras())
    is_error(b.ask(op.APPEND, "big", half), status.NOT_STORED, "an append that makes it too large")
    is_value(b, "big", half, "the old value stays")
    b.ask(op.DELETE, "big")


def others(b):
    reply = b.ask(op.VERSION)
    is_ok(reply, "version", reply.value)
    tap.like(reply.value, r"^1\.6\.\d+$", "is memcached's")
    is_ok(b.ask(op.NOOP), "noop", cas=0)
    b.ask(op.SET, "f", "v", set_extras())
    is_ok(b.ask(op.FLUSH, extras=touch_extras(3600)), "flush in an hour")
    is_value(b, "f", b"v", "is not yet")
    is_ok(b.ask(op.FLUSH, extras=touch_extras(0)), "flush with a delay of 0", cas=0)
    is_missing(b, "f", "is now")
    b.ask(op.SET, "f", "v", set_extras())
    is_ok(b.ask(op.FLUSH), "flush")
    is_missing(b, "f", "is now, too")
    reply = b.ask(op.NOOP, opaque=0xFFFFFFFF, datatype=0xFF, vbucket=0xFFFF, cas=5)
    tap.is_((reply.status, reply.datatype, reply.cas), (0, 0, 0), "datatype, vbucket and a needless cas are ignored")


def unknown(b):
    for opcode in (op.VERBOSITY, op.SASL_LIST, 0x1F, 0x25, 0x30, 0x3C, 0x81, 0xFF):
        is_error(b.ask(opcode), status.UNKNOWN, "opcode %02x is unknown" % opcode)
    for opcode in (op.SASL_AUTH, op.SASL_STEP):
        is_error(b.ask(opcode, "PLAIN", "\0user\0password"), status.UNKNOWN, "opcode %02x is unknown" % opcode)
        tap.is_(b.until_noop(), [], "opcode %02x with a body: in frame" % opcode)


def unknown_with_body(b):
    for opcode in (op.VERBOSITY, 0x30, 0xFF):
        is_error(b.ask(opcode, "key", "v" * 100000, "extra"), status.UNKNOWN, "opcode %02x with a body" % opcode)
        tap.is_(b.until_noop(), [], "opcode %02x with a body: in frame" % opcode)
    replies = b.quiet(op.TOUCH, "none", "value", touch_extras(0))
    tap.is_([r.status for r in replies], [status.NOT_FOUND], "touch with a value: answered, in frame")
    tap.is_(b.quiet(op.GATQ, "none", "value", touch_extras(0)), [], "gatq with a value: silent, in frame")
    replies = b.quiet(op.STAT, "no such group", "value")
    tap.is_([r.status for r in replies], [status.NOT_FOUND], "stat with a value: answered, in frame")


def statistics(b):
    code, general = b.stat()
    tap.ok(code == 0 and {"pid", "version", "curr_items", "get_hits", "limit_maxbytes"} <= set(general),
           "stat of everything", sorted(general))
    code, settings = b.stat("settings")
    tap.ok(code == 0 and {"maxbytes", "evictions", "item_size_max"} <= set(settings), "stat settings")
    b.ask(op.SET, "s", "v", set_extras())
    tap.ok(any(k.startswith("items:") for k in b.stat("items")[1]), "stat items")
    tap.ok("active_slabs" in b.stat("slabs")[1], "stat slabs")
    is_error(b.ask(op.STAT, "no such group"), status.NOT_FOUND, "stat of an unknown group")
    before = int(b.stat()[1]["cmd_get"])
    b.ask(op.GET, "s")
    tap.is_(int(b.stat()[1]["cmd_get"]), before + 1, "stat shows the counters")
    is_ok(b.ask(op.STAT, "reset"), "stat reset: only the last packet")
    tap.is_(b.stat()[1]["cmd_get"], "0", "and zeros")
    b.send(op.STAT, opaque=77)
    replies = b.until_noop()
    tap.ok({r.opaque for r in replies} == {77} and replies[-1].body_len == 0 and all(r.key for r in replies[:-1]),
           "each packet has the opaque, the last one alone is empty")


ILLEGAL = [
    ("get with extras", (op.GET, "k", "", "abcd")),
    ("get without key", (op.GET,)),
    ("get with value", (op.GET, "k", "v")),
    ("getq without key", (op.GETQ,)),
    ("getkq with extras", (op.GETKQ, "k", "", "abcd")),
    ("get of a key of 251", (op.GET, "k" * 251)),
    ("set of a key of 251", (op.SET, "k" * 251, "v", set_extras())),
    ("get of a key of 1000", (op.GET, "k" * 1000)),
    ("set without extras", (op.SET, "k", "v")),
    ("set without key", (op.SET, "", "v", set_extras())),
    ("setq with short extras", (op.SETQ, "k", "v", "abcd")),
    ("add with long extras", (op.ADD, "k", "v", "a" * 12)),
    ("append with extras", (op.APPEND, "k", "v", set_extras())),
    ("prepend without key", (op.PREPEND, "", "v")),
    ("delete without key", (op.DELETE,)),
    ("delete with value", (op.DELETE, "k", "v")),
    ("delete with extras", (op.DELETE, "k", "", "abcd")),
    ("incr without extras", (op.INCR, "k")),
    ("incr with short extras", (op.INCR, "k", "", "a" * 16)),
    ("decr with value", (op.DECR, "k", "v", arith_extras())),
    ("incr without key", (op.INCR, "", "", arith_extras())),
    ("touch without extras", (op.TOUCH, "k")),
    ("gat without key", (op.GAT, "", "", touch_extras(0))),
    ("gatk with long extras", (op.GATK, "k", "", "a" * 8)),
    ("noop with a body", (op.NOOP, "", "v")),
    ("noop with a key", (op.NOOP, "k")),
    ("version with a body", (op.VERSION, "", "v")),
    ("quit with a body", (op.QUIT, "", "v")),
    ("flush with a key", (op.FLUSH, "k")),
    ("flush with 8 extras", (op.FLUSH, "", "", "a" * 8)),
    ("flushq with a value", (op.FLUSHQ, "", "v", touch_extras(0))),
    ("stat with extras", (op.STAT, "", "", "abcd")),
    ("SASL list with a body", (op.SASL_LIST, "", "v")),
    ("SASL auth without key", (op.SASL_AUTH, "", "v")),
    ("SASL step with extras", (op.SASL_STEP, "PLAIN", "v", "abcd")),
    ("unknown with a key of 300", (0x55, "k" * 300)),
]


def closes_with(daemon, code, name, *args, **kwargs):
    with BinaryClient(daemon.client()) as b:
        replies = b.closes_after(*args, **kwargs)
        if tap.ok(replies is not None and len(replies) == 1, name + ": one reply, then closed", replies):
            is_error(replies[0], code, name)
            tap.is_(replies[0].opcode, args[0], name + ": of its opcode")


def endings(daemon):
    for name, args in ILLEGAL:
        closes_with(daemon, status.INVALID, name, *args)
    closes_with(daemon, status.UNKNOWN, "key longer than the body", op.GET, "key", body=2)
    closes_with(daemon, status.INVALID, "a body of more than 1 GiB", op.SET, "key", "", set_extras(), body=2**30 + 1)
    with BinaryClient(daemon.client()) as b:
        b.ask(op.SET, "empty", "", extras=set_extras())
        is_error(b.ask(op.INCR, "empty", extras=arith_extras(), cas=1), status.NON_NUMERIC,
                 "an empty value is no number, with any CAS")
    closes_with(daemon, status.UNKNOWN, "extras and key longer than the body", op.SET, "key", "", set_extras(), body=10)
    with BinaryClient(daemon.client()) as b:
        replies = b.closes_after(op.QUIT, opaque=9)
        tap.is_([(r.opcode, r.status, r.opaque) for r in replies or []], [(op.QUIT, 0, 9)],
                "quit is answered, then closed")
    with BinaryClient(daemon.client()) as b:
        tap.is_(b.closes_after(op.QUITQ), [], "quitq is not, but closes")
    with BinaryClient(daemon.client()) as b:
        b.send(op.NOOP).raw.send(packet(op.GET, "k", magic=0x81))
        tap.is_(b.read().opcode, op.NOOP, "a packet before another magic is answered")
        tap.ok(b.closed(), "the other magic closes without a word")
    with BinaryClient(daemon.client()) as b:
        b.ask(op.NOOP)
        b.raw.send("get foo\r\n" + "set this 0 0 20\r\n")
        tap.ok(b.closed(), "text on a binary connection closes without a word")
    with daemon.client() as text:
        text.send("get foo\r\n")
        tap.is_(text.line(), b"END\r\n", "text first")
        text.send(packet(op.NOOP), "\r\nget foo\r\n")
        tap.like(text.line(), "ERROR", "then a packet is a text error")


def lies(daemon):
    before = daemon.memory()["RssAnon"]
    clients = [BinaryClient(daemon.client()) for _ in range(64)]
    for b in clients:
        b.send(op.SET, "lie", "", set_extras(), body=STORED_AT_MOST - 1024)
    for b in clients[:32]:
        b.send(op.GET, "k", keylen=0xFF, body=0xFF)
    with BinaryClient(daemon.client()) as b:
        b.raw.send(packet(op.SET, "lie", "", set_extras(), opaque=3, body=2**30))
        is_error(b.read(), status.TOO_LARGE, "a body of 1 GiB is refused before it arrives")
        b.raw.send(b"x" * 3000000)
        tap.is_(b.raw.buffer, b"", "its bytes are discarded silently")
    with BinaryClient(daemon.client()) as b:
        is_ok(b.ask(op.NOOP), "others are served while 64 connections promise a megabyte each")
    grown = daemon.memory()["RssAnon"] - before
    tap.ok(grown < 32 << 20, "promises cost no memory", "grown by %d" % grown)
    for b in clients:
        b.raw.close()


def pieces(daemon):
    pipeline = (packet(op.SETQ, "piece", "x" * 50, set_extras(1)) + packet(op.GETKQ, "piece", opaque=1) +
                packet(op.INCR, "pn", extras=arith_extras(1, 41, 0), opaque=2) +
                packet(0x30, "k", "value", "ex", opaque=3) +
                packet(op.DELETEQ, "pn") + packet(op.GETK, "pn", opaque=4) + packet(op.NOOP, opaque=5))
    seen = []
    for sizes in ((len(pipeline),), (1,), (2,), (23,), (24,), (25,), (3, 50, 1), (11, 7)):
        with BinaryClient(daemon.client()) as b:
            b.raw.send_split(pipeline, sizes)
            seen.append([(r.opaque, r.status, r.key, r.value) for r in (b.read() for _ in range(5))])
    number = struct.pack(">Q", 41)
    tap.is_(seen[0], [(1, 0, b"piece", b"x" * 50), (2, 0, b"", number), (3, 0x81, b"", TEXT[0x81]), (4, 1, b"pn", b""),
                      (5, 0, b"", b"")], "a pipeline in one piece")
    tap.ok(all(s == seen[0] for s in seen), "in pieces of any size the same")


def streams(daemon):
    """Many quiet gets without a noop, as load generators send them."""
    with BinaryClient(daemon.client(timeout=3 * deadline())) as b:
        for i in range(200):
            b.send(op.SETQ, "stream%d" % i, "value %d" % i, set_extras())
        b.raw.send(b"".join(packet(op.GETQ, "stream%d" % (i % 300), opaque=i) for i in range(3000)))
        wanted = [i for i in range(3000) if i % 300 < 200]
        got = [b.read() for _ in wanted]
        tap.is_([r.opaque for r in got], wanted, "3000 quiet gets: the hits in order")
        tap.ok(all(r.value == b"value %d" % (r.opaque % 300) for r in got), "each with its value")
        tap.is_(b.until_noop(), [], "and nothing else")
        large = b"L" * 200000
        b.ask(op.SET, "large", large, set_extras())
        b.raw.send(packet(op.GET, "large") * 100)
        tap.ok(all(b.read().value == large for _ in range(100)), "20 MB of replies to one write are complete")


def main():
    with Daemon(threads=2) as daemon:
        for conversation in (gets, touches, stores, quiet_stores, compare_and_swap, arithmetic, too_large, others,
                             unknown, unknown_with_body, statistics):
            with BinaryClient(daemon.client()) as b:
                conversation(b)
        endings(daemon)
        pieces(daemon)
        streams(daemon)
        lies(daemon)
        with BinaryClient(daemon.client()) as b:
            is_ok(b.ask(op.NOOP), "after all that the daemon answers")
    tap.done()


main()
