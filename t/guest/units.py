# SPDX-License-Identifier: BSD-3-Clause
"""The units of contrib/systemd under a real systemd: start, ready, variables, reload, io_uring in the sandbox, instances that
share memory, restarts under load behind a socket unit, a watchdog that kills, RDMA by its drop-in, stop, and what the journal
then says. Runs in a guest that booted systemd."""
import contextlib
import glob
import os
import pwd
import re
import shutil
import signal
import stat
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from farcached import Client, Daemon, connect, deadline, until  # noqa: E402
from restart_load import KINDS, RestartLoad  # noqa: E402
from service import standing_still, thread_named  # noqa: E402
from tap_output import tap  # noqa: E402

BUILD, TOP = os.environ["abs_top_builddir"], os.environ["abs_top_srcdir"]
UNITS = "/etc/systemd/system"
EXPOSURE_MAX = 2.0
WATCHDOG_S = 6  # the guest is slow
RESTARTS = 3


def run(*words):
    """(exit status, what it printed)."""
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=deadline() * 2)
    return done.returncode, done.stdout.decode("latin-1")


def systemctl(*words):
    """True: it is done. What it complains of is shown."""
    status, text = run("systemctl", *words)
    if status != 0:
        tap.diag("systemctl %s: %s" % (" ".join(words), text))
    return status == 0


def shown(unit, name):
    return run("systemctl", "show", "--value", "-p", name, unit)[1].strip()


def journal(unit):
    return run("journalctl", "-u", unit, "-o", "cat", "--no-pager")[1]


def until_journal(unit, pattern):
    return until(lambda: journal(unit), lambda text: re.search(pattern, text))


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(text)


def serves(address, name):
    for kind, ask in KINDS.items():
        with Client(connect(address, deadline())) as c:
            tap.ok(ask(c, "k-" + kind, "value"), "%s: a %s client is served" % (name, kind))


def stats_at(port, group=""):
    with Client(port) as c:
        return c.stats(group)


def install():
    """As make install does, which takes long in a guest and is tested elsewhere."""
    units = glob.glob(os.path.join(BUILD, "contrib/systemd/*.service")) + [os.path.join(TOP, "contrib/systemd/farcached.socket")]
    for unit in units:
        shutil.copy(unit, UNITS)
    with open(os.path.join(UNITS, "farcached.service")) as f:
        folder = os.path.dirname(re.search(r"^ExecStart=(\S+)", f.read(), re.M).group(1))
    os.makedirs(folder, exist_ok=True)
    for program in ("farcached", "farnode", "farctl"):
        shutil.copy(os.path.join(BUILD, program), folder)
    tap.is_(run("systemd-sysusers", os.path.join(TOP, "contrib/systemd/sysusers.conf"))[0], 0, "the user is made")
    tap.is_(run("systemd-tmpfiles", "--create", os.path.join(TOP, "contrib/systemd/tmpfiles.conf"))[0], 0,
            "and the folder for sockets")
    systemctl("daemon-reload")
    return folder


def starts(folder):
    """Without any file: defaults of the unit."""
    tap.ok(systemctl("start", "farcached"), "farcached starts")
    tap.is_((shown("farcached", "ActiveState"), shown("farcached", "StatusText")), ("active", "0 clients, 0 requests/s"),
            "start returns when it is ready, with a status that says something")
    tap.is_(os.stat("/proc/" + shown("farcached", "MainPID")).st_uid, pwd.getpwnam("farcached").pw_uid, "as its own user")
    serves(("127.0.0.1", 11211), "without any file")
    stats = stats_at(11211)
    tap.is_((stats["max_connections"], stats["limit_maxbytes"]), ("1024", str(64 << 20)), "with the defaults of the unit")
    status, text = run(os.path.join(folder, "farctl"), "status")
    tap.ok(status == 0, "root's farctl asks it where the unit put its socket", text)


def variables():
    """Those of Fedora's file."""
    write("/etc/sysconfig/farcached", 'PORT="11311"\nUSER="nobody"\nMAXCONN="77"\nCACHESIZE="32"\nOPTIONS="-l 127.0.0.1 -t 2"\n')
    tap.ok(systemctl("restart", "farcached"), "it restarts with variables of its file")
    stats = stats_at(11311)
    tap.is_((stats["max_connections"], stats["limit_maxbytes"], stats["threads"]), ("77", str(32 << 20), "2"),
            "PORT, MAXCONN, CACHESIZE and OPTIONS are heeded")
    tap.like(until_journal("farcached", "-u nobody"), r"(?m)^-u nobody: not started as root, so this process stays farcached; "
             r"in a unit, User= says who it is$", "USER is complained of if it is another")


def reloads():
    before = shown("farcached", "MainPID")
    with Client(11311) as c:
        c.set("k", "v")
        tap.ok(systemctl("reload", "farcached"), "it reloads")
        tap.is_(c.get("k"), b"v", "and no connection notices")
    until(lambda: shown("farcached", "ActiveState"), lambda state: state == "active")
    tap.is_(shown("farcached", "MainPID"), before, "it is the same process")


def rings():
    """io_uring as outside of a unit; where a drop-in refuses it, what a sandbox's refusal is told by."""
    with Daemon("-o", "io=auto") as d:
        outside = d.stats()["farcached_io"]
    tap.is_([served_by("uring"), served_by("auto")], [(outside, [])] * 2, "the unit's sandbox allows what is outside: " + outside)
    write(UNITS + "/farcached.service.d/no_ring.conf",
          "[Service]\nSystemCallFilter=~io_uring_setup io_uring_enter io_uring_register\n")
    systemctl("daemon-reload")
    backend, said = served_by("uring")
    tap.is_((backend, len(said)), ("libevent", 1), "where a drop-in forbids it: it starts, and says so in one line")
    tap.like("\n".join(said), r"\Aio=uring: no io_uring \(.+\): libevent serves the sockets of clients\Z", "which says why")
    tap.is_(served_by("auto"), ("libevent", []), "and with io=auto it says nothing")
    os.unlink(UNITS + "/farcached.service.d/no_ring.conf")
    systemctl("daemon-reload")


def served_by(io):
    """(what serves clients' sockets with that option in the unit, what the journal has of this start about it)"""
    write("/etc/sysconfig/farcached", 'PORT="11311"\nOPTIONS="-l 127.0.0.1 -t 2 -o io=%s"\n' % io)
    tap.ok(systemctl("restart", "farcached"), "it starts with io=" + io)
    with Client(11311) as c:
        tap.is_((c.set("k", io), c.get("k")), ("STORED", io.encode()), "and serves")
    said = run("journalctl", "-o", "cat", "--no-pager", "_SYSTEMD_INVOCATION_ID=" + shown("farcached", "InvocationID"))[1]
    return stats_at(11311)["farcached_io"], [line for line in said.splitlines() if "uring" in line]


def instances():
    """A node by its name, and two farcached in front of it, which share pointers in /dev/shm."""
    tap.ok(systemctl("start", "farnode@a"), "a node starts by its name")
    tap.like(shown("farnode@a", "StatusText"), "^0 connections of proxies, 0 items in 0 of 1024 MB$", "and says what it has")
    options = 'OPTIONS="-l 127.0.0.1 -t 1 --node a=shm:/run/farcached/farnode-a.sock -o no_local_read"\n'
    write("/etc/default/farcached.11312", options)
    write("/etc/default/farcached.front", "PORT=11313\n" + options)
    for unit in ("farcached@11312", "farcached@front"):
        tap.ok(systemctl("start", unit), unit + " starts")
        tap.like(shown(unit, "StatusText"), "^1/1 nodes up, ", "its node is up when it is ready")
    table = next(iter(glob.glob("/dev/shm/farcached*")), None)
    tap.ok(table, "there is a pointer table in the host's /dev/shm")
    if table:
        about = os.stat(table)
        tap.is_((stat.S_IMODE(about.st_mode), about.st_uid), (0o600, pwd.getpwnam("farcached").pw_uid),
                "which is their user's alone")
    with Client(11312) as one, Client(11313) as other:
        tap.is_(one.set("shared", "value"), "STORED", "one stores")
        for _ in range(3):
            one.get("shared")
        tap.is_(other.get("shared"), b"value", "the other reads")
        tap.ok(int(other.stats("proxy")["get_onesided"]) > 0, "by the pointer that the first one earned", other.stats("proxy"))
    tap.ok(systemctl("stop", "farnode@a"), "the node stops")
    tap.like(until(lambda: shown("farcached@front", "StatusText"), lambda text: text.startswith("0/1")),
             r"^0/1 nodes up \(a is down: ", "the status of who is in front of it says so")
    tap.like(until_journal("farcached@front", "a is down"), "(?m)^node a is down: ", "and the journal")
    tap.ok(systemctl("stop", "farcached@11312", "farcached@front"), "they stop")


def behind_a_socket():
    """Restarts while clients of all kinds go on."""
    os.unlink("/etc/sysconfig/farcached")
    systemctl("stop", "farcached")
    tap.ok(systemctl("start", "farcached.socket"), "the socket unit listens in its place")
    addresses = [("127.0.0.1", 11211), "/run/farcached/farcached.sock"]
    serves(addresses[0], "who connects starts it")
    tap.is_(shown("farcached", "ActiveState"), "active", "the service has started")
    with RestartLoad(addresses) as load:
        for _ in range(RESTARTS):
            tap.ok(systemctl("restart", "farcached"), "it restarts under load")
            load.until_served()
    tap.is_(load.refused, [], "no connection attempt was refused")
    tap.is_(load.wrong, [], "and every answer was the right one")
    tap.ok(min(load.connections.values()) > RESTARTS, "text, meta and binary clients came back each time", load.connections)


def watched():
    """A process that stands still, and one thread of it that does, are both ended and begun anew."""
    write(UNITS + "/farcached.service.d/watchdog.conf", "[Service]\nWatchdogSec=%d\nLimitCORE=0\n" % WATCHDOG_S)
    systemctl("daemon-reload")
    systemctl("restart", "farcached")
    for name, still in (("a process that stands still", process_still), ("a worker that stands still", worker_still)):
        restarts, pid = int(shown("farcached", "NRestarts")), int(shown("farcached", "MainPID"))
        with still(pid) as take_notice:
            seen = until(lambda: take_notice() or shown("farcached", "NRestarts"), lambda count: int(count) > restarts)
        tap.is_(int(seen), restarts + 1, name + " is ended by its watchdog, and another one started")
        until(lambda: shown("farcached", "ActiveState"), lambda state: state == "active")
        tap.ok(int(shown("farcached", "MainPID")) != pid, name + ": which serves")
        serves(("127.0.0.1", 11211), name)
    text = journal("farcached")
    tap.like(text, r"(?m)^farcached\.service: Watchdog timeout \(limit %ds\)!$" % WATCHDOG_S, "the journal says why")
    tap.like(text, r"(?m)^worker 1 is stuck: it did not go round its loop for ", "and names the worker")
    os.unlink(UNITS + "/farcached.service.d/watchdog.conf")


@contextlib.contextmanager
def process_still(pid):
    os.kill(pid, signal.SIGSTOP)
    yield lambda: None


def worker_still(pid):
    return standing_still(thread_named(pid, "worker 1"))


def over_rdma():
    address = os.environ["FARCACHED_RDMA_ADDRESS"] + ":11301"
    write("/etc/default/farnode.v", 'CACHESIZE=64\nOPTIONS="--verbs %s"\n' % address)
    write("/etc/default/farcached.11314", 'OPTIONS="-l 127.0.0.1 -t 1 --node v=verbs:%s"\n' % address)
    tap.ok(run("systemctl", "start", "farnode@v")[0] != 0, "without the drop-in there is no RDMA")
    tap.like(until_journal("farnode@v", "infiniband|device"), "(?i)infiniband|device", "and the journal says what is missing")
    for unit in ("farnode@v", "farcached@11314"):
        folder = "%s/%s.service.d" % (UNITS, unit)
        os.makedirs(folder, exist_ok=True)
        os.symlink(os.path.join(TOP, "contrib/systemd/verbs.conf"), folder + "/verbs.conf")
    systemctl("daemon-reload")
    systemctl("stop", "farnode@v")  # it restarts by itself: an attempt that began without the drop-in is not the one to wait for
    systemctl("reset-failed", "farnode@v")
    tap.ok(systemctl("start", "farnode@v"), "with the drop-in the node listens over RDMA")
    tap.ok(systemctl("start", "farcached@11314"), "and a farcached starts")
    tap.like(shown("farcached@11314", "StatusText"), "^1/1 nodes up, ", "which reaches it")
    with Client(11314) as c:
        tap.is_((c.set("k", "v"), c.get("k")), ("STORED", b"v"), "and stores and reads there")
    systemctl("stop", "farcached@11314", "farnode@v")


def stops():
    systemctl("stop", "farcached.socket")
    tap.ok(systemctl("stop", "farcached"), "it stops")
    tap.is_((shown("farcached", "ActiveState"), shown("farcached", "Result"), shown("farcached", "ExecMainStatus")),
            ("inactive", "success", "0"), "well")
    tap.ok(os.path.isdir("/run/farcached") and not os.path.exists("/run/farcached/admin.sock"),
           "its socket is gone, and the folder is there for the others")
    said = journal("farcached")
    tap.ok(not re.search("internal error|Failed with result 'exit-code'|Sanitizer", said), "the journal holds no surprise", said)


def exposure():
    for unit in ("farcached.service", "farcached@11212.service", "farnode.service", "farnode@a.service", "farnode@v.service"):
        text = run("systemd-analyze", "security", "--no-pager", unit)[1]
        found = re.search(r"Overall exposure level for \S+: ([\d.]+)", text)
        tap.ok(found and float(found.group(1)) <= EXPOSURE_MAX, "%s: exposure %s" % (unit, found and found.group(1)), text[-500:])


def main():
    folder = install()
    starts(folder)
    for part in (variables, reloads, rings, instances, behind_a_socket, watched, over_rdma, stops, exposure):
        tap.diag("%s, after %.0f s" % (part.__name__, time.monotonic()))
        part()
    tap.done()


main()
