# SPDX-License-Identifier: BSD-3-Clause
"""Options that change replies of the text protocol: -A -C -F -I -M -W -X, and their counters and watchers."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from farcached import Daemon, conversations, remaining, tap

FORBIDDEN = r"""
== -F
> set a 0 0 1\r\nx\r\nflush_all\r\nflush_all 0 noreply\r\nget a\r\n
< STORED\r\nCLIENT_ERROR flush_all not allowed\r\nVALUE a 0 1\r\nx\r\nEND\r\n
== -W
> watch\r\nwatch foo\r\n
< CLIENT_ERROR watch commands not allowed\r\nCLIENT_ERROR watch commands not allowed\r\n
== -X
> lru_crawler metadump all\r\n
< ERROR metadump not allowed\r\n
> lru_crawler mgdump all\r\n
< ERROR key dump not allowed\r\n
> stats cachedump 1 1\r\nstats detail on\r\n
< CLIENT_ERROR stats cachedump not allowed\r\nCLIENT_ERROR stats detail not allowed\r\n
> stats hotkeys\r\nstats slow_log\r\n
< CLIENT_ERROR stats hotkeys not allowed\r\nCLIENT_ERROR stats slow_log not allowed\r\n
"""

WITHOUT_CAS = r"""
== -C
> set a 0 0 1\r\nx\r\ngets a\r\ncas a 0 0 1 0\r\ny\r\ncas a 0 0 1 1\r\ny\r\nmg a c\r\n
< STORED\r\nVALUE a 0 1 0\r\nx\r\nEND\r\nEXISTS\r\nEXISTS\r\nHD c0\r\n
"""

LARGE_ITEMS = r"""
== -I 2m
> set a 0 0 1500000\r\n{v*1500000}\r\nset b 0 0 2097152\r\n{v*2097152}\r\nget a\r\n
< STORED\r\nSERVER_ERROR object too large for cache\r\nVALUE a 0 1500000\r\n{v*1500000}\r\nEND\r\n
> ms b 2097152 q\r\n{v*2097152}\r\nmn\r\n
< SERVER_ERROR object too large for cache\r\nMN\r\n
"""

COUNTED = (b"get a b\r\nset a 0 0 2\r\n10\r\nget a a\r\nset e 0 -1 1\r\nx\r\nget e\r\nset f 0 0 1\r\nx\r\nflush_all\r\n"
           b"get f\r\nset m 0 0 2\r\n10\r\nincr m 1\r\nincr q 1\r\ndecr m 1\r\ndecr q 1\r\ntouch m 0\r\ntouch q 0\r\n"
           b"gat 0 m q\r\ncas q 0 0 1 1\r\nx\r\ncas m 0 0 1 999999\r\nx\r\ndelete m\r\ndelete m\r\nme m\r\n"
           b"set b 0 0 9999999 noreply\r\n" + b"v" * 9999999 + b"\r\nmn\r\n")

COUNTS = {"cmd_get": 6, "get_hits": 2, "get_misses": 4, "get_expired": 1, "get_flushed": 1, "cmd_set": 6, "cmd_flush": 1,
          "cmd_touch": 4, "touch_hits": 2, "touch_misses": 2, "incr_hits": 1, "incr_misses": 1, "decr_hits": 1,
          "decr_misses": 1, "cas_misses": 1, "cas_badval": 1, "cas_hits": 0, "delete_hits": 1, "delete_misses": 1,
          "store_too_large": 1, "cmd_meta": 1}


def full_without_eviction():
    with Daemon("-M", "-m", "8", threads=1) as daemon, daemon.client() as client:
        value = b"v" * 100000
        replies = [client.set("full_%d" % i, value) for i in range(120)]
        tap.is_(replies[0], "STORED", "-M: there is room at first")
        tap.is_(replies[-1], "SERVER_ERROR out of memory storing object", "-M: then stores fail")
        tap.is_(set(replies), {"STORED", "SERVER_ERROR out of memory storing object"}, "-M: with no other error")
        tap.is_(client.get("full_0"), value, "-M: stored items stay")
        tap.is_(client.ask(b"ms full_x 100000 q\r\n" + value + b"\r\n"), "SERVER_ERROR out of memory storing object", "-M: ms, too")


def counted():
    with Daemon(threads=2) as daemon, daemon.client() as client:
        client.send(COUNTED)
        client.until(b"MN\r\n")
        stats = daemon.stats()
        for name, count in COUNTS.items():
            tap.is_(stats.get(name), str(count), "%s counts %d" % (name, count))


def shut_down(words, closes):
    with Daemon("-A", threads=1) as daemon:
        conversations(daemon, "== -A, %s\n> version\\r\\nshutdown foo\\r\\n\n"
                              "< VERSION 1.6.45\\r\\nCLIENT_ERROR invalid shutdown mode\\r\\n\n" % words)
        with daemon.client() as client:
            client.send(words + "\r\n")
            tap.ok(client.is_closed() == closes, "%s closes the connection" % words)
        tap.is_(daemon.wait(), 0, "%s ends the daemon" % words)


def watched():
    with Daemon(threads=1) as daemon, daemon.client() as watcher, daemon.client() as client:
        tap.is_(watcher.ask("watch fetchers mutations deletions"), "OK", "watch")
        client.send(b"get a%01b\r\nset w1 0 60 5\r\nhello\r\nget w1\r\nadd w1 0 0 1\r\nx\r\ncas w2 0 0 1 5\r\nx\r\n"
                    b"delete w1\r\nms w3 1\r\nx\r\nmd w3\r\nmn\r\n")
        client.until(b"MN\r\n")
        found, missing = r" status=found clsid=\d+ cfd=\d+ size=", r" status=not_found clsid=0 cfd=\d+ size=0"
        for want in (r"type=item_get key=a%2501b" + missing,
                     r"type=item_get key=w1" + missing,
                     r"type=item_store key=w1 status=stored cmd=set ttl=" + remaining(60) + r" clsid=\d+ cfd=\d+ size=5",
                     r"type=item_get key=w1" + found + "5",
                     r"type=item_get key=w1" + found + "5",
                     r"type=item_store key=w1 status=not_stored cmd=add ttl=0 clsid=\d+ cfd=\d+ size=1",
                     r"type=item_get key=w2" + missing,
                     r"type=item_store key=w2 status=not_found cmd=cas ttl=0 clsid=\d+ cfd=\d+ size=1",
                     r"type=item_get key=w1" + found + "5",
                     r"type=deleted key=w1 cmd=delete clsid=\d+ size=5",
                     r"type=item_get key=w3" + missing,
                     r"type=item_store key=w3 status=stored cmd=set ttl=0 clsid=\d+ cfd=\d+ size=1",
                     r"type=item_get key=w3" + found + "1",
                     r"type=deleted key=w3 cmd=md clsid=\d+ size=1"):
            line = watcher.line().decode("latin-1").rstrip("\r\n")
            tap.ok(re.fullmatch(r"ts=\d+\.\d+ gid=\d+ " + want, line), "watched: " + want.split(" clsid")[0],
                   "got: " + line)


with Daemon("-F", "-W", "-X", threads=1) as server:
    conversations(server, FORBIDDEN)
with Daemon("-C", threads=1) as server:
    conversations(server, WITHOUT_CAS)
with Daemon("-I", "2m", threads=1) as server:
    conversations(server, LARGE_ITEMS)
full_without_eviction()
counted()
shut_down("shutdown", True)
shut_down("shutdown graceful", True)
watched()
tap.done()
