# SPDX-License-Identifier: BSD-3-Clause
"""The wall clock jumps an hour forward and an hour back under running daemons. Runs in a guest with its own clock.

memcached runs beside and gives the expected answers. Time advances by the monotonic clock. Unix times count from the wall clock at
the start for the life of the process.
K1  uptime advances, and so does `stats time`: it differs from the wall clock by the step.
K2  A lifetime in seconds lasts that many seconds. An exptime that is a Unix time is due by the clock of the start: one hour late
    after a step forward, one hour early after a step back.
K3  The delay of a flush_all, an idle timeout and a lease keep their lengths.
K4  Connections to nodes stay, no request times out, and no lease is used for longer than its term.
K5  In etcd a node stays registered, and keeps its right. A node that joins or dies after the step is found or lost in time.
"""
import os
import re
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from cluster import Cluster, all_up, nodes_shown  # noqa: E402
from etcd import Etcd  # noqa: E402
from farcached import Daemon, deadline, default_binary, tap, until  # noqa: E402
from farnode import Farnode  # noqa: E402

HOUR = 3600
MEMCACHED = "/usr/bin/memcached"
SHORT, DELAY, IDLE, TTL = 4, 3, 3, 5  # seconds


def set_wall_clock(step):
    time.clock_settime(time.CLOCK_REALTIME, time.clock_gettime(time.CLOCK_REALTIME) + step)


def wall():
    return int(time.time())


def stored(client, key, exptime):
    client.set(key, "v", exptime=exptime)
    return client.get(key) == b"v"


def gone_in_time(client, key):
    return until(lambda: client.get(key), lambda value: value is None) is None


def asked(binary, step):
    """{name: result} of a memcached around the step."""
    answers = {}
    with Daemon("-o", "idle_timeout=%d" % IDLE, binary=binary, threads=1) as d, d.client() as c, d.client() as idle:
        before, wall_before = c.stats(), wall()
        for key, exptime in (("relative", SHORT), ("hours", 2 * HOUR), ("unix soon", wall_before + 60),
                             ("unix late", wall_before + 2 * HOUR), ("never", 0)):
            c.set(key.replace(" ", "_"), "v", exptime=exptime)
        idle.ask("mn")
        set_wall_clock(step)
        try:
            after = c.stats()
            answers["uptime advances"] = 0 <= int(after["uptime"]) - int(before["uptime"]) < 60
            answers["time advances from its value"] = 0 <= int(after["time"]) - int(before["time"]) < 60
            for key in ("hours", "unix_soon", "unix_late", "never"):
                answers["%s is there after the step" % key] = c.get(key) == b"v"
            answers["an item with a relative exptime does not expire at once"] = stored(c, "fresh", 60)
            answers["a Unix time of the new clock, soon"] = stored(c, "soon", wall() + 60)
            answers["a Unix time of the new clock, past"] = stored(c, "past", wall() - 60)
            answers["a Unix time of the new clock, in two hours"] = stored(c, "later", wall() + 2 * HOUR)
            answers["an item with a relative exptime expires in time"] = gone_in_time(c, "relative")
            c.set("flushed", "v")
            c.ask("flush_all %d" % DELAY)
            answers["a flush_all with a delay waits"] = c.get("flushed") == b"v"
            answers["and then flushes"] = gone_in_time(c, "flushed")
            answers["an idle client is closed in time"] = closed_in_time(d, idle)
        finally:
            set_wall_clock(-step)
    return answers


def closed_in_time(daemon, idle):
    """Does the server close the idle client in time? Another client watches, so that reads do not wake the connection."""
    until(lambda: daemon.stats()["idle_kicks"], lambda n: n != "0")
    return idle.is_closed()


def beside_memcached(step, name):
    ours = asked(default_binary(), step)
    wanted = {key: True for key in ours}
    wanted["a Unix time of the new clock, past"] = step > 0
    wanted["a Unix time of the new clock, soon"] = step > 0
    wanted["a Unix time of the new clock, in two hours"] = True
    tap.is_({k: v for k, v in ours.items() if v != wanted[k]}, {}, "%s: farcached keeps its time" % name)
    if os.access(MEMCACHED, os.X_OK):
        tap.is_(ours, asked(MEMCACHED, step), "%s: as memcached does" % name)
    else:
        tap.skip("%s: as memcached does" % name, "there is no memcached here")


def numbers(proxy):
    return {name: int(value) for name, value in proxy.stats("proxy").items() if value.isdigit()}


def in_front_of_nodes(step, name):
    """Leases and pointers over shm and RDMA: one-sided reads before, across and after the step, and expiry in time."""
    with Cluster("shm verbs tcp", proxies=1, threads=1, local_read=False, options=["node_timeout_ms=30000"],
                 node_args=["--lease-ms", "6000", "-t", "1"]) as c:
        proxy = c.proxies[0]
        keys = [c.key(node, "k") for node in c.nodes]
        with proxy.client() as client:
            for key in keys:
                client.set(key, "v")
            for _ in range(3):
                for key in keys:
                    client.get(key)
            before, up = numbers(proxy), {n: s["links_up"] for n, s in nodes_shown(proxy).items()}
            leased = [int(proxy.stats("node " + node.name)["lease_granted"]) for node in c.nodes]
            set_wall_clock(step)
            try:
                found = [client.get(key) for key in keys]
                after = numbers(proxy)
                tap.is_(found, [b"v"] * len(keys), name + ": all is found across the step")
                tap.ok(after["get_onesided"] > before["get_onesided"], name + ": by pointers with running leases",
                       (before["get_onesided"], after["get_onesided"]))
                for counter in ("node_timeouts", "node_failures", "down_silent", "read_invalid_lease", "read_failed"):
                    tap.is_(after[counter] - before[counter], 0, "%s: %s" % (name, counter))
                tap.is_({n: s["links_up"] for n, s in nodes_shown(proxy).items()}, up, name + ": connections stay")
                over = until(lambda: sum(int(proxy.stats("node " + n.name)["lease_bytes"]) for n in c.nodes), lambda n: n == 0)
                tap.is_(over, 0, name + ": and the leases are over in their time")
                tap.is_([client.get(key) for key in keys], [b"v"] * len(keys), name + ": then GETs go to the nodes")
                tap.ok(numbers(proxy)["pointer_expired"] > before["pointer_expired"], name + ": as pointers have expired")
                again = [int(proxy.stats("node " + node.name)["lease_granted"]) for node in c.nodes]
                tap.ok(sum(again) > sum(leased), name + ": and get new leases")
            finally:
                set_wall_clock(-step)


def watched(step):
    """`watch` and the log show the current wall clock."""
    with Daemon("--log-format", "logfmt", "-v", threads=1) as d, d.client() as c, d.client() as w:
        w.ask("watch")
        set_wall_clock(step)
        try:
            c.get("k")
            shown = float(re.match(rb"ts=(\d+\.\d+) ", w.line()).group(1))
            tap.ok(abs(shown - time.time()) < 60, "watch shows the time that the clock shows", (shown, time.time()))
        finally:
            set_wall_clock(-step)


def in_etcd(step, name):
    name += ", in etcd"
    with Etcd() as etcd:
        args = ("-m", "16", "-t", "1", "--member-ttl", TTL, "--discover", etcd.source())
        with Farnode("--name", "a", *args), Daemon("--discover", etcd.source(), threads=1) as proxy, proxy.client() as client:
            def lists(*names):
                shown = until(lambda: nodes_shown(proxy), lambda shown: set(shown) == set(names) and all_up(shown))
                return sorted(shown)
            tap.is_(lists("a"), ["a"], name + ": a node is registered")
            tap.is_(until(lambda: client.set("k", "v"), lambda said: said == "STORED"), "STORED", name + ": and stores")
            before = (etcd.keys()["a"], proxy.stats("discovery")["changes"])
            set_wall_clock(step)
            try:
                time.sleep(2 * TTL)
                tap.is_((etcd.keys()["a"], proxy.stats("discovery")["changes"]), before, name + ": its record and lease stay")
                tap.ok(int(proxy.stats("node a")["right_left_ms"]) > 0 and client.get("k") == b"v", name + ": so does its right")
                with Farnode("--name", "b", *args, expect_exit=-signal.SIGKILL) as joins:
                    tap.is_(lists("a", "b"), ["a", "b"], name + ": another one joins")
                    joins.stop(signal.SIGKILL)
                    tap.is_(lists("a"), ["a"], name + ": is killed, and leaves the list after its ttl")
                tap.is_(proxy.stats("discovery")["state"], "up", name + ": etcd answers all the time")
            finally:
                set_wall_clock(-step)


def main():
    if "FARCACHED_RDMA_ADDRESS" not in os.environ:
        tap.skip_all("the clock of this machine is not ours to set: run it in a guest")
    tap.diag("each wait at most %.0f s" % deadline())
    for step, name in ((HOUR, "an hour forward"), (-HOUR, "an hour back")):
        beside_memcached(step, name)
        in_front_of_nodes(step, name)
        in_etcd(step, name)
    watched(HOUR)
    tap.done()


main()
