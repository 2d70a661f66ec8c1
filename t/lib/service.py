# SPDX-License-Identifier: BSD-3-Clause
"""A service manager for tests: it receives a daemon's notifications, passes sockets to it, and can stop one of its threads.

    with Manager() as manager, Service(manager, "-t", "2", watchdog_us=400000) as d:
        manager.until("READY=1")
"""
import contextlib
import ctypes
import fcntl
import os
import shutil
import socket
import struct
import tempfile
import time

from farcached import Daemon, deadline, default_binary, stat_words, until

FIRST_FD = 3
HIGH_FD = 100  # the sockets' descriptors until the shell moves them to FIRST_FD


class Manager:
    """.told: the received messages, a dictionary for each datagram: {"READY": "1", "STATUS": "..."}."""

    def __init__(self, abstract=False):
        self.abstract = abstract
        self.told = []
        self.senders = set()

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="farcached-notify-")
        name = "farcached-test-%d-%s" % (os.getpid(), os.path.basename(self.folder))
        self.name = "@" + name if self.abstract else os.path.join(self.folder, "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.socket.bind("\0" + name if self.abstract else self.name)
        return self

    def __exit__(self, *_):
        self.socket.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        return False

    def next(self, timeout=None):
        """The next message, or None at the timeout."""
        self.socket.settimeout(timeout or deadline())
        try:
            data, ancillary, _, _ = self.socket.recvmsg(4096, socket.CMSG_SPACE(12))
        except (socket.timeout, BlockingIOError):
            return None
        for _, _, credentials in ancillary:
            self.senders.add(struct.unpack("iII", credentials[:12])[0])
        message = dict(line.split("=", 1) for line in data.decode().splitlines())
        self.told.append(message)
        return message

    def until(self, accept, timeout=None):
        """Reads until accept(message), or until a message with that "NAME=VALUE"; None at the timeout."""
        if isinstance(accept, str):
            name, value = accept.split("=", 1)
            return self.until(lambda message: message.get(name) == value, timeout)
        end = time.monotonic() + (timeout or deadline())
        while time.monotonic() < end:
            message = self.next(max(0.01, end - time.monotonic()))
            if message is not None and accept(message):
                return message
        return None

    def until_status(self, words):
        return self.until(lambda message: words in message.get("STATUS", ""))


class Service(Daemon):
    """A daemon started by a manager; sockets: [(listening socket, name)], passed to it."""

    def __init__(self, manager, *args, sockets=(), watchdog_us=None, listen_env=None, program="farcached", **more):
        binary = more.pop("binary", None) or os.path.join(os.path.dirname(default_binary()), program)
        self.manager, self.sockets, self.program = manager, list(sockets), program
        self.listen_env = listen_env or {}
        env = {"NOTIFY_SOCKET": manager.name} if manager else {}
        if watchdog_us:
            env["WATCHDOG_USEC"] = str(watchdog_us)
        super().__init__(*args, binary=binary, env={**env, **more.pop("env", {})}, **more)

    def command(self):
        """Starts through a shell with the daemon's process id, which some variables contain."""
        args = list(self.args)
        if self.program == "farnode":
            self.env = {**self.env, "FARNODE_PORT_FILENAME": self.port_file}
        elif not self.sockets and not {"-s", "-l"} & set(args):
            args += ["-l", "127.0.0.1", "-p", "-1"]
        environment = {"WATCHDOG_PID": "$$"} if "WATCHDOG_USEC" in self.env else {}
        duplicates = ""
        if self.sockets:
            self.held = [fcntl.fcntl(s.fileno(), fcntl.F_DUPFD, HIGH_FD) for s, _ in self.sockets]
            self.pass_fds = tuple(self.held)
            duplicates = " ".join("%d<&%d %d<&-" % (FIRST_FD + i, fd, fd) for i, fd in enumerate(self.held))
            environment.update(LISTEN_PID="$$", LISTEN_FDS=str(len(self.sockets)),
                               LISTEN_FDNAMES=":".join(name for _, name in self.sockets))
        environment.update(self.listen_env)
        words = " ".join("%s=%s" % pair for pair in environment.items())
        return ["bash", "-c", '%s exec "$0" "$@" %s' % (words, duplicates), self.binary, *self.user, *args]

    def start(self):
        try:
            return super().start()
        finally:
            for fd in getattr(self, "held", ()):
                os.close(fd)

    def _reachable(self):
        """Its addresses are in its port file, or were known before the start."""
        if self.sockets and all(getattr(s, "family", None) == socket.AF_UNIX for s, _ in self.sockets):
            return True
        self.ports = self.read_ports()
        self.port = self.ports[0][1] if self.ports else None
        return bool(self.ports) or "--shm" in self.args

    def thread(self, name):
        return thread_named(self.pid, name)


def thread_named(pid, name):
    """The id of the thread of that name."""
    def named():
        for task in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/comm" % (pid, task)) as f:
                if f.read().strip() == name:
                    return int(task)
        return None
    return until(named, lambda found: found is not None)


def listening(path=None, kind=socket.SOCK_STREAM):
    """A listening socket on a free port, or at the path."""
    s = socket.socket(socket.AF_UNIX if path else socket.AF_INET, kind)
    s.bind(path or ("127.0.0.1", 0))
    if kind == socket.SOCK_STREAM:
        s.listen(1024)
    return s


PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH = 0x4206, 0x4207, 17
WAIT_ALL = 0x40000000  # __WALL: also waits for threads of other processes


def take_notice(thread):
    with contextlib.suppress(ChildProcessError):
        os.waitpid(thread, WAIT_ALL | os.WNOHANG)


@contextlib.contextmanager
def standing_still(thread):
    """Stops one thread of a process during the block. Yields False where tracing is not allowed, else a function. If the process
    may be killed meanwhile, call that function repeatedly: a traced process disappears only after its tracer has waited for it."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    if libc.ptrace(PTRACE_SEIZE, thread, None, None) != 0:
        yield False
        return
    try:
        libc.ptrace(PTRACE_INTERRUPT, thread, None, None)
        os.waitpid(thread, WAIT_ALL)
        yield lambda: take_notice(thread)
    finally:
        take_notice(thread)
        with contextlib.suppress(OSError):
            if stat_words(thread)[0] == "t":
                libc.ptrace(PTRACE_DETACH, thread, None, None)


__all__ = ["Manager", "Service", "listening", "standing_still", "thread_named"]
