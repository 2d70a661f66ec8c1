# SPDX-License-Identifier: BSD-3-Clause
"""Every header compiles alone: whoever includes it needs to know nothing else."""
import concurrent.futures
import glob
import os
import shlex
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from tap_output import tap  # noqa: E402

TOP = os.environ.get("abs_top_srcdir") or os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDERS = ["base", "protocol", "fabric", "node", "proxy", "conf", "daemon", "bench", "t", "t/fuzz"]


def compile_alone(header):
    command = shlex.split(os.environ.get("CXX", "g++")) + shlex.split(
        os.environ.get("TEST_CPPFLAGS", "-std=c++20")) + ["-I" + TOP, "-fsyntax-only", "-Wall", "-Wextra",
                                                         "-Werror", "-x", "c++", "-"]
    done = subprocess.run(command, input=('#include "%s"\n' % header).encode(), capture_output=True, timeout=120)
    return header, done.returncode == 0, done.stderr.decode("utf-8", "replace")


def main():
    headers = sorted(os.path.relpath(path, TOP) for folder in FOLDERS
                     for path in glob.glob(os.path.join(TOP, folder, "*.h")))
    tap.plan(len(headers))
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        for header, good, errors in pool.map(compile_alone, headers):
            tap.ok(good, "%s compiles alone" % header, *errors.split("\n")[:20])
    tap.done()


main()
