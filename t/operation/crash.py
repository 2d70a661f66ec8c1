# SPDX-License-Identifier: BSD-3-Clause
"""The crash report of a daemon that ends by a bug, and the exit by that signal. One daemon gets the signal from outside. The
program with faults crashes by a failed CHECK, an invalid pointer, a stack overflow and a division by zero."""
import contextlib
import ctypes
import os
import re
import resource
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from cluster import test_program  # noqa: E402
from farcached import Daemon, deadline, default_binary, is_sanitized, run_binary, tap, until  # noqa: E402
from farnode import Farnode  # noqa: E402

SYS_TGKILL = {"x86_64": 234, "aarch64": 131}.get(os.uname().machine)
NAMES = {getattr(signal, name): name for name in ("SIGABRT", "SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE")}
# A sanitizer handles the other signals itself.
REPORTED = [signal.SIGABRT] if is_sanitized() else list(NAMES)

HIDDEN = ("abort", "bus")  # crashes without --crash-request


def threads_of(pid):
    """{name: [threads]}"""
    found = {}
    for thread in os.listdir("/proc/%d/task" % pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError), open("/proc/%d/task/%s/comm" % (pid, thread)) as f:
            found.setdefault(f.read().strip(), []).append(int(thread))
    return found


def end_by(daemon, number, thread=None):
    """Sends the signal to the daemon, or to one thread of it; returns its stderr."""
    if thread is None:
        # While the first thread starts others it blocks signals, and a new thread would take this one. The thread that logs the
        # start has the name of the first one, and ends then.
        until(lambda: threads_of(daemon.pid),
              lambda found: {"watch", "accept"} <= set(found) and [daemon.pid] in found.values())
        daemon.signal(number)
    else:
        ctypes.CDLL(None).syscall(SYS_TGKILL, daemon.pid, thread, int(number))
    status = daemon.wait()
    daemon.stop()
    tap.is_(status, -number, "it ends by the signal")
    return daemon.stderr_at_end.decode("latin-1")


# The lines before a report.
BEFORE = {"check": r"farcached: internal error at \S*faulty\.cc:\d+: key != .*\n",
          "throw": r"terminate called after throwing an instance of 'std::runtime_error'\n  what\(\):  failing\n"}


def check_report(said, first, thread, name, before=""):
    """Checks the parts that each report has, and what is before it."""
    version = run_binary("--version-full", as_is=True)[1].decode().split()[3]
    lines = said.split("\n")
    at = next((i for i, line in enumerate(lines) if line.startswith("farcached: crash:")), 0)
    tap.like("".join(line + "\n" for line in lines[:at]), r"\A%s\Z" % before, name + ": what is before the report")
    tap.ok(re.fullmatch(first, lines[at]), name + ": which signal", said)
    tap.ok(re.search(r"^  program: \w+ %s\b.*; compiler .*; build id (none|[0-9a-f]{8,})$" % re.escape(version), said, re.M),
           name + ": version and build", said)
    tap.ok(re.search(r'^  process \d+, thread \d+ "%s"$' % thread, said, re.M), name + ": the thread", said)
    backtrace = said.split("  backtrace:\n")[-1].split("\n")
    tap.ok(len(backtrace) > 3 and re.search(r"\[0x[0-9a-f]+\]$", backtrace[0]), name + ": where it was", said)
    tap.ok(said.endswith("\n") and lines[-2].startswith("  at hand: "), name + ": the request at hand is the last line", said)


def sent(uid=os.getuid()):
    return ", sent by process %d of user %d" % (os.getpid(), uid)


def test_sent():
    for number in REPORTED:
        with Daemon(expect_exit=-number, threads=1) as d:
            said = end_by(d, number)
            check_report(said, "farcached: crash: " + NAMES[number] + sent(), "farcached", NAMES[number])
            tap.like(said, "at hand: nothing", "nothing was at hand")


def test_worker():
    number = REPORTED[-1]
    with Daemon(expect_exit=-number, threads=2) as d:
        with d.client() as c:
            for i in range(50):  # more than the report keeps
                c.set("k", "v")
            wanted = {"farcached", "worker 0", "worker 1", "accept", "crawler", "watch"}
            names = until(lambda: threads_of(d.pid), lambda found: wanted <= set(found))
            tap.ok(wanted <= set(names), "threads have names", names)
            said = end_by(d, number, names["worker 0"][0])
        check_report(said, "farcached: crash: " + NAMES[number] + sent(), "worker 0", "a worker")
        events = re.findall(r"^    (\d+) us ago: (.*)$", said, re.M)
        ages = [int(age) for age, _ in events]
        tap.ok(ages == sorted(ages, reverse=True), "the newest event is last", said)
    with Daemon(expect_exit=-number, threads=1) as d:
        with d.client() as c:
            for i in range(50):
                c.set("k", "v")
            said = end_by(d, number, threads_of(d.pid)["worker 0"][0])
        events = re.findall(r"^    \d+ us ago: (.*)$", said, re.M)
        tap.is_(len(events), 32, "32 events are kept")
        # The client may get its reply before the event is recorded.
        tap.is_(sorted(re.sub(r" \d+ ", " N ", event) for event in events[-2:]),
                ["received on connection, bytes: N 16", "sent on connection, bytes: N 8"], "and the report ends with the newest")


def test_farnode():
    number = REPORTED[-1]
    with Farnode("--name", "n", expect_exit=-number, threads=1) as n:
        with n.node_client() as proxy:
            proxy.greet()
            proxy.set(b"k", b"v")
            thread = until(lambda: threads_of(n.pid).get("loop", [None])[0], bool)
            said = end_by(n, number, thread)
        check_report(said, "farcached: crash: " + NAMES[number] + sent(), "loop", "farnode")
        tap.like(said, "us ago: turn of connection|    turn of connection", "its last events")


def faulty(*args, **more):
    return Daemon(*args, binary=test_program("faulty/farcached"), env={"FARCACHED_FAULTS": "failing=1"}, threads=1, **more)


def test_bugs():
    own = ", its own"
    for key, number, first in (("check", signal.SIGABRT, own), ("abort", signal.SIGABRT, own),
                               ("null", signal.SIGSEGV, " at address 0x0{16}"), ("stack", signal.SIGSEGV, " at address 0x.*"),
                               ("divide", signal.SIGFPE, " at address 0x.*"), ("bus", signal.SIGBUS, " at address 0x.*"),
                               ("throw", signal.SIGABRT, own)):
        if number not in REPORTED:
            continue
        shown = key not in HIDDEN
        with faulty(*["--crash-request"][:shown], expect_exit=-number) as d, d.client() as c:
            c.set("k", "v")
            port = c.socket.getsockname()[1]
            c.send(b"get k\r\nset k 0 0 1\r\nw\r\ndelete fail:%s\r\nget k\r\n" % key.encode())
            tap.is_(d.wait(), -number, key + ": it ends by the signal")
            d.stop()
            said = d.stderr_at_end.decode("latin-1")
            check_report(said, "farcached: crash: " + NAMES[number] + first, "worker 0", key, BEFORE.get(key, ""))
            bytes_shown = r' that begin with "delete fail:%s\\r\\nget k\\r\\n"' % key if shown else ""
            tap.like(said, r'(?m)^  at hand: connection \d+ from tcp:127\.0\.0\.1:%d, %d bytes%s$'
                     % (port, len("delete fail:\r\nget k\r\n") + len(key), bytes_shown), key + ": the command at hand")
            if not shown:
                tap.ok("delete fail" not in said, key + ": none of its bytes without --crash-request", said)


def test_bugs_of_a_node():
    """The same in a farnode, whose loop reports the key at hand."""
    for key, number in (("check", signal.SIGABRT), ("null", signal.SIGSEGV), ("stack", signal.SIGSEGV), ("bus", signal.SIGBUS),
                        ("abort", signal.SIGABRT)):
        if number not in REPORTED:
            continue
        shown = key not in HIDDEN
        with Farnode("--name", "n", *["--crash-request"][:shown], binary=test_program("faulty/farnode"), threads=1,
                     env={"FARCACHED_FAULTS": "failing=1"}, expect_exit=-number) as n, n.node_client() as proxy:
            proxy.greet()
            proxy.set(b"k", b"v")
            proxy.request(1, b"fail:" + key.encode())
            tap.is_(n.wait(), -number, "farnode, %s: it ends by the signal" % key)
            n.stop()
            said = n.stderr_at_end.decode("latin-1")
            check_report(said, "farcached: crash: " + NAMES[number] + ".*", "loop", "farnode, " + key, BEFORE.get(key, ""))
            bytes_shown = ' that begin with "fail:%s"' % key if shown else ""
            tap.like(said, r'(?m)^  at hand: connection \d+ from .*, %d bytes%s$' % (5 + len(key), bytes_shown),
                     "farnode, %s: the key at hand" % key)
            if not shown:
                tap.ok("fail:" not in said, "farnode, %s: none of its bytes without --crash-request" % key, said)


class Dumping(Daemon):
    """Runs in its own folder, which gets the core, and with $JOURNAL_STREAM set for its stderr."""

    def command(self):
        script = 'cd %s && ulimit -c unlimited && export JOURNAL_STREAM=$(stat -L -c %%d:%%i /proc/self/fd/2) && exec "$0" "$@"'
        return ["bash", "-c", script % self.folder, *super().command()]

    def _end(self):
        self.cores = [name for name in os.listdir(self.folder) if name.startswith("core")]
        super()._end()


def test_core():
    """The daemon dumps core, and its report has the journal's level "critical"."""
    with open("/proc/sys/kernel/core_pattern") as f:
        pattern = f.read().strip()
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    number = signal.SIGABRT
    with Dumping("-m", "8", expect_exit=-number, threads=1) as d:
        until(lambda: threads_of(d.pid), lambda names: {"watch", "accept"} <= set(names))
        until(d.stderr, lambda text: b"\n" in text)  # the line of the start
        d.signal(number)
        # The kernel looks at each page of the address space, seconds of CPU.
        tap.is_(d.wait(5 * deadline()), -number, "it ends by the signal")
        d.stop()
    start, *lines = d.stderr_at_end.decode("latin-1").splitlines()
    tap.like(start, r"\A<5>farcached \S+, as memcached \S+: listening at tcp:127\.0\.0\.1:%d; 1 worker; "
             "items are in this process\Z" % d.port,
             "the journal's first line is of the start")
    tap.ok(lines and all(line.startswith("<2>") for line in lines), "in the journal each line of a report is critical", lines)
    if pattern.startswith("|") or "/" in pattern or hard != resource.RLIM_INFINITY:
        tap.skip("a core", "cores go elsewhere here: " + pattern)
    elif is_sanitized():
        tap.skip("a core", "a sanitizer forbids cores: it maps terabytes")
    else:
        tap.is_(len(d.cores), 1, "and there is a core")


def main():
    if SYS_TGKILL is None or default_binary() is None:
        tap.skip_all("no way to signal a thread is known here")
    test_core()
    # No more cores: they contain the cache.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    test_sent()
    test_worker()
    test_farnode()
    test_bugs()
    test_bugs_of_a_node()
    tap.done()


main()
