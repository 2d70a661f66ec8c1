# SPDX-License-Identifier: BSD-3-Clause
"""A Debian package of farcached, given as an argument: installation, start (not beside memcached), a running daemon that survives a
second installation, and a purge that removes all files. Debian's memcached must be installed and runs throughout. Runs in a guest
that booted systemd."""
import glob
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from farcached import Client, connect, deadline, until  # noqa: E402
from tap_output import tap  # noqa: E402

MEMCACHED = "/usr/bin/memcached"
VARIABLES = "/etc/default/farcached"
NOTHING_STARTS = "/usr/sbin/policy-rc.d"  # exists in a host that is a container
LEFT = ["/etc/systemd/system/*/far*", "/etc/systemd/system/far*", "/var/lib/systemd/deb-systemd-helper-*/far*",
        "/var/lib/systemd/deb-systemd-helper-*/*/far*", "/var/lib/dpkg/info/farcached*"]


def run(*words):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, timeout=deadline() * 8)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def ask(*words):
    return run("systemctl", *words)[1].strip()


def dpkg(name, *words):
    """Disables triggers of other packages, like indexing manuals, which take minutes in a guest."""
    status, text = run("dpkg", "--no-triggers", "--force-unsafe-io", *words)
    tap.ok(status == 0, name, text)
    return text


def purged(files):
    dpkg("it is purged", "--purge", "farcached")
    tap.is_([path for path in files if os.path.isfile(path)], [], "no file of it is left")
    tap.is_([path for pattern in LEFT for path in glob.glob(pattern)], [], "nor its created files")
    tap.is_(ask("list-units", "--no-legend", "--all", "far*"), "", "nor a unit")


def files_of(package):
    return [path for path in run("dpkg", "-L", package)[1].split("\n") if os.path.isfile(path)]


def answers(port):
    """(program that serves there, by its statistics; its value of the key k)."""
    with Client(port) as c:
        return ("farcached" if "farcached_version" in c.stats() else "memcached", c.get("k"))


def beside_memcached(package):
    """As in README.Debian: not started at installation; then started at another port."""
    owner = run("dpkg", "-S", MEMCACHED)[1]
    if not tap.ok(owner.startswith("memcached: "), "Debian's memcached is installed", owner):
        return
    tap.is_(run("systemctl", "start", "memcached")[0], 0, "it starts")
    until(lambda: connects(11211), bool)
    theirs = files_of("memcached")
    with Client(11211) as c:
        tap.is_(c.set("k", "memcached's"), "STORED", "and serves")
        said = dpkg("beside it farcached is installed", "-i", package)
        tap.like(said, "memcached is installed and has the same port, so farcached is not started",
                 "and prints that it does not start")
        tap.is_((ask("is-active", "farcached"), ask("is-enabled", "farcached")), ("inactive", "disabled"), "which is so")
        ours = files_of("farcached")
        tap.is_(sorted(set(ours) & set(theirs)), [], "they have no file in common")
        with open(VARIABLES, "w") as f:
            f.write("PORT=11212\n")
        tap.is_(run("systemctl", "enable", "--now", "farcached")[0], 0, "at another port it starts")
        with Client(11212) as other:
            tap.is_(other.set("k", "farcached's"), "STORED", "and serves")
        tap.is_([answers(port) for port in (11211, 11212)], [("memcached", b"memcached's"), ("farcached", b"farcached's")],
                "each has its own items")
        purged(ours)
        tap.is_(c.get("k"), b"memcached's", "memcached went on all the while")
    tap.is_((ask("is-active", "memcached"), [path for path in theirs if not os.path.exists(path)]), ("active", []),
            "and nothing of it is gone")
    tap.is_(run("dpkg", "--verify", "memcached"), (0, ""), "or changed")
    os.unlink(VARIABLES)
    run("systemctl", "stop", "memcached")


def connects(port):
    try:
        connect(("127.0.0.1", port), deadline()).close()
        return True
    except OSError:
        return False


def alone(package):
    os.rename(MEMCACHED, MEMCACHED + ".away")
    dpkg("alone it is installed", "-i", package)
    tap.is_((ask("is-active", "farcached"), ask("is-enabled", "farcached")), ("active", "enabled"), "and started")
    with Client(11211) as c:
        tap.is_((c.set("k", "v"), c.get("k")), ("STORED", b"v"), "it serves")
        dpkg("it is installed once more", "-i", package)
        tap.is_(c.get("k"), b"v", "which leaves the running daemon alone")
    tap.is_(run("systemctl", "start", "farcached@11311", "farnode@a")[0], 0, "instances start, too")
    looked = "autoload -Uz compinit && compinit -u -D && for c in farcached farnode farctl farbench; do print $_comps[$c]; done"
    if shutil.which("zsh"):
        tap.is_(run("zsh", "-fc", looked), (0, "_farcached\n_farnode\n_farctl\n_farbench\n"), "zsh finds their completions")
    files = files_of("farcached")
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
