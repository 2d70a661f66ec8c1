# SPDX-License-Identifier: BSD-3-Clause
"""What protects the programs of a default build: chosen addresses, early binding, no executable stack, checks of stacks and of
buffers. The package's metadata name a home page and a maintainer."""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from farcached import deadline, tap  # noqa: E402

BUILD = os.environ.get("abs_top_builddir", os.getcwd())
TOP = os.environ.get("abs_top_srcdir") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAMS = ("farcached", "farnode", "farctl", "farbench")


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


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


def main():
    if variable("HARDENING_LDFLAGS"):
        for program in PROGRAMS:
            check_program(program)
    else:
        tap.skip("the programs are hardened", "built with sanitizers or --disable-hardening")
    check_metadata()
    tap.done()


main()
