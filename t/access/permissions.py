# SPDX-License-Identifier: BSD-3-Clause
"""[permissions]: classes of commands for each client identity, by the text, meta and binary protocols, over TCP, UDP and Unix
sockets, with -Y, and through reloads. Refused requests keep the connection in frame, are counted, logged and shown to watchers.
t/access/permissions_tls.py and permissions_sasl.py have the other identities."""
import os
import re
import signal
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from binary_client import BinaryClient, arith_extras, op, packet, set_extras, touch_extras  # noqa: E402
from farcached import Client, Daemon, run_binary, tap, until  # noqa: E402
from udp_client import UdpClient  # noqa: E402

DENIED = "CLIENT_ERROR permission denied"
NO_ACCESS = 0x24
READ, WRITE, ADMIN, STATS = ("get a", "mg a v", "me a", "gets a"), ("delete a", "incr a 1", "md a", "ma a", "touch a 1"), \
    ("flush_all", "verbosity 0", "stats reset", "stats detail on", "stats cachedump 1 1", "cache_memlimit 64", "lru_crawler enable",
     "lru_crawler metadump all", "slabs automove 0", "lru tune 20 40 0.2 2.0", "shutdown", "refresh_certs", "watch", "drain a",
     "reload", "delete_prefix a", "sample_keys", "extstore free_memchunks 1 1"), ("stats", "stats settings", "stats items")
BOTH = ("gat 10 a", "gats 10 a", "mg a v T10", "mg a N10", "mg a E5")
FREE = (("version", "VERSION 1.6.45"), ("mn", "MN"), ("bogus", "ERROR"))


def write(path, text):
    with open(path + ".new", "w") as f:
        f.write(text)
    os.replace(path + ".new", path)


def table(**classes):
    lines = ['"%s" = [%s]\n' % (name.replace("ANY", "*"), ", ".join('"%s"' % word for word in words.split()))
             for name, words in classes.items()]
    return "[permissions]\n" + "".join(lines)


def login(client, user):
    token = (user + " secret").encode()
    client.send(b"set any 0 0 %d\r\n" % len(token), token, b"\r\n")
    return client.line().decode().rstrip()


def reload(d, operator):
    def tries():
        shown = operator.stats("config")
        return shown, int(shown["config_reloads"]) + int(shown["config_reload_failures"])
    _, before = tries()
    d.signal(signal.SIGHUP)
    return until(tries, lambda now: now[1] > before)[0]


class Served(Daemon):
    """With a table; its operator may see all."""

    def __init__(self, folder, *args, permissions=None, **more):
        self.config, self.admin = os.path.join(folder, "far.toml"), os.path.join(folder, "admin")
        write(self.config, permissions or "")
        super().__init__("--config", self.config, "--admin", self.admin, *args, threads=2, **more)

    def __enter__(self):
        super().__enter__()
        self.operator = Client(self.admin)
        return self

    def __exit__(self, *of):
        self.operator.close()
        return super().__exit__(*of)

    def change(self, text):
        write(self.config, text)
        return reload(self, self.operator)

    def refused(self):
        stats = self.operator.stats("proxy")
        return [int(stats["refused_" + name]) for name in ("read", "write", "admin", "stats")]


def store(c, key=b"a", verb=b"set", more=b""):
    c.send(verb, b" ", key, b" 0 0 6", more, b"\r\nget x\n\r\n")
    return c.line().decode().rstrip()


def classes(folder, io):
    """Each class alone: what it allows, and what all others are refused."""
    kinds = {"read": READ, "write": WRITE, "admin": ADMIN, "stats": STATS}
    for mine in list(kinds) + [""]:
        with Served(folder, "-o", "io=" + io, permissions=table(anonymous=mine)) as d:
            with d.client() as c:
                denied = 0
                for kind, lines in kinds.items():
                    if kind == mine:
                        continue
                    wrong = [line for line in lines if c.ask(line) != DENIED]
                    denied += len(lines)
                    tap.is_(wrong, [], "%s: may do %r only: %s is refused" % (io, mine, kind))
                wrong = [line for line in BOTH if c.ask(line) != DENIED]
                tap.is_(wrong, [], "and what reads and writes")
                tap.is_([c.ask(line) for line, _ in FREE], [reply for _, reply in FREE], "commands without a class are served")
                if mine != "write":
                    verbs = (b"set", b"add", b"replace", b"append", b"prepend")
                    tap.is_([store(c, verb=verb) for verb in verbs], [DENIED] * len(verbs), "stores are refused, with their values")
                    c.send(b"cas a 0 0 6 1\r\nget x\n\r\nms a 6 T0 q\r\nget x\n\r\nms b 6\r\nget x\n\r\nversion\r\n")
                    tap.is_([c.line() for _ in range(4)], [DENIED.encode() + b"\r\n"] * 3 + [b"VERSION 1.6.45\r\n"],
                            "also cas and ms, quiet or not")
                    denied += 8
                counts = d.refused()
                tap.is_(sum(counts), denied + len(BOTH), "all are counted: %s" % counts)
                tap.is_({name: count for name, count in zip(kinds, counts) if name == mine and count > 0}, {},
                        "none under the class that is allowed")


def allowed(folder):
    with Served(folder, permissions=table(anonymous="read write")) as d, d.client() as c:
        tap.is_((store(c), c.get("a")), ("STORED", b"get x\n"), "read and write")
        c.send(b"gat 0 a\r\nmg a v T0\r\n")
        want = b"VALUE a 0 6\r\nget x\n\r\nEND\r\nVA 6\r\nget x\n\r\n"
        tap.is_(c.read(len(want)), want, "both together")
        tap.is_((c.ask("incr n 1"), c.ask("delete a")), ("NOT_FOUND", "DELETED"), "and changes")
        tap.is_((c.ask("stats"), c.ask("flush_all")), (DENIED, DENIED), "and no more")
    with Served(folder, permissions=table(anonymous="stats admin")) as d, d.client() as c:
        tap.is_((c.ask("flush_all"), c.ask("stats reset"), c.ask("verbosity 0")), ("OK", "RESET", "OK"), "admin")
        tap.ok(int(c.stats()["curr_items"]) == 0, "stats")
        tap.is_(c.ask("drain a"), "ERROR", "the operator's commands stay the operator's")
        tap.is_(c.ask("watch refusals"), "OK", "watch")
    with Served(folder) as d, d.client() as c:
        tap.is_((store(c), c.get("a"), c.ask("flush_all")), ("STORED", b"get x\n", "OK"), "without a table all is allowed")


def frames(folder):
    """Values, long lines, pipelines and noreply of refused requests."""
    with Served(folder, permissions=table(anonymous="read")) as d:
        with d.client() as c:
            large = b"v" * 300_000
            c.send(b"set a 0 0 300000\r\n", large, b"\r\nget a\r\nset a 0 0 3 noreply\r\nabc\r\ndelete a noreply\r\n"
                   b"incr a 1 noreply\r\ntouch a 0 noreply\r\nflush_all noreply\r\n"
                   b"verbosity 1 noreply\r\nget b\r\nms a 3 q\r\nabc\r\nmd a q\r\nmn\r\n")
            tap.is_([c.line() for _ in range(6)],
                    [b"CLIENT_ERROR permission denied\r\n", b"END\r\n", b"END\r\n"] + [b"CLIENT_ERROR permission denied\r\n"] * 2 +
                    [b"MN\r\n"], "a pipeline: values are discarded, noreply has no reply, quiet has errors")
            c.send_split(b"set a 0 0 5\r\nget a\r\nget a\r\nadd b 0 0 1 noreply\r\nx\r\nmn\r\n")
            tap.is_([c.line() for _ in range(3)], [b"CLIENT_ERROR permission denied\r\n", b"END\r\n", b"MN\r\n"], "byte by byte")
            c.send(b"set a 0 0 2000000\r\n" + b"v" * 2_000_000 + b"\r\nmn\r\n")
            tap.is_([c.line() for _ in range(2)], [b"CLIENT_ERROR permission denied\r\n", b"MN\r\n"], "a value that is too large")
    with Served(folder, permissions=table(anonymous="write")) as d, d.client() as c:
        tap.is_(store(c), "STORED", "a client that may only write")
        keys = b"".join(b" key%d" % i for i in range(20_000))
        c.send(b"get" + keys + b"\r\ngets" + keys + b"\r\nmn\r\n")
        tap.is_([c.line() for _ in range(3)], [b"CLIENT_ERROR permission denied\r\n"] * 2 + [b"MN\r\n"],
                "a long get is refused once")
        c.send(b"get a\r\n" * 500 + b"mn\r\n")
        tap.is_({c.line() for _ in range(500)}, {b"CLIENT_ERROR permission denied\r\n"}, "500 gets are refused")
        tap.is_(c.line(), b"MN\r\n", "each once")


def binary(folder, io):
    with Served(folder, "-o", "io=" + io, permissions=table(anonymous="")) as d, BinaryClient(d.client()) as b:
        asked = [(op.GET, "a"), (op.GETK, "a"), (op.SET, "a", "v" * 5000, set_extras()), (op.ADD, "a", "1", set_extras()),
                 (op.REPLACE, "a", "1", set_extras()), (op.APPEND, "a", "1"), (op.PREPEND, "a", "1"), (op.DELETE, "a"),
                 (op.INCR, "a", "", arith_extras()), (op.DECR, "a", "", arith_extras()), (op.TOUCH, "a", "", touch_extras(1)),
                 (op.GAT, "a", "", touch_extras(1)), (op.FLUSH,), (op.STAT,), (op.STAT, "reset"), (op.STAT, "detail on"),
                 (op.GETQ, "a"), (op.SETQ, "a", "1", set_extras())]
        replies = [b.ask(*one, opaque=9) for one in asked]
        tap.is_([(r.opcode, r.status, r.value, r.opaque) for r in replies],
                [(one[0], NO_ACCESS, b"Permission denied", 9) for one in asked],
                io + ": binary: all are refused, quiet ones with a reply")
        tap.is_([b.ask(op.VERSION).status, b.ask(op.NOOP).status], [0, 0], "but version and noop")
        b.raw.send_split(packet(op.SET, "a", "v" * 30, set_extras()) + packet(op.GET, "a") + packet(op.NOOP))
        tap.is_([b.read().status for _ in range(3)], [NO_ACCESS, NO_ACCESS, 0], "byte by byte")
        b.raw.send(packet(op.SET, "a", "v" * 2_000_000, set_extras()), packet(op.NOOP))
        tap.is_([b.read().status for _ in range(2)], [NO_ACCESS, 0], "with a long value")
        tap.is_(d.refused(), [5, 12, 3, 1], "and counted")
    with Served(folder, "-o", "io=" + io, permissions=table(anonymous="read stats")) as d, BinaryClient(d.client()) as b:
        tap.is_([b.ask(op.GET, "a").status, b.ask(op.GAT, "a", "", touch_extras(1)).status, b.ask(op.DELETE, "a").status],
                [1, NO_ACCESS, NO_ACCESS], "binary: read only")
        tap.is_(("pid" in b.stat()[1], b.ask(op.STAT, "reset").status), (True, NO_ACCESS), "and stats")
        b.raw.send(packet(op.GETQ, "a") * 20 + packet(op.NOOP))
        tap.is_(b.read().opcode, op.NOOP, "quiet gets")


def sockets(folder):
    path = os.path.join(folder, "unix")
    with Served(folder, "-s", path, permissions=table(ANY="read")) as d, Client(path) as c:
        tap.is_((c.get("a"), store(c)), (None, DENIED), "a Unix socket's client is anonymous; * is for it")
        tap.is_(store(d.operator), "STORED", "the operator's socket is not bound")
        tap.is_(d.operator.ask("flush_all"), "OK", "in nothing")
    with Served(folder, "-U", "-1", "-p", "-1", permissions=table(anonymous="read")) as d:
        with UdpClient(dict(d.ports)["UDP INET"]) as u, Client(d.admin) as w:
            w.ask("watch refusals")
            tap.is_((u.ask(b"get a\r\n"), u.ask(b"set a 0 0 1\r\n1\r\n")), (b"END\r\n", DENIED.encode() + b"\r\n"),
                    "UDP is anonymous")
            tap.like(w.line().decode(), "command=set client=udp:127.0.0.1:%d " % u.socket.getsockname()[1], "with its address")
            d.change("")
            tap.is_(u.ask(b"set a 0 0 1\r\n1\r\n"), b"STORED\r\n", "and follows a reload")
    with Served(folder, permissions=table(other="read")) as d, d.client() as c:
        tap.is_((c.ask("get a"), c.ask("version")), (DENIED, "VERSION 1.6.45"), "without a row and * a client may do nothing")


def users(folder):
    passwords = os.path.join(folder, "passwords")
    write(passwords, "alice:secret\nbob:secret\ncarol:secret\nanonymous:secret\n")
    with Served(folder, "-Y", passwords, permissions=table(alice="read write", bob="read", anonymous="stats")) as d:
        with d.client() as alice, d.client() as bob, d.client() as carol, d.client() as named:
            tap.is_([login(c, user) for c, user in ((alice, "alice"), (bob, "bob"), (carol, "carol"), (named, "anonymous"))],
                    ["STORED"] * 4, "-Y: the login itself needs no class")
            tap.is_((store(alice), store(bob), store(carol)), ("STORED", DENIED, DENIED), "only alice may write")
            tap.is_((alice.get("a"), bob.get("a"), carol.ask("get a")), (b"get x\n", b"get x\n", DENIED), "bob may read")
            tap.ok("pid" in named.stats(), "a user may have the name anonymous")


def reloads(folder):
    with Served(folder, "-v", permissions=table(anonymous="read write")) as d, d.client() as c:
        tap.is_(store(c), "STORED", "before a reload")
        shown = d.change(table(anonymous="read"))
        tap.is_((shown["config_last_result"], shown["config_changed"]), ("ok", "permissions"), "a reload")
        tap.is_((store(c), c.get("a")), (DENIED, b"get x\n"), "binds a connection at its next request")
        shown = d.change("")
        tap.is_((store(c), c.ask("flush_all")), ("STORED", "OK"), "without the table all is allowed again")
        d.change(table(anonymous="read write"))
        c.send(b"set large 0 0 400000\r\n" + b"v" * 200_000)
        until(lambda: d.operator.stats("conns"), lambda conns: "conn_nread" in conns.values() or "conn_swallow" in conns.values())
        d.change(table(anonymous=""))
        c.send(b"v" * 200_000 + b"\r\n")
        reply = c.line()
        tap.ok(reply in (b"STORED\r\n", b"CLIENT_ERROR permission denied\r\n"), "a value under way: one reply", reply)
        tap.is_(c.ask("mn"), "MN", "in frame")
        bad = (('[permissions]\nme = ["reed"]\n', r"far\.toml:2:\d+: permissions\.me: unknown class 'reed', did you mean"),
               ('[permissions]\na = ["read"]\na = ["write"]\n', r"far\.toml:3:\d+: not valid TOML"),
               ('[permissions]\na = ["read", "read"]\n', r"far\.toml:2:\d+: permissions\.a: class 'read' given twice"),
               ("[permissions]\n%s = []\n" % ("n" * 256), r"far\.toml:2:\d+: permissions\.n+: an identity is longer than 255"),
               ('[permissions]\na = "read"\n', r"far\.toml:2:\d+: permissions\.a: found the text 'read'; allowed: an array of"),
               ("[permissions]\n", r"far\.toml:1:\d+: permissions: found a table without identities; allowed:"),
               ("permissions = 3\n", r"far\.toml:1:\d+: permissions: found 3; allowed: a table of identities"))
        for text, want in bad:
            shown = d.change(text)
            tap.is_(shown["config_last_result"], "failed", "a reload is refused: %r" % text[:40])
            tap.like(shown["config_last_error"], want, "with file, line and key")
        tap.is_(c.ask("get a"), DENIED, "and changes nothing")
        for text, want in bad:
            write(d.config, text)
            status, _, err = run_binary("--check-config", d.config)
            tap.ok(status > 0 and re.search(want, err.decode()), "a start, too", err.decode())


def changes_under_load(folder):
    """A permission that every table has is never refused while tables change."""
    with Served(folder, permissions=table(anonymous="read")) as d, d.client() as c:
        tables = [table(anonymous="read write"), table(ANY="read"), "", table(anonymous="read", x="")]
        lost = 0
        for i in range(20):
            write(d.config, tables[i % len(tables)])
            d.signal(signal.SIGHUP)
            c.send(b"get a\r\n" * 200)
            lost += sum(c.line() != b"END\r\n" for _ in range(200))
        tap.is_(lost, 0, "4000 gets while 20 reloads change the table")


def shown(folder):
    """The log and `watch refusals`."""
    with Served(folder, permissions=table(anonymous="read")) as d, d.client() as c:
        with Client(d.admin) as w:
            tap.is_(w.ask("watch refusals"), "OK", "watch refusals")
            store(c, key=b"secret-key")
            line = w.line().decode()
            tap.like(line, r"ts=\S+ gid=\d+ type=refused identity=anonymous class=write command=set "
                           r"client=127\.0\.0\.1:\d+ cfd=\d+", "a line with identity, class, command and client")
            c.ask("lru_crawler disable")
            tap.like(w.line().decode(), "class=admin command=lru_crawler ", "another command")
            c.ask("mg a v T30")
            tap.like(w.line().decode(), "class=write command=mg ", "a meta command with a flag that needs more")
            tap.ok("secret" not in line, "no key")
        for _ in range(100):
            c.ask("stats")
        said = until(d.stderr, lambda text: b"command=stats" in text).decode()
        tap.like(said, r"permission denied identity=anonymous class=write command=set client=127\.0\.0\.1:\d+\n", "the log")
        tap.ok(said.count("permission denied") <= 20, "is limited", str(said.count("permission denied")))
        tap.is_(d.refused(), [0, 2, 1, 100], "the counters are not")


def command_line():
    for args, want in ((["--permissions", "alice=read,write"], ""),
                       (["--permissions", "CN=x, O=y=read", "--permissions", "*="], ""),
                       (["--permissions", "alice"], "no = behind the name"), (["--permissions", "a=rite"], "unknown class 'rite'"),
                       (["--permissions", "a=read", "--permissions", "a="], "--permissions a: given twice")):
        status, out, err = run_binary(*args, "--print-config")
        tap.is_((status > 0, want in err.decode()), (bool(want), True), " ".join(args))
    out = run_binary("--permissions", "alice=write,read", "--permissions", "*=", "--print-config")[1].decode()
    tap.ok('[permissions]\n"*" = []\n"alice" = ["read", "write"]\n' in out, "--print-config has the table", out[-200:])


def main():
    only = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="farcached-permissions-") as folder:
        for io in ("libevent", "auto"):
            for test in (classes, binary):
                if not only or test.__name__ in only:
                    test(folder, io)
        for test in (allowed, frames, sockets, users, reloads, changes_under_load, shown):
            if not only or test.__name__ in only:
                test(folder)
    if not only or "command_line" in only:
        command_line()
    tap.done()


main()
