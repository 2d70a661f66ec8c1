# SPDX-License-Identifier: BSD-3-Clause
"""A farnode and some farcached in front of it. Each farcached is a host of the experiments of farbench hitratio: it has its own
pointer table, and so its own report board.

    with Cluster(build, Setup("pdla", megabytes=1)) as cluster:
        subprocess.run([..., "--servers", cluster.servers()])

K1  The kernel chooses the ports; sockets are in a temporary folder; names of pointer tables contain this process's id.
K2  All processes end with the `with` block, or with this process; sockets and tables are removed.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "compare"))
from compare_servers import Failed, Process, as_whom, child_setup, port_in, stats  # noqa: E402

PAGE_BYTES, PAGES_PER_PARTITION = 64 << 10, 32  # node/store/node.cc: how a node chooses its number of partitions
PARTITIONS_PER_THREAD = 4
PATIENCE_MS = 30_000  # long enough for a busy machine
KEY_BYTES = 23
BESIDE_SECONDS = 120  # limit of a point beyond the time of its steps


def policy_arguments(name):
    """farnode's arguments for a policy of farbench hitratio."""
    found = re.fullmatch(r"fixed_lease_(\d+)", name)
    if found:
        return ["--policy", "fixed_lease", "--lease-ms", str(1000 * int(found.group(1)))]
    if name not in ("lru", "mq", "pdla", "pdla_paper", "s3fifo", "approx_lru", "clock"):
        raise Failed("the policy %s cannot be compared with processes" % name)
    return ["--policy", name]


class Setup:
    """Parameters of a cluster. address: of an RDMA device, over which the node is reached; None: shm."""

    def __init__(self, policy, megabytes, hosts=3, tracking="report", report_interval_s=10.0, item_size="16k", threads=1,
                 address=None, local_read=False):
        self.policy = policy
        self.megabytes = megabytes
        self.hosts = hosts
        self.tracking = tracking
        self.report_interval_s = report_interval_s
        self.item_size = item_size
        self.threads = threads
        self.address = address
        self.local_read = local_read

    def partitions(self):
        """Number of the node's partitions."""
        fit = max(1, min(PARTITIONS_PER_THREAD * self.threads, self.megabytes * (1 << 20) // PAGE_BYTES // PAGES_PER_PARTITION))
        return 1 << (fit.bit_length() - 1)


    def node_words(self):
        """The node's arguments beside its name, memory and addresses."""
        return ["-I", self.item_size, "-t", str(self.threads), *policy_arguments(self.policy)]

    def host_words(self):
        """Likewise those of each farcached."""
        return ["-t", str(self.threads), "--http", "0"]

    def options(self):
        """Its -o options besides the name of the pointer table."""
        return [("" if self.local_read else "no_") + "local_read", "pointer_miss=rpc", "access_tracking=" + self.tracking,
                "report_interval_ms=%d" % (1000 * self.report_interval_s), "node_timeout_ms=%d" % PATIENCE_MS,
                "pointer_table.entries=262144"]


class Cluster:
    """setup: a Setup, or what has its address, hosts, megabytes, node_words(), host_words() and options()."""

    def __init__(self, build, setup):
        self.build = build
        self.setup = setup
        self.folder = None
        self.node = None
        self.hosts = []
        self.ports = []
        self.http_ports = []

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="farbench-hitratio-")
        try:
            address = self.start_node()
            for number in range(self.setup.hosts):
                self.start_host(number, address)
            for host, port in zip(self.hosts, self.ports):
                host.wait_until(lambda port=port: is_up(port) or None)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()
        return False

    def start_node(self):
        path, ports = os.path.join(self.folder, "node.sock"), os.path.join(self.folder, "node.ports")
        over_rdma = self.setup.address is not None
        where = ["--insecure", "--verbs", self.setup.address + ":0"] if over_rdma else ["--shm", path]
        command = [os.path.join(self.build, "farnode"), *as_whom(), *where, "--tcp", "127.0.0.1:0", "--name", "node", "-m",
                   str(self.setup.megabytes), *self.setup.node_words()]
        self.node = Process("node", command, None, self.folder, {"FARNODE_PORT_FILENAME": ports})
        self.node.wait_until(lambda: port_in(ports))
        if not over_rdma:
            return "shm:" + path
        with open(ports) as file:
            return "verbs:%s:%s" % (self.setup.address, re.search(r"VERBS INET: (\d+)", file.read()).group(1))

    def table(self, number):
        return "%s-%d" % (os.path.basename(self.folder), number)

    def start_host(self, number, address):
        ports = os.path.join(self.folder, "host%d.ports" % number)
        options = [*self.setup.options(), "pointer_table.path=/" + self.table(number)]
        command = [os.path.join(self.build, "farcached"), *as_whom(), "-l", "127.0.0.1", "-p", "-1", "-U", "0",
                   *self.setup.host_words(), "--node", "node=" + address, "-o", ",".join(options)]
        self.hosts.append(Process("host%d" % number, command, None, self.folder,
                                  {"MEMCACHED_PORT_FILENAME": ports, "FARCACHED_HTTP_PORT_FILENAME": ports + ".http"}))
        self.ports.append(self.hosts[-1].wait_until(lambda: port_in(ports)))
        if "--http" in command:
            self.http_ports.append(self.hosts[-1].wait_until(lambda: port_in(ports + ".http")))

    def servers(self):
        return ",".join("127.0.0.1:%d" % port for port in self.ports)

    def latencies_by_path(self):
        """{(op, path): [(from_us, to_us, count)]} of all replies, as the hosts measured them."""
        sums = {}
        for port in self.http_ports:
            with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % port, timeout=30) as answer:
                text = answer.read().decode()
            for labels, count in re.findall(r"^farcached_request_duration_seconds_bucket\{(.*)\} (\d+)", text, re.M):
                labels = dict(re.findall(r'(\w+)="([^"]*)"', labels))
                below = sums.setdefault((labels["op"], labels["path"]), {})
                bound = float(labels["le"]) * 1e6
                below[bound] = below.get(bound, 0) + int(count)
        found = {}
        for way, below in sums.items():
            bounds = sorted(below)
            found[way] = [(low, high, below[high] - below.get(low, 0)) for low, high in zip([0.0] + bounds, bounds)]
        return found

    def stop(self):
        for process in self.hosts + ([self.node] if self.node else []):
            process.stop()
        for number in range(len(self.hosts)):
            if os.path.exists("/dev/shm/" + self.table(number)):
                os.unlink("/dev/shm/" + self.table(number))
        shutil.rmtree(self.folder, ignore_errors=True)


def is_up(port):
    """Is every thread connected to the node?"""
    shown = stats(port, "nodes", seconds=30)
    return shown.get("node:state") == "up" and shown["node:links"] == shown["node:links_up"]


def run(command, seconds):
    """Runs a program to its end and returns its output. The program ends together with this process."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          preexec_fn=child_setup(None)) as process:
        try:
            out, err = process.communicate(timeout=seconds)
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        raise Failed("%s: %s" % (" ".join(command), (out + err)[-2000:]))
    return out


def farbench(build, scale, policy, *more, servers=None):
    """(the point, the latency.csv) of a run of farbench hitratio. scale: an object with its options as attributes."""
    command = [os.path.join(build, "farbench"), "hitratio", "--workloads", scale.workload, "--policies", policy, *more]
    for name in ("keys", "value_bytes", "rate", "warmup", "operations", "report_interval_s", "seed"):
        command += ["--" + name.replace("_", "-"), str(getattr(scale, name))]
    with tempfile.TemporaryDirectory(prefix="farbench-hitratio-") as folder:
        command += ["--json", os.path.join(folder, "json"), "--csv", folder] + (["--servers", servers] if servers else [])
        run(command, (scale.warmup + scale.operations) / scale.rate + BESIDE_SECONDS)
        with open(os.path.join(folder, "json")) as file:
            point = json.load(file)[0]
        if not servers:
            return point, ""
        with open(os.path.join(folder, "latency.csv")) as file:
            return point, file.read()


def add_scale(parser, keys, rate, warmup, operations):
    """Adds options of farbench hitratio with other defaults."""
    parser.add_argument("--build", default=os.getcwd(), help="folder of the programs (default: working folder)")
    parser.add_argument("--workload", default="zipf-95:5", help="workload of farbench hitratio (default: %(default)s)")
    parser.add_argument("--keys", type=int, default=keys, help="(default: %(default)s)")
    parser.add_argument("--value-bytes", type=int, default=1024, help="(default: %(default)s)")
    parser.add_argument("--rate", type=int, default=rate, help="operations a second (default: %(default)s)")
    parser.add_argument("--warmup", type=int, default=warmup, help="operations (default: %(default)s)")
    parser.add_argument("--operations", type=int, default=operations, help="counted operations (default: %(default)s)")
    parser.add_argument("--report-interval-s", type=int, default=10, help="(default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)


def main_of(work):
    """Exit status of a script whose work() may fail or be interrupted."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        work()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return 1
    except (Failed, OSError, subprocess.TimeoutExpired) as e:
        sys.stderr.write("%s: %s\n" % (os.path.basename(sys.argv[0]), e))
        return 1
    return 0
