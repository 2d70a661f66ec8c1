# SPDX-License-Identifier: BSD-3-Clause
"""farctl against daemons and against other processes: text and JSON, messages, exit statuses; top and the console on a terminal."""
import json
import os
import pty
import queue
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from farcached import Daemon, deadline, tap, until  # noqa: E402
from farctl import FARCTL, FOLDER, asked, at, fake_farcached, farctl, listener, path_of, refused  # noqa: E402
from farnode import Farnode  # noqa: E402

# -- Without a daemon -------------------------------------------------------------------------------------

def stranger(name, answer):
    """A listener that sends `answer` to each client (None: nothing), and then waits for the client to close."""
    def serve(client):
        if answer is not None:
            client.sendall(answer)
            client.shutdown(socket.SHUT_WR)
        while client.recv(65536):
            pass
    return listener(name, serve)


def test_strangers():
    refused(["status", *at("absent")], "%s: no such socket; start farcached or farnode with --admin=%s, or "
            "name another with --socket" % ((path_of("absent"),) * 2), "no socket")
    status, _, err = farctl("status", env={"FARCTL_SOCKET": path_of("absent")})
    tap.ok(status == 1 and path_of("absent") in err, "$FARCTL_SOCKET is asked", err)
    with open(path_of("file"), "w"):
        pass
    refused(["status", *at("file")], path_of("file") + ": connection refused; the daemon has ended, or this is not a socket",
            "a file")
    refused(["status", "--socket=" + "x" * 200], "x" * 200 + ": not the path of a Unix socket, 1 to 107 bytes",
            "a path that is too long")
    neither = "the server is neither farcached nor farnode: "
    for answer, sentence in (
            (b"SSH-2.0-x\x1b[2J\r\n", neither + "its reply was 'SSH-2.0-x?[2J'"),
            (b"\0" * 100 + b"\n", neither + "its reply was '" + "?" * 60 + "'"),
            (b"x" * 300000, neither + "its reply line does not end"),
            (b"", "the daemon closed the connection without a reply"),
            (b"VERS", "the daemon closed the connection without a reply"),
            (b"ERROR\r\n", "the daemon does not support this command on this socket"),
            (b"ERROR too many connections to this socket: close one first\r\n",
             "too many connections to this socket: close one first"),
            (b"VERSION 1.6.45\r\nSTAT pid 1\r\nEND\r\n", "the server is memcached, not farcached"),
            (b"VERSION 1.6.45\r\nSTAT pid 1\r\n", "the daemon closed the connection without a reply"),
            (b"VERSION farnode 1\r\nSTAT\r\n", neither + "its reply was 'STAT'")):
        with stranger("stranger", answer) as path:
            refused(["status", *at("stranger")], path + ": " + sentence, "one that says %r" % answer[:30])
    with stranger("stranger", None) as path:
        refused(["status", "--timeout=0.2", *at("stranger")],
                path + ": no reply within 200 ms; the daemon is stopped or too busy", "a silent one")
    with stranger("stranger", b"VERSION farnode 1\r\n" + b"STAT n v\r\n" * 100001 + b"END\r\n") as path:
        status, _, err = farctl("status", *at("stranger"))
        tap.ok(status == 1 and path in err, "one that never stops", err)


# -- Daemons ----------------------------------------------------------------------------------------------

def test_embedded():
    with Daemon("--admin", path_of("p"), "-m", "16") as d, d.client() as c:
        c.set("k", "v" * 100)
        c.get("k"), c.get("absent")
        # Daemon() has asked whether it listens; the worker may not have ended that connection yet.
        status = until(lambda: asked("status", *at("p")), lambda status: status["proxies"][0]["clients"] == 1)
        node, proxy = status["nodes"][0], status["proxies"][0]
        tap.is_((node["name"], node["state"], node["items"], node["hit_ratio"], node["memory_limit_bytes"]),
                ("(embedded)", "up", 1, 0.5, 16 << 20), "status: its memory")
        tap.is_((proxy["pid"], proxy["socket"], proxy["gets"], proxy["clients"]), (d.pid, path_of("p"), 2, 1),
                "and the process")
        code, out, _ = farctl("status", *at("p"))
        tap.ok(code == 0 and re.search(r"^\(embedded\) +up +%s " % path_of("p"), out, re.M), "as text", out)
        tap.is_(asked("stats", *at("p"))[0]["stats"]["cmd_set"], 1, "stats")
        tap.ok("requests" in asked("stats", "-", "proxy", *at("p"))[0]["stats"], "stats - proxy: a group of the daemon")
        refused(["stats", "a", *at("p")], "no node a: no nodes are configured", "stats of a node")
        refused(["stats", "-", "nosuch", *at("p")], path_of("p") +
                ": no group of this name; groups: general, settings, items, slabs, "
                "sizes, conns, proxy, latency, slow_log, hotkeys, config, groups", "a group that there is not")
        tap.is_(farctl("stats", "-", "item", *at("p"))[2].split(";")[0], "farctl: %s: no group of this name" % path_of("p"),
                "nor is a part of a name")
        tap.like(farctl("stats", *at("p"))[1], r"\ngroups of `stats - GROUP`: general, settings, items, .*groups\n$",
                 "stats: its groups")
        groups = list(asked("stats", "-", "groups", *at("p"))[0]["stats"])
        tap.is_([group for group in groups if not isinstance(asked("stats", "-", group, *at("p"))[0]["stats"], dict)], [],
                "each of them is a group")
        tap.is_(asked("stats", "-", "general", *at("p"))[0]["stats"]["pid"], d.pid, "general is what there is without one")
        for command in ("drain", "undrain"):
            refused([command, "a", *at("p")], path_of("p") + ": no nodes are configured", command)
        refused(["pointers", *at("p")], path_of("p") + ": no nodes are configured", "pointers")
        refused(["leases", *at("p")], "no nodes are configured, so there are no leases", "leases")
        route = asked("route", "k%", *at("p"))[0]["stats"]
        tap.is_((route["key"], route["node"], route["why"], route["pointer"]),
                ("k%25", "(embedded)", "no nodes are configured: items are in this process", "unused"), "route: gives the reason")
        c.set("kay", "v"), c.set("l", "v")
        counted = {"socket": path_of("p"), "prefix": "k", "deleted": False, "items": 2, "nodes": 1, "nodes_done": 1}
        tap.is_(asked("delete-prefix", "k", "--dry-run", *at("p")), [counted], "delete-prefix --dry-run counts")
        tap.is_(farctl("delete-prefix", "--dry-run", "l", *at("p")),
                (0, '%s: 1 item beginning with "l" on 1 of 1 node; nothing is deleted\n' % path_of("p"), ""), "in words")
        tap.ok(c.get("k") and c.get("kay"), "and deletes nothing")
        tap.is_(asked("delete-prefix", "k", *at("p")), [{**counted, "deleted": True}], "delete-prefix")
        tap.is_(farctl("delete-prefix", "k", *at("p")),
                (0, '%s: deleted 0 items beginning with "k" on 1 of 1 node\n' % path_of("p"), ""), "a second one finds none")
        tap.is_((c.get("k"), c.get("kay"), c.get("l")), (None, None, b"v"), "deletes keys with the prefix, and no others")
        status, out, err = farctl("status", *at("p", "absent"))
        tap.ok(status == 1 and "(embedded)" in out and "absent" in err, "a daemon is shown beside a missing one", out, err)
    with Daemon("-s", path_of("clients")) as d:
        tap.is_(farctl("stats", *at("clients"))[0], 0, "a socket for clients gives statistics")
        with d.client() as c:
            tap.is_([c.ask(line) for line in ("delete_prefix k", "count_prefix deleted k", "sample_keys")], ["ERROR"] * 3,
                    "clients know no delete by prefix, no count and no sample")
        refused(["drain", "a", *at("clients")],
                path_of("clients") + ": not allowed for clients; use the socket of --admin", "but takes no orders")


def test_node():
    with Farnode("--name", "n1", "--shm", path_of("n.shm"), "--tcp", "127.0.0.1:0", "--admin", path_of("n"), "-m", "16") as n:
        with n.node_client() as proxy:
            proxy.greet()
            proxy.set(b"k", b"v")
            proxy.get(b"k"), proxy.get(b"absent")
        node = asked("status", *at("n"))["nodes"][0]
        tap.is_((node["name"], node["state"], node["items"], node["hit_ratio"]), ("n1", "up", 1, 0.5), "status of a node")
        tap.like(node["incarnation"], "^[0-9a-f]{16}$", "its incarnation")
        tap.is_(asked("stats", *at("n"))[0]["stats"]["pid"], n.pid, "stats")
        for args in (("n1", "leases"), ("-", "leases")):
            tap.is_(asked("stats", *args, *at("n"))[0]["stats"]["lease_term_ms"], 256000, "stats " + " ".join(args))
        refused(["stats", "n2", *at("n")], "no node n2; nodes: n1", "stats of another")
        refused(["stats", "n1", "x", *at("n")],
                path_of("n") + ": no group of this name; groups: general, leases, classes, all, connections, keys, proxies, "
                "transport, groups, config",
                "no such group")
        tap.is_(asked("leases", *at("n"))[0]["node"], "n1", "leases")
        code, out, _ = farctl("leases", *at("n"))
        tap.ok(code == 0 and re.search(r"^n1 +256000 ms +0 ", out, re.M), "as text", out)
        refused(["drain", "n1", *at("n")], "nodes are drained by farcached; name one's socket with --socket", "drain")
        refused(["pointers", *at("n")], "only farcached has a pointer table; name one's socket with --socket",
                "pointers")
        refused(["status", *at("n.shm")], path_of("n.shm") + ": a socket of another kind, such as a node's --shm; name "
                "the one of --admin", "its socket for proxies")
        with n.stopped():
            refused(["status", "--timeout=0.2", *at("n")],
                    path_of("n") + ": no reply within 200 ms; the daemon is stopped or too busy", "a node that is stopped")


def test_slowlog():
    with Daemon("--admin", path_of("p"), "-m", "16", "-o", "slow_log_ms=60000") as d, d.client() as c:
        c.set("k", "v")
        tap.is_(farctl("slowlog", *at("p"))[1], "%s\nno slow requests\n" % path_of("p"), "no slow requests")
    with Daemon("--admin", path_of("p"), "-m", "128", "-I", "40m", "-o", "slow_log_ms=1", threads=1) as d, d.client() as c:
        refused(["slowlog", "x", *at("p")], "slowlog: 'x' is not a number from 1", "slowlog of no number")
        c.set("large", "v" * 20_000_000)  # copying it takes some milliseconds
        def look():
            c.get("large")
            return [one for one in asked("slowlog", *at("p"))[0]["requests"] if one["op"] == "get"]
        found = until(look, lambda lines: len(lines) > 1)
        tap.ok(all(one["key"] == "large" and one["took_us"] >= 1000 and one["node"] is None and one["queue_us"] is None for
                   one in found),
               "the key alone, and null for what no node did", found)
        tap.ok(found[0]["ago_ms"] <= found[1]["ago_ms"], "the newest first", found)
        tap.is_(len(asked("slowlog", "1", *at("p"))[0]["requests"]), 1, "at most so many")
        out = farctl("slowlog", *at("p"))[1]
        tap.ok(re.search(r"^ *AGO +TOOK  OP +PATH +REQUESTS  KEY\n.*^ +\S+ +\d+\.\d ms  get +local +\d+  large$", out, re.M | re.S),
               "as text: without columns about nodes", out)


def test_help():
    code, out, err = farctl("route", "--help")
    tap.ok(code == 0 and not err and out.startswith("Usage: farctl [<option>]... route KEY\n") and
           "--plan=<file>" in out and "--once" not in out,
           "a command's help", out)
    tap.is_((farctl("help", "route"), farctl("-h", "route")), ((code, out, err),) * 2, "in three ways")
    tap.is_([farctl(*words) for words in (["help"], ["-h"])], [farctl("--help")] * 2, "all of it, too")
    tap.is_(farctl("-V"), farctl("--version"), "-V")
    refused(["help", "nosuch"], "unknown command 'nosuch'. Allowed: status, members, top, stats, route, hotkeys, slowlog, "
            "pointers, leases, doctor, "
            "drain, undrain, delete-prefix, reload, help; see farctl --help", "help of no command", status=64)


def test_doctor():
    """This host may have anything, but nothing of it may be wrong for a daemon that works; it has no RDMA for sure in a test."""
    def checks(*args):
        status, out, err = farctl("doctor", "--json", *args)
        found = json.loads(out)
        tap.ok(not err and status == int(any(one["verdict"] == "wrong" for one in found)), "doctor: its status tells",
               status, found)
        tap.ok(all((one["remedy"] is None) == (one["verdict"] == "ok") for one in found), "a remedy for all but ok", found)
        return {one["subject"]: one for one in found}
    alone = checks(*at("absent"))
    tap.ok(alone["daemons"]["verdict"] == "wrong" and "no such socket" in alone["daemons"]["text"],
           "without the daemon that was named", alone)
    tap.ok({"RDMA devices", "locked memory", "huge pages", "/dev/shm", "pointer tables", "kernel settings"} <= set(alone),
           "the host is checked",
           alone)
    with Daemon("--admin", path_of("p"), "-m", "16"):
        found = checks(*at("p"))
        tap.is_([found[what]["verdict"] for what in ("daemons", "nodes", "leases", "versions")], ["ok"] * 4, "with one")
        out = farctl("doctor", *at("p"))[1]
        tap.ok(re.search(r"^ok     versions         all are ", out, re.M) and "\x1b" not in out, "as text", out)

    def closes(line):
        if line == "stats pointers":
            raise ConnectionAbortedError
        return ["END"]
    with fake_farcached("closes", closes):
        tap.is_(checks(*at("closes"))["daemons"]["text"], "1 daemon answers", "a request that fails hides no limits")


# -- top --------------------------------------------------------------------------------------------------

class Screen:
    """farctl on a terminal of its own."""

    def __init__(self, *args, env=()):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # a suite in the background of a shell has it ignored
            os.environ.pop("NO_COLOR", None)
            os.environ.update({"TERM": "xterm", **dict(env)})
            os.execv(FARCTL, [FARCTL, *args])
        self.seen = ""
        self.status = None

    def wait_for(self, pattern):
        """True if the output since the last call matches."""
        end = time.monotonic() + deadline()
        while not re.search(pattern, self.seen, re.S):
            if time.monotonic() >= end or not self.read(end - time.monotonic()):
                return False
        self.seen = ""
        return True

    def read(self, seconds):
        if not select.select([self.fd], [], [], seconds)[0]:
            return False
        try:
            got = os.read(self.fd, 65536)
        except OSError:
            return False
        self.seen += got.decode()
        return bool(got)

    def press(self, keys):
        os.write(self.fd, keys.encode())

    def end(self, keys=""):
        """The exit status, or minus the signal; `seen` has the last output."""
        end = time.monotonic() + deadline()
        if keys:
            self.press(keys)
        while time.monotonic() < end:
            if not self.read(deadline()) and os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                break
        else:
            os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)


def test_top():
    with Daemon("--admin", path_of("p"), "-m", "16") as d:
        with d.client() as c:
            c.set("k", "v")
        code, out, err = farctl("top", "--once", *at("p"))
        tap.ok(code == 0 and re.search(r"^NODE +STATE +GETS/s", out, re.M) and "\x1b" not in out, "--once: a screen", out, err)
        seen = asked("top", "--once", *at("p"))
        tap.is_((seen["seconds"], seen["nodes"][0]["items"]), (None, 1), "--once --json")
        refused(["top", *at("p")], "top needs a terminal; --once prints one screen, --json a line per "
                "interval", "without a terminal")
        lines = subprocess.Popen([FARCTL, "top", "--json", "--interval=0.1", *at("p")], stdout=subprocess.PIPE)
        seen = [json.loads(lines.stdout.readline()) for _ in range(3)]
        lines.terminate()
        lines.wait(deadline())
        lines.stdout.close()
        tap.ok(seen[0]["seconds"] is None and seen[2]["seconds"] >= 0.1, "--json: a line for each interval", seen)
        screen = Screen("top", "--interval=0.2", *at("p"))
        tap.ok(screen.wait_for(r"\x1b\[\?1049h.*averages since the start, by gets.*\x1b\[7mNODE.*\(embedded\)"),
               "a screen", screen.seen)
        tap.ok(screen.wait_for(r"the last \d+\.\d s, by gets"), "again after the interval", screen.seen)
        screen.press("m")
        tap.ok(screen.wait_for(r"by memory\b"), "a key sorts", screen.seen)
        screen.press("r")
        tap.ok(screen.wait_for(r"by memory, reversed"), "r reverses", screen.seen)
        d.stop()
        tap.ok(screen.wait_for(re.escape(path_of("p")) + r": "), "the end of a daemon is shown, and the screen stays", screen.seen)
        screen.press("q")
        tap.is_(screen.end(), 0, "q ends it")
        tap.ok(screen.seen.endswith("\x1b[?25h\x1b[?1049l"), "and the screen is as before", screen.seen[-40:])
    with Daemon("--admin", path_of("p"), "-m", "16") as d:
        screen = Screen("top", *at("p"))
        tap.ok(screen.wait_for("NODE"), "another", screen.seen)
        screen.press("\x03")
        tap.is_(screen.end(), -2, "interrupted it ends by the signal")
        tap.ok(screen.seen.endswith("\x1b[?25h\x1b[?1049l"), "the screen is as before", screen.seen[-40:])
    screen = Screen("top", *at("absent"))
    tap.is_(screen.end(), 1, "without a daemon it does not begin")
    tap.ok("no such socket" in screen.seen and "\x1b" not in screen.seen, "and prints the reason", screen.seen)


class SlowNode:
    """The answers of a farcached whose node sweeps, a page more at each look, and stands still at some."""

    def __init__(self, pages, stands_at):
        self.pages, self.stands_at, self.done, self.looks = pages, stands_at, 0, 0

    def __call__(self, line):
        if line.startswith("delete_prefix"):
            self.done = 1
            return ["OK"]
        if line.startswith("count_prefix deleted") and self.done == 0:
            return ["STAT a:state unknown", "STAT a:order 0", "END"]
        self.looks += 1
        if self.done == self.pages:
            return ["STAT a:state complete", "STAT a:order 1", "STAT a:items 7", "END"]
        if self.done != self.stands_at:
            self.done += 1
        return ["STAT a:state running", "STAT a:order 1", "STAT a:pages_done %d" % self.done, "STAT a:pages %d" % self.pages, "END"]


def test_slow_prefix():
    freed = "their memory is still being freed on 1 node"
    with fake_farcached("slow", SlowNode(8, stands_at=0)) as path:
        tap.is_(farctl("delete-prefix", "k", "--timeout=10", *at("slow")),
                (0, '%s: deleted 7 items beginning with "k" on 1 of 1 node\n' % path, ""),
                "as long as a node makes progress, it waits")
    node = SlowNode(50, stands_at=3)
    with fake_farcached("slow", node) as path:
        tap.is_(farctl("delete-prefix", "k", "--timeout=3", *at("slow")),
                (0, '%s: deleted all items beginning with "k" on 1 of 1 node; their number is not known yet: readers no longer see '
                 'them, and %s\n' % (path, freed), ""), "without progress it ends, and says what holds")
        tap.ok(node.looks < 20, "it asks less and less often", node.looks)
        node.done = 3
        refused(["delete-prefix", "k", "--dry-run", "--timeout=2", *at("slow")],
                path + ": 1 of 1 node did not count: no progress for 2000 ms; --timeout waits longer", "nor waits a count longer")
    with fake_farcached("slow", SlowNode(50, stands_at=3)):
        screen = Screen("delete-prefix", "k", "--timeout=5", *at("slow"))
        tap.ok(screen.wait_for(r"\rfreeing memory on 1 node: 6\.0% of the pages"),
               "on a terminal it shows the progress", screen.seen)
        tap.is_(screen.end(), 0, "to the end")
        tap.like(screen.seen, r"\r +\r\S+: deleted all", "and replaces it by the result")


def test_colours():
    with Daemon("--admin", path_of("p"), "-m", "16"):
        for env, coloured in (({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)):
            screen = Screen("status", *at("p"), env=env)
            tap.is_(screen.end(), 0, "status on a terminal")
            tap.ok(("\x1b[32mup\x1b[0m" in screen.seen and "\x1b[1mNODE" in screen.seen) == coloured == ("\x1b" in screen.seen),
                   "colours with %s: %s" % (env, coloured), screen.seen)


# -- The console ------------------------------------------------------------------------------------------

class Console(Screen):
    PROMPT = r"farctl> "

    def __init__(self, *args, home):
        # libedit never frees the names of functions that a program adds.
        sanitizer = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
        super().__init__(*args, env={"XDG_STATE_HOME": home, "HOME": home, "ASAN_OPTIONS": sanitizer})
        self.ready = self.wait_for(self.PROMPT)

    def says(self, keys, pattern):
        """Types, and waits for an answer and the next prompt."""
        self.press(keys)
        return self.wait_for(pattern + ".*" + self.PROMPT)


def has_console():
    return "a console, on a terminal" in farctl("--help")[1]


def test_console():
    status, _, err = farctl(*at("absent"))
    tap.ok(status == 64 and err.startswith("farctl: no command given; commands: status, members, top,"),
           "no command, no terminal: help", err)
    if not has_console():
        return tap.skip("the console", "farctl is built without libedit")
    home = path_of("state/of/farctl")
    history = os.path.join(home, "farctl_history")
    with Daemon("--admin", path_of("p"), "-m", "16") as d:
        with d.client() as c:
            c.set("key1", "v"), c.set("key2", "v")
        os.mkdir(path_of("state"), 0o755)
        os.chmod(path_of("state"), 0o755)
        before = os.umask(0)
        try:
            console = Console(*at("p"), home=home)
        finally:
            os.umask(before)
        tap.ok(console.ready, "a prompt", console.seen)
        tap.is_([oct(os.stat(path_of(name)).st_mode & 0o777) for name in ("state", "state/of", "state/of/farctl")],
                ["0o755", "0o700", "0o700"], "new folders of its history are its user's alone")
        tap.ok(console.says("stats - config\r", "config_reloads"), "a command", console.seen)
        tap.ok(console.says("delete-prefix key --dry-run\r", '2 items beginning with "key"'), "with an option", console.seen)
        tap.ok(console.says("route \"key1\" --json\r", '"key": "key1"'), "and a quoted word", console.seen)
        tap.ok(console.says("nosuch\r", "unknown command 'nosuch'"), "a wrong one is refused, and the console goes on",
               console.seen)
        tap.ok(console.says("help route\r", "Usage: farctl"), "help", console.seen)
        tap.ok(console.says("route 'a\r", "a quote is open"), "an open quote", console.seen)
        console.press("dele\t")
        tap.ok(console.wait_for("te-prefix "), "a command is completed", console.seen)
        console.press("\x03")
        tap.ok(console.wait_for(console.PROMPT), "Ctrl-C drops the line", console.seen)
        console.press("stats - se\t")
        tap.ok(console.wait_for("ttings"), "a group is completed", console.seen)
        tap.ok(console.says("\r", "maxbytes"), "and asked for", console.seen)
        tap.ok(console.says(" stats - slabs\r", "active_slabs"), "a line with a blank in front", console.seen)
        tap.ok(console.says("\x1b[A\r", "maxbytes"), "is not in the history: the one before it is repeated", console.seen)
        console.press("quit\r")
        tap.is_(console.end(), 0, "quit")
        tap.is_(oct(os.stat(history).st_mode & 0o777), "0o600", "the history is its user's alone")
        with open(history, encoding="utf-8") as file:
            lines = file.read()
        tap.ok("config" in lines and "slabs" not in lines, "and has the lines but for that one", lines)
        console = Console(*at("p"), home=home)
        tap.ok(console.says("\x1b[A\x1b[A\r", "maxbytes"), "the history is there the next time", console.seen)
        tap.is_(console.end("\x04"), 0, "Ctrl-D ends")
        os.chmod(history, 0o644)
        console = Console(*at("absent"), home=home)
        tap.ok(console.says("status\r", "no such socket"), "without a daemon it says so", console.seen)
        console.press("exit\r")
        tap.is_(console.end(), 1, "its status is that of the last command")
        tap.is_(oct(os.stat(history).st_mode & 0o777), "0o600", "a history that others could read is closed to them")


def test_interrupts():
    """Ctrl-C ends the command, and the console goes on."""
    if not has_console():
        return tap.skip("Ctrl-C in the console", "farctl is built without libedit")
    home = path_of("state/of/farctl")
    asked_for = queue.Queue()
    with fake_farcached("silent", lambda line: ["END"] if line == "stats groups" else asked_for.put(line)) as path:
        console = Console(*at("silent"), "--timeout=3600", home=home)
        for command, request, before in (
                ("stats - items", "stats items", "reply"), ("reload", "stats config", "reply"),
                ("route k", "stats route k", "reply"),
                ("delete-prefix k", "count_prefix deleted k", "request"), ("doctor", "stats config", "request")):
            console.press(command + "\r")
            tap.is_(asked_for.get(timeout=deadline()), request, command + " waits for a reply")
            tap.ok(console.says("\x03", r"\^C\r\nfarctl: %s: interrupted before the %s\r\n" % (re.escape(path), before)),
                   "Ctrl-C ends the command, not the console", console.seen)
        tap.ok(console.says("stats\r", "farcached_version"), "the next one is answered", console.seen)
        console.press("quit\r")
        tap.is_(console.end(), 0, "and quit is as ever")
        screen = Screen("stats", "-", "items", *at("silent"))
        tap.is_(asked_for.get(timeout=deadline()), "stats items", "without a console")
        tap.is_(screen.end("\x03"), -signal.SIGINT, "Ctrl-C ends farctl")
    node = SlowNode(50, stands_at=3)
    with fake_farcached("slow", node):
        console = Console(*at("slow"), "--timeout=3600", home=home)
        console.press("delete-prefix k\r")
        tap.ok(console.wait_for("6\\.0% of the pages"), "a delete that waits for its number", console.seen)
        tap.ok(console.says("\x03", "deleted all items .* still being freed on 1 node"), "Ctrl-C: what is done already",
               console.seen)
        console.press("\x04")
        tap.is_(console.end(), 0, "Ctrl-D ends")
    with Daemon("--admin", path_of("p"), "-m", "16"):
        console = Console(*at("p"), home=home)
        for key, name in (("q", "q"), ("\x03", "Ctrl-C")):
            console.press("top --interval=0.2\r")
            tap.ok(console.wait_for(r"\x1b\[\?1049h.*the last 0\.\d s"), "top in the console", console.seen)
            tap.ok(console.says(key, r"\x1b\[\?25h\x1b\[\?1049l"), name + " restores the screen and prompts", console.seen)
            console.press("stats - conf\t")
            tap.ok(console.wait_for("ig"), "words are completed", console.seen)
            tap.ok(console.says("\r", "config_reloads"), "and the terminal edits lines again", console.seen)
        console.press("top --json --interval=0.1\r")
        tap.ok(console.wait_for(r'"seconds": ?0\.\d'), "top --json in the console", console.seen)
        tap.ok(console.says("\x03", ""), "Ctrl-C ends it", console.seen)
        os.kill(console.pid, signal.SIGTERM)
        tap.is_(console.end(), -signal.SIGTERM, "other signals end the console")


def main():
    try:
        test_strangers()
        test_embedded()
        test_slowlog()
        test_help()
        test_doctor()
        test_colours()
        test_console()
        test_node()
        test_top()
        test_slow_prefix()
        test_interrupts()
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)
    tap.done()


main()
