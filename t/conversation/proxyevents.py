# SPDX-License-Identifier: BSD-3-Clause
"""`watch proxyevents`: nodes that connect, disconnect and are drained, requests that fail at them, unsuccessful one-sided reads,
and reloads; in the format of memcached's built-in proxy."""
import contextlib
import os
import re
import signal
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from cluster import Table  # noqa: E402
from farcached import Client, Daemon, TimedOut, tap, until  # noqa: E402
from farnode import Farnode  # noqa: E402

PREFIX = re.compile(r"ts=\d+\.\d{6} gid=(\d+) (type=\S+.*)\n")


class Watcher:
    def __init__(self, daemon, words="proxyevents"):
        self.client = daemon.client()
        self.reply = self.client.ask("watch " + words)
        self.seen = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.close()

    def until_line(self, pattern, name):
        """The words of the next matching line. Earlier lines are kept."""
        while True:
            try:
                match = PREFIX.fullmatch(self.client.line().decode("latin-1"))
            except TimedOut:
                return tap.ok(False, name, "not matched: " + pattern, *self.seen[-20:])
            self.seen.append(match.group(2))
            if re.fullmatch(pattern, match.group(2)):
                tap.ok(True, name)
                return dict(word.split("=", 1) for word in match.group(2).split(" "))


def a_node_goes_and_returns(folder):
    path = os.path.join(folder, "admin")
    first = Farnode("--name", "n", expect_exit=-signal.SIGKILL, threads=1).start()
    port = first.port
    place = r"name=127\.0\.0\.1 port=%d label=a" % port
    with Daemon("--node", "a=tcp:127.0.0.1:%d" % port, "--admin", path, "-o", "node_timeout_ms=500", threads=2) as d, \
            d.client() as c:
        d.until_stat("a:links_up", lambda n: n == "2", "nodes")
        c.set("k", "v")
        with Watcher(d) as w:
            tap.is_(w.reply, "OK", "watch proxyevents")
            with Client(path) as admin:
                tap.is_(admin.ask("drain a"), "OK", "a node is drained")
                w.until_line(r"type=proxy_backend event=drained %s" % place, "the watcher sees it")
                c.get("k")
                w.until_line(r"type=proxy_request error=node_down label=- key=k cfd=\d+", "and that a key has no node")
                admin.ask("undrain a")
                w.until_line(r"type=proxy_backend event=undrained %s" % place, "until it is in use again")
            with first.stopped():
                c.send("get k%1\r\n")
                w.until_line(r"type=proxy_request error=timed_out label=a key=k%251 cfd=\d+", "a request that takes too long")
                c.until(b"END\r\n")
            first.stop(signal.SIGKILL)
            words = w.until_line(r"type=proxy_backend error=(disconnected|timeout) %s depth=\d+ rbuf= cause=\w+ text=\S+" % place,
                                 "a connection that is lost")
            tap.ok(words["text"].startswith("tcp:127.0.0.1:%d:" % port), "in a sentence, too", words)
            w.until_line(r"type=proxy_backend error=markedbad %s retry=\d+" % place, "when none is left the node is down")
            tap.is_(c.set("k", "v"), "SERVER_ERROR unavailable", "a set fails")
            w.until_line(r"type=proxy_request error=node_down label=(a|-) key=k cfd=\d+", "and is shown with its key")
            with Farnode("--name", "n", "--tcp", "127.0.0.1:%d" % port, threads=1):
                w.until_line(r"type=proxy_backend event=connected %s links_up=1" % place, "a new connection")
                w.until_line(r"type=proxy_backend event=markedgood %s" % place, "so the node is up again")
                w.until_line(r"type=proxy_backend event=connected %s links_up=2" % place, "and the next worker's")


def reloads(folder):
    path = os.path.join(folder, "farcached.toml")
    with open(path, "w") as f:
        f.write("conn_limit = 100\n")
    with Daemon("--config", path, threads=1) as d, Watcher(d) as w:
        d.signal(signal.SIGHUP)
        w.until_line("type=proxy_conf status=start", "a reload begins")
        w.until_line("type=proxy_conf status=done", "and is done")
        with open(path, "w") as f:
            f.write("conn_limit = 0\n")
        d.signal(signal.SIGHUP)
        w.until_line("type=proxy_conf status=start", "another begins")
        w.until_line("type=proxy_conf status=failed", "and is refused")


def reads_of_no_use(folder):
    """Reads through a pointer whose item another proxy has replaced, over shm as over RDMA."""
    path = os.path.join(folder, "node.sock")
    with Farnode("--name", "n", "--shm", path, "--lease-ms", "60000", threads=1), contextlib.ExitStack() as tables:
        def proxy():
            table = Table()
            tables.callback(table.unlink)
            return Daemon("--node", "a=shm:" + path, "-o", "no_local_read," + table.options(), threads=1)
        with proxy() as one, proxy() as other:
            for d in (one, other):
                d.until_stat("a:links_up", lambda n: n == "1", "nodes")
            with one.client() as c, other.client() as o, Watcher(one) as w:
                c.set("k", "v")
                for _ in range(3):
                    c.get("k")
                o.set("k", "w" * 2000)
                tap.is_(c.get("k"), b"w" * 2000, "a get finds an item that another proxy stored in another slot")
                w.until_line(r"type=proxy_read error=dead name=%s port=0 label=a way=pointer key=k" % path,
                             "though the pointer was out of date, as an event shows")


def dropped(folder):
    """A watcher that does not read delays no worker; its lost events are counted."""
    with Farnode("--name", "n", threads=1) as n:
        with Daemon("--node", "a=tcp:127.0.0.1:%d" % n.port, "-o", "watcher_logbuf_size=8,worker_logbuf_size=8", threads=1) as d, \
                d.client() as c, Watcher(d):
            d.until_stat("a:links_up", lambda count: count == "1", "nodes")
            n.expect_exit = -signal.SIGKILL
            n.stop(signal.SIGKILL)
            until(lambda: c.set("k", "v"), lambda reply: reply != "STORED")
            key = "k" * 200

            def lose():
                for i in range(200):
                    c.send("get %s%d\r\n" % (key, i))
                for i in range(200):
                    c.until(b"END\r\n")
                stats = c.stats()
                return int(stats["log_watcher_skipped"]) + int(stats["log_worker_dropped"])
            tap.ok(until(lose, lambda count: count > 0) > 0, "lines that a watcher does not read are dropped, and counted")


def main():
    with tempfile.TemporaryDirectory(prefix="farcached-events-") as folder:
        a_node_goes_and_returns(folder)
        reloads(folder)
        reads_of_no_use(folder)
        dropped(folder)
    tap.done()


main()
