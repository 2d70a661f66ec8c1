# SPDX-License-Identifier: BSD-3-Clause
"""A farcached here, its node in the guest beside this one, and a wire between them that delays, loses and breaks. Traffic of one
device never reaches a wire, so the test first checks that each fault has an effect."""
import os
import re
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from cluster import Table, nodes_shown  # noqa: E402
from device_tools import add_device, delete_device, netdev, output, run  # noqa: E402
from farcached import Daemon, deadline, slow_factor, tap, until  # noqa: E402

PEER = os.environ["FARCACHED_RDMA_PEER"]
WIRE = netdev()
VALUE = b"v" * 1000
NAMES = ["k%d" % i for i in range(50)]


def shape(*how):
    run("tc", "qdisc", "replace", "dev", WIRE, "root", "netem", *how)


def unshape():
    run("tc", "qdisc", "del", "dev", WIRE, "root")


def dropped():
    return int(re.search(r"dropped (\d+)", output("tc", "-s", "qdisc", "show", "dev", WIRE)).group(1))


def shown(proxy):
    return nodes_shown(proxy)["far"]


def fastest_ms(client, count=60):
    """The fastest of `count` gets: a busy machine slows some of them, and the wire bounds all."""
    times = []
    for i in range(count):
        began = time.monotonic()
        if client.get(NAMES[i % len(NAMES)]) != VALUE:
            return None
        times.append((time.monotonic() - began) * 1000)
    return min(times)


def held(proxy, client):
    """Reads until each read is one-sided."""
    for _ in range(20):
        before = int(shown(proxy)["get_onesided"])
        client.get_many(NAMES)
        if int(shown(proxy)["get_onesided"]) - before == len(NAMES):
            return True
    return False


def delay(proxy, client):
    """A delay above the fastest get without it, so that the machine's own speed cannot pass for it."""
    plain = fastest_ms(client)
    if not tap.ok(plain, "a node beside answers every get right"):
        return
    delay_ms = max(5, round(plain * 4))
    shape("delay", "%dms" % delay_ms)
    slow = fastest_ms(client)
    unshape()
    tap.ok(slow and slow >= delay_ms, "a delay of the wire is seen by one-sided gets", plain, delay_ms, slow)
    tap.diag("the fastest took %.2f ms, with a delay of %d ms %.2f ms" % (plain, delay_ms, slow or 0))


def loss(proxy, client):
    shape("loss", "1%")
    wrong = rounds = 0
    end = time.monotonic() + deadline()
    while (rounds < 40 or dropped() < 5) and time.monotonic() < end:
        found = client.get_many(NAMES)
        wrong += [v for _, _, v, _ in found] != [VALUE] * len(NAMES)
        rounds += 1
    lost = dropped()
    unshape()
    tap.ok(lost >= 5, "packets are lost", lost)
    tap.diag("%d packets lost in %d gets, node_reconnects %s, node_timeouts %s" % (
        lost, rounds * len(NAMES), shown(proxy)["node_reconnects"], shown(proxy)["node_timeouts"]))
    tap.is_(wrong, 0, "and every get is answered right all the same")


def away(proxy, client, what, go, come):
    """The node is unreachable: misses and SERVER_ERROR within the timeout. When it is back, everything works as before."""
    connects = int(shown(proxy)["node_connects"])
    go()
    slowest, told = 0, set()
    end = time.monotonic() + deadline()
    while time.monotonic() < end and shown(proxy)["links_up"] != "0":
        began = time.monotonic()
        told.add((client.set("other", "x"), client.get(NAMES[0]) == VALUE))
        slowest = max(slowest, (time.monotonic() - began) / 2)
    tap.is_(shown(proxy)["links_up"], "0", "%s: the node is noticed to be gone" % what)
    told.add((client.set("other", "x"), client.get(NAMES[0]) == VALUE))
    tap.ok(told <= {("SERVER_ERROR unavailable", False), ("SERVER_ERROR unavailable", True), ("STORED", True), ("STORED", False)}
           and ("SERVER_ERROR unavailable", False) in told, "%s: its keys are misses, changes SERVER_ERROR" % what, told)
    tap.ok(slowest < 3 * slow_factor(), "%s: in bounded time" % what, slowest)
    tap.diag("%s: the slowest took %.2f s; %s" % (what, slowest, shown(proxy).get("down_reason", "")))
    come()
    up = until(lambda: shown(proxy), lambda s: s["links"] == s["links_up"])
    tap.ok(up["links_up"] == up["links"], "%s: it is back, without a restart" % what, proxy.stderr().decode())
    tap.ok(int(up["node_connects"]) > connects, "%s: by other queue pairs" % what)
    tap.ok([v for _, _, v, _ in client.get_many(NAMES)] == [VALUE] * len(NAMES), "%s: and all is there" % what)
    tap.ok(held(proxy, client), "%s: and is read one-sided" % what)


def cut(proxy, client):
    """Outgoing packets are lost; incoming ones still arrive."""
    away(proxy, client, "a wire that is cut", lambda: shape("loss", "100%"), unshape)
    told = [line for line in proxy.stderr().decode().splitlines() if "node far is down" in line]
    tap.diag(told)


def pulled(proxy, client):
    away(proxy, client, "a link that is down", lambda: run("/run/guest/wire", "down"), lambda: run("/run/guest/wire", "up"))


def set_down(proxy, client):
    """By `ip link`. In Linux 6.1 soft-RoCE's own management queue pair may stay in error for good if it had to send while the link
    was down. Then no connection over that device works any more. So the device is made again, and nothing else is."""
    def come():
        run("ip", "link", "set", WIRE, "up")
        delete_device(deadline())
        add_device(WIRE)
    away(proxy, client, "a link that is set down", lambda: run("ip", "link", "set", WIRE, "down"), come)


def main():
    table = Table()
    options = ["-o", table.options() + ",node_timeout_ms=1000", "-t", "2"]
    try:
        with Daemon("--node", "far=verbs:%s:11301" % PEER, *options) as proxy:
            until(lambda: shown(proxy), lambda s: s["links"] == s["links_up"])
            with proxy.client() as client:
                for name in NAMES:
                    client.set(name, VALUE)
                tap.ok(held(proxy, client), "a node beside is read one-sided")
                delay(proxy, client)
                loss(proxy, client)
                cut(proxy, client)
                pulled(proxy, client)
                set_down(proxy, client)
    finally:
        table.unlink()
    tap.done()


main()
