# SPDX-License-Identifier: BSD-3-Clause
"""The servers that bench/compare compares: started, watched through /proc, ended by their own pid."""
import ctypes
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

START_SECONDS = 20
STOP_SECONDS = 20
TICKS = os.sysconf("SC_CLK_TCK")


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


class Server:
    """One running server. label: what it is called in the report."""

    def __init__(self, label, binary, threads, megabytes, cpus):
        self.label = label
        self.binary = binary
        self.folder = tempfile.mkdtemp(prefix="farcached-compare-")
        port_file = os.path.join(self.folder, "ports")
        user = ["-u", "root"] if os.geteuid() == 0 else []
        command = [binary] + user + ["-l", "127.0.0.1", "-p", "-1", "-U", "0", "-t", str(threads),
                                     "-m", str(megabytes), "-c", "4096"]
        with open(os.path.join(self.folder, "stderr"), "wb") as err:
            self.process = subprocess.Popen(command, env={**os.environ, "MEMCACHED_PORT_FILENAME": port_file},
                                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err,
                                            preexec_fn=child_setup(cpus))
        try:
            self.port = self._wait_for_port(port_file)
        except BaseException:
            self.stop()
            raise

    def _wait_for_port(self, port_file):
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and self.process.poll() is None:
            if os.path.exists(port_file):
                with open(port_file) as file:
                    found = re.search(r"TCP INET: (\d+)", file.read())
                if found and self._answers(int(found.group(1))):
                    return int(found.group(1))
            time.sleep(0.02)
        with open(os.path.join(self.folder, "stderr"), errors="replace") as file:
            raise Failed("%s does not start: %s" % (self.binary, file.read().strip()))

    @staticmethod
    def _answers(port):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            return False
        return True

    @property
    def pid(self):
        return self.process.pid

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def stats(self):
        with socket.create_connection(("127.0.0.1", self.port), 10) as s:
            s.sendall(b"stats\r\n")
            got = b""
            while not got.endswith(b"END\r\n"):
                more = s.recv(65536)
                if not more:
                    break
                got += more
        return dict(re.findall(r"^STAT (\S+) (.*?)\r?$", got.decode("latin-1"), re.M))

    def resident_bytes(self):
        with open("/proc/%d/status" % self.pid) as file:
            return int(re.search(r"^VmRSS:\s+(\d+) kB", file.read(), re.M).group(1)) * 1024

    def cpu_seconds(self):
        with open("/proc/%d/stat" % self.pid) as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS


def version_of(binary):
    """What `-V` says: one line."""
    try:
        done = subprocess.run([binary, "-V"], capture_output=True, timeout=10, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as e:
        raise Failed("cannot run %s: %s" % (binary, e)) from None
    return done.stdout.decode("utf-8", "replace").strip().split("\n")[0]


def machine():
    """Where the numbers come from."""
    with open("/proc/cpuinfo") as file:
        model = re.search(r"^model name\s*:\s*(.*)$", file.read(), re.M)
    return {"cpu": model.group(1) if model else "unknown", "cpus": os.cpu_count(), "kernel": os.uname().release,
            "load_average": os.getloadavg()[0], "time": time.strftime("%Y-%m-%d %H:%M:%S %z")}
