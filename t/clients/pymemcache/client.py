# SPDX-License-Identifier: BSD-3-Clause
"""pymemcache (classic text, and its noreply default): client.py HOST PORT. $CA_FILE: use TLS. $LOGIN: send it."""
import os
import ssl
import sys
import time

from pymemcache.client.base import Client
from pymemcache.exceptions import MemcacheClientError, MemcacheServerError

BINARY_VALUE = bytes(range(256)) * 4 + b"\r\nEND\r\nVALUE x 0 1\r\n"


class LoggingIn(Client):
    """pymemcache has no passwords: each of its connections begins with the set of them. An error makes it connect again."""

    def _connect(self):
        super()._connect()
        if not self.set("login", os.environ["LOGIN"], noreply=False):
            raise MemcacheServerError("no login")


def ok(condition, name):
    print("%s - %s" % ("ok" if condition else "not ok", name))


def gone_within(client, key, seconds):
    end = time.monotonic() + seconds
    while client.get(key) is not None and time.monotonic() < end:
        time.sleep(0.05)
    return client.get(key) is None


def storing(c):
    ok(c.set("a", BINARY_VALUE, noreply=False) and c.get("a") == BINARY_VALUE, "set and get, all byte values")
    ok(c.set("e", b"", noreply=False) and c.get("e") == b"", "an empty value")
    ok(c.add("a", b"x", noreply=False) is False, "add of an existing key is refused")
    ok(c.add("n", b"new", noreply=False) is True, "add of a missing key")
    ok(c.replace("none", b"x", noreply=False) is False, "replace of a missing key is refused")
    ok(c.append("n", b">", noreply=False) and c.prepend("n", b"<", noreply=False) and c.get("n") == b"<new>",
       "append and prepend")
    c.set("quiet", b"1", noreply=True)
    ok(c.get("quiet") == b"1", "noreply set is seen by the next get")
    big = bytes(i * 7 % 251 for i in range(900_000))
    ok(c.set("big", big, noreply=False) and c.get("big") == big, "a value of 900 KB")
    try:
        c.set("huge", b"x" * 2_000_000, noreply=False)
        ok(False, "2 MB are refused")
    except MemcacheServerError as e:
        ok(b"too large" in e.args[0] if isinstance(e.args[0], bytes) else "too large" in str(e), "2 MB are refused")
    ok(c.get("n") == b"<new>", "and the client works on")


def counting_and_cas(c):
    many = {"k%d" % i: b"v%d" % i for i in range(200)}
    ok(c.set_many(many, noreply=False) == [], "set_many of 200")
    ok(c.get_many(list(many) + ["absent"]) == many, "get_many of 201, one of them absent")
    value, cas = c.gets("a")
    ok(value == BINARY_VALUE and c.cas("a", b"1", cas) is True, "cas with the right unique")
    ok(c.cas("a", b"2", cas) is False and c.get("a") == b"1", "cas with a stale unique")
    ok(c.cas("none", b"2", b"1") is None, "cas of a missing key")
    c.set("i", b"10", noreply=False)
    ok(c.incr("i", 5) == 15 and c.decr("i", 6) == 9, "incr and decr")
    ok(c.decr("i", 100) == 0, "decr stops at zero")
    ok(c.incr("none", 1) is None, "incr of a missing key")
    try:
        c.incr("n", 1)
        ok(False, "incr of text is a client error")
    except MemcacheClientError:
        ok(True, "incr of text is a client error")


def ending(c):
    ok(c.delete("i", noreply=False) is True and c.delete("i", noreply=False) is False, "delete, and again")
    c.set("past", b"1", expire=-1, noreply=False)
    ok(c.get("past") is None, "a negative expiry is a miss at once")
    c.set("old", b"1", expire=int(time.time()) - 10, noreply=False)
    ok(c.get("old") is None, "an absolute expiry in the past is a miss at once")
    c.set("soon", b"1", expire=1, noreply=False)
    ok(gone_within(c, "soon", 10), "an expiry of one second")
    c.set("t", b"1", expire=2, noreply=False)
    ok(c.touch("t", 1000, noreply=False) is True and c.touch("none", 1, noreply=False) is False, "touch")
    ok(c.touch("t", 1, noreply=False) and gone_within(c, "t", 10), "a touch that shortens")
    ok(c.version().startswith(b"1.6."), "version")
    stats = c.stats()
    ok(stats[b"curr_items"] > 0 and stats[b"threads"] > 0, "stats")
    ok(c.flush_all(noreply=False) is True and c.get("big") is None, "flush_all")
    try:
        c.set("k" * 251, b"x", noreply=False)
        ok(False, "a key of 251 bytes")
    except MemcacheClientError:
        ok(c.set("k" * 250, b"x", noreply=False) and c.get("k" * 250) == b"x", "a key of 250 bytes and one of 251")
    ok(c.raw_command("mg " + "k" * 250 + " v", "\r\n") == b"VA 1", "a meta command on the same connection")


def main():
    context = ssl.create_default_context(cafile=os.environ["CA_FILE"]) if "CA_FILE" in os.environ else None
    kind = LoggingIn if "LOGIN" in os.environ else Client
    client = kind((sys.argv[1], int(sys.argv[2])), connect_timeout=10, timeout=20, tls_context=context)
    storing(client)
    counting_and_cas(client)
    ending(client)
    client.quit()


main()
