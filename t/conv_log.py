# SPDX-License-Identifier: BSD-3-Clause
"""Lines on stderr: with the journal's levels where stderr is the journal and bare elsewhere, and limited for each reason."""
import contextlib
import os
import re
import socket
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from farcached import Client, Daemon, default_binary, run_binary, tap, until  # noqa: E402
from farnode import Farnode  # noqa: E402

LINES_MAX = 10
STRANGERS = 60
# What the daemon's stderr is, is known by the shell that becomes the daemon.
AS_JOURNAL = 'export JOURNAL_STREAM=$(stat -L -c %d:%i /proc/self/fd/2); exec "$0" "$@"'


class InJournal(Daemon):
    """Its stderr is what $JOURNAL_STREAM names."""

    def command(self):
        return ["bash", "-c", AS_JOURNAL, *super().command()]


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
                until(d.stderr, lambda text: b"is down" in text)
                with Client(path) as c:
                    c.ask("drain a")
                lines = d.stderr().decode().splitlines()
                tap.is_(len(lines), 2, "%s: two lines" % kind.__name__)
                warning, notice = ("<4>", "<5>") if mark else ("", "")
                tap.like(lines[0], r"\A%snode a is down: " % warning, kind.__name__ + ": a node that is down is a warning")
                tap.like(lines[1], r"\A%snode a is drained\Z" % notice, kind.__name__ + ": what an operator does is a notice")
    with Daemon("--node", "a=tcp:127.0.0.1:%d" % nobody_listens(), env={"JOURNAL_STREAM": "1:1"}) as d:
        until(d.stderr, lambda text: b"is down" in text)
        tap.like(d.stderr(), r"\Anode a is down", "stderr that was redirected is not the journal")


def refusals():
    """Each line of several."""
    status, _, said = run_binary("-c", AS_JOURNAL, default_binary(), "-u", "nobody", "-l", "300.1.1.1", binary="bash", as_is=True)
    lines = said.decode().splitlines()
    tap.ok(status == 71 and len(lines) == 2 and all(line.startswith("<3>") for line in lines),
           "each line of a refusal is an error in the journal", said)


def limited():
    """Strangers at a node: what is said of each is limited, and what was left out is said."""
    with Farnode("-v", "-t", "1") as node:
        def stranger():
            with Client(node.port) as c:
                c.send(b"no greeting at all " * 10)
                with contextlib.suppress(ConnectionError):
                    c.until_close()
        for _ in range(STRANGERS):
            stranger()

        def said():
            return re.findall(r"(?m)^tcp:.*who did not greet: .*$", node.stderr().decode())
        lines = until(said, lambda found: len(found) >= LINES_MAX)
        tap.ok(LINES_MAX <= len(lines) < STRANGERS / 2, "some lines of one reason in a row, and not one for each stranger",
               len(lines))


def main():
    levels()
    refusals()
    limited()
    tap.done()


main()
