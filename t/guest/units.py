# SPDX-License-Identifier: BSD-3-Clause
"""The units of contrib/systemd under a real systemd: start, readiness, variables, reload, limits, and io_uring by its drop-in.
Instances that share memory with a node of another user, restarts under load behind a socket unit, a watchdog that kills. RDMA by
its drop-in and behind the filter of system calls, stop, and the journal afterwards. Runs in a guest that booted systemd."""
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
CONFIG = "/etc/farcached/unit.toml"
EXPOSURE_MAX = 2.0
WATCHDOG_S = 6  # the guest is slow
RESTARTS = 3
MB = 1 << 20


def run(*words):
    """(exit status, output)."""
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=deadline() * 2)
    return done.returncode, done.stdout.decode("latin-1")


def systemctl(*words):
    """True if it succeeded; else shows the error output."""
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
    """Installs the files of make install, which itself takes long in a guest and is tested elsewhere."""
    units = glob.glob(os.path.join(BUILD, "contrib/systemd/*.service")) + [os.path.join(TOP, "contrib/systemd/farcached.socket")]
    for unit in units:
        shutil.copy(unit, UNITS)
    with open(os.path.join(UNITS, "farcached.service")) as f:
        text = f.read()
    folder = os.path.dirname(re.search(r"^ExecStart=(\S+)", text, re.M).group(1))
    set_limits = re.search(r"^ExecStartPre=\+-(\S+)", text, re.M).group(1)
    for path in (folder, os.path.dirname(set_limits)):
        os.makedirs(path, exist_ok=True)
    shutil.copy(os.path.join(TOP, "contrib/systemd/set-limits"), set_limits)
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
            "start returns at readiness, with a status text")
    tap.is_(os.stat("/proc/" + shown("farcached", "MainPID")).st_uid, pwd.getpwnam("farcached").pw_uid, "as its own user")
    serves(("127.0.0.1", 11211), "without any file")
    stats = stats_at(11211)
    tap.is_((stats["max_connections"], stats["limit_maxbytes"]), ("1024", str(64 << 20)), "with the defaults of the unit")
    status, text = run(os.path.join(folder, "farctl"), "status")
    tap.ok(status == 0, "root's farctl asks it where the unit put its socket", text)


def limits_of(folder, *words):
    status, text = run(os.path.join(folder, "farcached"), *words, "--print-limits")
    tap.is_(status, 0, "--print-limits " + " ".join(words))
    return dict(line.split("=") for line in text.split())


def limits_shown(unit):
    return {name: shown(unit, name) for name in ("MemoryMax", "TasksMax")}


def limits():
    """The limits set at a start, an operator's own limits, and a cache full of the smallest values."""
    folder = os.path.dirname(re.search(r"path=(\S+)", shown("farcached", "ExecStart")).group(1))
    tap.is_(limits_shown("farcached"), limits_of(folder, "-m", "32", "-c", "77", "-t", "2"),
            "limits of memory and tasks are of the options")
    write(UNITS + "/farcached.service.d/own.conf", "[Service]\nMemoryMax=300M\n")
    write("/etc/sysconfig/farcached", 'PORT="11311"\nCACHESIZE="8"\nOPTIONS="-l 127.0.0.1 -t 1"\n')
    systemctl("daemon-reload")
    systemctl("restart", "farcached")
    own = limits_of(folder, "-m", "8", "-t", "1")
    tap.is_(limits_shown("farcached"), {**own, "MemoryMax": str(300 * MB)}, "a drop-in of the operator counts, at the next start")
    os.unlink(UNITS + "/farcached.service.d/own.conf")
    systemctl("daemon-reload")
    systemctl("restart", "farcached")
    tap.is_(limits_shown("farcached"), own, "and no more when it is gone")
    with Client(11311) as c:
        for begin in range(0, 120_000, 20_000):
            c.send(b"".join(b"set k%d 0 0 1 noreply\r\nv\r\n" % i for i in range(begin, begin + 20_000)))
        tap.ok(c.is_idle() and int(c.stats()["evictions"]) > 0, "a cache that is full of the smallest values")
    group = "/sys/fs/cgroup" + shown("farcached", "ControlGroup")
    with open(group + "/memory.events") as f:
        events = dict(line.split() for line in f)
    tap.is_((events["oom"], events["oom_kill"], events["max"]), ("0", "0", "0"), "does not meet its limit")
    with open(group + "/pids.events") as f:
        tap.is_(f.read().split()[-1], "0", "nor that of tasks")


def variables():
    """The variables of Fedora's file."""
    write(CONFIG, "idle_timeout = 0\n")
    write("/etc/sysconfig/farcached", 'PORT="11311"\nUSER="nobody"\nMAXCONN="77"\nCACHESIZE="32"\n'
          'OPTIONS="-l 127.0.0.1 -t 2 --config %s"\n' % CONFIG +
          'ADMIN="/run/farcached/moved.sock"\n')
    tap.ok(systemctl("restart", "farcached"), "it restarts with variables of its file")
    stats = stats_at(11311)
    tap.is_((stats["max_connections"], stats["limit_maxbytes"], stats["threads"]), ("77", str(32 << 20), "2"),
            "PORT, MAXCONN, CACHESIZE and OPTIONS are heeded")
    tap.ok(stat.S_ISSOCK(os.stat("/run/farcached/moved.sock").st_mode), "and ADMIN, where the reload asks then")
    tap.like(until_journal("farcached", "-u nobody"), r"(?m)^-u nobody: not started as root, so this process stays farcached; "
             r"in a unit, set User=$", "USER is complained of if it is another")


def reloads():
    before = shown("farcached", "MainPID")
    with Client(11311) as c:
        c.set("k", "v")
        tap.ok(systemctl("reload", "farcached"), "it reloads")
        tap.is_(c.get("k"), b"v", "and no connection notices")
        write(CONFIG, "nosuch = 1\n")
        tap.ok(not systemctl("reload", "farcached"), "a reload that the daemon refuses fails")
        tap.like(until_journal("farcached", "refused, nothing changed"), "refused, nothing changed: .*unknown key 'nosuch'",
                 "and the journal has the reason")
        write(CONFIG, "idle_timeout = 0\n")
        tap.ok(systemctl("reload", "farcached"), "once the file is right, it reloads again")
        tap.is_(c.get("k"), b"v", "and no connection noticed")
    until(lambda: shown("farcached", "ActiveState"), lambda state: state == "active")
    tap.is_(shown("farcached", "MainPID"), before, "it is the same process")


def rings():
    """With the drop-in io_uring works as outside of a unit; without it the log has the sandbox's refusal."""
    with Daemon("-o", "io=auto") as d:
        outside = d.stats()["farcached_io"]
    backend, said = served_by("uring")
    tap.is_((backend, len(said)), ("libevent", 1), "the unit's sandbox has no io_uring: it starts, and logs one line")
    tap.like("\n".join(said), r"\Aio=uring: no io_uring \(.+\): using libevent for client sockets\Z", "with the reason")
    tap.is_(served_by("auto"), ("libevent", []), "and with io=auto it logs nothing")
    drop_in = UNITS + "/farcached.service.d/io_uring.conf"
    os.symlink(os.path.join(TOP, "contrib/systemd/io_uring.conf"), drop_in)
    systemctl("daemon-reload")
    tap.is_([served_by("uring"), served_by("auto")], [(outside, [])] * 2, "with the drop-in it is the same as outside: " + outside)
    os.unlink(drop_in)
    systemctl("daemon-reload")


def served_by(io):
    """(back end of clients' sockets with that option in the unit, journal lines of this start about it)"""
    write("/etc/sysconfig/farcached", 'PORT="11311"\nOPTIONS="-l 127.0.0.1 -t 2 -o io=%s"\n' % io)
    tap.ok(systemctl("restart", "farcached"), "it starts with io=" + io)
    with Client(11311) as c:
        tap.is_((c.set("k", io), c.get("k")), ("STORED", io.encode()), "and serves")
    said = run("journalctl", "-o", "cat", "--no-pager", "_SYSTEMD_INVOCATION_ID=" + shown("farcached", "InvocationID"))[1]
    return stats_at(11311)["farcached_io"], [line for line in said.splitlines() if "uring" in line]


def instances():
    """A node by its name, and two farcached in front of it, which share pointers in /dev/shm."""
    tap.ok(systemctl("start", "farnode@a"), "a node starts by its name")
    tap.like(shown("farnode@a", "StatusText"), "^0 connections of proxies, 0 items in 0 of 1024 MB$", "with its items")
    users = {unit: os.stat("/proc/" + shown(unit, "MainPID")).st_uid for unit in ("farnode@a", "farcached")}
    tap.is_(users, {"farnode@a": pwd.getpwnam("farnode").pw_uid, "farcached": pwd.getpwnam("farcached").pw_uid},
            "as another user than proxies")
    about = os.stat("/run/farnode/farnode-a.sock")
    tap.is_((stat.S_IMODE(about.st_mode), about.st_uid, about.st_gid),
            (0o660, pwd.getpwnam("farnode").pw_uid, pwd.getpwnam("farcached").pw_gid), "and its socket belongs to their group")
    status, text = run("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "ls", "/run/farnode/")
    tap.ok(status != 0 and "ermission" in text, "and out of others' reach", text)
    options = 'OPTIONS="-l 127.0.0.1 -t 1 --node a=shm:/run/farnode/farnode-a.sock -o drop_privileges,%s"\n'
    write("/etc/default/farcached.11312", options % "no_local_read")
    write("/etc/default/farcached.11315", options % "local_read")
    write("/etc/default/farcached.front", "PORT=11313\n" + options % "no_local_read")
    for unit in ("farcached@11312", "farcached@front", "farcached@11315"):
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
    with Client(11315) as c:
        tap.is_(c.get("shared"), b"value", "a third one reads")
        tap.ok(int(c.stats("proxy")["get_local"]) > 0, "in the node's memory, which it maps", c.stats("proxy"))
    tap.ok(systemctl("stop", "farnode@a"), "the node stops")
    tap.like(until(lambda: shown("farcached@front", "StatusText"), lambda text: text.startswith("0/1")),
             r"^0/1 nodes up \(a is down: ", "the status of a proxy in front of it shows it")
    tap.like(until_journal("farcached@front", "a is down"), "(?m)^node a is down: ", "and the journal")
    tap.ok(systemctl("stop", "farcached@11312", "farcached@front", "farcached@11315"), "they stop")


def behind_a_socket():
    """Restarts under load of clients of all kinds."""
    os.unlink("/etc/sysconfig/farcached")
    systemctl("stop", "farcached")
    tap.ok(systemctl("start", "farcached.socket"), "the socket unit listens in its place")
    addresses = [("127.0.0.1", 11211), "/run/farcached/farcached.sock"]
    serves(addresses[0], "a connection starts it")
    tap.is_(shown("farcached", "ActiveState"), "active", "the service has started")
    with RestartLoad(addresses) as load:
        for _ in range(RESTARTS):
            tap.ok(systemctl("restart", "farcached"), "it restarts under load")
            load.until_served()
    tap.is_(load.refused, [], "no connection attempt was refused")
    tap.is_(load.wrong, [], "and every answer was the right one")
    tap.ok(min(load.connections.values()) > RESTARTS, "text, meta and binary clients reconnected each time", load.connections)


def watched():
    """A stopped process, and a process with one stopped thread, are both killed and started again."""
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
    tap.like(text, r"(?m)^farcached\.service: Watchdog timeout \(limit %ds\)!$" % WATCHDOG_S, "the journal has the reason")
    tap.like(text, r"(?m)^worker 1 is stuck: its loop has not run for ", "and names the worker")
    os.unlink(UNITS + "/farcached.service.d/watchdog.conf")


@contextlib.contextmanager
def process_still(pid):
    os.kill(pid, signal.SIGSTOP)
    yield lambda: None


def worker_still(pid):
    return standing_still(thread_named(pid, "worker 1"))


def over_rdma():
    address = os.environ["FARCACHED_RDMA_ADDRESS"] + ":11301"
    write("/etc/default/farnode.v", 'CACHESIZE=64\nOPTIONS="--verbs %s --insecure --drop-privileges"\n' % address)
    write("/etc/default/farcached.11314", 'OPTIONS="-l 127.0.0.1 -t 1 --node v=verbs:%s -o drop_privileges"\n' % address)
    tap.ok(run("systemctl", "start", "farnode@v")[0] != 0, "without the drop-in there is no RDMA")
    tap.like(until_journal("farnode@v", "infiniband|device"), "(?i)infiniband|device", "and the journal names what is missing")
    for unit in ("farnode@v", "farcached@11314"):
        folder = "%s/%s.service.d" % (UNITS, unit)
        os.makedirs(folder, exist_ok=True)
        os.symlink(os.path.join(TOP, "contrib/systemd/verbs.conf"), folder + "/verbs.conf")
    systemctl("daemon-reload")
    systemctl("stop", "farnode@v")  # an attempt that began without the drop-in must not count
    systemctl("reset-failed", "farnode@v")
    tap.ok(systemctl("start", "farnode@v"), "with the drop-in the node listens over RDMA")
    tap.ok(systemctl("start", "farcached@11314"), "and a farcached starts")
    tap.like(until(lambda: shown("farcached@11314", "StatusText"), lambda text: text.startswith("1/1")), "^1/1 nodes up, ",
             "which reaches it, though a busy host may miss the first greeting")
    with Client(11314) as c:
        tap.is_((c.set("k", "v"), c.get("k")), ("STORED", b"v"), "and stores and reads there")
        large = os.urandom(500_000)
        tap.is_((c.set("large", large), c.get("large") == large), ("STORED", True), "a large value, too")
        for _ in range(20):
            c.get("k")
        tap.ok(int(c.stats("proxy")["get_onesided"]) > 0, "and by READs", c.stats("proxy"))
    for unit in ("farnode@v", "farcached@11314"):
        tap.is_(filtered(shown(unit, "MainPID")), {("2", "1")}, unit + ": every thread is behind filters")
        tap.like(until_journal(unit, "drop_privileges"), r"(?m)^drop_privileges: \d+ system calls are allowed",
                 "its own among them")
    tap.ok(systemctl("restart", "farnode@v"), "the node restarts")
    tap.like(until(lambda: shown("farcached@11314", "StatusText"), lambda text: text.startswith("1/1")), "^1/1 nodes up, ",
             "and is reached again")
    systemctl("stop", "farcached@11314", "farnode@v")


def filtered(pid):
    """{(Seccomp, NoNewPrivs)} of its threads. The unit has filters, too, so the daemon's own are checked in its stderr."""
    found = set()
    for task in os.listdir("/proc/%s/task" % pid):
        with open("/proc/%s/task/%s/status" % (pid, task)) as f:
            lines = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
        found.add((lines["Seccomp"], lines["NoNewPrivs"]))
    return found


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
    for part in (variables, reloads, limits, rings, instances, behind_a_socket, watched, over_rdma, stops, exposure):
        tap.diag("%s, after %.0f s" % (part.__name__, time.monotonic()))
        part()
    tap.done()


main()
