# SPDX-License-Identifier: BSD-3-Clause
"""Defective nodes over RDMA: one that never answers, one that closes without a reason, one of another version or layout, and one
whose memory may not be read any more. The proxy logs the reason in bounded time and serves the other nodes' keys. Runs in a
guest."""
import contextlib
import itertools
import os
import re
import signal
import subprocess
import sys

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(TESTS, "lib"), TESTS]
import nodes.restart as load  # noqa: E402
from cluster import Cluster, Faults, Table, nodes_shown  # noqa: E402
from device_tools import resources  # noqa: E402
from farcached import Daemon, tap, test_program, until  # noqa: E402
from farnode import FRAME, Farnode  # noqa: E402

ADDRESS = os.environ["FARCACHED_RDMA_ADDRESS"]
TIMEOUT_MS = 1000
WELCOME, LAYOUT_AT = 2, FRAME.size + 16


@contextlib.contextmanager
def relay(*words):
    """The port of a t/guest/verbs_relay."""
    with subprocess.Popen([test_program("guest/verbs_relay"), ADDRESS, *map(str, words)], stdout=subprocess.PIPE) as process:
        try:
            yield int(process.stdout.readline().split()[1])
        finally:
            process.kill()


@contextlib.contextmanager
def in_front_of(near, port, *options):
    """(a farcached, a client of it) with one node over tcp, and one behind that port."""
    table = Table()
    words = ",".join([table.options(), "node_timeout_ms=%d" % TIMEOUT_MS, "no_local_read", *options])
    try:
        with Daemon("--node", "near=tcp:127.0.0.1:%d" % near.port, "--node", "far=verbs:%s:%d" % (ADDRESS, port),
                    "-o", words, "-t", "1") as proxy, proxy.client() as client:
            yield proxy, client
    finally:
        table.unlink()


def left_alone(title, near, words, reason, counter):
    """A node that cannot be used, with the reason in the log."""
    with relay(*words) as port, in_front_of(near, port) as (proxy, client):
        shown = until(lambda: nodes_shown(proxy), lambda s: s["near"]["links_up"] == "1" and
                      re.search(reason, s["far"].get("down_reason", "")))
        tap.like(shown["far"].get("down_reason", ""), reason, title + "the reason is shown")
        stored = [client.set("k%d" % i, "v") for i in range(60)]
        found = [client.get("k%d" % i) for i in range(60)]
        tap.is_(set(stored), {"STORED", load.UNAVAILABLE}, title + "the other node's keys are served")
        tap.is_([s == "STORED" for s in stored], [v is not None for v in found], title + "and no others")
        tap.ok(int(proxy.stats("proxy")[counter]) > 0, title + "and it is counted", counter)
        tap.is_(proxy.stderr().decode().count("node far is down"), 1, title + "and logged once")


def only_asked(near):
    """The greeting over RDMA has another layout, the frames have the same: the node gets requests, and is never read."""
    title = "a region of another layout: "
    with Farnode("--tcp", "127.0.0.1:0", "--name", "far") as node, relay(node.port, "layout=9") as port, \
            in_front_of(near, port) as (proxy, client):
        until(lambda: nodes_shown(proxy), lambda s: all(n["links_up"] == "1" for n in s.values()))
        names = ["k%d" % i for i in range(60)]
        tap.is_({client.set(name, "v" + name) for name in names}, {"STORED"}, title + "sets are stored")
        for _ in range(4):
            found = [v for _, _, v, _ in client.get_many(names)]
        tap.is_(found, [b"v" + name.encode() for name in names], title + "and are got")
        shown = nodes_shown(proxy)["far"]
        tap.ok(int(shown["get_twosided"]) > 0 and shown["get_onesided"] == "0", title + "by asking for them", shown)


def not_understood(near):
    """The frames have another layout."""
    from liar import Liar
    title = "a node of another layout: "

    def lie(frame):
        kind = int.from_bytes(frame[4:6], "little")
        return frame[:LAYOUT_AT] + b"\7" * 8 + frame[LAYOUT_AT + 8:] if kind == WELCOME else frame

    with Farnode("--tcp", "127.0.0.1:0", "--name", "far") as node:
        node.channel = "tcp"
        with Liar(node) as liar:
            liar.lie = lie
            left_alone(title, near, [liar.listener.getsockname()[1]], "layout", "down_mismatch")


def failed_reads(proxy):
    return sum(int(v) for k, v in proxy.stats("proxy").items() if k.startswith("reads_failed_"))


def refusals_logged(proxy):
    """The status would do, but a slow machine replaces it by the reason of the next connection's end."""
    return sum("is down" in line and "remote access error" in line for line in proxy.stderr().decode().splitlines())


def taken_back():
    """A node's memory is deregistered during reads."""
    title = "memory that is taken back: "
    with Cluster("verbs tcp", options=["node_timeout_ms=%d" % TIMEOUT_MS, "no_local_read"], faults=Faults("take_back=1"),
                 threads=1, node_args=["--lease-ms", "60000"]) as c:
        node = c.nodes[0]
        askers = [load.Asker(proxy, c.key(n, "asker%d" % i))
                  for i, (n, proxy) in enumerate(itertools.product(c.nodes, c.proxies * 2))]
        for asker in askers:
            asker.start()
        load.so_many_more(askers, "before", 30)
        with c.proxies[0].client() as reader:
            names = [c.key(node, "read%d" % i) for i in range(20)]
            for name in names:
                reader.set(name, "value")
            for number in range(3):
                read = load.read_again(c.proxies[0], reader, names, b"value", "get_onesided")
                tap.ok(read >= 20, title + "it is read", read)  # the askers' keys are read, too
                before, logged = failed_reads(c.proxies[0]), refusals_logged(c.proxies[0])
                node.process.signal(signal.SIGUSR2)

                def refused():
                    found = [v for _, _, v, _ in reader.get_many(names)]
                    return set(found) <= {b"value", None} and failed_reads(c.proxies[0]) > before
                tap.ok(until(refused, bool), title + "reads fail, are counted, and no byte is wrong")
                tap.ok(until(lambda: refusals_logged(c.proxies[0]) > logged, bool), title + "the reason is shown",
                       c.proxies[0].stderr().decode())
                c.until_up()
        for asker in askers:
            asker.phase = "after"
        load.so_many_more(askers, "after", 30)
        for asker in askers:
            asker.end()
        tap.is_([a.failed for a in askers if a.failed], [], title + "no client's connection is lost")
        every = {**load.told(askers, "before"), **load.told(askers, "after")}
        tap.ok(not any(found == "wrong" for _, found in every), title + "and no wrong value is returned", every)


def main():
    before = resources()
    with Farnode("--tcp", "127.0.0.1:0", "--name", "near") as near:
        left_alone("a node that never answers: ", near, ["never"], "in time", "down_connect_timeout")
        left_alone("a silent node: ", near, ["silent"], "no greeting in time", "down_connect_timeout")
        left_alone("a node of another version: ", near, ["silent", "version=9"],
                   "it speaks version 9 of the greeting over RDMA, this side version 1", "channel_end_handshake")
        not_understood(near)
        only_asked(near)
    taken_back()
    tap.is_(until(resources, lambda now: now == before), before, "no queue pair and no memory registered is left")
    tap.done()


main()
