# SPDX-License-Identifier: BSD-3-Clause
"""Requests to etcd, and the time until every proxy uses a new list, in fleets of several sizes. All are processes.

A node joins when the fleet is at rest: another farnode process. The time until a proxy uses the list begins when etcd did not have
the node's record yet (it is asked each millisecond). It ends with the proxy's log line of the list, which the proxy writes when it
takes the list into use. `stats discovery` confirms that. Times of the log have the kernel's resolution, 4 ms.
"""
import os
import re
import statistics
import threading
import time

from compare_servers import cpu_seconds
from fleet_processes import Connection, Failed, Fleet, etcd_numbers, median_and_range, until

REST_S, JOIN_S = 9, 3
BATCH = 20
LINE = re.compile(rb"new: ([^\n]*)\n")


class Joined(threading.Thread):
    """Polls etcd for the node's record. at: the wall clock before the last question that did not show it."""

    def __init__(self, fleet, name):
        super().__init__(daemon=True)
        self.fleet, self.key, self.at = fleet, "/%s/nodes/%s" % (fleet.prefix, name), time.time()

    def run(self):
        while True:
            asked = time.time()
            if self.fleet.etcd.keys(self.key):
                return
            self.at = asked
            time.sleep(0.001)


def start(build, etcd, nodes, proxies):
    fleet = Fleet(build, etcd, "scale%d" % nodes, ttl_s=10)
    try:
        fleet.start_nodes(nodes)
        for first in range(0, proxies, BATCH):
            labels = ["p%d" % number for number in range(first, min(first + BATCH, proxies))]
            for label in labels:
                fleet.launch_proxy(label)
            for label in labels:
                fleet.wait_for_proxy(label)
        fleet.until_up()
    except BaseException:
        fleet.__exit__()
        raise
    return fleet


def rates(etcd, seconds, do=lambda: None):
    before, begin = etcd_numbers(etcd), time.monotonic()
    do()
    time.sleep(seconds)
    after, end = etcd_numbers(etcd), time.monotonic()
    return {name: after[name] - before[name] for name in before}, end - begin


def join(fleet):
    """Starts one more node. Returns each proxy's time until it uses the list, in seconds, and etcd's numbers of that time."""
    name = "%s-n%d" % (fleet.prefix, len(fleet.nodes))
    count = len(fleet.nodes) + 1
    sizes = {label: os.path.getsize(fleet.log_of(label)) for label in fleet.ports}

    def work():
        seen = Joined(fleet, name)
        seen.start()
        fleet.launch_node(name)
        fleet.wait_for_node(name)
        seen.join(60)
        return seen.at
    at, cpu = [], cpu_of(fleet)
    numbers, _ = rates(fleet.etcd, JOIN_S, lambda: at.append(work()))
    numbers.update({kind: now - cpu[kind] for kind, now in cpu_of(fleet).items()})
    for label, port in fleet.ports.items():
        connection = Connection(port)
        until(lambda c=connection: b"nodes_in_use %d\r" % count in c.ask(b"stats discovery"), "%s uses the list" % label)
        connection.close()
    times = []
    for label in fleet.ports:
        with open(fleet.log_of(label), "rb") as file:
            file.seek(sizes[label])
            text = file.read()
        if name.encode() not in b"".join(LINE.findall(text)):
            raise Failed("%s did not log the list with %s: %r" % (label, name, text[-300:]))
        times.append(os.stat(fleet.log_of(label)).st_mtime - at[0])
    return times, numbers


def cpu_of(fleet):
    return {"nodes": sum(cpu_seconds(p.pid) for p in fleet.nodes.values()),
            "proxies": sum(cpu_seconds(p.pid) for p in fleet.proxies.values())}


def scale(build, etcd, sizes, joins):
    """Prints two tables; returns their rows."""
    print("\n## etcd: at rest over %d s, and %d joins one by one: median (range)\n" % (REST_S, joins))
    rows = []
    for nodes, proxies in sizes:
        begin = time.monotonic()
        fleet = start(build, etcd, nodes, proxies)
        try:
            started_s = time.monotonic() - begin
            time.sleep(2)
            cpu = cpu_of(fleet)
            rest, seconds = rates(etcd, REST_S)
            cpu = {kind: (now - cpu[kind]) / seconds for kind, now in cpu_of(fleet).items()}
            found = [join(fleet) for _ in range(joins)]
            until_all = [max(times) for times, _ in found]
            row = {"nodes": nodes, "proxies": proxies, "started_s": started_s, "cpu": cpu,
                   "rest": {name: number / seconds for name, number in rest.items()},
                   "until_median_s": [statistics.median(times) for times, _ in found], "until_last_s": until_all,
                   "join": [numbers for _, numbers in found]}
        finally:
            fleet.__exit__()
        rows.append(row)
        print("%d nodes, %d proxies (started in %.0f s)" % (nodes, proxies, started_s))
        print("  at rest, per second: %s" % ", ".join("%s %.1f" % (n, v) for n, v in row["rest"].items() if n != "cpu"))
        print("  CPU of etcd %.3f, of all nodes %.3f, of all proxies %.3f" % (row["rest"]["cpu"], cpu["nodes"], cpu["proxies"]))
        print("  a join: watch messages %s, events %s, put %s" % tuple(
            median_and_range([numbers[name] for numbers in row["join"]], digits)
            for name, digits in (("watch", 0), ("events", 0), ("put", 0))))
        print("  CPU seconds in %d s from the join on: nodes %s, proxies %s" % (JOIN_S, *(
            median_and_range([numbers[name] for numbers in row["join"]]) for name in ("nodes", "proxies"))))
        print("  until the list is in use, ms: median proxy %s, last proxy %s" % tuple(
            median_and_range([1e3 * s for s in row[name]], 0) for name in ("until_median_s", "until_last_s")), flush=True)
    return rows
