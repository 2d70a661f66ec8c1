# SPDX-License-Identifier: BSD-3-Clause
"""Runs a test script for a single farcached again, with nodes behind it (cluster.Behind) or another variable of the environment,
and reports its tests as ours.

Every test must have the same result as without it, except for those in DIFFERENT, which are expected to fail. A test in that
list that passes is a failure, too: its line must be removed.
"""
import fnmatch
import os
import re
import subprocess
import sys

from farcached import deadline
from tap_output import tap

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# variable -> script -> {title, or its beginning and *: reason of the difference}
DIFFERENT = {"FARCACHED_TLS": {
    "conversation/text.py": {"refresh_certs": "there are certificates"},
}, "FARCACHED_NODES": {
    "conversation/text.py": dict.fromkeys(
        ["cache_memlimit", "slabs", "lru", "lru_crawler", "metadump behind another command", "metadump of an empty cache",
         "mgdump of an empty cache", "a dump of what is no class"],
        "the memory is the nodes', and their operators'"),
    "conversation/connections.py": {"a dump is whole": "the items to be dumped are the nodes'"},
}}


def modes(short, long):
    return long if os.environ.get("FARCACHED_TEST_LONG") else short


def why_different(variable, script, title):
    for pattern, why in DIFFERENT.get(variable, {}).get(script, {}).items():
        if fnmatch.fnmatchcase(title, pattern):
            return why
    return None


def relay(script, mode, text, variable=None):
    """Reports the tests of a script's output as ours; returns their number."""
    count = 0
    for line in text.splitlines():
        result = re.match(r"(ok|not ok) \d+ - (.*)", line)
        if not result:
            if line and not re.match(r"\d+\.\.\d+", line):
                tap.diag(line.lstrip("# "))
            continue
        count += 1
        good, title = result.group(1) == "ok", result.group(2)
        why = why_different(variable, script, title)
        if why:
            tap.ok(not good, "%s: %s: differs: %s" % (mode, title, why))
        else:
            tap.ok(good, "%s: %s" % (mode, title))
    return count


def run(script, mode, variable="FARCACHED_NODES"):
    """Runs t/SCRIPT ("conversation/text.py") with FARCACHED_NODES=MODE, or with another variable."""
    done = subprocess.run([sys.executable, os.path.join(HERE, script)], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=deadline() * 15,
                          env={**os.environ, variable: mode})
    text = done.stdout.decode("latin-1")
    count = relay(script, mode, text, variable)
    tap.ok(count > 0 and done.returncode in (0, 1) and "Bail out!" not in text, "%s: %s ran to its end" % (mode, script),
           "exit status %s" % done.returncode)


def run_all(script, short=("3shm", "3shm,no_local_read", "3tcp", "3tcp,links_per_node=1"),
            long=("3shm", "3shm,no_local_read", "3shm,no_local_read,pointer_miss=index", "3tcp", "3tcp,pointer_miss=index", "mix",
                  "mix,no_local_read", "1shm", "1tcp", "3tcp,links_per_node=1")):
    for mode in modes(short, long):
        run(script, mode)
    tap.done()
