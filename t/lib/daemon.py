# SPDX-License-Identifier: BSD-3-Clause
"""A daemon under test and a raw client. Scripts import them from farcached.py, whose docstring has the invariants H1 to H6.

The tested program is Daemon(binary=...), else $FARCACHED, else $abs_top_builddir/farcached, else ./farcached.
"""
import contextlib
import ctypes
import os
import re
import resource
import shutil
import signal as signals
import socket
import ssl
import subprocess
import tempfile
import time
import traceback

import certificates
from tap_output import show, tap, to_bytes

SANITIZER_REPORT = re.compile(
    rb"ERROR: (Address|Leak)Sanitizer|WARNING: ThreadSanitizer|ThreadSanitizer:|runtime error:|"
    rb"AddressSanitizer:|MemorySanitizer|CHECK failed|panic:")


def slow_factor():
    return float(os.environ.get("FARCACHED_TEST_SLOW", "1"))


def deadline():
    """The limit of any single wait, in seconds."""
    return 20.0 * slow_factor()


# -------------------------------------------------------------------------------------------- daemon

class StartFailed(Exception):
    """The daemon ended, or did not listen in time."""


def default_binary():
    named = os.environ.get("FARCACHED")
    if named:
        return named
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    folders = [os.environ.get("abs_top_builddir"), os.environ.get("top_builddir"), os.getcwd(), here]
    for folder in folders:
        if folder and os.access(os.path.join(folder, "farcached"), os.X_OK):
            return os.path.join(os.path.abspath(folder), "farcached")
    return os.path.join(os.getcwd(), "farcached")


def test_program(name):
    """A program built in t/: load/consistency, or faulty/farcached with fault injection (t/faulty/faulty.cc)."""
    return os.path.join(os.path.dirname(os.path.abspath(default_binary())), "t", name)


def user_args():
    """memcached requires -u of root."""
    return ["-u", "root"] if os.geteuid() == 0 else []


def socket_args():
    """Options for the back end of clients' sockets, placed in front of the test's own arguments."""
    backend = os.environ.get("FARCACHED_IO")
    return ["-o", "io=" + backend] if backend else []


def _die_with_parent():
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signals.SIGKILL)


def is_sanitized(binary=None):
    """Is the program built with a sanitizer that keeps memory of its own?"""
    with open(binary or default_binary(), "rb") as f:
        text = f.read()
    return b"__asan_init" in text or b"__tsan_init" in text


def run_binary(*args, env=None, binary=None, as_is=False, timeout=None):
    """Runs the program to its end: (exit status, stdout, stderr) as int, bytes, bytes.

    For calls that end by themselves (-V, wrong flags). as_is: no `-u root` is added.
    """
    command = [binary or default_binary()] + ([] if as_is else user_args()) + [str(a) for a in args]
    done = subprocess.run(command, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=timeout or deadline(), preexec_fn=_die_with_parent)
    return done.returncode, done.stdout, done.stderr


def has_tls():
    """Has the program TLS, and is the openssl command there?"""
    return certificates.is_available() and b"without OpenSSL" not in run_binary("--version-full")[1]


def stat_words(task):
    """The fields of /proc/TASK/stat behind the program's name; the first one is the state."""
    with open("/proc/%s/stat" % task) as f:
        return f.read().rsplit(")", 1)[1].split()


def gone(pid):
    """Has the process ended? A zombie counts as ended."""
    try:
        return stat_words(pid)[0] in "ZX"
    except FileNotFoundError:
        return True


class Daemon:
    """A running farcached (or another memcached). `with Daemon("-m", "16") as d: c = d.client()`.

    Unless the arguments contain -s, -p or -l it gets `-l 127.0.0.1 -p -1`, and .port is the kernel's choice. With `-s PATH` its
    address is .path. expect_exit: the exit status that the end of the block checks.
    """

    def __init__(self, *args, env=None, binary=None, expect_exit=0, user=None, threads=None):
        self.binary = binary or default_binary()
        self.args = [str(a) for a in args]
        self.socket_args = socket_args() if binary is None else []
        self.tls = binary is None and "-s" not in self.args and certificates.is_wanted()
        self.env = env or {}
        self.expect_exit = expect_exit
        self.user = user_args() if user is None else list(user)
        self.threads = threads
        self.process = None
        self.port = None
        self.ports = []
        self.path = None
        self.status = None
        self.folder = None
        self.behind = None
        self.pass_fds = ()

    def command(self):
        args = self.behind.args_of(self.args) if self.behind else list(self.args)
        if "-s" in args:
            self.path = args[args.index("-s") + 1]
        else:
            if "-l" not in args and not any(a.startswith("--listen") for a in args):
                args += ["-l", "127.0.0.1"]
            if "-p" not in args and not any(a.startswith("--port") for a in args):
                args += ["-p", "-1"]
        if self.threads is not None:
            args += ["-t", str(self.threads)]
        return [self.binary] + self.user + self.socket_args + (certificates.daemon_args() if self.tls else []) + args

    def start(self):
        """Also after stop()."""
        self.status = None
        self._start_nodes()
        self.folder = tempfile.mkdtemp(prefix="farcached-test-")
        self.port_file = os.path.join(self.folder, "ports")
        command = self.command()
        env = {**os.environ, **self.env, "MEMCACHED_PORT_FILENAME": self.port_file}
        with open(os.path.join(self.folder, "stderr"), "wb") as err, \
                open(os.path.join(self.folder, "stdout"), "wb") as out:
            self.process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                            preexec_fn=_die_with_parent, pass_fds=self.pass_fds)
        try:
            self._wait_until_listening(command)
            if self.behind:
                self.behind.until_up(self)
        except BaseException:
            self._end()
            raise
        return self

    def _start_nodes(self):
        """Sets `behind` for a daemon with nodes of its own: see farcached.py."""

    def _wait_until_listening(self, command):
        end = time.monotonic() + deadline()
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise StartFailed("%s ended with %s: %s" % (
                    " ".join(command), self.process.returncode, show(self.stderr())))
            if self._reachable():
                return
            select_nothing(0.005)
        raise StartFailed("%s did not listen in time: %s" % (" ".join(command), show(self.stderr())))

    def _reachable(self):
        if self.path is None:
            self.ports = self.read_ports()
            if not self.ports:
                return False
            self.port = self.ports[0][1]
        address = self.path if self.path is not None else ("127.0.0.1", self.port)
        if self.path is None and self.ports[0][0].endswith("INET6"):
            address = ("::1", self.port)
        try:
            connect(address, 1.0).close()
        except OSError:
            return False
        return True

    def read_ports(self):
        """[("TCP INET", 40041), ...] from the port file; empty before the file exists."""
        try:
            with open(self.port_file) as f:
                found = re.findall(r"^((?:TCP|UDP|VERBS) INET6?): (\d+)$", f.read(), re.M)
        except FileNotFoundError:
            return []
        return [(kind, int(port)) for kind, port in found]

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, value, trace):
        already_failing = kind is not None and kind is not SystemExit
        self.stop()
        report = self.stderr_at_end
        if SANITIZER_REPORT.search(report):
            tap.ok(False, "the daemon's stderr holds no report", report.decode("latin-1"))
        elif self.status != self.expect_exit and not already_failing:
            tap.ok(False, "the daemon's exit status is %s" % self.expect_exit, "got: %s" % self.status,
                   "stderr: " + report.decode("latin-1"))
        elif already_failing and report:
            tap.diag("daemon's stderr: " + report.decode("latin-1"))
        return False

    @property
    def pid(self):
        return self.process.pid

    def alive(self):
        return self.process.poll() is None

    def signal(self, number):
        if self.alive():
            os.kill(self.pid, number)

    @contextlib.contextmanager
    def stopped(self):
        """Stops all threads of the daemon during the block; its kernel buffers incoming data."""
        self.signal(signals.SIGSTOP)
        try:
            until(self._states, lambda states: states == {"T"})
            yield
        finally:
            self.signal(signals.SIGCONT)

    def _states(self):
        """The states of all threads: {"S", "R"}, {"T"}, ..."""
        return {stat_words("%d/task/%s" % (self.pid, thread))[0] for thread in os.listdir("/proc/%d/task" % self.pid)}

    def wait(self, timeout=None):
        """Waits for the daemon to exit; its exit status (negative: by that signal), None at the timeout."""
        try:
            return self.process.wait(timeout or deadline())
        except subprocess.TimeoutExpired:
            return None

    def stop(self, number=signals.SIGTERM):
        """Ends the daemon by the signal, after the deadline by SIGKILL (which fails the status check)."""
        if self.status is not None or self.process is None:
            return self.status
        self.signal(number)
        if self.wait() is None:
            tap.diag("the daemon did not end on signal %d, killing it" % number)
            self._capture_stuck()
        self._end()
        return self.status

    def _capture_stuck(self):
        for thread in sorted(os.listdir("/proc/%d/task" % self.pid)):
            try:
                with open("/proc/%d/task/%s/wchan" % (self.pid, thread)) as f:
                    tap.diag("thread %s waits in %s" % (thread, f.read()))
            except OSError:
                continue

    def _end(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.status = self.process.returncode
        self.stderr_at_end = self.stderr()
        self.stdout_at_end = self._read("stdout")
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.behind:
            self.behind.end()

    def _read(self, name):
        try:
            with open(os.path.join(self.folder, name), "rb") as f:
                return f.read()
        except FileNotFoundError:
            return getattr(self, name + "_at_end", b"")

    def stderr(self):
        return self._read("stderr")

    def stdout(self):
        return self._read("stdout")

    def client(self, timeout=None):
        if self.path is not None:
            return Client(self.path, timeout=timeout)
        host = "::1" if self.ports and self.ports[0][0].endswith("INET6") else "127.0.0.1"
        if self.tls:
            return Client(certificates.wrap(connect((host, self.port), timeout or deadline())), timeout=timeout)
        return Client(self.port, timeout=timeout, host=host)

    def stats(self, sub=""):
        with self.client() as c:
            return c.stats(sub)

    def memory(self):
        """Bytes by kind from /proc: {"RssAnon": n, "RssFile": n, "RssShmem": n, "Private": n}; Private: without mapped files."""
        with open("/proc/%d/status" % self.pid) as f:
            found = {k: int(n) * 1024 for k, n in re.findall(r"^(Rss\w+):\s+(\d+) kB", f.read(), re.M)}
        return {**found, "Private": found["RssAnon"] + found["RssShmem"]}

    def until_stat(self, name, accept, sub=""):
        """Polls `stats` until accept(value) or the deadline; the last value seen."""
        return until(lambda: self.stats(sub).get(name), accept)


def select_nothing(seconds):
    """Sleeps for one poll interval of a bounded wait."""
    time.sleep(seconds)


class Pace:
    """Of one thread of a load. After each round it rests for $FARCACHED_TEST_REST times as long as the round took, at most 50 ms.
    The default is 0; sanitizers and guests set 2, because there the load takes the CPU that the tested events need."""

    TIMES, MOST = float(os.environ.get("FARCACHED_TEST_REST") or 0), 0.05

    def __init__(self):
        self.began = time.monotonic()

    def rest(self):
        if self.TIMES:
            time.sleep(min(self.MOST, self.TIMES * (time.monotonic() - self.began)))
            self.began = time.monotonic()


POLL_MIN, POLL_MAX = 0.01, 0.1  # seconds between two looks


def until(look, accept, timeout=None):
    """Calls look() until accept(result) or the deadline; the last result. It looks less often while it waits for long, and where a
    look takes long (sanitizers, guests), so that others have the CPU."""
    begun = time.monotonic()
    end = begun + (timeout or deadline())
    while True:
        began_look = time.monotonic()
        seen = look()
        if accept(seen):
            return seen
        now = time.monotonic()
        if now >= end:
            if timeout is None:
                tap.diag("waited %d s in vain at %s" % (deadline(), traceback.extract_stack(limit=2)[0].line))
            return seen
        select_nothing(min(POLL_MAX, max(POLL_MIN, (now - begun) / 20, 2 * (now - began_look))))


def raise_descriptor_limit(wanted):
    """Raises RLIMIT_NOFILE, which later daemons inherit; returns the allowed number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
            return wanted
        except (ValueError, OSError):
            wanted = hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    return max(soft, wanted)


# -------------------------------------------------------------------------------------------- client

def connect(address, timeout):
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    if family == socket.AF_INET and ":" in address[0]:
        family = socket.AF_INET6
    s = socket.socket(family, socket.SOCK_STREAM)
    s.settimeout(timeout)
    try:
        s.connect(address)
    except BaseException:
        s.close()
        raise
    if family != socket.AF_UNIX:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s


class Closed(Exception):
    """The server closed; .got holds the bytes before."""

    def __init__(self, got):
        super().__init__("connection closed after %s" % show(got))
        self.got = got


class TimedOut(Exception):
    """The deadline passed; .got holds the bytes before."""

    def __init__(self, got):
        super().__init__("nothing more after %s" % show(got))
        self.got = got


class Client:
    """A connection that sends and reads exact bytes, each read with a deadline.

    where: a port, the path of a Unix socket, or a connected socket. Strings are latin-1 bytes.
    """

    def __init__(self, where, host="127.0.0.1", timeout=None):
        self.timeout = timeout or deadline()
        if isinstance(where, socket.socket):
            self.socket = where
            self.socket.settimeout(self.timeout)
        else:
            self.socket = connect(where if isinstance(where, str) else (host, where), self.timeout)
        self.buffer = bytearray()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def reset(self):
        """Closes with RST: unread bytes on either side are lost."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        self.socket.close()

    def send(self, *data):
        try:
            self.socket.sendall(b"".join(to_bytes(d) for d in data))
        except ssl.SSLError as e:
            raise ConnectionError(str(e)) from None
        return self

    def send_split(self, data, sizes=(1,)):
        """Sends in pieces whose sizes cycle through `sizes`."""
        data, at, turn = to_bytes(data), 0, 0
        while at < len(data):
            n = sizes[turn % len(sizes)]
            self.socket.sendall(data[at:at + n])
            at, turn = at + n, turn + 1
        return self

    def shutdown_send(self):
        self.socket.shutdown(socket.SHUT_WR)

    def _more(self):
        try:
            got = self.socket.recv(262144)
        except socket.timeout:
            raise TimedOut(bytes(self.buffer)) from None
        except (ConnectionError, ssl.SSLError):
            got = b""
        if not got:
            raise Closed(bytes(self.buffer))
        self.buffer += got

    def _take(self, n):
        taken = bytes(self.buffer[:n])
        del self.buffer[:n]
        return taken

    def read(self, n):
        """Exactly n bytes."""
        while len(self.buffer) < n:
            self._more()
        return self._take(n)

    def line(self):
        """One line with its CRLF (or bare LF)."""
        return self.until(b"\n")

    def until(self, end):
        """All bytes including `end`: bytes/str, or a compiled bytes pattern."""
        literal = None if hasattr(end, "search") else to_bytes(end)
        seen = 0
        while True:
            if literal is None:
                found = end.search(self.buffer)
                at = found.end() if found else -1
            else:
                at = self.buffer.find(literal, seen)
                at = at + len(literal) if at >= 0 else -1
                seen = max(0, len(self.buffer) - len(literal) + 1)
            if at >= 0:
                return self._take(at)
            self._more()

    def until_close(self):
        """All bytes until the server closes."""
        while True:
            try:
                self._more()
            except Closed:
                return self._take(len(self.buffer))

    def is_closed(self):
        """True if the server closes before the deadline without another byte."""
        try:
            return self.until_close() == b""
        except TimedOut:
            return False

    def expect(self, want, name=None):
        """A TAP test: the next bytes are `want`."""
        want = to_bytes(want)
        return tap.is_(self.upto(want), want, name or "reply %s" % show(want, 60))

    def upto(self, want):
        """Reads while the bytes agree with `want`; returns them (equal to want, or up to the first difference)."""
        try:
            while len(self.buffer) < len(want) and want.startswith(bytes(self.buffer)):
                self._more()
        except (Closed, TimedOut) as e:
            self.buffer.clear()
            return e.got + (b" [closed]" if isinstance(e, Closed) else b" [nothing more]")
        if want == self.buffer[:len(want)]:
            return self._take(len(want))
        return self._take(len(self.buffer))

    def ask(self, request, end=None):
        """Sends (CRLF is added when missing); returns the reply's one line as str without CRLF.

        With end (a str or tuple of them): all lines up to the one that equals or begins with it, as a list.
        """
        request = to_bytes(request)
        self.send(request if request.endswith(b"\n") else request + b"\r\n")
        if end is None:
            return self.line().decode("latin-1").rstrip("\r\n")
        ends, lines = (end,) if isinstance(end, str) else tuple(end), []
        while not lines or not lines[-1].startswith(ends):
            lines.append(self.line().decode("latin-1").rstrip("\r\n"))
        return lines

    def set(self, key, value, flags=0, exptime=0, verb="set"):
        value = to_bytes(value)
        return self.ask(b"%s %s %d %d %d\r\n%s\r\n" % (
            to_bytes(verb), to_bytes(key), flags, exptime, len(value), value))

    def get(self, key):
        """The value as bytes, None on a miss."""
        found = self.get_many([key])
        return found[0][2] if found else None

    def get_many(self, keys, verb="get"):
        """[(key, flags, value, cas or None), ...] in the order of the reply."""
        self.send(to_bytes(verb), b" ", b" ".join(to_bytes(k) for k in keys), b"\r\n")
        found = []
        while True:
            words = self.line().split()
            if words == [b"END"]:
                return found
            if words[:1] != [b"VALUE"]:
                raise AssertionError("not a reply to get: %s" % show(b" ".join(words)))
            value = self.read(int(words[3]) + 2)[:-2]
            found.append((words[1], int(words[2]), value, int(words[4]) if len(words) > 4 else None))

    def stats(self, sub=""):
        """`stats [sub]` as a dict of str in the order of the reply."""
        lines = self.ask(("stats " + sub).strip(), end=("END", "ERROR", "CLIENT_ERROR", "SERVER_ERROR", "RESET", "OK"))
        return dict((line[5:].split(" ", 1) + [""])[:2] for line in lines if line.startswith("STAT "))

    def is_idle(self):
        """True if no reply is outstanding: the next bytes answer a meta no-op."""
        self.send(b"mn\r\n")
        return self.upto(b"MN\r\n") == b"MN\r\n"
