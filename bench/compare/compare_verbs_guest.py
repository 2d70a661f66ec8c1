# SPDX-License-Identifier: BSD-3-Clause
"""The program of the first guest of `farbench compare --parts verbs`: runs farcached, and loads it and the memcached beside it.

compare_verbs.py starts it with the settings as JSON. Each measurement is a line of JSON on stdout; progress goes to stderr. The CPU
time of a back end comes from its own statistics: memcached's `stats`, and farnode's through farcached.
"""
import json
import os
import shutil
import socket
import sys
import tempfile
import time
import types

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from compare_contest import Contest  # noqa: E402
from compare_contestants import PATIENCE_MS  # noqa: E402
from compare_load import Data, Load, Workload  # noqa: E402
from compare_servers import Failed, Process, accepts, as_whom, port_in, share_cpus, stats  # noqa: E402

START_SECONDS = 120    # limit for a start under emulation
PASSES_MAX = 4         # over the keys, until every item that can have a lease has one
LINES_AT_ONCE = 100
NODE = "far"


def say(words):
    print(words, file=sys.stderr, flush=True)


def cpu_s(told):
    return float(told["rusage_user"]) + float(told["rusage_system"])


class Beside:
    """memcached in the other guest."""

    ours = False
    stores = True
    counts_requests = True
    pid = None
    back_pids = ()

    def __init__(self, label, host, port):
        self.label, self.host, self.port = label, host, port

    def at(self, _data):
        return self

    def start(self):
        end = time.monotonic() + START_SECONDS
        while not accepts((self.host, self.port)):
            if time.monotonic() > end:
                raise Failed("%s is not there" % self.label)
            time.sleep(0.1)

    def stop(self):
        pass

    def back(self):
        """The back end's statistics."""
        return stats(self.port, host=self.host, seconds=START_SECONDS)

    def make_ready(self, _data):
        """Prepares the data before its load starts."""

    def begin(self):
        """Starts the interval that counts() reports."""

    def counts(self, _measured):
        """The front end's counters after a load; measured: the results of the load."""
        return {}


class Farcached(Beside):
    """farcached here, in front of the farnode in the other guest."""

    ours = True

    def __init__(self, label, setup, cpus):
        super().__init__(label, "127.0.0.1", None)
        self.setup, self.cpus = setup, cpus
        self.front = self.folder = self.pid = None

    def start(self):
        self.folder = tempfile.mkdtemp(prefix="farcached-compare-")
        ports = os.path.join(self.folder, "ports")
        self.front = Process("farcached", [self.setup.farcached, *as_whom(), "-l", self.host, "-p", "-1", "-U", "0",
                                           "-c", str(self.setup.connections_max), "-t", "1",
                                           "--node", "%s=verbs:%s:%d" % (NODE, self.setup.peer, self.setup.node_port),
                                           "-o", "node_timeout_ms=%d" % PATIENCE_MS],
                             self.cpus, self.folder, {"MEMCACHED_PORT_FILENAME": ports})
        self.pid = self.front.pid
        self.port = self.front.wait_until(lambda: port_in(ports))
        end = time.monotonic() + START_SECONDS
        while True:
            links = stats(self.port, "nodes")
            if links[NODE + ":links"] == links[NODE + ":links_up"]:
                return
            if time.monotonic() > end:
                raise Failed("%s does not reach its node: %s" % (self.label, links.get(NODE + ":down_reason", "no answer")))
            time.sleep(0.1)

    def stop(self):
        if self.front is not None:
            self.front.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def back(self):
        return stats(self.port, "node " + NODE, seconds=START_SECONDS)

    def make_ready(self, data):
        """Renews the lease of every item that can have one: `mg ... h` goes to the node, which extends the lease."""
        granted = -1
        for _ in range(PASSES_MAX):
            before, granted_before = self.granted(), granted
            ask_for_all(self.port, data)
            granted = self.granted() - before
            if granted >= data.keys or granted <= granted_before:
                break

    def begin(self):
        with socket.create_connection((self.host, self.port), START_SECONDS) as s:
            s.sendall(b"stats reset\r\n")
            if s.recv(64) != b"RESET\r\n":
                raise Failed("%s does not reset its statistics" % self.label)

    def granted(self):
        return int(stats(self.port, "proxy")["lease_granted"])

    def counts(self, measured):
        links, ways = stats(self.port, "proxy"), stats(self.port, "latency")
        number = {name: int(value) for name, value in links.items() if value.isdigit()}
        onesided = number["get_onesided"]
        gets = onesided + number["get_twosided"]
        inside_us = int(ways.get("get_one_sided:mean_us", 0))
        read_us = number["get_onesided_us"] / onesided if onesided else 0.0
        return {"one_sided": onesided, "two_sided": number["get_twosided"], "one_sided_share": onesided / gets if gets else None,
                "reads_per_doorbell": number["rdma_reads"] / max(1, number["rdma_doorbells"]),
                "hop_client_us": measured["mean_us"] - inside_us, "hop_farcached_us": inside_us - read_us, "hop_read_us": read_us}


NOTHING_COUNTED = dict.fromkeys(("one_sided", "two_sided", "one_sided_share", "reads_per_doorbell", "hop_client_us",
                                 "hop_farcached_us", "hop_read_us"))


def ask_for_all(port, data):
    with socket.create_connection(("127.0.0.1", port), START_SECONDS) as s:
        for first in range(0, data.keys, LINES_AT_ONCE):
            count = min(LINES_AT_ONCE, data.keys - first)
            s.sendall(b"".join(b"mg %s%d h\r\n" % (data.prefix.encode(), first + i) for i in range(count)))
            got = b""
            while got.count(b"\r\n") < count:
                more = s.recv(65536)
                if not more:
                    raise Failed("a connection ended while items were read")
                got += more


class FarLoad(Load):
    """A load with its back end in the other guest: measures the back end's CPU time under load, and then idle for the same time."""

    def measure(self, contestant, workload, seconds, warmup):
        contestant.make_ready(workload.data)
        if warmup > 0:
            super().measure(contestant, workload, warmup, 0.0)
        contestant.begin()
        before, began = cpu_s(contestant.back()), time.monotonic()
        got = super().measure(contestant, workload, seconds, 0.0)
        after, took_s = cpu_s(contestant.back()), time.monotonic() - began
        got.update({**NOTHING_COUNTED, **contestant.counts(got)})
        between = cpu_s(contestant.back())
        time.sleep(took_s)  # waits for no event: it measures the idle node for the same length
        idle_us = (cpu_s(contestant.back()) - between) * 1e6
        back_us, keys = (after - before) * 1e6, max(1.0, got["keys_per_s"] * seconds)
        got["back_cpu_s_per_million"] = back_us / keys
        got["cpu_s_per_million"] = got["front_cpu_s_per_million"] + got["back_cpu_s_per_million"]
        got.update(idle_us_per_s=idle_us / took_s, back_us_per_key_beyond_idle=(back_us - idle_us) / keys)
        print(json.dumps({"workload": workload.name, "contestant": contestant.label, "measured": got}), flush=True)
        return got


def main():
    setup = types.SimpleNamespace(**json.loads(sys.argv[1]))
    setup.peer = os.environ["FARCACHED_RDMA_PEER"]
    server_cpus, client_cpus, placement = share_cpus()
    say("in the first guest: %s" % placement)
    load = FarLoad(setup.farbench, setup.protocol, setup.threads, setup.connections, client_cpus)
    makers = {setup.ours: lambda: Farcached(setup.ours, setup, server_cpus),
              setup.theirs: lambda: Beside(setup.theirs, setup.peer, setup.memcached_port)}
    contestants = [makers[label]() for label in setup.contestants]
    datas = {name: Data(**how) for name, how in setup.datas.items()}
    contest = Contest(setup, say)
    try:
        contest.start(contestants, load, datas.values())
        contest.run(contestants, [Workload(**{**how, "data": datas[how["data"]]}) for how in setup.workloads], [load])
    finally:
        contest.stop()


if __name__ == "__main__":
    try:
        main()
    except (Failed, OSError) as e:
        say("in the first guest: %s" % e)
        sys.exit(1)
