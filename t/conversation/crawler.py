# SPDX-License-Identifier: BSD-3-Clause
"""The maintenance thread and dumps: memory of expired items is reclaimed, delayed flushes, metadump, mgdump."""
import os
import re
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from farcached import Daemon, conversations, tap, until

COMMANDS = r"""
== lru_crawler: forms
> lru_crawler\r\nlru_crawler foo\r\nlru_crawler enable x\r\nlru_crawler metadump\r\nlru_crawler crawl\r\n
< ERROR\r\nERROR\r\nERROR\r\nERROR\r\nERROR\r\n
> lru_crawler crawl 0\r\nlru_crawler crawl 64\r\nlru_crawler crawl x\r\nlru_crawler crawl 1,x\r\n
< BADCLASS invalid class id\r\nBADCLASS invalid class id\r\nBADCLASS invalid class id\r\nBADCLASS invalid class id\r\n
> lru_crawler sleep x\r\nlru_crawler sleep 1000001\r\nlru_crawler sleep 100\r\nlru_crawler tocrawl x\r\n
< CLIENT_ERROR bad command line format\r\nCLIENT_ERROR sleep must be one second or less\r\nOK\r\n
< CLIENT_ERROR bad command line format\r\n
> lru_crawler tocrawl 0\r\nlru_crawler enable\r\n
< OK\r\nERROR failed to start lru crawler thread\r\n
== lru_crawler: disabled and enabled again
> lru_crawler disable\r\nlru_crawler disable\r\nlru_crawler crawl all\r\nlru_crawler enable\r\n
< OK\r\nOK\r\nCLIENT_ERROR lru crawler disabled\r\nOK\r\n
== lru
> lru\r\nlru foo\r\nlru tune 10 80 1 1\r\nlru tune 10 20 0 1\r\nlru tune 10 20 1 1\r\nlru mode x\r\nlru mode segmented\r\n
< ERROR\r\nERROR\r\nERROR hot and warm pcts must not exceed 80\r\nERROR hot/warm age factors must be greater than 0\r\n
< OK\r\nERROR\r\nOK\r\n
> lru temp_ttl x\r\nlru temp_ttl 5\r\nlru temp_ttl -1\r\n
< ERROR\r\nOK\r\nOK\r\n
== slabs
> slabs\r\nslabs reassign 1 1\r\nslabs reassign 1 2\r\nslabs reassign x 1\r\nslabs reassign -1 1\r\nslabs reassign 64 1\r\n
< ERROR\r\nSAME src and dst class are identical\r\nNOSPARE source class has no spare pages\r\n
< CLIENT_ERROR bad command line format\r\nBADCLASS invalid src or dst class id\r\nBADCLASS invalid src or dst class id\r\n
> slabs automove\r\nslabs automove 1\r\nslabs automove 3\r\nslabs automove x\r\nslabs automove ratio 0.5\r\n
< ERROR\r\nOK\r\nERROR\r\nCLIENT_ERROR bad command line format\r\nOK\r\n
== cache_memlimit
> cache_memlimit\r\ncache_memlimit x\r\ncache_memlimit 1\r\ncache_memlimit 1000000001\r\ncache_memlimit 256\r\n
< ERROR\r\nERROR\r\nMEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n
< MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes\r\nOK\r\n
> cache_memlimit 64 noreply\r\nmn\r\n
< MN\r\n
== refresh_certs
> refresh_certs\r\n
< Error TLS not enabled\r\n
"""

EMPTY = r"""
== metadump of an empty cache
> lru_crawler metadump all\r\n
< OK\r\nEND\r\n
== mgdump of an empty cache
> lru_crawler mgdump all\r\n
< OK\r\nEN\r\n
== classes
> lru_crawler metadump 0\r\n
< BADCLASS invalid class id\r\n
> lru_crawler metadump 64\r\n
< BADCLASS invalid class id\r\n
> lru_crawler mgdump x\r\n
< BADCLASS invalid class id\r\n
== not behind other commands
> get a\r\nlru_crawler metadump all\r\n
< END\r\nERROR cannot pipeline other commands before metadump\r\n
"""


def dumps():
    with Daemon() as daemon, daemon.client() as client:
        conversations(daemon, EMPTY)
        now = int(time.time())
        client.set("plain", "x", flags=5)
        client.set("expires", "xy", exptime=100)
        client.set("gone", "x", exptime=-1)
        client.set("odd%\x01", "x")
        client.ask("ms YmluYXJ5 2 b\r\nxy\r\n")
        client.set("large", "v" * 300000)
        client.get("plain")
        lines = client.ask("lru_crawler metadump all", end="END")
        tap.is_((lines[0], lines[-1]), ("OK", "END"), "metadump: OK before, END after")
        shape = r"key=(\S+) exp=(-?\d+) la=(\d+) cas=(\d+) fetch=(yes|no) cls=(\d+) size=(\d+) flags=(\d+) "
        found = [re.fullmatch(shape, line) for line in lines[1:-1]]
        tap.ok(all(found), "metadump: the form of each line", str(lines))
        by_key = {m.group(1): m for m in found if m}
        tap.is_(sorted(by_key), ["binary", "expires", "large", "odd%25%01", "plain"], "metadump: every live item, once")
        tap.is_((by_key["plain"].group(2), by_key["plain"].group(5), by_key["plain"].group(8)), ("-1", "yes", "5"),
                "metadump: never expires, was fetched, its flags")
        tap.ok(abs(int(by_key["expires"].group(2)) - now - 100) <= 3, "metadump: expiry as Unix time")
        tap.ok(abs(int(by_key["expires"].group(3)) - now) <= 3, "metadump: last access as Unix time")
        keys = client.ask("lru_crawler mgdump all", end="EN")
        tap.is_(sorted(keys[1:-1]), sorted(["mg plain", "mg expires", "mg odd%\x01", "mg YmluYXJ5 b", "mg large"]),
                "mgdump: a command for each")
        cls = by_key["large"].group(6)
        some = client.ask("lru_crawler metadump %s" % cls, end="END")
        tap.is_([re.match(r"key=(\S+)", line).group(1) for line in some[1:-1]], ["large"], "metadump of one class")
        tap.is_(len(client.ask("lru_crawler metadump hash", end="END")), 7, "metadump hash")
        tap.ok(client.is_idle(), "the connection is usable after dumps")


def big_dump():
    """A dump larger than a session's buffer waits for its reader, and the other clients do not wait for it."""
    with Daemon("-m", "64", threads=1) as daemon, daemon.client() as client:
        count, tail = 40000, "k" * 150
        for i in range(0, count, 500):
            client.send("".join("set %d%s 0 0 1 noreply\r\nx\r\n" % (j, tail) for j in range(i, i + 500)))
        client.ask("mn")
        with daemon.client() as dumper:
            dumper.send("lru_crawler metadump all\r\n")
            tap.is_(client.get("0" + tail), b"x", "other clients are served while the dump is not read")
            lines = dumper.until(b"\nEND\r\n").split(b"\n")
            keys = {line.split(b" ")[0] for line in lines if line.startswith(b"key=")}
            tap.is_((len(keys), len([1 for line in lines if line.startswith(b"key=")])), (count, count),
                    "a large dump holds every item once")
        with daemon.client() as leaver:
            leaver.send("lru_crawler metadump all\r\n")
            leaver.read(10)
            leaver.reset()
        tap.is_(client.get("1" + tail), b"x", "a reader may disconnect in the middle")


def expiry():
    with Daemon("-m", "64") as daemon, daemon.client() as client:
        for i in range(2000):
            client.send("set short%d 0 1 10 noreply\r\nxxxxxxxxxx\r\n" % i)
        for i in range(100):
            client.send("set long%d 0 0 10 noreply\r\nxxxxxxxxxx\r\n" % i)
        client.ask("mn")
        tap.is_(client.stats()["curr_items"], "2100", "2100 items")

        def crawled():
            client.ask("lru_crawler crawl all")
            return client.stats()["curr_items"]
        tap.is_(until(crawled, lambda n: n == "100"), "100", "crawl all: the expired ones go")
        stats = client.stats()
        # A background pass counts expired items at the tail as reclaimed, as memcached's LRU maintainer does.
        tap.is_(int(stats["crawler_reclaimed"]) + int(stats["reclaimed"]), 2000, "stats: crawler_reclaimed and reclaimed")
        tap.ok(int(stats["crawler_items_checked"]) >= 2100, "stats: crawler_items_checked")
        tap.ok(int(stats["lru_crawler_starts"]) >= 1, "stats: lru_crawler_starts")
        tap.is_(until(lambda: client.stats()["lru_crawler_running"], lambda n: n == "0"), "0", "it finishes")
    with Daemon("-m", "64") as daemon, daemon.client() as client:
        client.set("short", "x", exptime=1)
        client.set("long", "x")
        tap.is_(until(lambda: client.stats()["curr_items"], lambda n: n == "1", timeout=60), "1",
                "an expired item goes by itself")
    with Daemon("-o", "no_lru_crawler") as daemon, daemon.client() as client:
        tap.is_(client.ask("lru_crawler crawl all"), "CLIENT_ERROR lru crawler disabled", "no_lru_crawler")
        tap.is_(client.stats("settings")["lru_crawler"], "no", "no_lru_crawler is shown")
        tap.is_(client.ask("lru_crawler metadump all"), "CLIENT_ERROR lru crawler disabled", "no_lru_crawler: metadump")
        tap.is_(client.ask("lru_crawler enable"), "OK", "it can be enabled")
        tap.is_(client.stats("settings")["lru_crawler"], "yes", "which is shown")


def flush_all_later():
    with Daemon() as daemon, daemon.client() as client:
        client.set("a", "x")
        before = time.monotonic()
        tap.is_(client.ask("flush_all 2"), "OK", "flush_all 2")
        tap.is_(client.get("a"), b"x", "the item is still there")
        until(lambda: client.get("a"), lambda v: v is None)
        took = time.monotonic() - before
        tap.ok(0.9 <= took <= 4, "it is flushed at its time", "took %.2f s" % took)
        client.set("b", "x")
        tap.is_(client.get("b"), b"x", "items stored later stay")
        client.ask("flush_all 1000")
        client.ask("flush_all")
        tap.is_(client.get("b"), None, "an immediate flush does not wait for a delayed one")
        tap.is_(client.stats()["cmd_flush"], "3", "cmd_flush counts them")


def main():
    with Daemon() as daemon:
        conversations(daemon, COMMANDS)
    dumps()
    big_dump()
    expiry()
    flush_all_later()
    tap.done()


main()
