# SPDX-License-Identifier: BSD-3-Clause
"""Impossible settings give a message with the remedy, and farcached goes on with its other nodes. Runs in a guest."""
import contextlib
import ctypes
import os
import resource
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from cluster import Table, nodes_shown  # noqa: E402
from farcached import Daemon, deadline, tap, until  # noqa: E402
from farnode import Farnode, farnode_binary  # noqa: E402

PR_CAPBSET_DROP, CAP_IPC_LOCK = 24, 14  # linux/prctl.h, linux/capability.h
PLAIN = "10.97.0.1"  # of a device without RDMA
ADDRESS = os.environ["FARCACHED_RDMA_ADDRESS"]


def farnode_says(*limits, address=ADDRESS, user="root"):
    """(exit status, stderr) of a farnode that does not start."""
    try:
        done = subprocess.run([*limits, farnode_binary(), "-u", user, "-m", "32", "--insecure", "--verbs", address + ":0"],
                              capture_output=True, text=True, timeout=deadline() / 4)
    except subprocess.TimeoutExpired as served:
        return 0, served.stderr
    return done.returncode, done.stderr


def of_the_node():
    subprocess.run("ip link add plain0 type dummy; ip addr add 10.97.0.1/24 dev plain0; ip link set plain0 up", shell=True,
                   check=True, timeout=20)
    status, said = farnode_says(address=PLAIN)
    tap.ok(status != 0 and "no RDMA device has this address" in said, "an address of no device", status, said)
    status, said = farnode_says(address="10.98.0.1")
    tap.ok(status != 0 and "no RDMA device has this address" in said, "an address that is not here", status, said)
    with Farnode("--verbs", ADDRESS + ":0") as node:
        taken = subprocess.run([farnode_binary(), "-u", "root", "--insecure", "--verbs", "%s:%d" % (ADDRESS, node.port)],
                               capture_output=True, text=True, timeout=deadline())
        tap.ok(taken.returncode != 0 and "Address already in use" in taken.stderr, "a port that is taken",
               taken.returncode, taken.stderr)
    status, said = farnode_says("prlimit", "--memlock=65536:65536", user="nobody")
    tap.ok(status != 0 and "LimitMEMLOCK=infinity" in said, "memory that may not be locked", status, said)
    tap.diag(said.strip())
    os.chmod("/dev/infiniband/rdma_cm", 0o600)
    status, said = farnode_says(user="nobody")
    tap.ok(status != 0 and "/dev/infiniband" in said, "a device that this user may not open", status, said)
    tap.diag(said.strip())
    os.chmod("/dev/infiniband/rdma_cm", 0o666)


@contextlib.contextmanager
def proxy_of(nodes):
    """A farcached with these nodes and one over TCP, of which it serves only the latter; yields its stderr."""
    table = Table()
    patience_ms = 20_000  # an emulated device may refuse a connection late
    words = [word for node in nodes for word in ("--node", node)]
    try:
        with Farnode("--tcp", "127.0.0.1:0") as near, \
                Daemon("--node", "near=tcp:127.0.0.1:%d" % near.port, *words, "-t", "1",
                       "-o", table.options() + ",node_timeout_ms=%d" % patience_ms) as proxy:
            until(lambda: nodes_shown(proxy), lambda s: s["near"]["links_up"] == "1" and s["far"].get("down_reason"))
            with proxy.client() as client:
                stored = [client.set("k%d" % i, "v") for i in range(60)]
                found = [client.get("k%d" % i) for i in range(60)]
            tap.is_(set(stored), {"STORED", "SERVER_ERROR unavailable"}, "running nodes serve")
            tap.is_([s == "STORED" for s in stored], [v is not None for v in found], "their items are read")
            yield proxy.stderr().decode()
    finally:
        table.unlink()


def of_the_proxy():
    """A node address over RDMA without a listener, and an address without RDMA."""
    with proxy_of(["far=verbs:%s:1" % ADDRESS, "none=verbs:%s:1" % PLAIN]) as said:
        tap.is_(said.count("node far is down"), 1, "a missing node is logged once")
        tap.like(said, "node far is down: verbs:%s:1: no listener at this address" % ADDRESS, "with the reason")
        tap.like(said, "node none is down: verbs:%s:1: " % PLAIN, "and one without a device")


def of_what_may_be_locked():
    """A proxy without the right to lock memory, in front of a running node over RDMA. Processes started later lack the right,
    too."""
    with Farnode("--verbs", ADDRESS + ":0") as far:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))
        ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_IPC_LOCK)
        with proxy_of(["far=verbs:%s:%d" % (ADDRESS, far.port)]) as said:
            tap.is_(said.count("node far is down"), 1, "the refusal to lock memory is logged once")
            tap.like(said, "LimitMEMLOCK=infinity", "with the remedy")


of_the_node()
of_the_proxy()
of_what_may_be_locked()
tap.done()
