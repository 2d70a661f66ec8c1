# SPDX-License-Identifier: BSD-3-Clause
"""Nodes found by DNS (--discover), with a real server: nodes appear and leave, keys stay at the others; the server dies and
returns; empty answers, unknown names; both families; SRV records with weights; the start without a list."""
import os
import re
import socket
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import dns_server  # noqa: E402
from cluster import Table, all_up, nodes_shown  # noqa: E402
from daemon import connect, run_binary  # noqa: E402
from farcached import Daemon, tap, until  # noqa: E402
from farctl import asked, at, path_of  # noqa: E402
from farnode import Farnode  # noqa: E402
from http_get import get, http_args, http_env, http_port, value  # noqa: E402

if b"without c-ares" in run_binary("--version-full")[1]:
    tap.skip_all("built without c-ares")
if dns_server.program() is None:
    tap.skip_all("dnsmasq is not installed")

NAME, SERVICE = "nodes.test", "_farnode._tcp.srv.test"
KEYS = ["key-%d" % i for i in range(200)]


class NodeAt(Farnode):
    """A farnode at this address."""

    def __init__(self, host, port=0):
        self.host = host
        super().__init__("--tcp", "%s:%d" % ("[%s]" % host if ":" in host else host, port), "-m", "16")

    def _reachable(self):
        self.ports = self.read_ports()
        if not self.ports:
            return False
        self.port = self.ports[0][1]
        try:
            connect((self.host, self.port), 1.0).close()
        except OSError:
            return False
        return True

    def shown(self):
        """The name that it gets."""
        return "%s:%d" % ("[%s]" % self.host if ":" in self.host else self.host, self.port)


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as s:
            s.bind(("::1", 0))
        return True
    except OSError:
        return False


def proxy_of(dns, source, *options, table, args=(), env=None):
    return Daemon("--discover", source, "-o", ",".join(["discover_dns_server=" + dns.address(), "node_timeout_ms=30000",
                                                        table.options(), *options]), *args, env=env, threads=2)


def until_nodes(proxy, names):
    """Waits until exactly these nodes are in use and connected; whether they are."""
    seen = until(lambda: nodes_shown(proxy), lambda shown: set(shown) == set(names) and all_up(shown))
    return set(seen) == set(names) and all_up(seen)


def until_discovery(proxy, name, accept):
    return until(lambda: proxy.stats("discovery")[name], accept)


def owners(proxy):
    """{key: node}"""
    with proxy.client() as c:
        return {key: c.stats("route " + key)["node"] for key in KEYS}


def joins_and_leaves(dns, nodes, table):
    names = [node.shown() for node in nodes]
    dns.serve({NAME: [node.host for node in nodes[:2]]})
    with tempfile.TemporaryDirectory() as folder, proxy_of(dns, "dns+%s:%d" % (NAME, nodes[0].port), table=table,
                                                           args=[*http_args(), "--admin", path_of("p")],
                                                           env=http_env(folder)) as proxy:
        tap.ok(until_nodes(proxy, names[:2]), "the addresses of a name are the nodes", nodes_shown(proxy))
        tap.is_(proxy.stats("settings")["nodes"], ",".join(sorted(names[:2])), "stats settings lists them")
        tap.is_(sorted(node["name"] for node in asked("status", *at("p"))["nodes"]), sorted(names[:2]), "and farctl")
        before = owners(proxy)
        with proxy.client() as client:
            tap.ok(all(client.set(key, key) == "STORED" for key in KEYS), "keys are stored")
            links = {name: nodes_shown(proxy)[name]["incarnation"] for name in names[:2]}
            dns.serve({NAME: [node.host for node in reversed(nodes)]})
            tap.ok(until_nodes(proxy, names), "nodes join", nodes_shown(proxy))
            after = owners(proxy)
            moved = [key for key in KEYS if before[key] != after[key]]
            tap.ok(moved and all(after[key] in names[2:] for key in moved), "keys move to the new nodes alone",
                   "%d of %d" % (len(moved), len(KEYS)))
            found = {key.decode() for key, *_ in client.get_many(KEYS)}
            tap.ok(found >= {key for key in KEYS if key not in moved}, "the others are still found")
            tap.is_({name: nodes_shown(proxy)[name]["incarnation"] for name in names[:2]}, links, "the former nodes are the same")
            dns.serve({NAME: [nodes[1].host]})
            tap.ok(until_nodes(proxy, names[1:2]), "nodes leave", nodes_shown(proxy))
            tap.is_(set(owners(proxy).values()), {names[1]}, "and get no keys")
        shown = proxy.stats("discovery")
        tap.is_((shown["state"], shown["nodes"], shown["nodes_in_use"], shown["changes"], shown["revision"]),
                ("up", "1", "1", "2", "3"), "stats discovery counts the lists")
        text = get(http_port(folder), "/metrics")[2]
        tap.is_([value(text, "farcached_discovery_" + name) for name in ("up", "nodes", "changes_total", "failures_total",
                                                                          "skipped_total")], [1, 1, 2, 0, 0], "as the metrics do")
        tap.is_(proxy.stats("groups").get("discovery"), "the source of the list of nodes (--discover)", "stats groups has it")
        keeps_the_last_list(dns, nodes, names, proxy)


def keeps_the_last_list(dns, nodes, names, proxy):
    for title, records in (("a name without addresses", {NAME: []}), ("a name that does not exist", {"other.test": ["127.0.0.1"]})):
        failures = int(proxy.stats("discovery")["failures"])
        dns.serve(records)
        until_discovery(proxy, "failures", lambda n, more=failures: int(n) > more)
        until_discovery(proxy, "last_error", lambda why: "lists no node" in why)
        shown = proxy.stats("discovery")
        tap.is_((shown["state"], shown["nodes_in_use"], shown["last_error"]), ("down", "1", "the answer lists no node"),
                title + " keeps the last list")
    dns.stop()
    until_discovery(proxy, "last_error", lambda why: "not known" in why)
    shown = proxy.stats("discovery")
    tap.like(shown["last_error"], r"addresses are not known \(.+\)", "the server is down")
    tap.is_(set(nodes_shown(proxy)), set(names[1:2]), "the last list stays in use")
    with proxy.client() as client:
        tap.is_(client.set("served", "yes"), "STORED", "and clients are served")
    dns.serve({NAME: [node.host for node in nodes]}, ttl=1_000_000)
    tap.ok(until_nodes(proxy, names), "the server is back, and its list is in use", nodes_shown(proxy))
    tap.is_(until_discovery(proxy, "state", lambda state: state == "up"), "up", "which stats discovery shows")
    log = proxy.stderr().decode()
    tap.like(log, re.escape("dns+%s:%d: the answer lists no node; the last list of nodes stays in use; retrying" % (
        NAME, nodes[0].port)), "the log names the failure")
    tap.like(log, re.escape("dns+%s:%d answers again" % (NAME, nodes[0].port)), "and the recovery")
    tap.like(log, r"lists %d nodes; new: " % len(nodes), "and the new nodes")


def services_with_weights(dns, table):
    with NodeAt("127.0.0.1") as light, NodeAt("127.0.0.1") as heavy:
        names = ["localhost:%d" % node.port for node in (light, heavy)]
        records = [("localhost", light.port, 20), ("localhost", heavy.port, 60)]
        dns.serve(services={SERVICE: records}, ttl=0)
        with proxy_of(dns, "dnssrv+" + SERVICE, "distribution=ketama_weighted", table=table,
                      args=["--cluster-members", "unknown.test.invalid:1"]) as proxy:
            tap.ok(until_nodes(proxy, names), "the targets of SRV records are the nodes", nodes_shown(proxy))
            tap.is_([nodes_shown(proxy)[name]["weight"] for name in names], ["1", "3"], "with their weights")
            counts = list(owners(proxy).values())
            tap.ok(counts.count(names[1]) > counts.count(names[0]) > 0, "which choose the shares of the keys",
                   [counts.count(name) for name in names])
            changes = proxy.stats("discovery")["changes"]
            answers = int(proxy.stats("discovery")["answers"])
            dns.serve(services={SERVICE: records[::-1]}, ttl=0)
            until_discovery(proxy, "answers", lambda n: int(n) > answers + 1)
            tap.is_(proxy.stats("discovery")["changes"], changes, "another order is no change")
            dns.serve(services={SERVICE: [("localhost", light.port, 20), ("localhost", heavy.port, 20)]}, ttl=0)
            until_discovery(proxy, "changes", lambda n: n != changes)
            seen = until(lambda: [s["weight"] for s in nodes_shown(proxy).values()], lambda weights: weights == ["1", "1"])
            tap.is_(seen, ["1", "1"], "equal weights are 1")
            refuses_a_list(dns, proxy, records)
            tap.is_(proxy.stderr().count(b"the list of the cluster: the host unknown.test.invalid is not known"), 1,
                    "only the start looks up the members of the cluster")


def refuses_a_list(dns, proxy, records):
    dns.serve(services={SERVICE: [*records, ("unknown.test.invalid", 1, 20)]}, ttl=0)
    until_discovery(proxy, "refused", lambda n: int(n) > 0)
    shown = proxy.stats("discovery")
    tap.is_((shown["nodes"], shown["nodes_in_use"]), ("3", "2"), "a target without an address: the list is not used")
    tap.like(shown["last_refusal"], r"the host unknown\.test\.invalid is not known", "and the reason is shown")
    dns.serve(services={SERVICE: records}, ttl=0)
    tap.is_(until_discovery(proxy, "nodes", lambda n: n == "2"), "2", "the next list")
    seen = until(lambda: proxy.stats("discovery"), lambda s: s["revision"] == s["revision_in_use"])
    tap.is_(seen["revision_in_use"], seen["revision"], "is used")


def starts(dns, node, table):
    """The start waits for the first list, for a bounded time."""
    source = "dns+%s:%d" % (NAME, node.port)
    dns.stop()
    code, _, err = run_binary("-l", "127.0.0.1", "-p", "-1", "--discover", source, "-o",
                              "discover_timeout=1,discover_dns_server=" + dns.address())
    tap.is_(code, 71, "without a list in time the program ends")
    tap.like(err, r"--discover %s: no list of nodes within 1 s(?: \(.+\))?; every request would fail; " % re.escape(source),
             "with a message")
    proxy = proxy_of(dns, source, table=table)
    waits = proxy._wait_until_listening

    def answer_late(command):
        until(proxy.stderr, lambda log: b"waiting for the first list" in log)
        dns.serve({NAME: [node.host]})
        waits(command)

    proxy._wait_until_listening = answer_late
    with proxy:
        tap.ok(until_nodes(proxy, [node.shown()]), "a list that comes later is used")
        tap.like(proxy.stderr(), r"waiting for the first list of nodes from " + re.escape(source), "the log shows the wait")


def refused_options():
    for args, why in (
            (["--discover", "dns+a.test:1", "--node", "a=tcp:127.0.0.1:1"], r"--discover and --node both name the nodes; give"),
            (["--discover", "zookeeper://x"], r"'zookeeper://x' is not a source of nodes; allowed: dns\+"),
            (["--discover", "dns+nodes"], r"needs a host and a port, as in dns\+"),
            (["--discover", "dnssrv+nodes.test"], r"'nodes.test' is not a service"),
            (["--discover", "dns+a.test:1", "-o", "discover_dns_server=host"], r"allowed: an address")):
        code, _, err = run_binary(*args)
        tap.is_(code, 64, "refused: " + " ".join(args))
        tap.like(err, why, "with the reason")


def main():
    table, nodes = Table(), []
    hosts = ["127.0.0.1", "127.0.0.2", "127.0.0.3"] + (["::1"] if has_ipv6() else [])
    try:
        with dns_server.DnsServer() as dns:
            nodes.append(NodeAt(hosts[0]).start())
            for host in hosts[1:]:
                nodes.append(NodeAt(host, nodes[0].port).start())
            joins_and_leaves(dns, nodes, table)
            services_with_weights(dns, table)
            starts(dns, nodes[0], table)
    finally:
        for node in nodes:
            node.__exit__(None, None, None)
        table.unlink()
    refused_options()
    tap.done()


main()
