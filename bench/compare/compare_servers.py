# SPDX-License-Identifier: BSD-3-Clause
"""Servers that are compared: started, watched through /proc, ended by their own pid; and the machine that they run on."""
import ctypes
import os
import re
import signal
import socket
import subprocess
import time

START_SECONDS = 20
STOP_SECONDS = 20


class Failed(Exception):
    """What the user is told; nothing more is measured."""


def child_setup(cpus):
    """For Popen: the child keeps to these CPUs and dies with us."""
    libc = ctypes.CDLL(None)

    def setup():
        pr_set_pdeathsig = 1
        libc.prctl(pr_set_pdeathsig, signal.SIGKILL)
        if cpus:
            os.sched_setaffinity(0, cpus)
    return setup


def share_cpus():
    """(CPUs of the servers, CPUs of the clients, in words)."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) >= 4:
        return set(cpus[:2]), set(cpus[2:4]), "servers on CPUs %d,%d and clients on CPUs %d,%d" % tuple(cpus[:4])
    return set(cpus), set(cpus), "SHARED: servers and clients both on all %d CPUs" % len(cpus)


class Process:
    """One running program. label: what it is called in the report. folder: where it may leave files."""

    def __init__(self, label, command, cpus, folder, env=None):
        self.label = label
        self.command = command
        self.folder = folder
        with open(os.path.join(folder, label + ".err"), "wb") as err:
            self.process = subprocess.Popen(command, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL,
                                            stdout=subprocess.DEVNULL, stderr=err, preexec_fn=child_setup(cpus))

    @property
    def pid(self):
        return self.process.pid

    def wait_until(self, look):
        """What look() says when that is no longer None. Ends the process if nothing comes of it."""
        end = time.monotonic() + START_SECONDS
        try:
            while time.monotonic() < end and self.process.poll() is None:
                seen = look()
                if seen is not None:
                    return seen
                time.sleep(0.02)
            with open(os.path.join(self.folder, self.label + ".err"), errors="replace") as file:
                raise Failed("%s does not start: %s" % (" ".join(self.command), file.read().strip()))
        except BaseException:
            self.stop()
            raise

    def stop(self):
        if self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def private_bytes(self):
        return private_bytes(self.pid)

    def private_dirty_bytes(self):
        return private_dirty_bytes(self.pid)


def private_bytes(pid):
    """The process's own memory: anonymous, and the shared memory in which a farcached keeps items. Mapped files are left out: the
    system shares the text of programs and libraries."""
    with open("/proc/%d/status" % pid) as file:
        return sum(int(kilobytes) for kilobytes in re.findall(r"^Rss(?:Anon|Shmem):\s+(\d+) kB", file.read(), re.M)) * 1024


def private_dirty_bytes(pid):
    """Private_Dirty of smaps, of all mappings: pages that this process alone has, and that it wrote. A program's text is dirty,
    too, until the system has written its file: of what cannot be written only copied pages (Anonymous) count."""
    total, writable, dirty = 0, False, 0
    with open("/proc/%d/smaps" % pid) as file:
        for line in file:
            name, *words = line.split()
            if not name.endswith(":"):
                writable = "w" in words[0]
            elif name == "Private_Dirty:":
                dirty = int(words[0])
            elif name == "Anonymous:":
                total += dirty if writable else min(dirty, int(words[0]))
    return total * 1024


def cpu_seconds(pid):
    """User and system, of all threads, to the nanosecond: the clock that clock_getcpuclockid() gives."""
    return time.clock_gettime(~pid << 3 | 2)


def as_whom():
    """What root must say to memcached and to those who are like it."""
    return ["-u", "root"] if os.geteuid() == 0 else []


def port_in(port_file):
    """The port that the kernel chose, as a port file says, once somebody accepts there; else None."""
    if not os.path.exists(port_file):
        return None
    with open(port_file) as file:
        found = re.search(r"TCP INET: (\d+)", file.read())
    return int(found.group(1)) if found and accepts(("127.0.0.1", int(found.group(1)))) else None


def accepts(address):
    """Does somebody accept connections there? address: (host, port), or a path."""
    with socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET) as s:
        s.settimeout(1)
        return s.connect_ex(address) == 0


def stats(port, group="", seconds=10, host="127.0.0.1"):
    """{name: value} of `stats GROUP`."""
    with socket.create_connection((host, port), seconds) as s:
        s.sendall(("stats %s" % group).rstrip().encode() + b"\r\n")
        got = b""
        while not got.endswith(b"END\r\n"):
            more = s.recv(65536)
            if not more:
                break
            got += more
    return dict(re.findall(r"^STAT (\S+) (.*?)\r?$", got.decode("latin-1"), re.M))


def version_of(binary):
    """What `-V` says: one line."""
    try:
        done = subprocess.run([binary, "-V"], capture_output=True, timeout=10, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as e:
        raise Failed("cannot run %s: %s" % (binary, e)) from None
    return (done.stdout + done.stderr).decode("utf-8", "replace").strip().split("\n")[0]


def machine():
    """Where the numbers come from."""
    with open("/proc/cpuinfo") as file:
        model = re.search(r"^model name\s*:\s*(.*)$", file.read(), re.M)
    return {"cpu": model.group(1) if model else "unknown", "cpus": os.cpu_count(), "kernel": os.uname().release,
            "load_average": os.getloadavg()[0], "time": time.strftime("%Y-%m-%d %H:%M:%S %z")}
