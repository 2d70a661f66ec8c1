# SPDX-License-Identifier: BSD-3-Clause
"""Log lines on stderr: with the journal's levels if stderr is the journal, else without; rate-limited by reason."""
import contextlib
import json
import os
import re
import signal
import socket
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from farcached import Client, Daemon, default_binary, run_binary, tap, until  # noqa: E402
from farnode import Farnode  # noqa: E402

LINES_MAX = 10
STRANGERS = 60
# A shell that becomes the daemon finds the identity of its stderr.
AS_JOURNAL = 'export JOURNAL_STREAM=$(stat -L -c %d:%i /proc/self/fd/2); exec "$0" "$@"'


def started(daemon, workers, http=""):
    return r"farcached \d+\.\d+\.\d+, as memcached 1\.6\.45: listening at tcp:127\.0\.0\.1:%d%s; %d worker%s" % (
        daemon.port, http, workers, "" if workers == 1 else "s")


class InJournal(Daemon):
    """A daemon with $JOURNAL_STREAM naming its stderr."""

    def command(self):
        return ["bash", "-c", AS_JOURNAL, *super().command()]


def reachable():
    """farcached listens as memcached does, and warns once if clients of other machines need no authentication."""
    words = "can be reached from other machines, and clients need no authentication there"
    with InJournal("-l", "0.0.0.0", "-U", "0", "-t", "1") as d:
        lines = [line for line in d.stderr().decode().splitlines() if words in line]
        tap.is_([line[:line.index(" can be")] for line in lines], ["<4>tcp:0.0.0.0:%d" % d.port],
                "one warning, with the address and the port that the kernel chose")
    with tempfile.NamedTemporaryFile("w", prefix="farcached-log-") as passwords:
        passwords.write("user:password\n")
        passwords.flush()
        os.chmod(passwords.name, 0o644)
        for more in (["--insecure"], ["-Y", passwords.name], ["-l", "127.0.0.1"]):
            with Daemon("-l", "0.0.0.0", *more, "-t", "1") if more[0] != "-l" else Daemon(*more, "-t", "1") as d:
                tap.ok(words not in d.stderr().decode(), "none with " + more[0])


def nobody_listens():
    with contextlib.closing(socket.socket()) as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def levels():
    node = ["--node", "a=tcp:127.0.0.1:%d" % nobody_listens()]
    with tempfile.TemporaryDirectory(prefix="farcached-log-") as folder:
        path = os.path.join(folder, "admin")
        for kind, mark in ((Daemon, False), (InJournal, True)):
            with kind(*node, "--admin", path, "-t", "1") as d:
                until(d.stderr, lambda text: (b"listening at" if mark else b"is down") in text)
                with Client(path) as c:
                    c.ask("drain a")
                lines = d.stderr().decode().splitlines()
                if mark:
                    tap.like(lines.pop(1), r"\A<5>%s; 0/1 nodes up \(a is down: .*Connection refused\)\)\Z" % started(d, 1),
                             "the journal has a line of the start")
                tap.is_(len(lines), 2, "%s: two lines" % kind.__name__)
                warning, notice = ("<4>", "<5>") if mark else ("", "")
                tap.like(lines[0], r"\A%snode a is down: tcp:127\.0\.0\.1:\d+: .*Connection refused\); its keys miss and cannot be "
                         r"changed until it is back; reconnecting in \d+ s node=a cause=channel_ended\Z" % warning,
                         kind.__name__ + ": a node that is down is a warning")
                tap.like(lines[1], r"\A%snode a is drained node=a\Z" % notice,
                         kind.__name__ + ": an operator's command is a notice")
    with Daemon("--node", "a=tcp:127.0.0.1:%d" % nobody_listens(), env={"JOURNAL_STREAM": "1:1"}) as d:
        until(d.stderr, lambda text: b"is down" in text)
        tap.like(d.stderr(), r"\Anode a is down", "stderr that was redirected is not the journal")


def refusals():
    """Each line of a message with several lines has a level."""
    status, _, said = run_binary("-c", AS_JOURNAL, default_binary(), "-u", "nobody", "-l", "300.1.1.1", binary="bash", as_is=True)
    lines = said.decode().splitlines()
    tap.ok(status == 71 and len(lines) == 2 and all(line.startswith("<3>") for line in lines),
           "each line of a refusal is an error in the journal", said)


def limited():
    """Strangers at a node: their log lines are limited, and the number of suppressed lines is logged."""
    with Farnode("-v", "-t", "1") as node:
        def stranger():
            with Client(node.port) as c:
                c.send(b"no greeting at all " * 10)
                with contextlib.suppress(ConnectionError):
                    c.until_close()
        for _ in range(STRANGERS):
            stranger()

        def said():
            return re.findall(r"(?m)^tcp:.*without a greeting: .*$", node.stderr().decode())
        lines = until(said, lambda found: len(found) >= LINES_MAX)
        tap.ok(LINES_MAX <= len(lines) < STRANGERS / 2, "some lines of one reason in a row, and not one for each stranger",
               len(lines))


def shown(said):
    """Names and values of a logfmt line, in order."""
    return {name: json.loads(value) if value.startswith('"') else value
            for name, value in re.findall(r'(\w+)=("(?:[^"\\]|\\.)*"|\S*)', said)}


def starts():
    """The line of a start. It is in the journal; elsewhere -v shows it, and by default nothing does, as with memcached."""
    def first_line(daemon, has=b"\n"):
        return until(daemon.stderr, lambda text: has in text).decode()

    with InJournal("--http", "0", "-t", "2") as d:
        tap.like(first_line(d), r"\A<5>%s; items are in this process\n\Z" % started(d, 2, r", http:127\.0\.0\.1:\d+"),
                 "an embedded node")
    with Daemon("-v", "-t", "1") as d:
        tap.like(first_line(d), r"\A%s; items are in this process\n\Z" % started(d, 1), "-v")
    with Daemon("--node", "a=tcp:127.0.0.1:%d" % nobody_listens(), "-o", "failover", "-t", "1") as d:
        tap.like(first_line(d), r"; its keys go to the next node until it is back; ", "failover")
    tap.is_(d.stderr_at_end.count(b"\n"), 1, "by default there is no line of the start")
    with Farnode("--name", "n", "-v") as node:
        tap.like(first_line(node, b"farnode"), r"(?m)^farnode \d+\.\d+\.\d+, node n: listening at (shm:.*, )?tcp:127\.0\.0\.1:%d; "
                 r"\d+ threads?; 64 MB$" % node.port, "farnode")


def forms():
    node = ["--node", "a=tcp:127.0.0.1:%d" % nobody_listens(), "-t", "1"]
    for form, read in (("logfmt", shown), ("json", json.loads)):
        with Daemon(*node, "--log-format", form) as d:
            line = until(d.stderr, lambda text: b"is down" in text).decode().splitlines()[0]
            got = read(line)
            tap.is_(list(got), ["ts", "level", "msg", "node", "cause"], form + ": the names in a line")
            tap.is_((got["level"], got["node"], got["cause"]), ("warning", "a", "channel_ended"), form + ": and their values")
            tap.like(got["msg"], "^node a is down: .*Connection refused", form + ": with a sentence")
            tap.like(got["ts"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$", form + ": and the time")


def chosen_levels():
    """The lines at each level, also after a change at run time."""
    with tempfile.TemporaryDirectory(prefix="farcached-log-") as folder:
        path = os.path.join(folder, "farcached.toml")

        def write(**keys):
            with open(path, "w") as f:
                f.writelines("%s = %s\n" % pair for pair in keys.items())

        write(log_level='"error"')
        with Daemon("--config", path, "--node", "a=tcp:127.0.0.1:%d" % nobody_listens(), "-t", "1") as d:
            d.until_stat("down_channel_ended", lambda n: int(n) > 1, "proxy")
            tap.is_(d.stderr(), b"", "log_level = error: no warnings")
            write(log_level='"info"', log_format='"json"')
            d.signal(signal.SIGHUP)
            until(d.stderr, lambda text: b"reload" in text)
            tap.is_(json.loads(d.stderr())["msg"], "reload: changed log_level, log_format", "a reload changes level and form")
            write(log_level='"error"')
            d.signal(signal.SIGHUP)
            until(lambda: d.stats("config"), lambda stats: stats["config_reloads"] == "2")
            with d.client() as c:
                c.ask("verbosity 2")
                c.get("x")
                until(d.stderr, lambda text: b" get x" in text)
                tap.like(d.stderr(), r"(?m)^<\d+ get x$", "`verbosity 2` shows requests at any level")
                c.ask("verbosity 0")
        tap.is_([line for line in d.stderr_at_end.decode().splitlines() if "xit" in line], [], "below info no end is logged")
    status, _, said = run_binary("--log-level", "loud")
    tap.is_((status, said), (64, b"could not parse argument to log-level: unknown word 'loud'. "
                                  b"Allowed: error, warning, notice, info, debug\n"), "a level that is none")


def main():
    levels()
    reachable()
    starts()
    forms()
    chosen_levels()
    refusals()
    limited()
    tap.done()


main()
