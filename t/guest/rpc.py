# SPDX-License-Identifier: BSD-3-Clause
"""Requests and replies in slots over RDMA (rpc), in whole daemons. What a node posts for answering, by its own count and by the
device's; the order of one client's requests; nodes and proxies that are killed or stopped, and reloads that change the mode, under
load. Runs in a guest.

    t/guest/rpc.py [posts|order|ends|reload]...
"""
import os
import re
import signal
import sys
import threading

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(TESTS, "lib"), TESTS]
os.environ["FARCACHED_OVER"] = "shm=verbs"
import nodes.restart as nodes_restart  # noqa: E402
import nodes.stopped as nodes_stopped  # noqa: E402
from cluster import Cluster, Faults, nodes_shown, until_up  # noqa: E402
from device_tools import resources  # noqa: E402
from farcached import Closed, Daemon, Pace, TimedOut, deadline, tap, until  # noqa: E402

SETS = int(os.environ.get("RPC_SETS") or (100_000 if os.environ.get("FARCACHED_TEST_LONG") else 20_000))
BATCH = 40  # SETs at once: their frame fits a slot
MODES = ("send", "write", "rfp")
COUNTERS = "/sys/class/infiniband/rxe0/ports/1/hw_counters"
POSTED = ("rdma_doorbells", "rdma_sends", "rdma_writes", "rdma_reads")
PATIENT = "node_timeout_ms=30000"


def hardware():
    """The device's counters. Both ends are on this device."""
    found = {}
    for name in os.listdir(COUNTERS):
        with open(os.path.join(COUNTERS, name)) as file:
            found[name] = int(file.read())
    return found


def less(after, before):
    return {name: after[name] - before[name] for name in before if name in after}


def numbers(stats):
    return {name: int(value) for name, value in stats.items() if value.isdigit()}


def of_node(proxy):
    """The node's own count. The request for it is one more."""
    return numbers(proxy.stats("node n0 transport"))


# ---- what a node posts ----------------------------------------------------------------------------------

def store(client, first, count):
    """SETs, in batches that each fit a slot; returns how many were stored."""
    stored = 0
    for at in range(first, first + count, BATCH):
        client.send(b"".join(b"set k%d 0 0 8\r\n%08d\r\n" % (i % 1000, i) for i in range(at, at + BATCH)))
        stored += sum(client.line().rstrip() == b"STORED" for _ in range(BATCH))
    return stored


def posts(mode):
    """An emulated node is so slow that a proxy would demand WRITEs instead of READs. So the proxy is t/'s own build, which never
    does; the node is the installed one."""
    options = ["rpc=" + mode, PATIENT, "access_tracking=none"]
    with Cluster("verbs", proxies=0, threads=1, options=options, node_args=["-m", "16", "-t", "1", "--no-lease"]) as c:
        c.faults = [Faults("fetch_always=1")]
        proxy = c.start_proxy()
        c.proxies.append(proxy)
        count = SETS if mode == "rfp" else SETS // 20
        with proxy.client() as client:
            store(client, 0, 40 * BATCH)
            node, device, asked = of_node(proxy), hardware(), numbers(nodes_shown(proxy)["n0"])
            stored = store(client, 0, count)
            asked = less(numbers(nodes_shown(proxy)["n0"]), asked)
            device, node = less(hardware(), device), less(of_node(proxy), node)
        tap.is_(stored, count, "%s: %d SETs are stored" % (mode, count))
        batches = count // BATCH
        if mode == "rfp":
            tap.is_({name: node[name] for name in POSTED}, dict.fromkeys(POSTED, 0), "rfp: the node posted nothing")
            tap.is_(device["rdma_sends"], 0, "rfp: the device sent nothing, for both ends")
            tap.ok(asked["rfp_fetches"] - asked["rfp_fetches_early"] >= batches, "rfp: replies were READ", asked)
        elif mode == "write":
            tap.ok(node["rdma_sends"] <= 2 and node["rdma_writes"] >= batches, "write: the node posted WRITEs", node)
        else:
            tap.ok(node["rdma_writes"] == 0 and node["rdma_sends"] >= batches, "send: the node posted SENDs", node)
        tap.diag("%s, %d batches; the node's own count: %s" % (mode, batches, {k: v for k, v in node.items() if v}))
        tap.diag("%s: the proxy's: %s" % (mode, {k: v for k, v in asked.items() if v and k.startswith(("rdma_", "rfp_"))}))
        tap.diag("%s: the device's: %s" % (mode, {k: v for k, v in device.items() if v}))


# ---- order -----------------------------------------------------------------------------------------------

def order(mode):
    """One client appends pieces that fit a slot and pieces that are sent, without waiting for replies."""
    pieces = [b"%04d" % i * (2 if i % 3 else 1500) for i in range(120)]
    with Cluster("verbs", proxies=1, threads=1, options=["rpc=" + mode, PATIENT], node_args=["-t", "1", "--rfp-slots", "2"]) as c:
        with c.proxies[0].client() as client:
            client.set("k", "")
            before = numbers(nodes_shown(c.proxies[0])["n0"])
            for piece in pieces:
                client.send(b"append k 0 0 %d\r\n%s\r\n" % (len(piece), piece))
            replies = {client.line().rstrip() for _ in pieces}
            after = less(numbers(nodes_shown(c.proxies[0])["n0"]), before)
            tap.is_(replies, {b"STORED"}, "%s: appends of one client are stored" % mode)
            tap.ok(client.get("k") == b"".join(pieces), "%s: in their order" % mode)
            tap.diag("%s: %d SENDs, %d WRITEs" % (mode, after["rdma_sends"], after["rdma_writes"]))


# ---- ends and stops --------------------------------------------------------------------------------------

class Counting(threading.Thread):
    """One connection that increments its counter all the while. Its replies increase, and each increment counts once at most."""

    def __init__(self, proxy, key):
        super().__init__(daemon=True)
        self.client, self.key = proxy.client(), key
        self.stopping, self.lost, self.wrong = False, None, []
        self.known = self.unknown = self.last = 0
        self.client.set(key, "0")

    def run(self):
        pace = Pace()
        try:
            while not self.stopping:
                pace.rest()
                reply = self.client.send(b"incr %s 1\r\n" % self.key.encode()).line().rstrip().decode()
                if not reply.isdigit():
                    self.unknown += 1
                    if not reply.startswith("SERVER_ERROR"):
                        self.wrong.append(reply)
                    continue
                self.known += 1
                if not self.last < int(reply) <= self.known + self.unknown:
                    self.wrong.append("%s after %d, %d known, %d unknown" % (reply, self.last, self.known, self.unknown))
                self.last = int(reply)
        except (Closed, TimedOut, OSError) as e:
            self.lost = repr(e)

    def end(self):
        self.stopping = True
        self.join(deadline())
        self.client.close()


def counting(c, count=6, name="counter"):
    threads = [Counting(c.proxies[i % len(c.proxies)], "%s%d" % (name, i)) for i in range(count)]
    for thread in threads:
        thread.start()
    return threads


def go_on(threads, more=30):
    """Waits until each has so many more replies."""
    wanted = {t: t.known + more for t in threads}
    return until(lambda: all(t.lost or t.known >= wanted[t] for t in threads), bool)


def judge(title, c, threads):
    for thread in threads:
        thread.end()
    tap.is_([w for t in threads for w in t.wrong], [], title + "no increment counts twice, and none is forgotten")
    with c.proxies[0].client() as client:
        values = [(int(client.get(t.key)), t.known, t.known + t.unknown) for t in threads]
    tap.ok(all(least <= value <= most for value, least, most in values), title + "the last values say so, too", values)
    tap.diag("%s%d known, %d unknown" % (title, sum(t.known for t in threads), sum(t.unknown for t in threads)))


def stops(mode):
    """SIGSTOP of the node, longer than requests wait; then of a proxy."""
    title = mode + ", a node stands still: "
    with Cluster("verbs", threads=1, options=["rpc=" + mode, "node_timeout_ms=300"], node_args=["-t", "1"]) as c:
        threads = counting(c)
        tap.ok(go_on(threads), title + "before, it answers")
        for _ in range(3):
            unknown = {t: t.unknown for t in threads}
            with c.nodes[0].process.stopped():
                until(lambda u=unknown: all(t.unknown > u[t] for t in threads), bool)
            tap.ok(go_on(threads), title + "afterwards, it answers again")
        with c.proxies[1].stopped():
            tap.ok(go_on([t for t in threads if t.client.socket.getpeername()[1] == c.proxies[0].port]),
                   title + "a proxy stands still, the other goes on")
        tap.ok(go_on(threads), title + "and the first one afterwards, too")
        judge(title, c, threads)


def kills(mode):
    """SIGKILL of a proxy with requests under way; the other proxy, and one that comes, are served."""
    title = mode + ", a proxy is killed: "
    with Cluster("verbs", threads=1, options=["rpc=" + mode, PATIENT], node_args=["-t", "1"]) as c:
        threads = counting(c)
        tap.ok(go_on(threads), title + "before, it answers")
        port = c.proxies[1].port
        of_dead = [t for t in threads if t.client.socket.getpeername()[1] == port]
        c.end_proxy(c.proxies[1], signal.SIGKILL)
        others = [t for t in threads if t not in of_dead]
        tap.ok(go_on(others), title + "the other goes on")
        c.proxies[1] = c.start_proxy()
        successors = counting(c, 2, "successor")
        tap.ok(go_on(successors), title + "its successor is served")
        for thread in of_dead:
            thread.end()
            thread.unknown += 1  # the one under way
        judge(title, c, threads + successors)


def ends():
    before = resources()
    for mode in MODES:
        stops(mode)
        kills(mode)
    for mode in ("write", "rfp"):  # t/guest/faults.py has the automatic mode, which begins with send
        os.environ["FARCACHED_LINKS"] = "rpc=" + mode
        nodes_restart.dies_under_load("shm shm tcp", 40)
        nodes_stopped.stopped_node()
        del os.environ["FARCACHED_LINKS"]
    tap.is_(until(resources, lambda now: now == before), before, "no queue pair and no memory registered is left")


# ---- reloads ----------------------------------------------------------------------------------------------

def modes_shown(proxy):
    return {re.sub(r" \d+", "", s.get("rpc", "none")) for s in nodes_shown(proxy).values()}


def reloads():
    title = "reloads that change rpc: "
    with Cluster("verbs verbs", proxies=0, threads=1, node_args=["-t", "1"]) as c:
        path = os.path.join(c.nodes_behind.folder, "farcached.toml")

        def write(mode, fetch_bytes=0):
            with open(path + ".new", "w") as file:
                file.write('rpc = "%s"\nrfp_fetch_bytes = %d\nnode_timeout_ms = "30s"\n' % (mode, fetch_bytes))
                for node in c.nodes:
                    file.write('[[node]]\nname = "%s"\naddress = "%s"\n' % (node.name, node.address()))
            os.rename(path + ".new", path)

        write("send")
        proxy = Daemon("-o", c.table.options(), "--config", path, "-t", 2).start()
        try:
            until_up(proxy)
            c.proxies.append(proxy)
            threads = counting(c, 4)
            for number, (mode, fetch_bytes) in enumerate([("rfp", 0), ("write", 0), ("rfp", 36), ("auto", 0), ("send", 0)], 1):
                write(mode, fetch_bytes)
                proxy.signal(signal.SIGHUP)
                until(lambda n=number: int(proxy.stats("config")["config_reloads"]) >= n, bool)
                if mode != "auto":
                    shown = until(lambda: modes_shown(proxy), lambda m, wanted=mode: m == {wanted})
                    tap.is_(shown, {mode}, title + "links use " + mode)
                tap.ok(go_on(threads), title + "requests go on by " + mode)
            tap.is_([t.lost for t in threads if t.lost], [], title + "no client's connection is lost")
            tap.is_(sum(t.unknown for t in threads), 0, title + "no request fails")
            judge(title, c, threads)
        finally:
            c.proxies = []
            proxy.__exit__(None, None, None)


def main():
    parts = {"posts": lambda: [posts(mode) for mode in MODES], "order": lambda: [order(mode) for mode in MODES],
             "ends": ends, "reload": reloads}
    for name in sys.argv[1:] or parts:
        parts[name]()
    tap.done()


main()
