# SPDX-License-Identifier: BSD-3-Clause
"""farctl against daemons and against other processes: text and JSON, messages, exit statuses, and top on a terminal."""
import contextlib
import json
import os
import pty
import re
import select
import shutil
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from farcached import Daemon, deadline, tap  # noqa: E402
from farctl import FARCTL, FOLDER, asked, at, farctl, path_of, refused  # noqa: E402
from farnode import Farnode  # noqa: E402

# -- Without a daemon -------------------------------------------------------------------------------------

@contextlib.contextmanager
def stranger(name, answer):
    """A listener that sends `answer` to each client (None: nothing), and then waits for the client to close."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path_of(name))
    listener.listen(8)

    def serve():
        while True:
            try:
                s, _ = listener.accept()
            except OSError:
                return
            with s:
                with contextlib.suppress(OSError):
                    if answer is not None:
                        s.sendall(answer)
                        s.shutdown(socket.SHUT_WR)
                    while s.recv(65536):
                        pass
    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield path_of(name)
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(deadline())


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
        os.unlink(path_of("stranger"))
    with stranger("stranger", None) as path:
        refused(["status", "--timeout=0.2", *at("stranger")],
                path + ": no reply within 200 ms; the daemon is stopped or too busy", "a silent one")
    os.unlink(path_of("stranger"))
    with stranger("stranger", b"VERSION farnode 1\r\n" + b"STAT n v\r\n" * 100001 + b"END\r\n") as path:
        status, _, err = farctl("status", *at("stranger"))
        tap.ok(status == 1 and path in err, "one that never stops", err)


# -- Daemons ----------------------------------------------------------------------------------------------

def test_embedded():
    with Daemon("--admin", path_of("p"), "-m", "16") as d, d.client() as c:
        c.set("k", "v" * 100)
        c.get("k"), c.get("absent")
        status = asked("status", *at("p"))
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
        refused(["stats", "-", "nosuch", *at("p")], path_of("p") + ": the daemon does not support this command on this socket",
                "a group that there is not")
        for command in ("drain", "undrain"):
            refused([command, "a", *at("p")], path_of("p") + ": no nodes are configured", command)
        refused(["pointers", *at("p")], path_of("p") + ": no nodes are configured", "pointers")
        refused(["leases", *at("p")], "no nodes are configured, so there are no leases", "leases")
        route = asked("route", "k%", *at("p"))[0]["stats"]
        tap.is_((route["key"], route["node"], route["why"], route["pointer"]),
                ("k%25", "(embedded)", "no nodes are configured: items are in this process", "unused"), "route: gives the reason")
        c.set("kay", "v"), c.set("l", "v")
        tap.is_(asked("delete-prefix", "k", *at("p"))[0]["deleted"], True, "delete-prefix")
        tap.is_((c.get("k"), c.get("kay"), c.get("l")), (None, None, b"v"), "deletes keys with the prefix, and no others")
        status, out, err = farctl("status", *at("p", "absent"))
        tap.ok(status == 1 and "(embedded)" in out and "absent" in err, "a daemon is shown beside a missing one", out, err)
    with Daemon("-s", path_of("clients")) as d:
        tap.is_(farctl("stats", *at("clients"))[0], 0, "a socket for clients gives statistics")
        with d.client() as c:
            tap.is_(c.ask("delete_prefix k"), "ERROR", "clients know no delete by prefix")
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
                path_of("n") + ": no group of this name; groups: general, leases, classes, all, connections, config",
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


# -- top --------------------------------------------------------------------------------------------------

class Screen:
    """farctl top on a terminal of its own."""

    def __init__(self, *args):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "xterm"
            os.execv(FARCTL, [FARCTL, "top", *args])
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

    def end(self):
        """The exit status, or minus the signal; `seen` has the last output."""
        while self.read(deadline()):
            pass
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
        screen = Screen("--interval=0.2", *at("p"))
        tap.ok(screen.wait_for(r"\x1b\[\?1049h.*averages since the start, by gets.*\x1b\[7mNODE.*\(embedded\)"),
               "a screen", screen.seen)
        tap.ok(screen.wait_for(r"the last 0\.\d s, by gets"), "again after the interval", screen.seen)
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
        screen = Screen(*at("p"))
        tap.ok(screen.wait_for("NODE"), "another", screen.seen)
        screen.press("\x03")
        tap.is_(screen.end(), -2, "interrupted it ends by the signal")
        tap.ok(screen.seen.endswith("\x1b[?25h\x1b[?1049l"), "the screen is as before", screen.seen[-40:])
    screen = Screen(*at("absent"))
    tap.is_(screen.end(), 1, "without a daemon it does not begin")
    tap.ok("no such socket" in screen.seen and "\x1b" not in screen.seen, "and prints the reason", screen.seen)


def main():
    try:
        test_strangers()
        test_embedded()
        test_node()
        test_top()
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)
    tap.done()


main()
