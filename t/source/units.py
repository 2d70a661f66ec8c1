# SPDX-License-Identifier: BSD-3-Clause
"""The systemd units as make install puts them: all exist, systemd-analyze accepts them, and their exposure stays at 2.0 or better.
The limits set at the start cover a daemon's maximum, and a reload asks the daemon. t/guest/units.py runs the units."""
import os
import pwd
import re
import shutil
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from farcached import deadline, tap, until  # noqa: E402

BUILD = os.environ.get("abs_top_builddir", os.getcwd())
TOP = os.environ.get("abs_top_srcdir") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SERVICES = ["farcached.service", "farcached@.service", "farnode.service", "farnode@.service"]
EXPOSURE_MAX = 2.0
MB = 1 << 20
RING_CALLS = "io_uring_setup io_uring_enter io_uring_register"


def run(*words, **more):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=deadline() * 5, **more)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def install(folder):
    """{end of the path: path} of the installed files."""
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    status, text = run("make", "-C", BUILD, "install-data", "install-pkglibexecSCRIPTS", "DESTDIR=" + folder, env=environment)
    if not tap.ok(status == 0, "make install puts data below DESTDIR"):
        tap.diag(text[-2000:])
    return [os.path.join(top, name) for top, _, names in os.walk(folder) for name in names]


def find(paths, end):
    found = [path for path in paths if path.endswith(end)]
    tap.is_(len(found), 1, "there is one " + end)
    return found[0] if found else None


def read(path):
    with open(path) as f:
        return f.read()


def check_files(paths):
    units = {name: find(paths, "systemd/system/" + name) for name in [*SERVICES, "farcached.socket"]}
    find(paths, "share/farcached/systemd/verbs.conf")
    tap.is_(re.findall("(?m)^SystemCallFilter=(.*)$", read(find(paths, "share/farcached/systemd/io_uring.conf"))), [RING_CALLS],
            "a drop-in allows io_uring")
    for user, mode in (("farcached", "0755 farcached farcached"), ("farnode", "0750 farnode farcached")):
        tap.like(read(find(paths, "sysusers.d/farcached.conf")), r"(?m)^u %s - " % user, "the user %s is made" % user)
        tap.like(read(find(paths, "tmpfiles.d/farcached.conf")), r"(?m)^d /run/%s %s " % (user, mode), "and its folder of sockets")
    for name in ("farcached.toml", "farnode.toml", "grafana/farcached.json", "prometheus/farcached.rules.yml",
                 "prometheus/prometheus.yml", "kubernetes/farcached.yaml", "kubernetes/fleet.yaml"):
        find(paths, "/examples/" + name)
    for name, path in units.items():
        tap.ok(not re.search(r"@\w+@", read(path)), "nothing is left to be filled in in " + name)
    return units


def check_settings(units):
    """Settings that must be the same in all units, and must survive an edit of one."""
    for name in SERVICES:
        text = read(units[name])
        program = re.match(r"\w+", name).group(0)
        for setting in ("User=" + program, "Group=farcached", "RuntimeDirectory=" + program, "Type=notify",
                        "RuntimeDirectoryPreserve=yes", "RemoveIPC=no", "LimitMEMLOCK=infinity", "SystemCallFilter=~" + RING_CALLS):
            tap.ok(re.search("(?m)^%s$" % setting, text), "%s: %s" % (name, setting))
        tap.ok(re.search(r"(?m)^WatchdogSec=\d", text), name + " has a watchdog")
        tap.ok("infiniband" not in text, name + " does not allow devices of RDMA")
        start = re.search(r"(?ms)^ExecStart=(.*?[^\\])$", text).group(1)
        tap.ok({"farcached": " -o shm_group ", "farnode": " --shm-group "}[program] in start, name + ": the group is trusted")
        for when in ("ExecStartPre", "ExecReload"):
            limits = re.search(r"(?ms)^%s=(\S*/set-limits .*?[^\\])$" % when, text)
            tap.ok(limits and all(word in start for word in limits.group(1).split()[2:]), "%s: %s sets limits" % (name, when),
                   limits and limits.group(1))
        tap.ok(" --admin=${ADMIN} " in start, name + ": ADMIN moves the socket of farctl")
        tap.like(text, r"(?m)^ExecReload=\S*/farctl --timeout=60 --socket=\$\{ADMIN\} reload$",
                 name + ": a reload that is refused fails, and asks there")
        used = set(re.findall(r"\$\{?(\w+)\}?", start))
        given = set(re.findall(r'[ ="](\w+)=', " ".join(re.findall("(?m)^Environment(=.*)$", text))))
        tap.is_(used - given, {"USER"}, name + ": every variable has a default; USER's is of User=")


# -- Lines of the units, run by this user ------------------------------------------------------------------

def words_of(text, setting, variables):
    """The command of the last such line, as systemd makes it: $X is words, ${X} is within one."""
    line = re.findall(r"(?ms)^%s=(.*?[^\\])$" % setting, text)[-1].replace("\\\n", " ")
    words = []
    for word in line.split():
        whole = re.fullmatch(r"\$(\w+)", word)
        words += variables[whole.group(1)].split() if whole else [re.sub(r"\$\{(\w+)\}", lambda m: variables[m.group(1)], word)]
    return [os.path.join(BUILD, os.path.basename(words[0])), *words[1:]]


def answers(path):
    with socket.socket(socket.AF_UNIX) as s:
        return s.connect_ex(path) == 0


def check_reload(units, folder):
    """A reload finds a moved socket, and fails if the file is refused."""
    config = os.path.join(folder, "unit.toml")
    for program, options in (("farcached", "-s %s/unit.sock" % folder), ("farnode", "--shm %s/unit.shm" % folder)):
        with open(config, "w") as f:
            f.write("threads = 1\n" if program == "farcached" else "")
        text = read(units[program + ".service"])
        variables = {"PORT": "0", "USER": pwd.getpwuid(os.geteuid()).pw_name, "MAXCONN": "64", "CACHESIZE": "16",
                     "OPTIONS": options + " --config " + config, "ADMIN": os.path.join(folder, program + ".moved")}
        daemon = subprocess.Popen(words_of(text, "ExecStart", variables), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            until(lambda: answers(variables["ADMIN"]) or daemon.poll() is not None, bool)
            status, said = run(*words_of(text, "ExecReload", variables))
            unchanged = variables["ADMIN"] + ": no option changed; files that options name were read again\n"
            tap.is_((status, said), (0, unchanged), program + ": a reload at a moved socket")
            with open(config, "w") as f:
                f.write("nosuch = 1\n")
            status, said = run(*words_of(text, "ExecReload", variables))
            tap.ok(status == 1 and "refused, nothing changed" in said, program + ": a reload that is refused fails", status, said)
        finally:
            daemon.terminate()
            daemon.communicate(timeout=deadline())


# -- Limits -------------------------------------------------------------------------------------------------

def limits_of(program, *args):
    """{property: number} as the daemon prints them."""
    status, text = run(os.path.join(BUILD, program), *args, "--print-limits")
    if status != 0:
        tap.diag(text)
    return {line.split("=")[0]: int(line.split("=")[1]) for line in text.split() if "=" in line}


def check_numbers(folder):
    """docs/capacity.md measures a factor of 1.43 for the smallest values. The daemon itself keeps a quarter of -m, and 32 MB for
    all else."""
    for megabytes in (16, 64, 1024, 65536):
        for program, args in (("farcached", ()), ("farnode", ("--shm", "/x"))):
            found = limits_of(program, "-m", str(megabytes), *args)["MemoryMax"]
            need = megabytes * MB * 1.43 + megabytes * MB / 4 + 32 * MB
            tap.ok(need * 0.99 < found and found < 2 * megabytes * MB + 1024 * MB,
                   "%s -m %d: more than it may take, and not twice that" % (program, megabytes), found)
    base = limits_of("farcached")
    for args in (("-m", "65"), ("-c", "2000"), ("-t", "8"), ("-L",), ("-n", "8"), ("--node", "a=shm:/x")):
        found = limits_of("farcached", *args)
        tap.ok(found["MemoryMax"] > base["MemoryMax"], "more memory with " + " ".join(args), found, base)
    for args, more in ((("-t", "8"), 4), (("-o", "io=uring"), 16), (("-Z", "-o", "ssl_chain_cert=x"), 4),
                       (("--node", "a=shm:/x"), 16)):
        tap.is_(limits_of("farcached", *args)["TasksMax"] - base["TasksMax"], more, "more threads with " + " ".join(args))
    path = os.path.join(folder, "far.toml")
    with open(path, "w") as f:
        f.write('memory-limit = "1GB"\nthreads = 9\n')
    tap.is_(limits_of("farcached", "--config", path), limits_of("farcached", "-m", "1024", "-t", "9"), "a file's options count")
    plain, counting = limits_of("farnode", "--shm", "/x"), limits_of("farnode", "--shm", "/x", "--access_tracking", "atomic")
    tap.ok(counting["MemoryMax"] > plain["MemoryMax"], "counters of reads count")
    for program in ("farcached", "farnode"):
        tap.ok(run(os.path.join(BUILD, program), "-m", "many", "--print-limits")[0] != 0, program + ": wrong options are refused")


class FakeSystemctl:
    """A systemctl with these drop-ins that records the properties it should set."""

    def __init__(self, folder, drop_ins):
        self.folder, self.drop_ins = folder, drop_ins

    def set_by(self, script, *args):
        """(exit status, the words of set-property)"""
        asked = os.path.join(self.folder, "asked")
        with open(os.path.join(self.folder, "systemctl"), "w") as f:
            f.write('#!/bin/sh\nif [ "$1" = show ]; then echo "%s"; else echo "$*" >>%s; fi\n' % (" ".join(self.drop_ins), asked))
        os.chmod(os.path.join(self.folder, "systemctl"), 0o755)
        status, text = run(script, *args, env={**os.environ, "PATH": self.folder + ":" + os.environ["PATH"]})
        if status != 0:
            tap.diag(text)
        if not os.path.exists(asked):
            return status, []
        words = read(asked).split()
        os.unlink(asked)
        return status, words


def check_set_limits(script, folder):
    tap.ok(os.access(script, os.X_OK), "set-limits can be run")
    own = limits_of("farcached", "-m", "100")
    command = ("farcached.service", os.path.join(BUILD, "farcached"), "-m", "100")
    drop_in = os.path.join(folder, "override.conf")
    with open(drop_in, "w") as f:
        f.write("[Service]\nMemoryMax=1G\nMemoryMax=3G\nTasksAccounting=yes\n")
    for drop_ins, memory, name in (([], own["MemoryMax"], "without drop-ins: the printed limits"),
                                   (["/run/systemd/system.control/farcached.service.d/50-MemoryMax.conf"], own["MemoryMax"],
                                    "limits of an earlier start do not count"),
                                   ([drop_in], "3G", "the operator's own counts")):
        status, words = FakeSystemctl(folder, drop_ins).set_by(script, *command)
        tap.is_((status, words), (0, ["set-property", "--runtime", "farcached.service", "MemoryMax=%s" % memory,
                                      "TasksMax=%d" % own["TasksMax"]]), "set-limits, " + name)
    status, words = FakeSystemctl(folder, []).set_by(script, *command, "--nosuch")
    tap.ok(status != 0 and words == [], "wrong options: nothing is set", words)


def check_with_systemd(units, folder):
    """systemd-analyze on copies of the units that name existing programs."""
    if shutil.which("systemd-analyze") is None:
        tap.skip("systemd finds nothing wrong", "there is no systemd-analyze here")
        return
    copies = []
    for name, path in units.items():
        copy = os.path.join(folder, name)
        with open(copy, "w") as f:
            text = re.sub(r"(?m)^ExecStart=\S+/", "ExecStart=%s/" % BUILD, read(path))
            f.write(re.sub(r"\+-\S+/set-limits", "+-%s/contrib/systemd/set-limits" % TOP, text))
        copies.append(copy)
    status, text = run("systemd-analyze", "verify", "--man=no", *copies)
    tap.is_((status, text), (0, ""), "systemd finds nothing wrong")
    for copy in copies:
        if not copy.endswith(".service"):
            continue
        status, text = run("systemd-analyze", "security", "--offline=true", "--no-pager", copy)
        found = re.search(r"Overall exposure level for \S+: ([\d.]+)", text)
        if found is None and "unrecognized option" in text:
            tap.skip("exposure", "this systemd cannot say it of a file")
            return
        tap.ok(found and float(found.group(1)) <= EXPOSURE_MAX,
               "%s: exposure %s" % (os.path.basename(copy), found and found.group(1)), text[-300:])


def main():
    with tempfile.TemporaryDirectory(prefix="farcached-units-") as folder:
        paths = install(os.path.join(folder, "installed"))
        units = check_files(paths)
        check_settings(units)
        check_reload(units, folder)
        os.mkdir(os.path.join(folder, "copies"))
        check_numbers(folder)
        check_set_limits(find(paths, "libexec/farcached/set-limits"), folder)
        check_with_systemd(units, os.path.join(folder, "copies"))
    tap.done()


main()
