# SPDX-License-Identifier: BSD-3-Clause
"""Two nodes have each item (replicas = 2), and items are deleted: by flush_all, by prefix, and where only the copy is left because
the first node has evicted the item. No deleted item is found afterwards, also when the first node has died."""
import contextlib
import os
import shutil
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import etcd as etcd_servers  # noqa: E402
from cluster import all_up, nodes_shown  # noqa: E402
from daemon import is_sanitized, slow_factor  # noqa: E402
from etcd import Etcd  # noqa: E402
from farcached import Daemon, tap, until  # noqa: E402
from farctl import FOLDER, asked, at, farctl, path_of  # noqa: E402
from farnode import Farnode, NodeClient  # noqa: E402

etcd_servers.skip_without()
TTL = 5 if is_sanitized() else 2  # seconds
DELETED = ["gone:%d" % i for i in range(11)]
KEPT = ["kept:%d" % i for i in range(11)]
COMMANDS = {"delete %s": "NOT_FOUND", "touch %s 1000": "NOT_FOUND", "gat 1000 %s": "END", "incr %s 1": "NOT_FOUND",
            "append %s 0 0 1\r\nx": "NOT_STORED", "md %s": "NF", "mg %s T1000": "EN"}
LONG_S = 1000  # a time to live


class Fleet:
    """Nodes a and b; farcached `one` and `two`."""

    def __init__(self, stack, etcd, prefix):
        source = etcd.source(prefix=prefix)
        self.nodes = {name: stack.enter_context(Farnode("--tcp", "127.0.0.1:0", "-m", "16", "-t", "1", "--name", name, "--discover",
                                                        source, "--member-ttl", TTL)) for name in "ab"}
        # No warm_up: a miss at the first node is one, and no get moves the item there.
        options = "replicas=2,warm_up=0,node_timeout_ms=%d" % (1000 * slow_factor())
        self.daemons = {name: stack.enter_context(Daemon("--discover", source, "-o", options, "--admin", path_of(prefix[1:] + name),
                                                         threads=2)) for name in ("one", "two")}
        self.clients = {name: stack.enter_context(daemon.client()) for name, daemon in self.daemons.items()}
        self.at_nodes = {name: stack.enter_context(NodeClient(node.port)) for name, node in self.nodes.items()}
        for client in self.at_nodes.values():
            client.greet()
        self.until_list("ab")

    def until_list(self, names):
        for daemon in self.daemons.values():
            shown = until(lambda: nodes_shown(daemon), lambda shown: set(shown) == set(names) and all_up(shown))
            assert set(shown) == set(names), shown

    def store(self, keys):
        """Until both nodes have all of them."""
        for key in keys:
            said = until(lambda: self.clients["one"].set(key, key), lambda said: said == "STORED")
            assert said == "STORED", (key, said)
        return until(lambda: self.places(keys), lambda places: places == dict.fromkeys(keys, "ab"))

    def places(self, keys):
        """The names of the nodes that have the item."""
        def has(client, key):
            return client.get(key.encode()) is not None
        return {key: "".join(name for name, client in self.at_nodes.items() if has(client, key)) for key in keys}

    def found(self, keys):
        """By both farcached."""
        return {key for client in self.clients.values() for key in keys if client.get(key) is not None}

    def kill(self, name):
        self.nodes[name].expect_exit = -signal.SIGKILL
        self.nodes[name].stop(signal.SIGKILL)

    def lost(self, keys, name):
        """Of these keys those that are found after the node has died, before and after the list has lost it."""
        self.kill(name)
        before = self.found(keys)
        self.until_list([other for other in self.nodes if other != name])
        return before, self.found(keys)


def by_prefix(etcd):
    with contextlib.ExitStack() as stack:
        fleet = Fleet(stack, etcd, "/prefix")
        tap.is_(fleet.store(DELETED + KEPT), dict.fromkeys(DELETED + KEPT, "ab"), "each item is on two nodes")
        socket = at("prefixone")
        text = '22 items, copies included, beginning with "gone:" on 2 of 2 nodes'
        said = "%s: %s%%s\n" % (path_of("prefixone"), "%s" + text)
        tap.is_(farctl("delete-prefix", "gone:", "--dry-run", *socket), (0, said % ("", "; nothing is deleted"), ""),
                "a count by prefix counts copies, too")
        tap.is_(farctl("delete-prefix", "gone:", *socket), (0, said % ("deleted ", ""), ""), "a delete by prefix")
        tap.is_(fleet.found(DELETED), set(), "no farcached finds one of them")
        tap.is_(fleet.places(DELETED + KEPT), {**dict.fromkeys(DELETED, ""), **dict.fromkeys(KEPT, "ab")},
                "no node has one of them, and both have the others")
        tap.is_(fleet.lost(DELETED, "a"), (set(), set()), "the first node of some dies: no copy of a deleted item is found")
        tap.is_(fleet.found(KEPT), set(KEPT), "and the others are found")
        tap.is_(asked("delete-prefix", "gone:", *socket)[0]["items"], 0, "by prefix there is none left")


def flushed(etcd):
    with contextlib.ExitStack() as stack:
        fleet = Fleet(stack, etcd, "/flush")
        tap.is_(fleet.store(DELETED), dict.fromkeys(DELETED, "ab"), "items are stored")
        tap.is_(fleet.clients["two"].ask("flush_all"), "OK", "flush_all")
        tap.is_((fleet.found(DELETED), fleet.places(DELETED)), (set(), dict.fromkeys(DELETED, "")),
                "no farcached and no node has one")
        tap.is_(fleet.store(KEPT), dict.fromkeys(KEPT, "ab"), "later items have copies again")
        tap.is_(fleet.lost(DELETED, "b"), (set(), set()), "a node dies: no copy of a flushed item is found")
        tap.is_(fleet.found(KEPT), set(KEPT), "and the later ones are found")


def lacks(fleet, keys, command, reply):
    """The first node lacks the items, and the second one has their copies. [(key, reply, nodes that have it)] if that is not as
    wanted."""
    wrong = []
    for i, key in enumerate(keys):
        first = fleet.daemons["one"].stats("route " + key)["node"]
        client = fleet.clients[("one", "two")[i % 2]]

        def try_it():
            """Again, if a farcached has brought the item back."""
            fleet.store([key])
            fleet.at_nodes[first].delete(key.encode())
            return fleet.places([key])[key] == "ab".replace(first, "") and client.ask(command % key)
        said = until(try_it, lambda said: said == reply)
        places = fleet.places([key])[key]
        if (said, places, fleet.found([key])) != (reply, "", set()):
            wrong.append((key, said, places))
    return wrong


def only_the_copy(etcd):
    with contextlib.ExitStack() as stack:
        fleet = Fleet(stack, etcd, "/copy")
        for command, reply in COMMANDS.items():
            tap.is_(lacks(fleet, DELETED[:4], command, reply), [],
                    "only the copy is left: %s is a miss, and removes it" % command.split()[0])
        tap.is_(fleet.store(KEPT), dict.fromkeys(KEPT, "ab"), "items are stored")
        tap.is_({fleet.clients["two"].ask("touch %s %d" % (key, LONG_S)) for key in KEPT}, {"TOUCHED"}, "and touched")
        ends = {}
        for key in KEPT:
            for name, client in fleet.at_nodes.items():
                exptime, (now, _) = client.exptime(key.encode())
                ends[key, name] = exptime - now
        wrong = {where: left for where, left in ends.items() if not LONG_S - 60 * slow_factor() <= left <= LONG_S + 1}
        tap.is_(wrong, {}, "both nodes have the new time to live")


try:
    with Etcd() as server:
        by_prefix(server)
        flushed(server)
        only_the_copy(server)
finally:
    shutil.rmtree(FOLDER, ignore_errors=True)
tap.done()
