# SPDX-License-Identifier: BSD-3-Clause
"""Daemons on the hosts of a Network, which find each other in etcd.

    with Network("etcd", "a", "p") as network, Etcd(host=network.address("etcd"), on=network.on("etcd")) as etcd:
        with HostedNode(network, "a", "--discover", etcd.source()) as node, listening() as listener:
            with HostedProxy(network, "p", listener, "--discover", etcd.source()) as proxy:
                proxy.client().set("key", "value")
"""
import etcd
import network as networks
from daemon import is_sanitized
from farnode import Farnode
from service import Service
from tap_output import tap


def skip_without():
    etcd.skip_without()
    if not networks.is_possible():
        tap.skip_all("no network namespaces here")
    if is_sanitized():
        tap.skip_all("it waits for times to live, which are long for a sanitizer; t/fleet/discover_etcd.py has the same code")


class HostedNode(Farnode):
    """A node with the name of its host."""

    def __init__(self, network, host, *args, **more):
        self.on = network.on(host)
        super().__init__("--tcp", network.address(host) + ":0", "--insecure", "-m", "16", "-t", "1", "--name", host, *args, **more)

    def command(self):
        return self.on + super().command()

    def _reachable(self):
        self.ports = self.read_ports()
        return bool(self.ports)


class HostedProxy(Service):
    """Its clients are on the host of the test: it gets their socket from the test."""

    def __init__(self, network, host, listener, *args):
        self.on = network.on(host)
        super().__init__(None, *args, sockets=[(listener, "clients")])

    def command(self):
        return self.on + super().command()
