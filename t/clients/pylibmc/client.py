# SPDX-License-Identifier: BSD-3-Clause
"""pylibmc, a wrapper of libmemcached, in text and in binary: client.py HOST PORT text|binary
[USER PASSWORD]. With these it authenticates by SASL."""
import sys
import time

import pylibmc

BINARY_VALUE = bytes(range(256)) * 4 + b"\r\nEND\r\nVALUE x 0 1\r\n"


def ok(condition, name):
    print("%s - %s" % ("ok" if condition else "not ok", name))


def raises(kind, call, name):
    try:
        call()
    except kind:
        return ok(True, name)
    ok(False, name)


def refused(call):
    """Not stored: libmemcached reports it differently in text and in binary."""
    try:
        return call() is False
    except pylibmc.NotFound:
        return True


def gone_within(client, key, seconds):
    end = time.monotonic() + seconds
    while client.get(key) is not None and time.monotonic() < end:
        time.sleep(0.05)
    return client.get(key) is None


def storing(c):
    ok(c.set("a", BINARY_VALUE) and c.get("a") == BINARY_VALUE, "set and get, all byte values")
    ok(c.set("e", b"") and c.get("e") == b"", "an empty value")
    for name, value in [("int", 12345), ("str", "\u00e9\u4e2d"), ("pickled", {"a": [1, 2]})]:
        c.set("flags-" + name, value)
        got = c.get("flags-" + name)
        ok(got == value and type(got) is type(value), "flags carry the type: %s" % name)
    ok(c.add("a", b"x") is False, "add of an existing key is refused")
    ok(c.add("n", b"new") is True, "add of a missing key")
    ok(refused(lambda: c.replace("none", b"x")), "replace of a missing key is refused")
    ok(c.append("n", b">") and c.prepend("n", b"<") and c.get("n") == b"<new>", "append and prepend")
    big = bytes(i * 7 % 251 for i in range(900_000))
    ok(c.set("big", big) and c.get("big") == big, "a value of 900 KB")
    raises(pylibmc.Error, lambda: c.set("huge", b"x" * 2_000_000), "2 MB are refused")
    ok(c.get("n") == b"<new>", "and the client works on")


def counting_and_cas(c):
    many = {"k%d" % i: b"v%d" % i for i in range(200)}
    ok(c.set_multi(many) == [], "set_multi of 200")
    ok(c.get_multi(list(many) + ["absent"]) == many, "get_multi of 201, one of them absent")
    c.set("c", b"0")
    value, cas = c.gets("c")
    ok(value == b"0" and c.cas("c", b"1", cas), "cas with the right unique")
    ok(not c.cas("c", b"2", cas) and c.get("c") == b"1", "cas with a stale unique")
    c.set("i", 10)
    ok(c.incr("i", 5) == 15 and c.decr("i", 6) == 9, "incr and decr")
    ok(c.decr("i", 100) == 0, "decr stops at zero")
    raises(pylibmc.NotFound, lambda: c.incr("none", 1), "incr of a missing key")
    raises(pylibmc.Error, lambda: c.incr("n", 1), "incr of text is an error")
    c.set_multi({"m%d" % i: i for i in range(10)})
    c.incr_multi(["m%d" % i for i in range(10)], delta=7)
    ok(c.get_multi(["m%d" % i for i in range(10)]) == {"m%d" % i: i + 7 for i in range(10)}, "incr_multi")


def ending(c, binary):
    ok(c.delete("i") is True and c.delete("i") is False, "delete, and again")
    c.set("soon", b"1", time=1)
    ok(gone_within(c, "soon", 10), "an expiry of one second")
    c.set("old", b"1", time=int(time.time()) - 10)
    ok(c.get("old") is None, "an absolute expiry in the past is a miss at once")
    c.set("t", b"1", time=1000)
    ok(c.touch("t", 1) and gone_within(c, "t", 10), "a touch that shortens")
    ok(not c.touch("none", 1), "touch of a missing key")
    (_, stats), = c.get_stats()
    ok(int(stats["curr_items"]) > 0 and stats["version"].startswith(b"1.6."), "stats")
    ok(c.delete_multi(["k%d" % i for i in range(200)]) is True, "delete_multi of 200")
    ok(c.get("k5") is None, "and they are gone")
    ok(c.flush_all() is True and c.get("big") is None, "flush_all")
    key = "k" * 250 if not binary else "k" * 200
    ok(c.set(key, b"x") and c.get(key) == b"x", "a long key")


def main():
    host, port, protocol, *login = sys.argv[1:]
    client = pylibmc.Client(["%s:%s" % (host, port)], binary=protocol == "binary",
                            behaviors={"cas": True, "connect_timeout": 10000, "tcp_nodelay": True,
                                       "receive_timeout": 20_000_000, "send_timeout": 20_000_000},
                            **dict(zip(("username", "password"), login)))
    storing(client)
    counting_and_cas(client)
    ending(client, protocol == "binary")
    client.disconnect_all()


main()
