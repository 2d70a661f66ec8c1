# SPDX-License-Identifier: BSD-3-Clause
"""-Y: clients of the text protocol authenticate by the value of a set, as with memcached, or of an ms. Until then they get nothing
else. A reload reads the file again; one that fails keeps the old passwords."""
import os
import signal
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from farcached import Client, Daemon, deadline, run_binary, tap, until  # noqa: E402

FAILURE = "CLIENT_ERROR authentication failure"
UNAUTHENTICATED = "CLIENT_ERROR unauthenticated"
FORMAT = "CLIENT_ERROR bad authentication token format"
RELOADS = 20


def write(path, text):
    with open(path + ".new", "w", encoding="latin-1") as f:
        f.write(text)
    os.replace(path + ".new", path)


def login(client, token, request=None):
    token = token.encode()
    client.send(request or b"set any 0 0 %d\r\n" % len(token), token, b"\r\n")
    return client.line().decode().rstrip()


def talk(d):
    with d.client() as c:
        for line in ("get a", "mg a v", "version", "stats", "add a 0 0 1", "x", "", "set a 0 0", "set a 0 0 -1", "ms a", "mn"):
            tap.is_(c.ask(line), UNAUTHENTICATED, "before: %r" % line)
        tap.is_(login(c, "john wrong"), FAILURE, "a wrong password")
        tap.is_(login(c, "nobody secret"), FAILURE, "an unknown user")
        tap.is_(login(c, "john"), FORMAT, "no password")
        tap.is_(login(c, "john secret "), FAILURE, "a password with one byte more")
        tap.is_(login(c, ""), FORMAT, "an empty value")
        c.send(b"set a 0 0 11\r\njohn secretXX")
        tap.is_(c.line(), b"CLIENT_ERROR bad command line termination\r\n", "a value that does not end where it should")
        c.send(b"set a 0 0 5000\r\n", b"v" * 5000, b"\r\n")
        tap.is_(c.line(), b"CLIENT_ERROR auth token too long\r\n", "a value that is too long")
        tap.is_(login(c, "john secret"), "STORED", "user and password")
        tap.is_((c.get("any"), c.set("a", b"1"), c.get("a")), (None, "STORED", b"1"), "afterwards all is as without -Y")
        tap.is_(login(c, "john wrong"), "STORED", "also a set of such a value")
    with d.client() as c:
        tap.is_(login(c, "mary with spaces in it", b"ms any 22\r\n"), "HD", "an ms, and a password with spaces")
        tap.is_(c.get("a"), b"1", "is the same")
    for flags, reply in (("k O77", b"HD kany O77"), ("T0 F5 O1", b"HD O1"), ("q", b"MN")):
        with d.client() as c:
            c.send(b"ms any 11 %s\r\njohn secret\r\nmn\r\n" % flags.encode())
            tap.is_(c.line().rstrip(), reply, "an ms with " + flags)
    with d.client() as c:
        c.send_split(b"set any 0 0 11\r\njohn secret\r\nget a\r\n")
        tap.is_(c.until(b"END\r\n"), b"STORED\r\nVALUE a 0 1\r\n1\r\nEND\r\n", "byte by byte, with a request behind it")
    with d.client() as c:
        c.send(b"v" * 3000)
        tap.is_(c.until_close(), b"", "a line without an end is cut off")
    with d.client() as c:
        c.send(b"quit\r\n")
        tap.is_(c.until_close(), b"", "quit")
    with d.client() as c:
        c.send(b"\x80" + bytes(23))
        tap.is_(c.until_close(), b"", "a request of the binary protocol is cut off")
    tap.like(d.stderr(), "a client's authentication failed.*no such user and password.*127.0.0.1:", "-v: the log has the client")
    stats = d_stats(d)
    tap.ok(int(stats["auth_cmds"]) >= 6 and int(stats["auth_errors"]) >= 3, "attempts are counted", str(stats["auth_cmds"]))


def authenticated(d, token="john secret"):
    c = d.client()
    return c, login(c, token)


def d_stats(d, sub=""):
    c, _ = authenticated(d)
    with c:
        return c.stats(sub)


def reloads(d, path):
    old, _ = authenticated(d)
    with old:
        write(path, "ann:new\n" + "".join("user%d:password%d\n" % (i, i) for i in range(50)))
        d.signal(signal.SIGHUP)
        until(lambda: authenticated(d, "ann new")[1], lambda reply: reply == "STORED")
        tap.is_(authenticated(d, "user49 password49")[1], "STORED", "a reload: all of 51 entries")
        tap.is_(authenticated(d)[1], FAILURE, "a reload: the old password is refused")
        tap.is_(old.get("a"), b"1", "a reload: sessions stay")
        for text, why in (("", "nobody"), ("ann\n", "line 1"), ("a b:c\n", "line 1"), ("x:" + "y" * 3000, "too long")):
            write(path, text)
            d.signal(signal.SIGHUP)
            until(d.stderr, lambda said, why=why: why in said.decode())
            tap.is_(authenticated(d, "ann new")[1], "STORED", "a reload that fails keeps the old list: %r" % text[:8])


class Logins(threading.Thread):
    """Logs in again and again, and asks on each connection and on one that stays."""

    def __init__(self, daemon):
        super().__init__(daemon=True)
        self.target, self.stopping, self.rounds, self.wrong = daemon, False, 0, []

    def run(self):
        try:
            stays, _ = authenticated(self.target)
            with stays:
                while not self.stopping and not self.wrong:
                    c, said = authenticated(self.target)
                    with c:
                        replies = said, stays.set("k", "%d" % self.rounds), c.get("k"), stays.get("k")
                    if replies != ("STORED", "STORED", b"%d" % self.rounds, b"%d" % self.rounds):
                        self.wrong.append(replies)
                    self.rounds += 1
        except Exception as e:  # a lost connection, too
            self.wrong.append(repr(e))


def reloads_under_load(d, path):
    logins = Logins(d)
    logins.start()
    for i in range(RELOADS):
        write(path, "user%d:other\njohn:secret\n" % i)
        before = d.stderr().count(b"reload: ")
        d.signal(signal.SIGHUP)
        until(d.stderr, lambda said, before=before: said.count(b"reload: ") > before)
    rounds = logins.rounds
    until(lambda: logins.rounds, lambda now: now > rounds + 5 or logins.wrong)
    logins.stopping = True
    logins.join(deadline())
    tap.ok(logins.rounds > 5 and not logins.wrong, "%d reloads under load fail no login and no request" % RELOADS, logins.wrong[:3])


def main():
    with tempfile.TemporaryDirectory(prefix="farcached-passwords-") as folder:
        path = os.path.join(folder, "passwords")
        write(path, "john:secret\r\n\nmary:with spaces in it\nempty:\n")
        for io in ("libevent", "auto"):
            with Daemon("-Y", path, "-o", "io=" + io, "-v") as d:
                talk(d)
                tap.is_(d_stats(d, "settings")["auth_enabled_ascii"], path, "`stats settings` names the file")
                tap.is_(d_stats(d, "settings")["binding_protocol"], "ascii", "and the protocol")
        with Daemon("-Y", path, "-v") as d:
            c, _ = authenticated(d)
            with c:
                c.set("a", b"1")
            reloads(d, path)
        write(path, "john:secret\n")
        with Daemon("-Y", path, "-v") as d:
            reloads_under_load(d, path)
        write(path, "john:secret\n")
        with Daemon("-Y", path, "-s", os.path.join(folder, "unix"), "--admin", os.path.join(folder, "admin")) as d:
            with d.client() as c:
                tap.is_(c.ask("get a"), UNAUTHENTICATED, "a Unix socket, too")
            with Client(os.path.join(folder, "admin")) as operator:
                tap.like(operator.ask("version"), "VERSION", "the operator's socket needs no password")
        status, _, err = run_binary("-l", "127.0.0.1", "-p", "-1", "-Y", os.path.join(folder, "none"))
        tap.ok(status > 0 and b"cannot read the passwords" in err, "a file that does not exist", err.decode())
    tap.done()


main()
