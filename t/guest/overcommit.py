# SPDX-License-Identifier: BSD-3-Clause
"""A host without overcommit (vm.overcommit_memory=2) runs out of memory under a daemon that fills up. Items are evicted or refused,
and no process ends by SIGBUS. Runs in a guest with its own memory."""
import contextlib
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from farcached import Closed, Daemon, StartFailed, tap  # noqa: E402

VALUE = "v" * 8000
MEGABYTES = 64
CLOSED = "closed: no memory for the connection"
BATCH = 50
ROOM_KB = 24 << 10         # for items and for the daemon's other memory
FOR_ROOT_KB = 96 << 10     # root's reserve, which this test may use and the daemon may not
KNOBS = ("overcommit_memory", "overcommit_kbytes", "admin_reserve_kbytes", "user_reserve_kbytes", "overcommit_ratio")


def knob(name, value=None):
    with open("/proc/sys/vm/" + name, "r" if value is None else "w") as f:
        return f.read().strip() if value is None else f.write(str(value))


@contextlib.contextmanager
def strict(limit_kb):
    before = {name: knob(name) for name in KNOBS}
    knob("admin_reserve_kbytes", FOR_ROOT_KB)
    knob("user_reserve_kbytes", 0)
    knob("overcommit_kbytes", limit_kb)
    knob("overcommit_memory", 2)
    try:
        yield
    finally:
        knob("overcommit_memory", before["overcommit_memory"])
        for name in ("admin_reserve_kbytes", "user_reserve_kbytes"):
            knob(name, before[name])
        if before["overcommit_kbytes"] != "0":
            knob("overcommit_kbytes", before["overcommit_kbytes"])
        else:
            knob("overcommit_ratio", before["overcommit_ratio"])


def committed_kb():
    with open("/proc/meminfo") as f:
        return int(re.search(r"(?m)^Committed_AS:\s+(\d+) kB$", f.read()).group(1))


class OfNobody(Daemon):
    """Runs as a user without a share in root's reserve, in a folder where it may write its port file."""

    def __init__(self):
        super().__init__("-m", MEGABYTES, threads=1, user=["-u", "nobody"])

    def command(self):
        os.chmod(self.folder, 0o777)
        return super().command()


def filled(daemon):
    """The replies to a client that stores half as much again as fits. After a connection that was closed for want of memory it
    connects again."""
    count = MEGABYTES * 1024 * 1024 * 3 // 2 // len(VALUE)
    replies = {}
    client = daemon.client()
    for begin in range(0, count, BATCH):
        try:
            client.send(*("set k%d 0 0 %d\r\n%s\r\n" % (i, len(VALUE), VALUE) for i in range(begin, begin + BATCH)))
            for _ in range(BATCH):
                reply = client.line().decode().strip()
                replies[reply] = replies.get(reply, 0) + 1
        except (Closed, ConnectionError):
            replies[CLOSED] = replies.get(CLOSED, 0) + 1
            client.close()
            client = daemon.client()
    client.close()
    return replies


def main():
    if "FARCACHED_RDMA_ADDRESS" not in os.environ:
        tap.skip_all("the memory of this machine is not ours to ration: run it in a guest")
    plenty_kb = 64 << 20
    with strict(plenty_kb):
        before = committed_kb()
        with OfNobody() as d, d.client() as c:
            c.set("k", "v")
            taken = committed_kb() - before
        before = committed_kb()
    tap.diag("a daemon of %d MB takes %d MB at its start" % (MEGABYTES, taken >> 10))
    with strict(before + taken // 2 + FOR_ROOT_KB):
        try:
            with OfNobody():
                tap.ok(False, "with less than it needs at its start a daemon does not start")
        except StartFailed as e:
            tap.like(str(e), "ended with 71: .*Cannot allocate memory", "with too little memory at its start it prints the reason")
    with strict(before + taken + ROOM_KB + FOR_ROOT_KB), OfNobody() as d, d.client() as c:
        replies = filled(d)
        tap.ok(set(replies) <= {"STORED", "SERVER_ERROR out of memory storing object", CLOSED}, "every store is answered", replies)
        tap.ok(replies.get("STORED", 0) > 100, "most are stored, and older ones evicted for them", replies)
        c.set("last", "v")
        tap.is_(c.get("last"), b"v", "and its items are served")
        knob("overcommit_kbytes", plenty_kb)
        tap.ok(int(c.stats("proxy")["node_pages_refused"]) > 0, "refused memory is counted")
        tap.is_(set(filled(d)), {"STORED"}, "when there is memory again it is used")
        used = int(c.stats()["bytes"])
        tap.ok(used > MEGABYTES << 19, "all of it", used)
    tap.done()


main()
