# SPDX-License-Identifier: BSD-3-Clause
"""Values on the disk after a restart with -e and ext_path: after a stop all are back, after a kill those that reached the disk.
With another file, an older one or a damaged one they are misses. No deleted, flushed, replaced or wrong value is ever back.
"""
import contextlib
import os
import random
import shutil
import signal
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from disk import BUSY, Disk, classes, store_and_read, to_disk, value  # noqa: E402
from farcached import Client, Closed, Daemon, tap, until  # noqa: E402

LONG = bool(os.environ.get("FARCACHED_TEST_LONG"))
RANDOM = random.Random(5)


@contextlib.contextmanager
def run(folder, *args, end=signal.SIGTERM, disk=True, **rules):
    """One run of the daemon with the files of that folder."""
    on = Disk.at(os.path.join(folder, "values"), **{"recache_rate": 0, **rules})
    more = ["-o", on.options()] if disk else []
    admin = os.path.join(folder, "admin")
    with Daemon("-e", os.path.join(folder, "items"), "-m", "4", "-I", "512k", "-v", "--admin", admin, *more, *args, threads=2,
                expect_exit=-end if end == signal.SIGKILL else 0) as d:
        yield d
        d.stop(end)


@contextlib.contextmanager
def folder_of():
    folder = tempfile.mkdtemp(prefix="farcached-disk-restart-", dir="/dev/shm")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def found(c, keys):
    return {key.decode(): v for key, _, v, _ in c.get_many(list(keys))}


def back(end):
    how = end.name
    with folder_of() as folder:
        with run(folder, end=end) as d, d.client() as c:
            v = to_disk(c, {name + str(i): 4000 for name in ("kept", "gone", "new", "ttl", "user:", "short") for i in range(10)})
            for i in range(10):
                c.ask("delete gone%d" % i)
                c.ask("touch ttl%d 1000" % i)
                c.ask("touch short%d 1" % i)
                c.set("new%d" % i, value("new%d" % i, 700, 2), flags=5)
            with Client(os.path.join(folder, "admin")) as operator:
                operator.ask("delete_prefix user:")
            c.set("user:0", value("user:0", 600, 2))
            cas = c.ask("mg kept3 c f t")
            if end == signal.SIGKILL:  # what is in a write buffer is lost: fill some more
                written = int(c.stats()["extstore_bytes_written"])
                for turn in range(1000):
                    store_and_read(c, {"more%d-%d" % (turn, i): b"m" * 4000 for i in range(50)})
                    if int(c.stats()["extstore_bytes_written"]) >= written + (2 << 20):
                        break
            left = classes(c, v)
        with run(folder) as d, d.client() as c:
            expires = [key for key in v if key.startswith("short")]
            tap.is_(until(lambda: found(c, expires), lambda got: not got), {}, how + ": items on the disk expire")
            got = found(c, v)
            wanted = {key: one for key, one in v.items() if key.startswith(("kept", "ttl"))}
            wanted.update({"new%d" % i: value("new%d" % i, 700, 2) for i in range(10)})
            wanted["user:0"] = value("user:0", 600, 2)
            wrong = {k: one[:20] for k, one in got.items() if one != wanted.get(k)}
            tap.is_(wrong, {}, how + ": no wrong, deleted or replaced value")
            tap.is_(sorted(k for k in wanted if k in left and k not in got), [], how + ": all values are back")
            tap.is_(c.ask("mg kept3 c f t"), cas, how + ": cas, flags and expiry")
            tap.ok(900 < int(c.ask("mg ttl1 t").split("t")[1]) <= 1000, how + ": a touched one")
            tap.ok(int(c.stats()["get_extstore"]) >= 15, how + ": from the disk")
            again = to_disk(c, {"again%d" % i: 4000 for i in range(5)})
            tap.is_(found(c, again), again, how + ": more values move there")
            c.ask("flush_all")
        with run(folder) as d, d.client() as c:
            tap.is_(found(c, {**v, **again}), {}, how + ": nothing that was flushed is back")


def other_files():
    """What is done to the file between two runs; the second one must serve, with misses instead."""
    def damaged(path):
        with open(path, "r+b") as f:
            data = f.read()
            for at in range(8192, len(data), 3000):
                f.seek(at)
                f.write(bytes([data[at] ^ 0xff]))

    def swapped(path):
        """The pages of the file in another order."""
        with open(path, "r+b") as f:
            data = f.read()
            f.seek(4096)
            f.write(data[4096 + (1 << 20):4096 + (2 << 20)] + data[4096:4096 + (1 << 20)])

    def without_beginning(path):
        with open(path, "r+b") as f:
            f.write(bytes(128 << 10))
    cases = {"no file": os.unlink, "an empty file": lambda path: os.truncate(path, 0),
             "a shorter file": lambda path: os.truncate(path, 8192),
             "a damaged file": damaged, "pages in another order": swapped, "a file without its beginning": without_beginning}
    for title, change in cases.items():
        with folder_of() as folder:
            with run(folder) as d, d.client() as c:
                v = to_disk(c, {"k%d" % i: 3000 for i in range(20)})
                c.set("memory", value("memory", 100), flags=5)
            change(os.path.join(folder, "values"))
            with run(folder) as d, d.client() as c:
                got = found(c, v)
                tap.ok(len(got) < 2, title + ": misses", len(got))
                tap.is_([k for k, one in got.items() if one != v[k]], [], title + ": no wrong value")
                tap.is_(c.get("memory"), value("memory", 100), title + ": what was in memory is back")
                again = to_disk(c, {"k%d" % i: 3000 for i in range(5)}, version=2)
                tap.is_(found(c, again), again, title + ": and values move again")


def without_it():
    """A run without the disk between two with it; then an older copy of the file."""
    with folder_of() as folder:
        with run(folder) as d, d.client() as c:
            v = to_disk(c, {"k%d" % i: 3000 for i in range(20)})
            c.set("memory", b"m")
        with run(folder, disk=False) as d, d.client() as c:
            tap.is_(found(c, [*v, "memory"]), {"memory": b"m"}, "a run without the disk: misses")
        with run(folder) as d, d.client() as c:
            tap.is_(found(c, v), {}, "and they stay misses when the disk is there again")
    with folder_of() as folder:
        path = os.path.join(folder, "values")
        with run(folder) as d, d.client() as c:
            v = to_disk(c, {"k%d" % i: 3000 for i in range(20)})
        shutil.copy(path, path + ".old")
        with run(folder) as d, d.client() as c:
            new = to_disk(c, {"k%d" % i: 3000 for i in range(0, 20, 2)}, version=2)
        shutil.copy(path + ".old", path)
        with run(folder) as d, d.client() as c:
            got = found(c, v)
            tap.is_([k for k, one in got.items() if one != {**v, **new}[k]], [], "an older copy of the file: no old value")
    with Disk(recache_rate=0) as disk:
        for turn in range(2):
            with Daemon("-m", "4", "-I", "512k", "-o", disk.options()) as d, d.client() as c:
                tap.is_(found(c, v), {}, "without -e nothing of the file is back (%d)" % turn)
                v = to_disk(c, {"k%d" % i: 3000 for i in range(20)})


class Writer(threading.Thread):
    """Sets, reads and deletes its keys until the daemon ends. Keeps the acknowledged and the sent versions; 0: deleted."""

    def __init__(self, daemon, number):
        super().__init__()
        self.client, self.number, self.acked, self.sent, self.wrong = daemon.client(), number, {}, None, []

    def run(self):
        with contextlib.suppress(Closed, OSError):
            for i in range(1, 10_000_000):
                key = "w%d-%d" % (self.number, RANDOM.randrange(600))
                got = self.client.get(key)
                if got is not None and got != value(key, len(got), self.acked.get(key, 0)):
                    self.wrong.append((key, got[:20]))
                version = 0 if i % 7 == 0 else i
                self.sent = (key, version)
                if version == 0:
                    self.client.ask("delete " + key)
                elif self.client.set(key, value(key, 800 + i % 4000, version)) != "STORED":
                    return
                self.acked[key] = version
                self.sent = None


def under_load(end, rounds):
    """A run after the other on the same files, each of which ends while values move."""
    with folder_of() as folder:
        back_count, wrong = 0, []
        states = {}
        for _ in range(rounds):
            busy = {**BUSY, "megabytes": 8}
            with run(folder, end=end, **busy) as d:
                writers = [Writer(d, n) for n in range(4)]
                for w in writers:
                    w.acked = {key: one[0] for key, one in states.items() if key.startswith("w%d-" % w.number)}
                    w.start()
                until(lambda: int(d.stats()["extstore_page_allocs"]), lambda n: n > 6)
                d.stop(end)
                for w in writers:
                    w.join()
            states = {}
            for w in writers:
                wrong += w.wrong
                states.update({key: [version] for key, version in w.acked.items()})
                if w.sent:
                    states[w.sent[0]] = states.get(w.sent[0], [0]) + [w.sent[1]]
            with run(folder, **busy) as d, d.client() as c:
                for key, versions in states.items():
                    got = c.get(key)
                    back_count += got is not None
                    if got is not None and got not in [value(key, len(got), one) for one in versions if one]:
                        wrong.append((key, got[:20], versions))
                    elif got is not None:
                        states[key] = [one for one in versions if one and got == value(key, len(got), one)]
                    else:
                        states[key] = [0]
                        c.ask("delete " + key)
        tap.is_(wrong[:5], [], "%s under load: no wrong value in %d runs" % (end.name, rounds))
        tap.ok(back_count > 100, "%s under load: values are back" % end.name, back_count)


def main():
    back(signal.SIGTERM)
    back(signal.SIGKILL)
    other_files()
    without_it()
    under_load(signal.SIGKILL, 20 if LONG else 4)
    under_load(signal.SIGTERM, 10 if LONG else 2)
    tap.done()


main()
