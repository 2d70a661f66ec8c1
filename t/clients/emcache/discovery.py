# SPDX-License-Identifier: BSD-3-Clause
"""emcache with its auto-discovery of clusters: discovery.py PORT OTHER COMMAND. Two farcached at these ports list both.

The client knows PORT, finds the other one, and uses both. Then this program runs COMMAND, by a shell, which ends the list of two;
the client follows.
"""
import asyncio
import subprocess
import sys
import time

import emcache

SECONDS = 20


def ok(condition, name):
    print("%s - %s" % ("ok" if condition else "not ok", name))


def ports(client):
    return sorted(node.port for node in client.cluster_managment().nodes())


async def becomes(read, want):
    end = time.monotonic() + SECONDS
    while (seen := read()) != want and time.monotonic() < end:
        await asyncio.sleep(0.05)
    return seen == want


async def count_at(port):
    """Sets by one farcached, from a client that knows no other."""
    alone = await emcache.create_client([emcache.MemcachedHostAddress("127.0.0.1", port)])
    stats = await alone.stats(emcache.MemcachedHostAddress("127.0.0.1", port))
    await alone.close()
    return int(stats["cmd_set"])


async def main(port, other, command):
    listed = sorted([port, other])
    client = await emcache.create_client([emcache.MemcachedHostAddress("127.0.0.1", port)], autodiscovery=True,
                                         autodiscovery_poll_interval=0.1)
    ok(await becomes(lambda: ports(client), listed), "it finds two farcached through one")
    keys = {b"k%d" % i: b"v%d" % i for i in range(200)}
    for key, value in keys.items():
        await client.set(key, value)
    found = await client.get_many(list(keys))
    ok({key: item.value for key, item in found.items()} == keys, "it stores and gets keys")
    counts = [await count_at(one) for one in listed]
    ok(sum(counts) == len(keys) and min(counts) > 0, "at both: %s" % counts)
    subprocess.run(command, shell=True, check=True)
    ok(await becomes(lambda: ports(client), [port]), "it follows the new list")
    await client.set(b"more", b"x")
    ok((await client.get(b"more")).value == b"x" and await count_at(port) > counts[listed.index(port)], "for its keys, too")
    await client.close()


asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
