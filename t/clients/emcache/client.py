# SPDX-License-Identifier: BSD-3-Clause
"""emcache (classic text, a pool of connections): client.py HOST PORT. $CA_FILE: use TLS. $LOGIN: send it, as the client does."""
import asyncio
import os
import sys
import time

import emcache

BINARY_VALUE = bytes(range(256)) * 4 + b"\r\nEND\r\nVALUE x 0 1\r\n"


def ok(condition, name):
    print("%s - %s" % ("ok" if condition else "not ok", name))


async def value(c, key):
    item = await c.get(key)
    return item.value if item else None


async def raises(kind, call, name):
    try:
        await call
    except kind:
        return ok(True, name)
    ok(False, name)


async def gone_within(c, key, seconds):
    end = time.monotonic() + seconds
    while await c.get(key) is not None and time.monotonic() < end:
        await asyncio.sleep(0.05)
    return await c.get(key) is None


async def storing(c):
    await c.set(b"a", BINARY_VALUE, flags=65535)
    item = await c.get(b"a", return_flags=True)
    ok(item.value == BINARY_VALUE and item.flags == 65535, "set and get, all byte values, flags")
    await raises(emcache.NotStoredStorageCommandError, c.add(b"a", b"x"), "add of what exists")
    await raises(emcache.NotStoredStorageCommandError, c.replace(b"none", b"x"), "replace of what does not exist")
    await c.add(b"n", b"new")
    await c.append(b"n", b">")
    await c.prepend(b"n", b"<")
    ok(await value(c, b"n") == b"<new>", "append and prepend")
    big = bytes(i * 7 % 251 for i in range(900_000))
    await c.set(b"big", big)
    ok(await value(c, b"big") == big, "a value of 900 KB")
    await raises(emcache.StorageCommandError, c.set(b"huge", b"x" * 2_000_000), "2 MB are refused")
    ok(await value(c, b"n") == b"<new>", "and the client works on")


async def together(c):
    many = {b"k%d" % i: b"v%d" % i for i in range(200)}
    await asyncio.gather(*(c.set(key, text) for key, text in many.items()))
    found = await asyncio.gather(*(value(c, key) for key in many))
    ok(found == list(many.values()), "200 sets, then 200 gets at once, by pooled connections")
    found = await c.get_many([*many, b"absent"])
    ok({key: item.value for key, item in found.items()} == many, "get_many of 201, one of them absent")


async def rest(c, address):
    item = await c.gets(b"n")
    await c.cas(b"n", b"10", item.cas)
    ok(await value(c, b"n") == b"10", "cas with the right unique")
    await raises(emcache.StorageCommandError, c.cas(b"n", b"2", item.cas), "cas with a stale unique")
    ok(await c.increment(b"n", 5) == 15 and await c.decrement(b"n", 100) == 0, "increment, and decrement to zero")
    await raises(emcache.NotFoundCommandError, c.increment(b"none", 1), "increment of what does not exist")
    await c.delete(b"n")
    await raises(emcache.NotFoundCommandError, c.delete(b"n"), "delete, and again")
    await c.set(b"t", b"1", exptime=1000)
    await c.touch(b"t", 1)
    ok(await gone_within(c, b"t", 10), "a touch that shortens")
    await c.set(b"g", b"1", exptime=1000)
    ok((await c.gat(500, b"g")).value == b"1", "gat")
    ok((await c.version(address)).startswith("1.6."), "version")
    ok(int((await c.stats(address))["curr_items"]) > 0, "stats")
    await c.flush_all(address)
    ok(await value(c, b"big") is None, "flush_all")


async def main():
    address = emcache.MemcachedHostAddress(sys.argv[1], int(sys.argv[2]))
    user, _, password = os.environ.get("LOGIN", "").partition(" ")
    file = os.environ.get("CA_FILE")
    client = await emcache.create_client([address], timeout=20, connection_timeout=20, max_connections=8, ssl=file is not None,
                                         ssl_extra_ca=file, username=user or None, password=password or None)
    await storing(client)
    await together(client)
    await rest(client, address)
    await client.close()


asyncio.run(main())
