# SPDX-License-Identifier: BSD-3-Clause
"""python-binary-memcached, and Datadog's check, which uses it to read stats: client.py HOST PORT [USER PASSWORD]. With these it
authenticates by SASL. $CA_FILE: use TLS."""
import os
import ssl
import sys
import time

import bmemcached

# Datadog's check reads these from STAT and skips absent ones. It computes with the first five.
DATADOG_NEEDS = ["get_hits", "cmd_get", "bytes", "limit_maxbytes", "curr_items"]
DATADOG_READS = [
    "total_items", "curr_connections", "total_connections", "connection_structures", "rusage_user",
    "rusage_system", "cmd_set", "cmd_flush", "get_misses", "delete_misses", "delete_hits", "evictions",
    "bytes_read", "bytes_written", "cas_misses", "cas_hits", "cas_badval", "threads", "pointer_size", "uptime",
    "listen_disabled_num"]


def ok(condition, name):
    print("%s - %s" % ("ok" if condition else "not ok", name))


def number(text):
    try:
        float(text)
    except ValueError:
        return False
    return True


def values(c):
    ok(c.set("a", "text") and c.get("a") == "text", "set and get")
    big = bytes(i * 7 % 251 for i in range(900_000))
    ok(c.set("big", big) and c.get("big") == big, "a value of 900 KB")
    ok(c.set("int", 42) and c.get("int") == 42, "flags carry the type")
    ok(not c.add("a", "x") and c.add("n", "new") and not c.replace("none", "x"), "add and replace")
    many = {"k%d" % i: "v%d" % i for i in range(200)}
    c.set_multi(many)
    ok(c.get_multi(list(many) + ["absent"]) == many, "get_multi of 201, one of them absent")
    value, cas = c.gets("a")
    ok(value == "text" and c.cas("a", "1", cas) and not c.cas("a", "2", cas), "cas, right and stale")
    ok(c.incr("fresh", 1, default=7) == 7 and c.incr("fresh", 5) == 12 and c.decr("fresh", 2) == 10,
       "incr creates, incr, decr")
    ok(c.delete("a") and c.get("a") is None, "delete")
    c.set("soon", "1", time=1)
    end = time.monotonic() + 10
    while c.get("soon") is not None and time.monotonic() < end:
        time.sleep(0.05)
    ok(c.get("soon") is None, "an expiry of one second")


def datadog(c):
    (_, general), = c.stats().items()
    ok(all(k in general and number(general[k]) for k in DATADOG_NEEDS), "stats: the numbers that ratios need")
    missing = [k for k in DATADOG_READS if k not in general or not number(general[k])]
    ok(not missing, "stats: every gauge and rate %s" % missing)
    (_, items), = c.stats("items").items()
    wrong = [k for k in items if len(k.split(":")) != 3 or not k.split(":")[1].isdigit() or not number(items[k])]
    ok(items and not wrong, "stats items: names split in three %s" % wrong)
    (_, slabs), = c.stats("slabs").items()
    wrong = [k for k in slabs if k not in ("active_slabs", "total_malloced")
             and (len(k.split(":")) != 2 or not k.split(":")[0].isdigit()) or not number(slabs[k])]
    ok({"active_slabs", "total_malloced"} <= set(slabs) and not wrong, "stats slabs: names split in two %s" % wrong)
    used = sum(int(v) for k, v in items.items() if k.endswith(":number"))
    ok(used == int(general["curr_items"]), "stats items adds up to curr_items")


def main():
    context = ssl.create_default_context(cafile=os.environ["CA_FILE"]) if "CA_FILE" in os.environ else None
    address, login = ("%s:%s" % (sys.argv[1], sys.argv[2]),), sys.argv[3:]
    if login:
        stranger = bmemcached.Client(address, login[0], "wrong", socket_timeout=20, tls_context=context)
        try:
            ok(not stranger.set("a", "1"), "a wrong password stores nothing")
        except bmemcached.exceptions.MemcachedException as refused:
            ok("Auth failure" in str(refused), "a wrong password stores nothing")
    client = bmemcached.Client(address, *login, socket_timeout=20, tls_context=context)
    values(client)
    datadog(client)
    client.flush_all()
    ok(client.get("big") is None, "flush_all")
    client.disconnect_all()


main()
