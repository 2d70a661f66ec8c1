# SPDX-License-Identifier: BSD-3-Clause
"""What protects the programs of a default build: chosen addresses, early binding, no executable stack, checks of stacks and of
buffers. The package's metadata name a home page and a maintainer."""
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from farcached import deadline, tap  # noqa: E402

BUILD = os.environ.get("abs_top_builddir", os.getcwd())
TOP = os.environ.get("abs_top_srcdir") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAMS = ("farcached", "farnode", "farctl", "farbench")


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def write(text, *path):
    os.makedirs(os.path.join(*path[:-1]), exist_ok=True)
    with open(os.path.join(*path), "w", encoding="utf-8") as file:
        file.write(text)


def variable(name):
    """A variable of the Makefile."""
    return re.search(r"(?m)^%s =(.*)$" % name, read(BUILD, "Makefile")).group(1).strip()


def readelf(program, *words):
    done = subprocess.run(["readelf", "--wide", *words, os.path.join(BUILD, program)], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, check=True, timeout=deadline())
    return done.stdout.decode()


def check_program(program):
    tap.like(readelf(program, "--file-header"), r"(?m)^\s*Type:\s+DYN ", program + " is position-independent")
    tap.like(readelf(program, "--dynamic"), r"\(FLAGS_1\).*\bNOW\b", program + " binds all symbols at its start")
    segments = readelf(program, "--program-headers")
    tap.like(segments, r"(?m)^\s*GNU_RELRO ", program + " makes its relocations read-only")
    tap.like(segments, r"(?m)^\s*GNU_STACK\s+(\S+\s+){5}RW ", program + " has no executable stack")
    symbols = readelf(program, "--dyn-syms")
    tap.like(symbols, r"\b__stack_chk_fail\b", program + " checks its stacks")
    if re.search(r"-O[1-9s]", variable("CXXFLAGS")):
        tap.like(symbols, r"\b__\w+_chk\b", program + " checks buffers in the C library")
    else:
        tap.skip(program + " checks buffers in the C library", "built without optimization")


def check_metadata():
    home = variable("PACKAGE_URL")
    tap.like(home, r"^https://[\w.]+/", "configure names the home page")
    tap.is_(re.findall(r"(?m)^Homepage: (.*)$", read(TOP, "debian/control")), [home], "as does the package")
    maintainer = variable("MAINTAINER")
    tap.like(maintainer, r"^[^<>]+ <[^<>@]+@[^<>@]+>$", "configure names a maintainer")
    tap.ok(not re.search(r"\bexample\b|[.]invalid", maintainer), "who is no placeholder", maintainer)


def check_maintainer():
    """make dist and the package's build with a name of special characters. A tarball's own files have a name already, so make dist
    gets samples."""
    name = r"""Bob "R&D" O'Neil \1 | Sons (HR;) <bob@site.test>"""
    samples = {"control": "Source: x\nMaintainer: %s\n", "changelog": "x (1) sid\n\n -- %s  Sun, 22 Nov 2026 05:00:00 +0000\n"}
    environment = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    with tempfile.TemporaryDirectory() as folder:
        def make(*words):
            return subprocess.run(["make", "-s", "-C", folder, *words], env=environment, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, check=True, timeout=deadline()).stdout.decode()
        rules = re.sub("(?m)^include .*$", "", read(BUILD, "Makefile"))
        write(re.sub("(?m)^MAINTAINER = .*$", lambda _: "MAINTAINER = " + name, rules), folder, "rules.mk")
        for file, text in samples.items():
            write(text % "The farcached developers <dev@farcached.invalid>", folder, "debian", file)
        make("-f", "rules.mk", "dist-hook", "srcdir=.", "distdir=.")
        for file, text in samples.items():
            tap.is_(read(folder, "debian", file), text % name, "make dist writes the maintainer to " + file)
        write("#!/bin/sh\nprintf '%s\\n' \"$@\"\n", folder, "dh_auto_configure")
        os.chmod(os.path.join(folder, "dh_auto_configure"), 0o755)
        environment["PATH"] = folder + os.pathsep + environment["PATH"]
        tap.is_(make("-f", os.path.join(TOP, "debian/rules"), "override_dh_auto_configure"), "--\n--with-maintainer=%s\n" % name,
                "and the package's build gives it to configure")


def main():
    if variable("HARDENING_LDFLAGS"):
        for program in PROGRAMS:
            check_program(program)
    else:
        tap.skip("the programs are hardened", "built with sanitizers or --disable-hardening")
    check_metadata()
    check_maintainer()
    tap.done()


main()
