# SPDX-License-Identifier: BSD-3-Clause
"""How long a node's keys are without an answer when the node is killed, stands still, or is stopped.

A client repeats a get, and another one a set, of keys of the node. Each sends its next request 2 ms after a reply.
The outage is the longest time between two good replies in a row. A get's value or END is a good reply, and a set's STORED. etcd is
asked every 10 ms how long it has the node's record. The node is started again before the next round.
"""
import os
import signal
import threading
import time

from fleet_processes import Connection, Failed, Fleet, median_and_range, stats, until

PAUSE_S = 0.002
BEFORE_S, AFTER_S = 0.3, 0.7
EVENTS = {"kill -9": signal.SIGKILL, "SIGSTOP": signal.SIGSTOP, "SIGTERM": signal.SIGTERM}
PROXY = "proxy"


class Probe(threading.Thread):
    """Repeats a request until `over`. good: beginnings of replies that answer it."""

    def __init__(self, port, request, good):
        super().__init__(daemon=True)
        self.connection, self.request, self.good = Connection(port), request, good
        self.replies = []  # (sent, received, reply), times in seconds
        self.over = False

    def run(self):
        while not self.over:
            sent = time.monotonic()
            reply = self.connection.ask(self.request)
            self.replies.append((sent, time.monotonic(), reply))
            time.sleep(PAUSE_S)

    def end(self):
        self.over = True
        self.join()
        self.connection.close()

    def outage_s(self):
        times = [received for _, received, reply in self.replies if reply.startswith(self.good)]
        return max((later - earlier for earlier, later in zip(times, times[1:])), default=float("inf"))

    def bad_replies(self):
        return sum(not reply.startswith(self.good) for _, _, reply in self.replies)


def round_of(fleet, victim, keys, event):
    """{command: (outage in seconds, bad replies)} of one outage, and {"record": seconds until etcd has none}."""
    port = fleet.ports[PROXY]
    probes = {"get": Probe(port, b"get " + keys[0].encode(), (b"VALUE", b"END")),
              "set": Probe(port, b"set " + keys[1].encode() + b" 0 0 1\r\nx", (b"STORED",))}
    for probe in probes.values():
        probe.start()
    time.sleep(BEFORE_S)
    begin = time.monotonic()
    fleet.nodes[victim].process.send_signal(EVENTS[event])
    until(lambda: victim not in fleet.registered(), "etcd has no record of %s" % victim, pause_s=0.01)
    record_s = time.monotonic() - begin
    until(lambda: victim + ":state" not in stats(port, "nodes", seconds=30), "%s left the list" % victim)
    time.sleep(AFTER_S)
    for probe in probes.values():
        probe.end()
    if event == "SIGSTOP":
        fleet.nodes[victim].process.send_signal(signal.SIGCONT)
    else:
        fleet.nodes[victim].process.wait()
        fleet.launch_node(victim)
        fleet.wait_for_node(victim)
    fleet.until_up()
    return {"record": record_s, **{which: (probe.outage_s(), probe.bad_replies()) for which, probe in probes.items()}}


def measure(build, etcd, event, ttl_s, rounds, into):
    """Adds the rounds' results to the list `into`, and to its end the error, if any."""
    try:
        with Fleet(build, etcd, "%s%d" % (event.replace(" ", ""), ttl_s), ttl_s) as fleet:
            fleet.start_nodes(3)
            fleet.launch_proxy(PROXY)
            fleet.wait_for_proxy(PROXY)
            fleet.until_up()
            victim = sorted(fleet.nodes)[1]
            keys = fleet.keys_of(victim, PROXY, 2)
            for _ in range(rounds):
                time.sleep(0.1 * ttl_s * os.urandom(1)[0] / 256)  # another place between two keepalives
                into.append(round_of(fleet, victim, keys, event))
    except Exception as e:  # noqa: BLE001: shown by the main thread
        into.append(e)


def outages(build, etcd, ttls, rounds):
    """Prints a table, and returns its rows."""
    print("## Outages: longest time without a good reply, s, and bad replies: median (range) of %d\n" % rounds)
    print("| event | member_ttl, s | in etcd, s | get | set |\n|---|---|---|---|---|")
    rows = []
    for event in EVENTS:
        found = {ttl_s: [] for ttl_s in ttls}
        threads = [threading.Thread(target=measure, args=(build, etcd, event, ttl_s, rounds, into))
                   for ttl_s, into in found.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for ttl_s, results in found.items():
            if any(isinstance(result, Exception) for result in results):
                raise Failed("%s, member_ttl %d: %s" % (event, ttl_s, results[-1]))
            row = {"event": event, "ttl_s": ttl_s, "record": [result["record"] for result in results]}
            for command in ("get", "set"):
                row[command] = [result[command][0] for result in results]
                row[command + "_bad"] = [result[command][1] for result in results]
            rows.append(row)
            print("| %s | %d | %s | %s | %s |" % (event, ttl_s, median_and_range(row["record"]), *(
                "%s; %s bad" % (median_and_range(row[c]), median_and_range(row[c + "_bad"], 0)) for c in ("get", "set"))),
                flush=True)
    return rows
