# SPDX-License-Identifier: BSD-3-Clause
"""`watch`: lines of each kind, their recipients, watchers that do not read, and watchers that disconnect."""
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from farcached import Daemon, conversations, tap, until

PREFIX = re.compile(r"ts=\d+\.\d+ gid=(\d+) (type=.*)")


class Watcher:
    def __init__(self, daemon, words=""):
        self.client = daemon.client()
        self.reply = self.client.ask(("watch " + words).strip())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.close()

    def next(self):
        """The next line without its number; the whole line if it has another form."""
        line = self.client.line().decode("latin-1").rstrip("\n")
        m = PREFIX.fullmatch(line)
        return m.group(2) if m else line

    def until_line(self, pattern, lines=5000):
        """The first line that matches; None after too many others."""
        for _ in range(lines):
            line = self.next()
            if re.fullmatch(pattern, line):
                return line
        return None


def expect(watcher, pattern, name):
    line = watcher.next()
    tap.ok(re.fullmatch(pattern, line), name, "got:         " + line, "not matched: " + pattern)


def fetchers(daemon, client):
    with Watcher(daemon) as w:
        tap.is_(w.reply, "OK", "watch: OK")
        client.set("watched", "value", flags=3)
        expect(w, r"type=item_get key=watched status=not_found clsid=0 cfd=\d+ size=0", "a store looks its key up")
        client.get_many(["watched", "missing"])
        expect(w, r"type=item_get key=watched status=found clsid=\d+ cfd=\d+ size=5", "bare watch shows fetchers: a hit")
        expect(w, r"type=item_get key=missing status=not_found clsid=0 cfd=\d+ size=0", "a miss")
        client.ask("mg watched v", end="value")
        expect(w, r"type=item_get key=watched status=found clsid=\d+ cfd=\d+ size=5", "mg")
        client.get("a%\x01b")
        expect(w, r"type=item_get key=a%25%01b status=not_found .*", "the key is URI-encoded")
        client.set("gone", "x", exptime=-1)
        expect(w, r"type=item_get key=gone status=not_found clsid=0 .*", "another store")
        client.get("gone")
        expect(w, r"type=item_get key=gone status=(expired|not_found) .*", "an expired item")


def mutations(daemon, client):
    with Watcher(daemon, "mutations") as w:
        client.set("m", "12345", exptime=60)
        expect(w, r"type=item_store key=m status=stored cmd=set ttl=60 clsid=\d+ cfd=\d+ size=5", "set")
        client.set("m", "x", verb="add")
        expect(w, r"type=item_store key=m status=not_stored cmd=add ttl=0 clsid=\d+ cfd=\d+ size=1", "add")
        client.set("m", "6", verb="append")
        expect(w, r"type=item_store key=m status=stored cmd=append .*", "append")
        client.ask("cas m 0 0 1 1\r\nx\r\n")
        expect(w, r"type=item_store key=m status=exists cmd=cas .*", "cas")
        client.ask("ms m 3\r\nabc\r\n")
        expect(w, r"type=item_store key=m status=stored cmd=set ttl=0 clsid=\d+ cfd=\d+ size=3", "ms")
        client.set("#" * 250, "x")
        expect(w, r"type=item_store key=(%23){250} status=stored .*", "the longest key, encoded")


def deletions(daemon, client):
    with Watcher(daemon, "deletions") as w:
        client.set("d", "vbar")
        client.ask("delete d")
        expect(w, r"type=deleted key=d cmd=delete .*size=4", "delete")
        client.set("d", "vbar")
        client.ask("md d")
        expect(w, r"type=deleted key=d cmd=md .*size=4", "md")


def connections(daemon):
    with Watcher(daemon, "connevents") as w:
        other = daemon.client()
        port = other.socket.getsockname()[1]
        line = w.until_line(r"type=conn_new .* rport=%d .*" % port)
        tap.like(line, r"^type=conn_new rip=127\.0\.0\.1 rport=\d+ transport=tcp cfd=\d+$", "a new connection")
        other.ask("version")
        other.close()
        line = w.until_line(r"type=conn_close .* rport=%d .*" % port)
        tap.like(line, r"^type=conn_close rip=127\.0\.0\.1 rport=\d+ transport=tcp reason=normal cfd=\d+$", "its end")


def connections_by_path():
    with tempfile.TemporaryDirectory() as folder, Daemon("-s", os.path.join(folder, "s")) as daemon:
        with Watcher(daemon, "connevents") as w:
            daemon.client().close()
            tap.like(w.until_line(r"type=conn_new .*"), r" rip=unix rport=0 transport=local cfd=\d+$",
                     "a connection to a Unix socket is local")
            tap.like(w.until_line(r"type=conn_close .*"), r" rip=unix rport=0 transport=local reason=\w+ cfd=\d+$", "its end")


def silent(daemon):
    for words in ("rawcmds", "sysevents", "proxyreqs proxyevents proxyuser"):
        with Watcher(daemon, words) as w:
            tap.is_(w.reply, "OK", "watch %s: accepted, though there are none" % words)


def several(daemon, client):
    with Watcher(daemon, "fetchers") as one, Watcher(daemon, "mutations deletions") as two, \
            Watcher(daemon, "fetchers mutations evictions deletions connevents rawcmds sysevents") as all_of:
        shown = client.stats()["log_watchers"]
        tap.is_(shown, "3", "stats: log_watchers")
        client.set("s", "x")
        client.get("s")
        client.ask("delete s")
        tap.ok(one.next().startswith("type=item_get key=s"), "one watcher's line")
        tap.ok(two.next().startswith("type=item_store key=s"), "the other's first")
        tap.ok(two.next().startswith("type=deleted key=s"), "and second")
        kinds = [all_of.until_line(r"type=%s key=s .*" % k, 20) for k in ("item_store", "item_get", "deleted")]
        tap.ok(all(kinds), "a watcher of all kinds sees all three in order", str(kinds))
    left = daemon.until_stat("log_watchers", lambda n: n == "0")
    tap.is_(left, "0", "watchers that hung up are forgotten")
    gone = until(lambda: client.stats()["curr_connections"], lambda n: n == "1")
    tap.is_(gone, "1", "and counted as connections no more")


def evictions():
    with Daemon("-m", "8") as daemon, daemon.client() as client:
        value = "B" * 11000
        for i in range(1500):
            client.send("set n,foo%d 0 0 11000 noreply\r\n%s\r\n" % (i, value))
        client.ask("mn")
        with Watcher(daemon, "mutations evictions") as both, Watcher(daemon, "evictions") as only:
            for i in range(20):
                client.set("bfoo%d" % i, value)
            line = only.until_line(r"type=eviction .*", 1)
            tap.like(line, r"^type=eviction key=n%2Cfoo\d+ fetch=no ttl=-1 la=\d+ clsid=\d+ size=11000$", "an eviction")
            seen = [both.next() for _ in range(20)]
            tap.ok([s for s in seen if s.startswith("type=eviction")], "evictions among mutations")
            tap.ok([s for s in seen if s.startswith("type=item_store key=bfoo")], "mutations among evictions")


def slow():
    """A watcher that does not read loses lines; the others and the daemon are not delayed."""
    with Daemon("-o", "watcher_logbuf_size=8", threads=1) as daemon, daemon.client() as client:
        with Watcher(daemon) as w:
            line = b"get " + b" ".join(b"slow%d%s" % (i, b"X" * 180) for i in range(100)) + b"\r\n"
            for _ in range(3000):
                client.send(line)
                client.until(b"END\r\n")
                if int(client.stats()["log_watcher_skipped"]) > 0:
                    break
            tap.ok(int(client.stats()["log_watcher_skipped"]) > 0, "a watcher that does not read skips lines")
            found = None
            for i in range(200000):
                if i % 100 == 0:
                    client.get("more")
                text = w.next()
                if text.startswith("skipped="):
                    found = text
                    break
            tap.like(found, r"^skipped=\d+$", "it gets their number")
            tap.like(w.next(), r"^type=item_get ", "and gets a line after that")


def limits(daemon, client):
    watchers = [Watcher(daemon) for _ in range(20)]
    tap.is_([w.reply for w in watchers], ["OK"] * 20, "20 watchers")
    with daemon.client() as late:
        tap.is_(late.ask("watch"), "WATCHER_TOO_MANY log watcher limit reached", "the next one is refused")
        tap.like(late.ask("version"), "^VERSION", "and its connection is an ordinary one still")
    for w in watchers:
        w.client.close()
    daemon.until_stat("log_watchers", lambda n: n == "0")
    # A watcher's input is discarded, not executed.
    with Watcher(daemon) as w:
        w.client.send("set executed 0 0 1\r\nx\r\nquit\r\n")
        client.get("first")
        expect(w, r"type=item_get key=first .*", "a watcher's input is not executed")
        tap.is_(client.get("executed"), None, "nor stored")
        expect(w, r"type=item_get key=executed status=not_found .*", "and it keeps watching")
        w.client.shutdown_send()
        tap.ok(w.client.is_closed(), "it is closed at the end of its stream")


REFUSED = r"""
== unknown kinds
> watch foo\r\n
< ERROR\r\n
> watch fetchers foo\r\n
< ERROR\r\n
== not behind other commands
> get a\r\nwatch\r\n
< END\r\nERROR cannot pipeline other commands before watch\r\n
"""

NOT_ALLOWED = r"""
== -W
> watch\r\nwatch fetchers\r\nwatch foo\r\n
< CLIENT_ERROR watch commands not allowed\r\nCLIENT_ERROR watch commands not allowed\r\n
< CLIENT_ERROR watch commands not allowed\r\n
"""


def main():
    with Daemon() as daemon, daemon.client() as client:
        fetchers(daemon, client)
        mutations(daemon, client)
        deletions(daemon, client)
        connections(daemon)
        daemon.until_stat("log_watchers", lambda n: n == "0")
        silent(daemon)
        several(daemon, client)
        limits(daemon, client)
        conversations(daemon, REFUSED)
    connections_by_path()
    evictions()
    slow()
    with Daemon("-W") as daemon:
        conversations(daemon, NOT_ALLOWED)
    # Watchers neither delay nor survive the daemon's shutdown.
    with Daemon() as daemon, Watcher(daemon) as w:
        daemon.stop()
        tap.is_(w.client.until_close(), b"", "a watcher is closed when the daemon ends")
    tap.done()


main()
