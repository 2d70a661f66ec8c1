# SPDX-License-Identifier: BSD-3-Clause
"""Every header compiles alone. The build covers x.h if x.cc includes it first (t/source/tidy.py checks that order)."""
import concurrent.futures
import os
import shlex
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from cxx_source import Source, source_tree  # noqa: E402
from tap_output import tap  # noqa: E402

TOP = os.environ.get("abs_top_srcdir") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def is_compiled_first(header):
    path = os.path.join(TOP, header[:-2] + ".cc")
    if not os.path.exists(path):
        return False
    with open(path, encoding="utf-8") as file:
        return Source(file.read()).first_include == header


def compile_alone(header):
    command = shlex.split(os.environ.get("CXX", "g++")) + shlex.split(
        os.environ.get("TEST_CXXFLAGS", "-std=c++20")) + ["-I" + TOP, "-fsyntax-only", "-Wall", "-Wextra",
                                                         "-Werror", "-x", "c++", "-"]
    done = subprocess.run(command, input=('#include "%s"\n' % header).encode(), capture_output=True, timeout=120)
    return header, done.returncode == 0, done.stderr.decode("utf-8", "replace")


def main():
    alone = [path for path in source_tree(TOP) if path.endswith(".h") and not is_compiled_first(path)]
    tap.ok(len(alone) > 10, "headers were found")
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        for header, good, errors in pool.map(compile_alone, alone):
            tap.ok(good, "%s compiles alone" % header, *errors.split("\n")[:20])
    tap.done()


main()
