# SPDX-License-Identifier: BSD-3-Clause
"""The part `verbs` of `farbench compare`: farcached in front of a node behind RDMA, beside memcached over TCP.

contrib/vm boots two guests with soft-RoCE and connects them. One guest runs farcached and the client, the other one runs farnode
and memcached. The same client measures farcached and memcached in turn. Both guests are emulated: ratios are meaningful there,
microseconds are not.

This part checks that GETs cost the node no CPU time, and splits the time of a one-sided GET into its hops.
"""
import json
import os
import shlex
import signal
import subprocess
import sys

from compare_contest import CLIENT_BUSY, Measured, Spread
from compare_servers import child_setup

OURS, THEIRS = "farcached -t 1 -> farnode (verbs)", "memcached over TCP"
GETS, GETS_SINGLE = "verbs, GET", "verbs, GET, one connection"
MIXED, MIXED_SINGLE = "verbs, 95:5", "verbs, 95:5, one connection"
NAMES = (GETS, GETS_SINGLE, MIXED, MIXED_SINGLE)
CONNECTIONS_MOST = 32  # of the load on an emulated machine
KEYS_MOST = {"gets": 2000, "mixed": 5000}  # each key is leased before the measurement, which takes time under emulation
LEASE_MS = 250_000
MEGABYTES = 64
NODE_PORT, MEMCACHED_PORT = 11301, 11211
NODE_CPU_NOTHING = 0.01  # share of a GET's cost in memcached; smaller differences to an idle node are noise
SECONDS_BEFORE, SECONDS_FOR_EACH = 300, 30  # limits for the start of emulated programs, and per measurement
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
VM = os.path.join(TOP, "contrib", "vm")


class Taking:
    """A contestant, for the report."""

    stores = True

    def __init__(self, label):
        self.label, self.ours = label, label == OURS


def why_not(setup):
    """The reason why the guests cannot run here; None: they can."""
    if not os.access(VM, os.X_OK):
        return "contrib/vm, which boots the guests, is only in the source tree, not beside this farbench"
    if setup.memcached is None:
        return "there is no memcached"
    asked = subprocess.run([VM, "--needs"], stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    return asked.stderr.decode("utf-8", "replace").strip().removeprefix("vm: ") if asked.returncode else None


def labels():
    return [OURS, THEIRS]


def workloads(o):
    """[(name, arguments of compare_load.Workload)]"""
    found = []
    for data, ratio, several, one in (("gets", "0:1", GETS, GETS_SINGLE), ("mixed", "5:95", MIXED, MIXED_SINGLE)):
        found += [{"name": several, "data": data, "ratio": ratio, "connections": min(o.connections, CONNECTIONS_MOST)},
                  {"name": one, "data": data, "ratio": ratio, "connections": 1, "threads": 1}]
    return found


def settings(o, setup, contestants, chosen):
    datas = {name: {"name": "64 B values", "value_bytes": 64, "keys": min(o.keys, most), "prefix": name + "-"}
             for name, most in KEYS_MOST.items()}
    return {"ours": OURS, "theirs": THEIRS, "contestants": contestants, "workloads": chosen, "datas": datas,
            "rounds": o.rounds, "seconds": o.seconds, "warmup": o.warmup, "threads": o.threads, "connections": o.connections,
            "protocol": o.protocol, "farbench": setup.farbench, "farcached": setup.farcached,
            "connections_max": CONNECTIONS_MOST + 100, "node_port": NODE_PORT, "memcached_port": MEMCACHED_PORT}


def guests(o, setup, told, measurements):
    """The command that boots both guests."""
    here = os.path.dirname(os.path.realpath(__file__))
    address = "$FARCACHED_RDMA_ADDRESS"
    back = "%s -u root -l %s -p %d -U 0 -t %d -m %d & " \
           "exec %s -u root --name far --insecure --verbs %s:%d --lease-ms %d -t %d -m %d" % (
        shlex.quote(setup.memcached), address, MEMCACHED_PORT, o.threads, MEGABYTES,
        shlex.quote(setup.farnode), address, NODE_PORT, LEASE_MS, o.threads, MEGABYTES)
    seconds = SECONDS_BEFORE + measurements * (2 * o.seconds + o.warmup + SECONDS_FOR_EACH)
    return [VM, "--seconds", "%.0f" % seconds, "--beside", back, sys.executable or "python3",
            os.path.join(here, "compare_verbs_guest.py"), json.dumps(told)]


class Told:
    """Builds the Measured objects of a Contest from the lines of the first guest."""

    def __init__(self, contestants, load, workloads_of):
        self.rows = {w.name: Measured(w, load, [Taking(label) for label in contestants]) for w in workloads_of}
        self.round = {name: {} for name in self.rows}

    def take(self, line):
        told = json.loads(line)
        row, got = self.rows[told["workload"]], self.round[told["workload"]]
        got[told["contestant"]] = told["measured"]
        if (told["measured"]["client_cpu_share"] or 0) > CLIENT_BUSY:
            row.busy_client.add(told["contestant"])
        if len(got) == len(row.contestants):
            row.rounds.append(dict(got))
            got.clear()


def run(command, told):
    """Boots the guests. Returns an error text, or None."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, preexec_fn=child_setup(None)) as process:
        try:
            for line in process.stdout:
                told.take(line)
            status = process.wait()
        except BaseException:  # contrib/vm must end its guests and remove its folder before this process ends
            process.send_signal(signal.SIGTERM)
            process.stdout.close()
            process.wait()
            raise
    return None if status == 0 else "the guests ended with status %d" % status


# -------------------------------------------------------------------------------------------- results


def node_cpu(row, label):
    """(back end's CPU us per key, its part beyond an idle back end's, an idle back end's CPU us per second)."""
    whole = Spread([r[label]["back_cpu_s_per_million"] for r in row.rounds])
    return whole, row.spread(label, "back_us_per_key_beyond_idle"), row.spread(label, "idle_us_per_s")


def ranged(spread, form="%.3f"):
    return "%s (%s .. %s)" % tuple(form % x for x in (spread.median, spread.low, spread.high))


def aims(contest):
    """Rows in the form of compare_aims.rows()."""
    found = []
    for name in (GETS, GETS_SINGLE):
        row = contest.find(name)
        if row is None or len(row.labels) < 2:
            continue
        share = Spread([r[OURS]["back_us_per_key_beyond_idle"] / r[THEIRS]["back_cpu_s_per_million"] for r in row.rounds
                        if r[THEIRS]["back_cpu_s_per_million"]])
        found.append(("%s: node's CPU beyond that of an idle one to %s" % (name, THEIRS), OURS, "0, <= %.2f" % NODE_CPU_NOTHING,
                      ranged(share, "%.4f"), "met" if share.median <= NODE_CPU_NOTHING else "MISSED"))
    return found


def words(contest):
    """Lines with numbers that the tables do not show."""
    lines = []
    for name in NAMES:
        row = contest.find(name)
        if row is None:
            continue
        for label in row.labels:
            whole, beyond, idle = node_cpu(row, label)
            lines.append("%s: %s: the back's CPU for each key %s us, beyond that of an idle one %s us; idle, %s us a second" % (
                name, label, ranged(whole), ranged(beyond), ranged(idle, "%.0f")))
        if OURS in row.labels:
            lines += ways_and_hops(row)
    return lines


def ways_and_hops(row):
    def sum_of(metric):
        return sum(r[OURS][metric] for r in row.rounds)

    def median(metric):
        return row.spread(OURS, metric).median
    return ["%s: %d GETs one-sided, %d two-sided; %.1f READs a doorbell" % (
                row.name, sum_of("one_sided"), sum_of("two_sided"), median("reads_per_doorbell")),
            "%s: of a GET's %.0f us in the mean are: client to farcached and back %.0f; in farcached %.0f; "
            "READ, until it is validated, %.0f" % (row.name, median("mean_us"), median("hop_client_us"),
                                                  median("hop_farcached_us"), median("hop_read_us"))]


def more_for_json(row, label):
    """JSON fields of a row that are not columns of the tables."""
    keys = [key for key in row.rounds[0][label] if key.startswith(("hop_", "one_sided", "two_sided", "idle_us", "back_us",
                                                                   "reads_per"))]
    return {key: row.spread(label, key).as_json() for key in keys if row.spread(label, key).known}
