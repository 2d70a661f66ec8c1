# SPDX-License-Identifier: BSD-3-Clause
"""A fleet on loopback: a real etcd, farnode that register in it, and farcached that find them there.

    with Etcd() as etcd, Fleet(build, etcd, "a", ttl_s=2) as fleet:
        fleet.start_nodes(3)
        fleet.launch_proxy("proxy")
        port = fleet.wait_for_proxy("proxy")
        fleet.until_up()

Each fleet has a prefix of its own in etcd, so several share one etcd. All processes end with the `with` block, or with this one.
"""
import os
import re
import shutil
import signal
import socket
import statistics
import sys
import tempfile
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(os.path.dirname(HERE), "compare"), os.path.join(os.path.dirname(os.path.dirname(HERE)), "t", "lib")]
from compare_servers import Failed, Process, as_whom, child_setup, machine, port_in, stats  # noqa: E402, F401
from tap_output import tap  # noqa: E402
from etcd import Etcd, encoded, is_available, write_weight  # noqa: E402, F401

tap.finished = True  # t/lib/etcd.py is used outside of a test
WAIT_S = 60


class Connection:
    """A client's connection in the text protocol. It receives each reply before it sends the next request."""

    def __init__(self, port, seconds=30):
        self.socket = socket.create_connection(("127.0.0.1", port), seconds)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, request):
        self.send(request)
        return self.receive()

    def send(self, request):
        self.socket.sendall(request + b"\r\n")

    def receive(self):
        """A reply: one line, or several up to END."""
        got = b""
        while not (got.endswith(b"END\r\n") or (got.endswith(b"\r\n") and not got.startswith((b"VALUE", b"STAT")))):
            more = self.socket.recv(65536)
            if not more:
                raise Failed("the server closed the connection")
            got += more
        return got

    def close(self):
        self.socket.close()


def until(look, what, seconds=WAIT_S, pause_s=0.05):
    """The first true result of look()."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        seen = look()
        if seen:
            return seen
        time.sleep(pause_s)
    raise Failed("not within %d s: %s" % (seconds, what))


class Fleet:
    def __init__(self, build, etcd, prefix, ttl_s, megabytes=8):
        self.build, self.etcd, self.prefix, self.ttl_s, self.megabytes = build, etcd, prefix, ttl_s, megabytes
        self.source = etcd.source(prefix="/" + prefix)
        self.folder = tempfile.mkdtemp(prefix="farbench-fleet-")
        self.table = os.path.basename(self.folder)
        self.nodes = {}        # name: Process
        self.node_ports = {}
        self.proxies = {}
        self.ports = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        every = list(self.proxies.values()) + list(self.nodes.values())
        for process in every:
            for number in (signal.SIGCONT, signal.SIGTERM):
                if process.process.poll() is None:
                    process.process.send_signal(number)
        for process in every:
            process.stop()
        if os.path.exists("/dev/shm/" + self.table):
            os.unlink("/dev/shm/" + self.table)
        shutil.rmtree(self.folder, ignore_errors=True)

    # A second start of a node is at the same address.
    def launch_node(self, name):
        at = "127.0.0.1:%d" % self.node_ports.get(name, 0)
        ports = os.path.join(self.folder, name + ".ports")
        if os.path.exists(ports):
            os.unlink(ports)
        command = [os.path.join(self.build, "farnode"), *as_whom(), "--config", write_weight(self.folder, name, 1), "--tcp", at,
                   "-m", str(self.megabytes), "-t", "1", "--name", name, "--discover", self.source, "--member-ttl", str(self.ttl_s)]
        self.nodes[name] = Process(name, command, None, self.folder, {"FARNODE_PORT_FILENAME": ports})

    def change_weight(self, name, weight):
        write_weight(self.folder, name, weight)
        self.nodes[name].process.send_signal(signal.SIGHUP)

    def wait_for_node(self, name):
        ports = os.path.join(self.folder, name + ".ports")
        self.node_ports[name] = self.nodes[name].wait_until(lambda: port_in(ports))

    def start_nodes(self, count):
        names = ["%s-n%d" % (self.prefix, number) for number in range(count)]
        for name in names:
            self.launch_node(name)
        for name in names:
            self.wait_for_node(name)
        until(lambda: len(self.registered()) == count, "all nodes are registered")

    def registered(self):
        return self.etcd.keys("/%s/nodes/" % self.prefix)

    def launch_proxy(self, label, *options):
        words = ["pointer_table.path=/" + self.table, "pointer_table.entries=4096", *options]
        command = [os.path.join(self.build, "farcached"), *as_whom(), "-l", "127.0.0.1", "-p", "-1", "-U", "0", "-t", "1",
                   "--discover", self.source, "-o", ",".join(words)]
        self.proxies[label] = Process(label, command, None, self.folder, {"MEMCACHED_PORT_FILENAME": self.port_file(label)})

    def port_file(self, label):
        return os.path.join(self.folder, label + ".ports")

    def wait_for_proxy(self, label):
        self.ports[label] = self.proxies[label].wait_until(lambda: port_in(self.port_file(label)))
        return self.ports[label]

    def is_up(self, label, count=None):
        """Is the proxy connected to each node of its list, and are these as many?"""
        shown = stats(self.ports[label], "nodes", seconds=30)
        nodes = [name[:-len(":state")] for name in shown if name.endswith(":state")]
        return len(nodes) == (count or len(self.nodes)) and all(
            shown[name + ":state"] == "up" and shown[name + ":links"] == shown[name + ":links_up"] for name in nodes)

    def until_up(self):
        for label in self.ports:
            until(lambda label=label: self.is_up(label), "%s is connected to all nodes" % label)

    def keys_of(self, node, label, count):
        """Keys whose node this is."""
        found, number = [], 0
        while len(found) < count:
            key = "key-%d" % number
            if stats(self.ports[label], "route " + key)["node"] == node:
                found.append(key)
            number += 1
        return found

    def log_of(self, label):
        return os.path.join(self.folder, label + ".err")


def etcd_numbers(etcd):
    """{name: number} of /metrics: unary requests, messages of watches and keepalives, events, bytes sent, CPU seconds."""
    with urllib.request.urlopen(etcd.url() + "/metrics", timeout=WAIT_S) as answer:
        text = answer.read().decode()

    def total(pattern):
        return sum(float(number) for number in re.findall(r"^%s (\S+)$" % pattern, text, re.M))
    return {"range": total(r'grpc_server_handled_total\{.*grpc_method="Range".*\}'),
            "put": total(r'grpc_server_handled_total\{.*grpc_method="(?:Put|Txn)".*\}'),
            "lease": total(r'grpc_server_msg_received_total\{.*grpc_method="Lease.*\}'),
            "watch": total(r'grpc_server_msg_sent_total\{.*grpc_method="Watch".*\}'),
            "events": total("etcd_debugging_mvcc_events_total"),
            "bytes": total("etcd_network_client_grpc_sent_bytes_total"),
            "cpu": total("process_cpu_seconds_total")}


def median_and_range(numbers, digits=2):
    return "%.*f (%.*f .. %.*f)" % (digits, statistics.median(numbers), digits, min(numbers), digits, max(numbers))
