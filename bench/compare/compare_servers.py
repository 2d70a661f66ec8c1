# SPDX-License-Identifier: BSD-3-Clause
"""The compared servers: started, measured through /proc, ended by pid; and the description of the machine."""
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
    """An error message for the user; the measurement ends."""


def child_setup(cpus):
    """For Popen: pins the child to these CPUs and ends it together with this process."""
    libc = ctypes.CDLL(None)

    def setup():
        pr_set_pdeathsig = 1
        libc.prctl(pr_set_pdeathsig, signal.SIGKILL)
        if cpus:
            os.sched_setaffinity(0, cpus)
    return setup


def share_cpus():
    """(CPUs of the servers, CPUs of the clients, description)"""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) >= 4:
        return set(cpus[:2]), set(cpus[2:4]), "servers on CPUs %d,%d and clients on CPUs %d,%d" % tuple(cpus[:4])
    return set(cpus), set(cpus), "SHARED: servers and clients both on all %d CPUs" % len(cpus)


class Process:
    """One running program. label: its name in the report. folder: where it may leave files."""

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
        """Polls look() and returns its first result that is not None. Ends the process and raises Failed after the deadline."""
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
    """Private memory of the process: anonymous memory and the shared memory of a farcached's items. Mapped files are left out,
    since the system shares program text and libraries."""
    with open("/proc/%d/status" % pid) as file:
        return sum(int(kilobytes) for kilobytes in re.findall(r"^Rss(?:Anon|Shmem):\s+(\d+) kB", file.read(), re.M)) * 1024


def private_dirty_bytes(pid):
    """Private_Dirty of smaps over all mappings: pages that only this process maps, and that it wrote. Program text is dirty, too,
    until the system has written its file back. So read-only mappings count only with their copied pages (Anonymous)."""
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
    """CPU time of all threads, user and system, in nanosecond resolution, from clock_getcpuclockid()."""
    return time.clock_gettime(~pid << 3 | 2)


def as_whom():
    """The -u option that memcached and its relatives require when root starts them."""
    return ["-u", "root"] if os.geteuid() == 0 else []


def port_in(port_file):
    """The kernel's port, read from the port file, once the server accepts connections; else None."""
    if not os.path.exists(port_file):
        return None
    with open(port_file) as file:
        found = re.search(r"TCP INET: (\d+)", file.read())
    return int(found.group(1)) if found and accepts(("127.0.0.1", int(found.group(1)))) else None


def accepts(address):
    """Does a server accept connections there? address: (host, port), or a path."""
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
    """The first line that `-V` prints."""
    try:
        done = subprocess.run([binary, "-V"], capture_output=True, timeout=10, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as e:
        raise Failed("cannot run %s: %s" % (binary, e)) from None
    return (done.stdout + done.stderr).decode("utf-8", "replace").strip().split("\n")[0]


def machine():
    """The machine of this measurement."""
    with open("/proc/cpuinfo") as file:
        model = re.search(r"^model name\s*:\s*(.*)$", file.read(), re.M)
    return {"cpu": model.group(1) if model else "unknown", "cpus": os.cpu_count(), "kernel": os.uname().release,
            "load_average": os.getloadavg()[0], "time": time.strftime("%Y-%m-%d %H:%M:%S %z")}
