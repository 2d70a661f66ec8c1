# SPDX-License-Identifier: BSD-3-Clause
"""The metrics and labels in the expressions of contrib's dashboard and alert rules exist in a farcached in front of a node, or in
that farnode. All names follow Prometheus' conventions."""
import os
import re
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import certificates  # noqa: E402
import dns_server  # noqa: E402
from cluster import Cluster  # noqa: E402
from daemon import run_binary  # noqa: E402
from expressions import contrib_expressions, labels_in, names_in  # noqa: E402
from farcached import Daemon, has_tls, tap, until  # noqa: E402
from http_get import get, http_args, http_env, http_port, samples, value  # noqa: E402

TOP = os.environ.get("abs_top_srcdir") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = tempfile.mkdtemp(prefix="farcached-names-")
HAS_ETCD = b"without libcurl" not in run_binary("--version-full")[1]
HAS_DNS = b"without c-ares" not in run_binary("--version-full")[1] and dns_server.program() is not None
BY_PROMETHEUS = {"instance", "job"}  # labels that a scrape adds
# Prometheus' own names for what every process has.
PROCESS = ["process_cpu_seconds_total", "process_max_fds", "process_open_fds", "process_resident_memory_bytes",
           "process_start_time_seconds", "process_virtual_memory_bytes"]
ABBREVIATED = {"s", "ms", "us", "ns", "sec", "b", "kb", "mb", "gb", "h", "d", "pct"}


def folder():
    return tempfile.mkdtemp(dir=FOLDER)


def texts():
    """The expositions of a proxy, of its node, of a farcached without nodes, and of one with discovery. With certificates and etcd,
    if the program knows them."""
    here, there, alone = folder(), folder(), folder()
    silent_etcd = ["--discover", "etcd://127.0.0.1:1/far"] if HAS_ETCD else []
    peers = certificates.options_of_every_peer() if has_tls() else []
    clients = certificates.Authority("names").options() if has_tls() else []
    with Cluster("tcp", proxies=1, local_read=False, proxy_args=http_args() + peers, proxy_env=http_env(here),
                 node_args=http_args() + peers + silent_etcd, node_env=http_env(there)) as cluster:
        until(lambda: cluster.proxies[0].client().set("key", "value"), lambda said: said == "STORED")
        proxy = until(lambda: get(http_port(here), "/metrics")[2], lambda text: value(text, "farcached_node_told") == 1)
        node = get(http_port(there), "/metrics")[2]
    with Daemon("-m", "16", *http_args(), *clients, env=http_env(alone), threads=1):
        return proxy, node, get(http_port(alone), "/metrics")[2], discovering()


def discovering():
    """The exposition of a farcached whose nodes are found by DNS; empty: there is no DNS server."""
    if not HAS_DNS:
        return ""
    here = folder()
    with dns_server.DnsServer() as dns:
        dns.serve(addresses={"nodes.test": ["127.0.0.1"]})
        with Daemon("--discover", "dns+nodes.test:1", "-o", "discover_dns_server=" + dns.address(), *http_args(), threads=1,
                    env=http_env(here)):
            return get(http_port(here), "/metrics")[2]


def check_conventions(text, prefix):
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
    helped = dict(re.findall(r"^# HELP (\S+) (\S.*)$", text, re.M))
    tap.is_(sorted(set(kinds) - set(helped)), [], "%s: each has a help text" % prefix)
    tap.is_([name for name, words in helped.items() if re.search(r"(micro|milli)seconds|; a gauge", words)], [],
            "%s: help texts have the units of the metrics, and leave the kind to TYPE" % prefix)
    tap.is_(sorted(name for name in kinds if name.startswith("process_")), PROCESS, "%s: the metrics of any process" % prefix)
    bad = []
    for name, kind in kinds.items():
        words = name.split("_")
        if not name.startswith((prefix, "process_")) or name != name.lower() or ABBREVIATED & set(words):
            bad.append(name)
        if (kind == "counter") != name.endswith("_total") or {"counter", "gauge", "milliseconds", "microseconds"} & set(words):
            bad.append(name)
        if kind != "histogram" and words[-1] in ("count", "sum", "bucket"):
            bad.append(name)
    tap.is_(bad, [], "%s: names, units and kinds" % prefix)


def check_expressions(expressions, known, what):
    tap.ok(len(expressions) > 10, "%s has expressions" % what)
    lacking = [word for word, has in (("certificate", has_tls()), ("discovery_", HAS_DNS), ("_serving", HAS_ETCD)) if not has]
    expressions = [(where, words) for where, words in expressions if not any(word in words for word in lacking)]
    for where, expression in expressions:
        missing = sorted(name for name in names_in(expression) if name not in known)
        wrong = sorted("%s{%s}" % (name, label) for name, labels in labels_in(expression).items() if name in known
                       for label in labels - known[name] - BY_PROMETHEUS)
        tap.is_(missing + wrong, [], "%s: %s" % (what, where))


def main():
    try:
        proxy, node, alone, discovers = texts()
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)
    check_conventions(proxy, "farcached_")
    check_conventions(alone, "farcached_")
    check_conventions(node, "farnode_")
    if discovers:
        check_conventions(discovers, "farcached_")
    known = {}
    for text in (proxy, node, alone, discovers):
        for name, labels in samples(text):
            known.setdefault(name, set()).update(label for label, _ in labels)
    for old in ("farcached_change_unavailable_total", "farcached_answers_unasked_total", "farnode_report_refused_stranger_total",
                "farcached_process_cpu_seconds_total", "farcached_process_start_time_seconds"):
        tap.ok(old in known, "renamed since the last release: " + old)
    board, rules = contrib_expressions(TOP)
    check_expressions(board, known, "dashboard")
    check_expressions(rules, known, "alerts")
    tap.done()


main()
