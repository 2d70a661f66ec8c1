# SPDX-License-Identifier: BSD-3-Clause
"""The Debian package in the top folder of a minimal Debian root, given as an argument. The test runs apt, which finds all
dependencies, and each program. A daemon serves as its system user, and a purge leaves nothing. Needs root; all changes are in that
root, which runs no systemd."""
import glob
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from farcached import Client, deadline, tap, until  # noqa: E402

PROGRAMS = ("farbench", "farcached", "farctl", "farnode")


def run(root, *words):
    done = subprocess.run(["chroot", root, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, timeout=deadline() * 20)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def named(root):
    """Files whose names may belong to the package."""
    return set(run(root, "find", "/etc", "/usr", "/var", "-name", "*far[bcn]*")[1].split())


def serves(root):
    with tempfile.TemporaryDirectory(prefix="ports-", dir=os.path.join(root, "tmp")) as folder:
        os.chmod(folder, 0o777)
        ports = os.path.join(folder, "ports")
        command = ["chroot", root, "farcached", "-u", "farcached", "-l", "127.0.0.1", "-p", "-1"]
        environment = {**os.environ, "MEMCACHED_PORT_FILENAME": "/" + os.path.relpath(ports, root)}
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, env=environment) as daemon:
            try:
                until(lambda: os.path.exists(ports) or daemon.poll() is not None, bool)
                with open(ports) as f:
                    port = int(f.read().rsplit(": ", 1)[1])
                with Client(port) as c:
                    tap.is_((c.set("k", "v"), c.get("k")), ("STORED", b"v"), "a daemon serves")
                with open("/proc/%d/status" % daemon.pid) as f:
                    users = re.search(r"^Uid:\s+(.*)$", f.read(), re.M).group(1).split()
                tap.is_(users, run(root, "id", "-u", "farcached")[1].split() * 4, "as the user that was made for it")
            finally:
                daemon.terminate()
        tap.is_(daemon.returncode, 0, "and ends")


def main():
    root = os.path.abspath(sys.argv[1])
    package = "/" + os.path.basename(glob.glob(os.path.join(root, "farcached_*.deb"))[0])
    before = named(root)
    status, said = run(root, "apt-get", "--yes", "install", package)
    if not tap.ok(status == 0, "apt installs it with its dependencies", said[-3000:]):
        return tap.done()
    for program in PROGRAMS:
        status, said = run(root, program, "--help")
        tap.ok(status == 0 and "Usage: " + program in said, program + " runs", said[-500:])
    serves(root)
    status, said = run(root, "dpkg", "--purge", "farcached")
    tap.ok(status == 0, "it is purged", said)
    tap.is_(sorted(named(root) - before), [], "and nothing of it is left")
    return tap.done()


main()
