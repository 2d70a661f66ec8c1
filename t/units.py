# SPDX-License-Identifier: BSD-3-Clause
"""The units for systemd as make install puts them: all are there, systemd finds nothing wrong with them, and what they
expose stays at 2.0 or better. t/guest/units.py runs them."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from farcached import deadline, tap  # noqa: E402

BUILD = os.environ.get("abs_top_builddir", os.getcwd())
SERVICES = ["farcached.service", "farcached@.service", "farnode.service", "farnode@.service"]
EXPOSURE_MAX = 2.0


def run(*words, **more):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=deadline() * 5, **more)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def install(folder):
    """{end of the path: path} of what is installed."""
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    status, text = run("make", "-C", BUILD, "install-data", "DESTDIR=" + folder, env=environment)
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
    tap.like(read(find(paths, "sysusers.d/farcached.conf")), r"(?m)^u farcached ", "the user is made")
    tap.like(read(find(paths, "tmpfiles.d/farcached.conf")), r"(?m)^d /run/farcached ", "and the folder of sockets")
    for name, path in units.items():
        tap.ok(not re.search(r"@\w+@", read(path)), "nothing is left to be filled in in " + name)
    return units


def check_settings(units):
    """What must be the same in all of them, and not be lost by an edit of one."""
    for name in SERVICES:
        text = read(units[name])
        for setting in ("User=farcached", "Type=notify", "RuntimeDirectoryPreserve=yes", "RemoveIPC=no", "LimitMEMLOCK=infinity"):
            tap.ok(re.search("(?m)^%s$" % setting, text), "%s: %s" % (name, setting))
        tap.ok(re.search(r"(?m)^WatchdogSec=\d", text), name + " has a watchdog")
        tap.ok("infiniband" not in text, name + " does not allow devices of RDMA")
        used = set(re.findall(r"\$\{?(\w+)\}?", re.search(r"(?ms)^ExecStart=(.*?[^\\])$", text).group(1)))
        given = set(re.findall(r'[ ="](\w+)=', re.search("(?m)^Environment(=.*)$", text).group(1)))
        tap.is_(used - given, {"USER"}, name + ": every variable has a default; USER's is of User=")


def check_with_systemd(units, folder):
    """Its own judgement. Of copies that name programs which are there."""
    if shutil.which("systemd-analyze") is None:
        tap.skip("systemd finds nothing wrong", "there is no systemd-analyze here")
        return
    copies = []
    for name, path in units.items():
        copy = os.path.join(folder, name)
        with open(copy, "w") as f:
            f.write(re.sub(r"(?m)^ExecStart=\S+/", "ExecStart=%s/" % BUILD, read(path)))
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
        os.mkdir(os.path.join(folder, "copies"))
        check_with_systemd(units, os.path.join(folder, "copies"))
    tap.done()


main()
