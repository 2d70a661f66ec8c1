# SPDX-License-Identifier: BSD-3-Clause
"""Queries of a guest's RDMA device, and changes to it."""
import re
import subprocess


def output(*command, timeout=20):
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout).stdout


def run(*command, timeout=20):
    subprocess.run(command, check=True, timeout=timeout)


def resources():
    """The number of the device's objects of each kind, of all processes."""
    return re.sub(r"^\d+: ", "", output("rdma", "resource", "show"), flags=re.M)  # the number changes when the device is made again


def netdev():
    """The network device below it."""
    return re.search(r"netdev (\S+)", output("rdma", "link", "show")).group(1)


def delete_device(timeout):
    run("rdma", "link", "delete", "rxe0", timeout=timeout)


def add_device(below):
    run("rdma", "link", "add", "rxe0", "type", "rxe", "netdev", below)
