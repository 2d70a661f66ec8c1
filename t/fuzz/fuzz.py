# SPDX-License-Identifier: BSD-3-Clause
"""Runs every fuzz target over its seeds and then over new inputs.

Under make check: a bounded number of inputs ($FUZZ_RUNS, 20000), one test per target, and new inputs are discarded.
`make fuzz` sets FUZZ_SECONDS: each target runs that long, and keeps inputs with new coverage in fuzz-work/ of the
build tree (libFuzzer builds only) for the next run.
"""
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from tap_output import tap  # noqa: E402

TOP = os.environ.get("abs_top_srcdir") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("abs_top_builddir", os.getcwd())
RUNS = int(os.environ.get("FUZZ_RUNS", "20000"))
SECONDS = int(os.environ.get("FUZZ_SECONDS", "0"))
RUNS_MAX = 2**31 - 1  # libFuzzer stores it in an int; a larger number means no runs at all
RUNS_MIN = 1000       # however many seconds that takes; fewer means that no new input was tried


def run(target, new_inputs):
    """Returns whether it found nothing, what ran, and its output's lines."""
    corpus = os.path.join(TOP, "t/fuzz/corpus", os.path.basename(target))
    seeds = [corpus] if os.path.isdir(corpus) else []

    def run_bounded(*bounds):
        """Returns whether it found nothing, how many inputs it tried, and its output's lines."""
        command = [os.path.join(BUILD, target), *bounds, "-max_len=4096", "-timeout=20", new_inputs] + seeds
        done = subprocess.run(command, cwd=new_inputs if SECONDS else BUILD, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=max(600, 2 * SECONDS + 300))
        lines = done.stdout.decode("utf-8", "replace").rstrip().split("\n")
        tried = re.search(r"Done (\d+) runs|(\d+) inputs", "\n".join(lines[-5:]))
        return done.returncode == 0, int(tried.group(1) or tried.group(2)) if tried else 0, lines

    # Each long run has another seed; each run of make check has the same inputs.
    seed = "-seed=%d" % (int.from_bytes(os.urandom(3), "big") + 1 if SECONDS else 1)
    enough = min(RUNS, RUNS_MIN)
    good, tried, lines = run_bounded(seed, "-runs=%d" % (RUNS_MAX if SECONDS else RUNS), "-max_total_time=%d" % (SECONDS or 120))
    if good and tried < enough:  # on a busy machine: until the inputs are tried
        good, tried, lines = run_bounded(seed, "-runs=%d" % enough)
    name = "%s: %s" % (target, "%d seconds" % SECONDS if SECONDS else "seeds and %d inputs" % RUNS)
    return good and seeds and tried >= enough, name, lines if seeds else ["no seeds in " + corpus]


def fuzz(target):
    if SECONDS:
        kept = os.path.join(BUILD, "fuzz-work", os.path.basename(target))
        os.makedirs(kept, exist_ok=True)
        return run(target, kept)
    with tempfile.TemporaryDirectory(prefix="farcached-fuzz-") as fresh:
        return run(target, fresh)


def main():
    targets = os.environ.get("FUZZ_TARGETS", "").split()
    tap.ok(targets, "there are fuzz targets")
    at_once = min(2, os.cpu_count() or 1) if SECONDS else 1
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        for good, name, lines in pool.map(fuzz, targets):
            finding = [line for line in lines if re.search("ERROR:|SUMMARY:|^ +#\\d+ 0x|Assertion|CHECK", line)]
            if tap.ok(good, name, *finding[:30], *lines[-60:]):
                tap.diag(lines[-1])
    tap.done()


main()
