# SPDX-License-Identifier: BSD-3-Clause
"""Nodes behind RDMA: gets without work for the node, shared pointers, nodes and proxies that are killed or stopped, and resources
left behind. Runs in a guest."""
import os
import sys

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(TESTS, "lib"), TESTS]
os.environ["FARCACHED_OVER"] = "shm=verbs"
import nodes.leases as nodes_leases  # noqa: E402
import nodes.reload as nodes_reload  # noqa: E402
import nodes.restart as nodes_restart  # noqa: E402
import nodes.stopped as nodes_stopped  # noqa: E402
from device_tools import resources  # noqa: E402
from farcached import until  # noqa: E402
from tap_output import tap  # noqa: E402


def main():
    before = resources()
    nodes_leases.shared()
    nodes_leases.idle_node(False)
    for still in (False, True):
        nodes_restart.old_mapping(False, still)
    nodes_restart.dies_under_load("shm shm tcp", 40)
    nodes_restart.proxy_dies()
    nodes_reload.reloads_under_load(30)
    if os.environ.get("FARCACHED_TEST_LONG"):
        nodes_restart.uniques()
        nodes_stopped.values_that_wait("shm")
    nodes_stopped.stopped_node()
    nodes_stopped.stopped_proxy(False)
    tap.is_(until(resources, lambda now: now == before), before, "no queue pair and no memory registered is left")
    tap.done()


main()
