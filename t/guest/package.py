# SPDX-License-Identifier: BSD-3-Clause
"""A Debian package of farcached, given as an argument: it installs, starts but beside memcached, leaves a running daemon
alone when it is installed again, and takes everything away when it is purged. Runs in a guest that booted systemd."""
import glob
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from farcached import Client, deadline, until  # noqa: E402
from tap_output import tap  # noqa: E402

MEMCACHED = "/usr/bin/memcached"
NOTHING_STARTS = "/usr/sbin/policy-rc.d"  # of a host that is a container
LEFT = ["/etc/systemd/system/*/far*", "/etc/systemd/system/far*", "/var/lib/systemd/deb-systemd-helper-*/far*",
        "/var/lib/systemd/deb-systemd-helper-*/*/far*", "/var/lib/dpkg/info/farcached*"]


def run(*words):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, timeout=deadline() * 8)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def ask(*words):
    return run("systemctl", *words)[1].strip()


def dpkg(name, *words):
    """What other packages do then, like indexing manuals, is none of ours, and takes minutes in a guest."""
    status, text = run("dpkg", "--no-triggers", "--force-unsafe-io", *words)
    tap.ok(status == 0, name, text)
    return text


def purged(files):
    dpkg("it is purged", "--purge", "farcached")
    tap.is_([path for path in files if os.path.isfile(path)], [], "no file of it is left")
    tap.is_([path for pattern in LEFT for path in glob.glob(pattern)], [], "nor what it made")
    tap.is_(ask("list-units", "--no-legend", "--all", "far*"), "", "nor a unit")


def beside_memcached(package):
    if not os.path.exists(MEMCACHED):
        with open(MEMCACHED, "w") as f:
            os.fchmod(f.fileno(), 0o755)
    said = dpkg("beside memcached it is installed", "-i", package)
    tap.like(said, "memcached is installed and has the same port, so farcached is not started", "and says that it does not start")
    tap.is_((ask("is-active", "farcached"), ask("is-enabled", "farcached")), ("inactive", "disabled"), "which is so")
    purged(run("dpkg", "-L", "farcached")[1].split())


def alone(package):
    os.rename(MEMCACHED, MEMCACHED + ".away")
    dpkg("alone it is installed", "-i", package)
    tap.is_((ask("is-active", "farcached"), ask("is-enabled", "farcached")), ("active", "enabled"), "and started")
    with Client(11211) as c:
        tap.is_((c.set("k", "v"), c.get("k")), ("STORED", b"v"), "it serves")
        dpkg("it is installed once more", "-i", package)
        tap.is_(c.get("k"), b"v", "which leaves the running daemon alone")
    tap.is_(run("systemctl", "start", "farcached@11311", "farnode@a")[0], 0, "instances start, too")
    files = run("dpkg", "-L", "farcached")[1].split()
    dpkg("it is removed", "--remove", "farcached")
    units = ["farcached", "farcached@11311", "farnode@a"]
    tap.is_(until(lambda: {ask("is-active", unit) for unit in units}, lambda states: states == {"inactive"}), {"inactive"},
            "everything of it is stopped")
    purged(files)


def main():
    package = os.path.abspath(sys.argv[1])
    if os.path.exists(NOTHING_STARTS):
        os.unlink(NOTHING_STARTS)
    beside_memcached(package)
    alone(package)
    tap.done()


main()
