# SPDX-License-Identifier: BSD-3-Clause
"""The record of a node in etcd is deleted by hand. The node's right to be read goes on until it looks at its record, each
member_ttl / 3. Until then a farcached that is cut off from etcd reads there what another one has replaced, and not afterwards
(docs/fleet.md)."""
import contextlib
import os
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import etcd as etcd_servers  # noqa: E402
from cluster import Table, all_up, nodes_shown  # noqa: E402
from daemon import is_sanitized, slow_factor  # noqa: E402
from etcd import Etcd, Relay  # noqa: E402
from farcached import Daemon, tap, until  # noqa: E402
from farnode import Farnode  # noqa: E402
from versions import Versions  # noqa: E402

etcd_servers.skip_without()
TTL = 9 if is_sanitized() else 6  # seconds
KEYS = ["key-%d" % i for i in range(20)]
LOOK = "/v3/lease/keepalive"  # the first request of a look


class Looks:
    """When the node behind this relay began to look at its record."""

    def __init__(self, relay):
        self.relay, self.begun = relay, []
        relay.before(LOOK, self.look)

    def look(self):
        self.begun.append(time.monotonic())
        self.relay.before(LOOK, self.look)

    def after(self, moment):
        return [begun for begun in self.begun if begun > moment]

    def until_over(self):
        """Until a look begins, and reads the record."""
        def reads():
            return self.relay.requests.count(b"/v3/kv/range")
        begun = len(self.begun)
        until(lambda: len(self.begun), lambda count: count > begun)
        before = reads()
        until(reads, lambda count: count > before)
        size = len(self.relay.replies)  # perhaps before the request is forwarded
        until(lambda: len(self.relay.replies), lambda now: now > size, timeout=TTL / 10)


def until_names(proxy, names):
    return set(until(lambda: nodes_shown(proxy), lambda shown: set(shown) == set(names) and all_up(shown))) == set(names)


def deleted(stack, etcd, copies):
    prefix, title = "/of%d" % copies, "replicas=%d: " % copies
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="farcached-test-"))
    of_node, of_proxy = (stack.enter_context(Relay(etcd.port)) for _ in range(2))
    looks = Looks(of_node)

    def behind(relay):
        return "etcd://127.0.0.1:%d%s" % (relay.port, prefix)
    for name in "abc":
        stack.enter_context(Farnode("--tcp", "127.0.0.1:0", "--shm", os.path.join(folder, name + ".sock"), "-m", "16", "-t", "1",
                                    "--name", name, "--discover", behind(of_node) if name == "a" else etcd.source(prefix=prefix),
                                    "--member-ttl", TTL))
    proxies = {}
    for name, source in (("sees", etcd.source(prefix=prefix)), ("cut off", behind(of_proxy))):
        table = Table()
        stack.callback(table.unlink)
        options = "replicas=%d,discover_shm,node_timeout_ms=%d,%s" % (copies, 1000 * slow_factor(), table.options())
        proxies[name] = stack.enter_context(Daemon("--discover", source, "-o", options, threads=1))
    tap.ok(all(until_names(proxy, "abc") for proxy in proxies.values()), title + "two farcached use three nodes")
    with Versions(proxies, "sees", KEYS) as load:
        tap.ok(load.served(), title + "keys are stored and read")
        of_proxy.close()
        looks.until_over()
        reads, began = int(proxies["cut off"].stats("proxy")["get_local"]), time.monotonic()
        etcd.delete(prefix + "/nodes/a")
        gone = time.monotonic()
        names = until(lambda: etcd.keys(prefix + "/nodes/"), lambda keys: "a" in keys)
        tap.ok("a" in names, title + "the record of a node is deleted, and put again")
        back = time.monotonic()
        until(lambda: looks.after(gone), lambda found: len(found) > 1)
        tap.ok(load.served(), title + "keys are stored and read afterwards")
        of_proxy.open()
        tap.ok(all(until_names(proxy, "abc") for proxy in proxies.values()) and load.served(), title + "both use three nodes again")
    tap.is_(load.wrong, [], title + "each value was stored")
    tap.is_({name for _, name, _ in load.stale}, {"cut off"}, title + "a farcached that is cut off reads old values")
    tap.ok(int(proxies["cut off"].stats("proxy")["get_local"]) > reads, title + "in mapped memory")
    for moment, when in ((looks.after(gone)[1], "the node looks a second time"), (back, "it is registered again")):
        tap.is_([one for one in load.stale if one[0] >= moment][:5], [], title + "none when " + when)
    oldest = max((stale_s for _, _, stale_s in load.stale), default=0.0)
    tap.ok(oldest <= back - began, title + "%d are stale, for %.3f s at most, in %.3f s until it is; member_ttl / 3 is %.3f s" % (
        len(load.stale), oldest, back - began, TTL / 3))


with Etcd() as server:
    for number in (1, 2):
        with contextlib.ExitStack() as at_end:
            deleted(at_end, server, number)
tap.done()
