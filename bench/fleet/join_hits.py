# SPDX-License-Identifier: BSD-3-Clause
"""Hit ratio after a node joins, and after one leaves the list, with and without warm_up_s. Clients read 40,000 keys with a Zipf
distribution; a miss is filled from the "database". Prints the ratio of the first seconds.

    python3 bench/fleet/join_hits.py BUILD-FOLDER [SECONDS]"""
import bisect
import itertools
import os
import random
import signal
import sys
import tempfile
import threading
import time

top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
build = os.path.abspath(sys.argv[1])
os.environ["FARCACHED"] = os.path.join(build, "farcached")
os.environ.setdefault("abs_top_builddir", build)
sys.path.insert(0, os.path.join(top, "t/lib"))
from cluster import Table, all_up, nodes_shown  # noqa: E402
from farcached import Daemon, until  # noqa: E402
from farnode import Farnode  # noqa: E402

SECONDS = int(sys.argv[2]) if len(sys.argv) > 2 else 10
KEYS, BATCH, CLIENTS = 40_000, 20, 2
WEIGHTS = list(itertools.accumulate(1 / (i + 1) ** 0.8 for i in range(KEYS)))


class Client(threading.Thread):
    def __init__(self, daemon, seed):
        super().__init__(daemon=True)
        self.client, self.random, self.seconds, self.began, self.ends = daemon.client(), random.Random(seed), [], None, False

    def run(self):
        while not self.ends:
            keys = {"key-%d" % bisect.bisect_left(WEIGHTS, self.random.random() * WEIGHTS[-1]) for _ in range(BATCH)}
            found = {key for key, *_ in self.client.get_many(sorted(keys))}
            for key in keys:
                if key.encode() not in found:
                    self.client.set(key, b"x" * 100)
            if self.began is not None:
                self.seconds.append((int(time.monotonic() - self.began), len(keys), len(found)))


def run(folder, warm_up_s):
    table, addresses = Table(), {}
    with Farnode("--tcp", "127.0.0.1:0", "-m", "64") as a, Farnode("--tcp", "127.0.0.1:0", "-m", "64") as b, \
            Farnode("--tcp", "127.0.0.1:0", "-m", "64") as c:
        for name, node in zip("abc", (a, b, c)):
            addresses[name] = node.port
        path = os.path.join(folder, "farcached.toml")

        def write(names):
            with open(path, "w") as f:
                f.writelines('[[node]]\nname = "%s"\naddress = "tcp:127.0.0.1:%d"\n' % (n, addresses[n]) for n in names)
        write("ab")
        with Daemon("--config", path, "-o", table.options() + ",warm_up_s=%d" % warm_up_s, threads=2) as d:
            until(lambda: nodes_shown(d), all_up)
            with d.client() as filler:
                for i in range(KEYS):
                    filler.send(b"set key-%d 0 0 100 noreply\r\n" % i + b"x" * 100 + b"\r\n")
                filler.ask("mn")
            for reload, (names, title) in enumerate((("abc", "join"), ("ac", "leave")), 1):
                clients = [Client(d, n) for n in range(CLIENTS)]
                for client in clients:
                    client.start()
                time.sleep(1)
                write(names)
                d.signal(signal.SIGHUP)
                until(lambda: int(d.stats("config")["config_reloads"]), lambda count: count == reload)
                began = time.monotonic()
                for client in clients:
                    client.began = began
                time.sleep(SECONDS)
                for client in clients:
                    client.ends = True
                for client in clients:
                    client.join()
                gets, hits = [0] * (SECONDS + 1), [0] * (SECONDS + 1)
                for second, asked, found in itertools.chain.from_iterable(client.seconds for client in clients):
                    if second <= SECONDS:
                        gets[second] += asked
                        hits[second] += found
                ratios = " ".join("%.4f" % (h / g) for g, h in zip(gets, hits) if g)
                print("%-5s warm_up_s=%-2d  all %.4f of %d gets; by second %s" % (
                    title, warm_up_s, sum(hits) / sum(gets), sum(gets), ratios), flush=True)
    table.unlink()


with tempfile.TemporaryDirectory() as folder:
    for warm_up_s in (0, 60):
        run(folder, warm_up_s)
