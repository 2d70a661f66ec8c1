# SPDX-License-Identifier: BSD-3-Clause
"""Nodes found by DNS (--discover), with a real server: nodes appear and leave, keys stay at the others; the server dies and
returns; empty answers, unknown names; both families, and one of them refused; SRV records with weights, and their hosts, which this
server alone knows: their addresses change, vanish, and set the time of the next look-up; the start without a list."""
import os
import re
import socket
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import dns_server  # noqa: E402
from cluster import Table, nodes_shown  # noqa: E402
from daemon import run_binary  # noqa: E402
from dns_fleet import KEYS, SERVICE, NodeAt, owners, proxy_of, until_discovery, until_nodes  # noqa: E402
from farcached import tap, until  # noqa: E402
from farctl import asked, at, path_of  # noqa: E402
from http_get import get, http_args, http_env, http_port, value  # noqa: E402

if b"without c-ares" in run_binary("--version-full")[1]:
    tap.skip_all("built without c-ares")
if dns_server.program() is None:
    tap.skip_all("dnsmasq is not installed")

NAME = "nodes.test"


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as s:
            s.bind(("::1", 0))
        return True
    except OSError:
        return False


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
    tap.like(shown["last_error"], r"addresses of %s are not known \(.+\)" % re.escape(NAME), "the server is down")
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
        names = ["pods.test:%d" % node.port for node in (light, heavy)]
        records, hosts = [("pods.test", light.port, 20), ("pods.test", heavy.port, 60)], {"pods.test": ["127.0.0.1"]}
        dns.serve(hosts, {SERVICE: records}, ttl=0)
        with proxy_of(dns, "dnssrv+" + SERVICE, "distribution=ketama_weighted", table=table,
                      args=["--cluster-members", "unknown.test.invalid:1"]) as proxy:
            tap.ok(until_nodes(proxy, names), "the targets of SRV records are the nodes", nodes_shown(proxy))
            tap.is_([nodes_shown(proxy)[name]["weight"] for name in names], ["1", "3"], "with their weights")
            counts = list(owners(proxy).values())
            tap.ok(counts.count(names[1]) > counts.count(names[0]) > 0, "which choose the shares of the keys",
                   [counts.count(name) for name in names])
            changes = proxy.stats("discovery")["changes"]
            answers = int(proxy.stats("discovery")["answers"])
            dns.serve(hosts, {SERVICE: records[::-1]}, ttl=0)
            until_discovery(proxy, "answers", lambda n: int(n) > answers + 1)
            tap.is_(proxy.stats("discovery")["changes"], changes, "another order is no change")
            dns.serve(hosts, {SERVICE: [("pods.test", light.port, 20), ("pods.test", heavy.port, 20)]}, ttl=0)
            until_discovery(proxy, "changes", lambda n: n != changes)
            seen = until(lambda: [s["weight"] for s in nodes_shown(proxy).values()], lambda weights: weights == ["1", "1"])
            tap.is_(seen, ["1", "1"], "equal weights are 1")
            refuses_a_list(dns, proxy, records, hosts)
            tap.is_(proxy.stderr().count(b"the list of the cluster: the host unknown.test.invalid is not known"), 1,
                    "only the start looks up the members of the cluster")


def refuses_a_list(dns, proxy, records, hosts):
    dns.serve({**hosts, "alias.test": ["127.0.0.1"]}, {SERVICE: [*records, ("alias.test", records[0][1], 20)]}, ttl=0)
    until_discovery(proxy, "refused", lambda n: int(n) > 0)
    shown = proxy.stats("discovery")
    tap.is_((shown["nodes"], shown["nodes_in_use"]), ("3", "2"), "two targets at one address: the list is not used")
    tap.like(shown["last_refusal"], r"node pods\.test:%d: the address tcp:127\.0\.0\.1:%d is that of .*, node alias\.test" % (
        records[0][1], records[0][1]), "and the reason is shown")
    dns.serve(hosts, {SERVICE: records}, ttl=0)
    tap.is_(until_discovery(proxy, "nodes", lambda n: n == "2"), "2", "the next list")
    seen = until(lambda: proxy.stats("discovery"), lambda s: s["revision"] == s["revision_in_use"])
    tap.is_(seen["revision_in_use"], seen["revision"], "is used")


def addresses_of_targets(dns, nodes, table):
    """The nodes listen at one port of different addresses."""
    port = nodes[0].port
    names = ["pod-%d.test:%d" % (i, port) for i in range(2)]
    records = {SERVICE: [("pod-%d.test" % i, port, 1) for i in range(2)]}
    last = nodes[3].host if len(nodes) > 3 else nodes[2].host  # of IPv6, if there is any

    def serve(first, **more):
        dns.serve({"pod-0.test": first, "pod-1.test": [last]}, records, **more)

    def address(name):
        return nodes_shown(proxy)[name]["address"]

    # Only the addresses' TTL ends within the time of this test.
    serve([nodes[0].host], service_ttl=3600)
    with dns_server.Relay(dns) as relay, proxy_of(relay, "dnssrv+" + SERVICE, table=table) as proxy:
        tap.ok(until_nodes(proxy, names), "the targets' addresses are those of discover_dns_server", nodes_shown(proxy))
        tap.is_((address(names[0]), address(names[1])), ("tcp:" + nodes[0].shown(), "tcp:%s:%d" % (
            "[%s]" % last if ":" in last else last, port)), "which stats nodes shows, also one of IPv6 alone")
        before, links = owners(proxy), nodes_shown(proxy)[names[1]]["incarnation"]
        with proxy.client() as client:
            tap.ok(all(client.set(key, key) == "STORED" for key in KEYS), "keys are stored")
            tap.is_(until(nodes[0].others, lambda n: n == 2), 2, "each worker is connected to the node")
            serve([nodes[1].host], service_ttl=3600)
            seen = until(lambda: address(names[0]), lambda at: at == "tcp:" + nodes[1].shown())
            tap.is_(seen, "tcp:" + nodes[1].shown(), "another address of a target is in use after the TTL of that address")
            tap.ok(until_nodes(proxy, names), "and its node is connected", nodes_shown(proxy))
            tap.is_(owners(proxy), before, "the keys stay with the names of the nodes")
            tap.is_(until(nodes[0].others, lambda n: n == 0), 0, "the connections to the former address end")
            found = {key.decode() for key, *_ in client.get_many(KEYS)}
            tap.is_(found, {key for key in KEYS if before[key] == names[1]}, "the other node has its items, the new one has none")
            tap.is_(nodes_shown(proxy)[names[1]]["incarnation"], links, "and stays the same")
            tap.ok(all(client.set(key, key) == "STORED" for key in KEYS), "keys are stored again")
        tap.is_(proxy.stats("discovery")["changes"], "1", "that is one change of the list")
        tap.like(proxy.stderr(), "lists 2 nodes; at another address: " + re.escape(names[0]), "which the log shows")
        keeps_addresses(dns, relay, nodes, serve, proxy, address, names)


def keeps_addresses(dns, relay, nodes, serve, proxy, address, names):
    """The last list stays while an answer is incomplete."""
    def fails(why):
        until_discovery(proxy, "last_error", lambda error: why in error)
        shown = proxy.stats("discovery")
        tap.is_((shown["state"], shown["changes"], address(names[0])), ("down", changes, "tcp:" + nodes[1].shown()),
                why + ": the last list stays in use")
        tap.like(shown["last_error"], re.escape(why) + r"(?: \(.+\))?$", "with the reason")

    changes = proxy.stats("discovery")["changes"]
    for family, title in ((dns_server.A, "IPv4"), (dns_server.AAAA, "IPv6")):
        relay.refused = {("pod-0.test", family)}
        serve([nodes[2].host])
        fails("the %s addresses of pod-0.test are not known" % title)
    relay.refused = set()
    serve([])
    fails("the host pod-0.test has no address")
    dns.serve({"pod-1.test": ["127.0.0.1"]}, {SERVICE: [("pod-%d.test" % i, nodes[0].port, 1) for i in range(2)]})
    until_discovery(proxy, "state", lambda state: state == "down")
    fails("the host pod-0.test has no address")
    serve([nodes[2].host])
    seen = until(lambda: address(names[0]), lambda at: at == "tcp:" + nodes[2].shown())
    tap.is_(seen, "tcp:" + nodes[2].shown(), "a complete answer is used")
    serve([nodes[2].host, nodes[0].host])
    both = "tcp:%s,tcp:%s" % (nodes[0].shown(), nodes[2].shown())
    tap.is_(until(lambda: address(names[0]), lambda at: at == both), both, "a target may have several addresses")
    nodes[0].__exit__(None, None, None)
    tap.ok(until_nodes(proxy, names), "each of which is tried", nodes_shown(proxy))
    nodes[0] = NodeAt(nodes[0].host, nodes[1].port).start()


def many_targets(dns, node, table):
    """More targets than are looked up at once. Only one of them is up."""
    hosts = {"pod-%d.test" % i: ["127.0.1.%d" % (i + 1)] for i in range(40)}
    hosts["pod-0.test"] = [node.host]
    dns.serve(hosts, {SERVICE: [(host, node.port, 1) for host in hosts]})
    with dns_server.Relay(dns) as relay:
        relay.delay = 0.3
        with proxy_of(relay, "dnssrv+" + SERVICE, table=table) as proxy:
            shown = until(lambda: nodes_shown(proxy), lambda shown: len(shown) == len(hosts))
            tap.is_({name: s["address"] for name, s in shown.items()},
                    {"%s:%d" % (host, node.port): "tcp:%s:%d" % (at[0], node.port) for host, at in hosts.items()},
                    "each of many targets has its address")
            tap.ok(2 < relay.most_open <= 32, "at most 32 queries are open", relay.most_open)


def one_family_refused(dns, node, table):
    """dns+, too."""
    dns.serve({NAME: [node.host]})
    with dns_server.Relay(dns) as relay, proxy_of(relay, "dns+%s:%d" % (NAME, node.port), table=table) as proxy:
        tap.ok(until_nodes(proxy, [node.shown()]), "a name has addresses of one family")
        relay.refused = {(NAME, dns_server.AAAA)}
        dns.serve({NAME: ["127.0.0.2"]})
        until_discovery(proxy, "state", lambda state: state == "down")
        shown = proxy.stats("discovery")
        tap.is_((shown["nodes_in_use"], shown["changes"]), ("1", "0"), "while the other family is not known, the last list stays")
        tap.like(shown["last_error"], r"the IPv6 addresses of %s are not known \(.+\)" % re.escape(NAME), "with the reason")


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
            addresses_of_targets(dns, nodes, table)
            many_targets(dns, nodes[0], table)
            one_family_refused(dns, nodes[0], table)
            starts(dns, nodes[0], table)
    finally:
        for node in nodes:
            node.__exit__(None, None, None)
        table.unlink()
    refused_options()
    tap.done()


main()
