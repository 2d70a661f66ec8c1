# SPDX-License-Identifier: BSD-3-Clause
"""Out of memory at the start: under any limit on address space a daemon either serves, or prints an error and exits with a status,
never by a signal. Without huge pages, or with a /dev/shm that is too small for a pointer table, it serves."""
import os
import resource
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from farcached import Daemon, default_binary, is_sanitized, run_binary, tap, until, user_args  # noqa: E402
from farnode import Farnode, farnode_binary  # noqa: E402

MB = 1 << 20
EXIT_SYSTEM = 71
FARCACHED = ["-l", "127.0.0.1", "-p", "-1", "-t", "8", "-m", "64", "--http", "0"]


def start(program, args, limit, folder):
    """("serves", exit status, or minus a signal; stderr)."""
    ports = os.path.join(folder, "ports")
    with open(os.path.join(folder, "said"), "w+b") as said:
        process = subprocess.Popen(
            [program, *user_args(), *args], stdin=subprocess.DEVNULL, stdout=said, stderr=said,
            env={**os.environ, "MEMCACHED_PORT_FILENAME": ports, "FARNODE_PORT_FILENAME": ports},
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
        try:
            # It writes its port file when it serves, or ends.
            ended = until(lambda: process.poll() if process.poll() is not None else
                          ("serves" if os.path.exists(ports) and serving(process, program) else None), lambda e: e is not None)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
            if os.path.exists(ports):
                os.unlink(ports)
        said.seek(0)
        return ended, said.read().decode()


def serving(process, program):
    """Waits until all threads run."""
    wanted = {b"http"} if program == default_binary() else {b"accept"}
    names = set()
    for thread in os.listdir("/proc/%d/task" % process.pid):
        try:
            with open("/proc/%d/task/%s/comm" % (process.pid, thread), "rb") as f:
                names.add(f.read().strip())
        except OSError:
            return False
    return wanted <= names


def loads(program, limit):
    """Is there enough memory to load the program?"""
    done = subprocess.run([program, "-V"], capture_output=True, check=False,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    return done.returncode == 0


def sweep(name, program, args, limits):
    ends, wrong = {}, []
    with tempfile.TemporaryDirectory(prefix="farcached-memory-") as folder:
        for limit in [limit for limit in limits if loads(program, limit * MB)]:
            end, said = start(program, args, limit * MB, folder)
            ends[limit] = end
            lines = [line for line in said.splitlines() if line]
            if end == "serves":
                continue
            if end != EXIT_SYSTEM or not lines or "crash" in said:
                wrong.append((limit, end, said[:300]))
    tap.is_(wrong, [], name + ": it serves, or prints the reason and exits with 71")
    tap.is_(ends[limits[-1]], "serves", name + ": with enough it serves")
    tap.ok(EXIT_SYSTEM in ends.values(), name + ": with less it does not", ends)
    tap.diag("%s: %s" % (name, ends))


def said_of(args, limit, program=None):
    with tempfile.TemporaryDirectory(prefix="farcached-memory-") as folder:
        return start(program or default_binary(), args, limit * MB, folder)


def main():
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if is_sanitized():
        tap.skip_all("a sanitizer takes all of the address space")
    limits = list(range(20, 120, 10)) + list(range(1200, 3600, 60)) + [8000]
    sweep("farcached", default_binary(), FARCACHED, limits)
    with tempfile.TemporaryDirectory(prefix="farcached-memory-") as folder:
        args = ["--shm", os.path.join(folder, "n"), "--tcp", "127.0.0.1:0", "-m", "64", "-t", "8"]
        sweep("farnode", farnode_binary(), args, limits)
    end, said = said_of(["-l", "127.0.0.1", "-p", "-1", "-m", "100000"], 20_000)
    tap.is_(end, EXIT_SYSTEM, "-m 100000 with less address space is refused")
    tap.like(said, r"\Afailed to get 100000 megabytes of memory: .*cannot map \d+ MiB: Cannot allocate memory\n\Z", "with reason")
    with Daemon("-m", "64", "-L", threads=1) as d, d.client() as c:
        tap.is_(c.set("k", "v"), "STORED", "-L where there may be no huge pages")
    small_shared_memory()
    tap.done()


def small_shared_memory():
    """In a mount namespace of its own, where that is allowed."""
    script = 'mount -t tmpfs -o size=64k none /dev/shm && exec "$0" "$@"'
    allowed = subprocess.run(["unshare", "-m", "bash", "-c", 'mount -t tmpfs -o size=64k none /dev/shm'],
                             capture_output=True, check=False).returncode == 0
    if not allowed:
        return tap.skip("a /dev/shm that is too small", "no mount namespace for us here")

    class InSmall(Daemon):
        def command(self):
            return ["unshare", "-m", "bash", "-c", script, *super().command()]

    with tempfile.TemporaryDirectory(prefix="farcached-memory-") as folder:
        path = os.path.join(folder, "n")
        with Farnode("--shm", path, threads=1), InSmall("--node", "a=shm:" + path, "-o", "no_local_read", threads=1) as d, \
                d.client() as c:
            d.until_stat("a:links_up", lambda n: n == "1", "nodes")
            said = d.stderr().decode()
            tap.like(said, r"(?s)\A[^\n]*posix_fallocate[^\n]*No space left on device[^\n]*"
                           r"\npointer table unavailable; GETs use RPC\n",
                     "a pointer table that does not fit is logged")
            tap.is_([c.set("k", "v"), c.get("k")], ["STORED", b"v"], "and GETs use requests")
    return None


main()
