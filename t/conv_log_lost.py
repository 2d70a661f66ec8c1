# SPDX-License-Identifier: BSD-3-Clause
"""A stderr that takes nothing: a full disk, a pipe or a terminal that nobody reads, one whose reader has gone. Nobody waits for
it, nobody ends by it; what is lost is counted, and said when there is room again."""
import contextlib
import fcntl
import os
import pty
import re
import resource
import shlex
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from farcached import Daemon, deadline, default_binary, gone, tap, until, user_args  # noqa: E402

REQUESTS = 2000  # each is two lines with -vv, and all of them more than a pipe holds
LOST = "lines for stderr were lost, as it did not take them"


class Redirected(Daemon):
    """Its stderr is where a shell's words say."""

    def __init__(self, *args, where, **more):
        super().__init__(*args, **more)
        self.where = where

    def command(self):
        return ["bash", "-c", 'exec "$0" "$@" %s' % self.where, *super().command()]


def lost(daemon):
    return int(daemon.stats("proxy")["log_lines_lost"])


def requests(daemon):
    """Each is answered, whatever becomes of what is said of it."""
    with daemon.client() as c:
        answers = [c.set("k%d" % i, "v") for i in range(REQUESTS)]
        tap.is_(set(answers), {"STORED"}, "%d requests are answered" % REQUESTS)


def full_device():
    with Redirected("-vv", where="2>/dev/full", threads=2) as d:
        requests(d)
        tap.ok(lost(d) >= 2 * REQUESTS, "/dev/full: every line is lost, and counted", lost(d))


def full_disk():
    """A file that may not grow is a disk that is full, until it may."""
    with tempfile.TemporaryDirectory(prefix="farcached-log-") as folder:
        path = os.path.join(folder, "log")
        where = "2>>%s" % shlex.quote(path)
        with Redirected("-vv", where=where, threads=2) as d:
            resource.prlimit(d.pid, resource.RLIMIT_FSIZE, (8192, resource.RLIM_INFINITY))
            requests(d)
            tap.is_(os.path.getsize(path), 8192, "a disk that is full is not filled further")
            counted = lost(d)
            tap.ok(counted > REQUESTS, "what it did not take is counted", counted)
            resource.prlimit(d.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            with d.client() as c:
                c.set("room", "v")

                def told():
                    with open(path) as f:
                        return re.findall(r"(?m)^%s lines=(\d+)$" % LOST, f.read())
                found = until(told, bool)
            tap.is_(len(found), 1, "once there is room a line says that lines were lost")
            tap.is_([int(n) for n in found], [lost(d)], "and how many, as the statistic does")
            with open(path) as f:
                tap.ok(re.search(r"(?m)^<\d+ set room", f.read()), "what comes then is written, on a line of its own")


@contextlib.contextmanager
def pipe():
    """Its two ends, of a size that is soon full."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    ends = {"reader": reader, "writer": writer}
    try:
        yield ends
    finally:
        for end in ends.values():
            os.close(end)


@contextlib.contextmanager
def terminal():
    """The same of a terminal: what is written there is read at the other side of it."""
    reader, writer = pty.openpty()
    ends = {"reader": reader, "writer": writer}
    try:
        yield ends
    finally:
        for end in ends.values():
            os.close(end)


def waits(fd):
    return not fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_NONBLOCK


def at_end(ends, *args, **more):
    d = Redirected(*args, where="2>&%d %d>&-" % (ends["writer"], ends["writer"]), **more)
    d.pass_fds = (ends["writer"],)
    return d


def unread(what, both_ends):
    with both_ends() as ends, at_end(ends, "-vv", threads=2) as d:
        requests(d)
        counted = lost(d)
        tap.ok(counted > REQUESTS, "a %s that nobody reads: what it did not take is counted" % what, counted)
        d.signal(signal.SIGHUP)
        until(lambda: d.stats("config")["config_reloads"], lambda n: n == "1")
        tap.is_(d.stats("config")["config_reloads"], "1", "a reload does not wait for it either")
        tap.ok(waits(ends["writer"]), "who has it, too, is made to wait as before")
        os.set_blocking(ends["reader"], False)
        text = ""

        def told():
            nonlocal text
            with contextlib.suppress(BlockingIOError):
                while True:
                    text += os.read(ends["reader"], 1 << 16).decode().replace("\r", "")
            return sum(int(n) for n in re.findall(r"(?m)^%s lines=(\d+)$" % LOST, text))
        # A terminal hands on what was written when it likes: there is room now and then before, and not at once now.
        with d.client() as c:
            found = until(lambda: c.set("room", "v") and told(), lambda n: n >= counted)
        tap.ok(found >= counted, "read again, it says how many were lost", found, counted, text[-500:])
        begun = re.compile(r"[<>]\d+ |reload: |%s" % LOST)
        wrong = [line for line in text.splitlines() if not line or len(begun.findall(line)) > 1 or line[0] not in "<>rl"]
        tap.is_(wrong, [], "and no two lines are one")


def reader_gone(what, both_ends):
    with both_ends() as ends:
        with at_end(ends, "-vv", threads=2) as d:
            os.close(ends.pop("reader"))
            requests(d)
            tap.ok(lost(d) >= 2 * REQUESTS, "a %s whose reader is gone ends nobody, and takes nothing" % what, lost(d))


def left_behind():
    """-d: nothing of the terminal is kept, or whoever reads it would never see its end."""
    with terminal() as ends, tempfile.TemporaryDirectory(prefix="farcached-log-") as folder:
        path = os.path.join(folder, "pid")
        command = [default_binary(), *user_args(), "-d", "-P", path, "-l", "127.0.0.1", "-p", "-1"]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=ends["writer"],
                              timeout=deadline())
        tap.is_(done.returncode, 0, "-d leaves a terminal")
        with open(until(lambda: path, os.path.exists)) as f:
            pid = int(f.read())
        try:
            files = {os.readlink("/proc/%d/fd/%s" % (pid, fd)) for fd in os.listdir("/proc/%d/fd" % pid)}
            tap.ok("/dev/null" in files and os.ttyname(ends["writer"]) not in files, "and has it no longer", files)
        finally:
            os.kill(pid, signal.SIGTERM)
        until(lambda: gone(pid), bool)


def crash(what, both_ends):
    """The last words are not waited for, either."""
    with both_ends() as ends:
        with at_end(ends, "-vv", threads=1, expect_exit=-signal.SIGABRT) as d:
            requests(d)
            d.signal(signal.SIGABRT)
            tap.is_(d.wait(), -signal.SIGABRT, "who crashes at a %s ends by the signal, though nobody reads what it says" % what)


def main():
    # Nobody wants the cores: the cache is in them.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    full_device()
    full_disk()
    for what, both_ends in (("pipe", pipe), ("terminal", terminal)):
        unread(what, both_ends)
        reader_gone(what, both_ends)
        crash(what, both_ends)
    left_behind()
    tap.done()


main()
