# SPDX-License-Identifier: BSD-3-Clause
"""A farcached whose nodes DNS names (--discover), and farnodes at addresses of the loopback interface.

    with NodeAt("127.0.0.2") as node, proxy_of(dns, "dnssrv+_farnode._tcp.srv.test", table=table) as proxy:
        until_nodes(proxy, ["pod-0.test:%d" % node.port])
"""
from cluster import all_up, nodes_shown
from daemon import connect
from farcached import Daemon, until
from farnode import Farnode, NodeClient

SERVICE = "_farnode._tcp.srv.test"
KEYS = ["key-%d" % i for i in range(200)]


class NodeAt(Farnode):
    """A farnode at this address."""

    def __init__(self, host, port=0, *args):
        self.host = host
        super().__init__("--tcp", "%s:%d" % ("[%s]" % host if ":" in host else host, port), "-m", "16", *args)

    def _reachable(self):
        self.ports = self.read_ports()
        if not self.ports:
            return False
        self.port = self.ports[0][1]
        try:
            connect(("127.0.0.1" if self.host == "*" else self.host, self.port), 1.0).close()
        except OSError:
            return False
        return True

    def node_client(self):
        return NodeClient(self.port, self.host)

    def others(self):
        """Its connections, without this one."""
        with self.node_client() as c:
            c.greet()
            stats = c.node_stats(b"general")
        return int(stats["connections_opened"]) - int(stats["connections_over"]) - 1

    def shown(self):
        """The name that it gets."""
        return "%s:%d" % ("[%s]" % self.host if ":" in self.host else self.host, self.port)


def proxy_of(dns, source, *options, table, args=(), env=None):
    return Daemon("--discover", source, "-o", ",".join(["discover_dns_server=" + dns.address(), "node_timeout_ms=30000",
                                                        table.options(), *options]), *args, env=env, threads=2)


def until_nodes(proxy, names):
    """Waits until exactly these nodes are in use and connected; whether they are."""
    seen = until(lambda: nodes_shown(proxy), lambda shown: set(shown) == set(names) and all_up(shown))
    return set(seen) == set(names) and all_up(seen)


def until_discovery(proxy, name, accept):
    return until(lambda: proxy.stats("discovery")[name], accept)


def owners(proxy):
    """{key: node}"""
    with proxy.client() as c:
        return {key: c.stats("route " + key)["node"] for key in KEYS}
