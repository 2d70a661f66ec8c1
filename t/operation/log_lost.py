# SPDX-License-Identifier: BSD-3-Clause
"""A stderr that does not accept data: a full disk, a pipe or a terminal without a reader, a pipe whose reader has gone. The daemon
neither waits nor ends. It counts lost lines, and logs their number when there is room again."""
import contextlib
import fcntl
import os
import pty
import re
import resource
import shlex
import signal
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from farcached import Daemon, tap, until  # noqa: E402

REQUESTS = 2000  # two lines each with -vv, in sum more than a pipe holds
LOST = "log lines were lost because stderr did not accept them"


class Redirected(Daemon):
    """A daemon with a shell's redirection of stderr."""

    def __init__(self, *args, where, **more):
        super().__init__(*args, **more)
        self.where = where

    def command(self):
        return ["bash", "-c", 'exec "$0" "$@" %s' % self.where, *super().command()]


def lost(daemon):
    return int(daemon.stats("proxy")["log_lines_lost"])


def requests(daemon):
    """Every request is answered, even if its log lines are lost."""
    with daemon.client() as c:
        answers = [c.set("k%d" % i, "v") for i in range(REQUESTS)]
        tap.is_(set(answers), {"STORED"}, "%d requests are answered" % REQUESTS)


def full_device():
    with Redirected("-vv", where="2>/dev/full", threads=2) as d:
        requests(d)
        # Including lines about connections.
        tap.ok(2 * REQUESTS <= lost(d) < 3 * REQUESTS, "/dev/full: every line is lost, and counted once", lost(d))


def full_disk():
    """RLIMIT_FSIZE stands for a full disk, until it is raised."""
    with tempfile.TemporaryDirectory(prefix="farcached-log-") as folder:
        path = os.path.join(folder, "log")
        where = "2>>%s" % shlex.quote(path)
        with Redirected("-vv", where=where, threads=2) as d:
            resource.prlimit(d.pid, resource.RLIMIT_FSIZE, (8192, resource.RLIM_INFINITY))
            requests(d)
            tap.is_(os.path.getsize(path), 8192, "a disk that is full is not filled further")
            counted = lost(d)
            tap.ok(counted > REQUESTS, "lost lines are counted", counted)
            resource.prlimit(d.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            with d.client() as c:
                c.set("room", "v")

                def told():
                    with open(path) as f:
                        return re.findall(r"(?m)^%s lines=(\d+)$" % LOST, f.read())
                found = until(told, bool)
            tap.is_(len(found), 1, "once there is room a line reports the lost ones")
            tap.is_([int(n) for n in found], [lost(d)], "and how many, as the statistic does")
            with open(path) as f:
                tap.ok(re.search(r"(?m)^<\d+ set room", f.read()), "later lines are written, each on its own line")


@contextlib.contextmanager
def pipe():
    """Both ends of a small pipe."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    ends = {"reader": reader, "writer": writer}
    try:
        yield ends
    finally:
        for end in ends.values():
            os.close(end)


def at_pipe(ends, *args, **more):
    d = Redirected(*args, where="2>&%d %d>&-" % (ends["writer"], ends["writer"]), **more)
    d.pass_fds = (ends["writer"],)
    return d


def unread_pipe():
    with pipe() as ends, at_pipe(ends, "-vv", threads=2) as d:
        requests(d)
        counted = lost(d)
        tap.ok(counted > REQUESTS, "a pipe without a reader: lost lines are counted", counted)
        d.signal(signal.SIGHUP)
        until(lambda: d.stats("config")["config_reloads"], lambda n: n == "1")
        tap.is_(d.stats("config")["config_reloads"], "1", "a reload does not wait for it either")
        os.set_blocking(ends["reader"], False)
        text = os.read(ends["reader"], 1 << 16).decode()
        with d.client() as c:
            c.set("room", "v")

            def told():
                nonlocal text
                with contextlib.suppress(BlockingIOError):
                    text += os.read(ends["reader"], 1 << 16).decode()
                return re.findall(r"(?m)^%s lines=(\d+)$" % LOST, text)
            found = until(told, bool)
        tap.ok(found and int(found[0]) >= counted, "read again, it gets the number of lost lines", text[-500:])
        whole = r"[<>]\d+ |reload: |farcached .*; items are in this process$|%s" % LOST
        tap.ok(all(re.match(whole, line) for line in text.splitlines()), "and no line is cut short")


@contextlib.contextmanager
def terminal():
    """Both ends of a terminal."""
    ends = dict(zip(("reader", "writer"), pty.openpty()))
    try:
        yield ends
    finally:
        for end in ends.values():
            os.close(end)


def requests_of_all_lengths(daemon):
    """Requests of all lengths, so that a line meets every amount of free space."""
    with daemon.client() as c:
        return {c.set("k" * (1 + i % 200), "v") for i in range(REQUESTS)}


def unread_terminal():
    with terminal() as ends, at_pipe(ends, "-vv", threads=1) as d:
        tap.is_(requests_of_all_lengths(d), {"STORED"}, "a terminal without a reader: %d requests are answered" % REQUESTS)
        counted = lost(d)
        tap.ok(counted > REQUESTS, "lost lines are counted", counted)
        os.set_blocking(ends["reader"], False)
        text = ""

        def told():
            nonlocal text
            with contextlib.suppress(BlockingIOError):
                text += os.read(ends["reader"], 1 << 16).decode()
            return sum(int(n) for n in re.findall(r"(?m)^%s lines=(\d+)\r$" % LOST, text))
        with d.client() as c:
            found = until(lambda: (c.set("room", "v"), told(), lost(d)), lambda seen: seen[1] == seen[2])
        tap.ok(found[1] == found[2] >= counted, "read again, it gets the number of lost lines", found, text[-500:])


def reader_gone():
    with pipe() as ends:
        with at_pipe(ends, "-vv", threads=2) as d:
            os.close(ends.pop("reader"))
            requests(d)
            tap.ok(lost(d) >= 2 * REQUESTS, "a pipe without a reader: the daemon runs, and all lines are lost", lost(d))


def crash():
    """A crash report does not wait for a reader, either."""
    for where in (pipe, terminal):
        with where() as ends, at_pipe(ends, "-vv", threads=1, expect_exit=-signal.SIGABRT) as d:
            requests_of_all_lengths(d)
            os.read(ends["reader"], 500)  # room for the beginning of the report
            d.signal(signal.SIGABRT)
            tap.is_(d.wait(), -signal.SIGABRT, where.__name__ + ": a crash ends by the signal, without a reader")


def main():
    # No cores: they contain the cache.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    full_device()
    full_disk()
    unread_pipe()
    unread_terminal()
    reader_gone()
    crash()
    tap.done()


main()
