# SPDX-License-Identifier: BSD-3-Clause
"""farnode -L over RDMA: all of the registered memory is in huge pages, so that a device can translate it by entries of 2 MiB. Runs
in a guest, and sets its kernel to give huge pages to shared memory."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from farcached import tap  # noqa: E402
from farnode import Farnode  # noqa: E402

SHARED = "/sys/kernel/mm/transparent_hugepage/shmem_enabled"
MEGABYTES = 65  # no whole huge pages
HUGE = 2 << 20


def region(pid):
    """(begin, bytes, bytes in huge pages) of the mapped memfd."""
    mappings, ours = [], False
    with open("/proc/%d/smaps" % pid) as file:
        for line in file:
            head = re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line)
            if head:
                ours = "/memfd:farcached" in line
                if ours:
                    mappings.append([int(head.group(1), 16), int(head.group(2), 16), 0])
            elif ours and line.startswith("ShmemPmdMapped:"):
                mappings[-1][2] += 1024 * int(line.split()[1])
    return mappings[0][0], sum(end - begin for begin, end, _ in mappings), sum(huge for _, _, huge in mappings)


def check(large):
    node = Farnode("--verbs", os.environ["FARCACHED_RDMA_ADDRESS"] + ":0", "-m", str(MEGABYTES), *(["-L"] if large else []))
    with node:
        begin, size, huge = region(node.pid)
    tap.ok(size > MEGABYTES << 20, "the region is mapped", size)
    if large:
        tap.is_((begin % HUGE, size % HUGE, huge), (0, 0, size), "with -L it is in huge pages from begin to end")
    else:
        tap.is_(huge, 0, "without -L no page is huge")


def main():
    with open(SHARED) as file:
        before = re.search(r"\[(\w+)\]", file.read()).group(1)
    with open(SHARED, "w") as file:
        file.write("advise")
    try:
        check(large=False)
        check(large=True)
    finally:
        with open(SHARED, "w") as file:
            file.write(before)
    tap.done()


main()
