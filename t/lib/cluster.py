# SPDX-License-Identifier: BSD-3-Clause
"""Nodes, and farcached in front of them.

    with Cluster("shm tcp shm", proxies=2, local_read=False) as c:
        c.proxies[0].client().set("k", "v")
        node = c.node_of("k")
        c.kill(node)
        c.restart(node)

N1  A node's address (its path, its port) and name are its own for the cluster's life, over its restarts.
N2  Every cluster has a pointer table of its own, or several, for several hosts; they are unlinked at the end.
N3  Stopped processes are continued at the end, so that they can exit. Daemon checks the exit of nodes and proxies (H3), except of
    those that the test killed.

FARCACHED_NODES=MODE puts nodes behind every farcached that a script starts (Behind). MODE is "3shm", "3tcp", "3tls" (tcp with
TLS) or "mix", and with RDMA "3verbs" or "rdma" (a mix). -o options of farcached may follow behind commas: "mix,no_local_read".

FARCACHED_LINKS=OPTIONS gives every farcached of a Cluster these -o options: "rpc=rfp".
"""
import contextlib
import itertools
import os
import re
import shutil
import signal
import tempfile

import certificates
from binary_client import BinaryClient, op
from daemon import Closed, Daemon, StartFailed, default_binary, stat_words, test_program, until
from disk import BUSY, Disk
from farnode import Farnode

MIXES = {"mix": ("shm", "tcp", "shm"), "rdma": ("verbs", "tcp", "verbs")}
NUMBERS = itertools.count()


def channels_of(word):
    """"3shm" -> three times shm."""
    found = re.fullmatch(r"(\d+)(shm|tcp|tls|verbs)", word)
    return (found.group(2),) * int(found.group(1)) if found else MIXES[word]


class Table:
    """A unique name of a pointer table."""

    def __init__(self, entries=4096):
        self.name = "/farcached-test-%d-%d" % (os.getpid(), next(NUMBERS))
        self.entries = entries

    def options(self):
        return "pointer_table.path=%s,pointer_table.entries=%d" % (self.name, self.entries)

    def exists(self):
        return os.path.exists("/dev/shm" + self.name)

    def unlink(self):
        with contextlib.suppress(FileNotFoundError):
            os.unlink("/dev/shm" + self.name)


class Faults:
    """Injected faults (t/faulty/faulty.cc): the broken rule, and the plan of faults of connections and threads."""

    def __init__(self, plan, rule=""):
        self.environment = {"FARCACHED_FAULTS": plan, "FARCACHED_BREAK": rule}

    def path(self, program):
        return test_program("faulty/" + program)


class Build:
    """Used as Faults: the programs of another build's folder, as they are."""

    def __init__(self, folder):
        self.folder, self.environment = os.path.abspath(folder), {}

    def path(self, program):
        return os.path.join(self.folder, program)


def faulty(program, faults):
    """Arguments for a Daemon with these faults, if any, or of another build."""
    return {"binary": faults.path(program), "env": dict(faults.environment)} if faults else {}


class Node:
    """One node's address, and its current process."""

    def __init__(self, name, channel, folder, args, faults=None, env=None, kept=False, disk=None):
        self.name, self.channel, self.args = name, channel, [str(a) for a in args]
        if kept:
            self.args += ["-e", os.path.join(folder, name + ".items")]
        if disk is not None:
            self.args += Disk.at(os.path.join(folder, name + ".values"), **disk).long_options()
        self.tls = certificates.options_of_every_peer() if channel == "tls" else []
        self.env = env or {}
        self.faults = faults
        self.path = os.path.join(folder, name + ".sock")
        self.port = 0
        self.process = None

    def start(self):
        where = ["--shm", self.path] if self.channel == "shm" else ["--" + self.transport(), self.host_and_port(), *self.tls]
        named = faulty("farnode", self.faults)
        named["env"] = {**named.get("env", {}), **self.env}
        self.process = Farnode(*where, "--name", self.name, *self.args, **named)
        self.process.start()
        self.port = self.process.port or 0
        return self

    def end(self, number=signal.SIGTERM):
        """Ends the process, with the checks of its exit."""
        if self.process is None:
            return
        self.process.signal(signal.SIGCONT)
        if number == signal.SIGKILL:
            self.process.expect_exit = -signal.SIGKILL
            self.process.stop(number)
        process, self.process = self.process, None
        process.__exit__(None, None, None)

    def host_and_port(self):
        host = os.environ["FARCACHED_RDMA_ADDRESS"] if self.channel == "verbs" else "127.0.0.1"
        return "%s:%d" % (host, self.port)

    def address(self):
        return "shm:" + self.path if self.channel == "shm" else self.transport() + ":" + self.host_and_port()

    def transport(self):
        return "tcp" if self.channel == "tls" else self.channel

    def option(self):
        return ["--node", "%s=%s" % (self.name, self.address())]

    def cpu_ticks(self):
        """Clock ticks that the process has used, user and system together."""
        words = stat_words(self.process.pid)
        return int(words[11]) + int(words[12])


class Nodes:
    """Nodes that are started and ended together, in a folder of their own. $FARCACHED_OVER, for example "shm=verbs tcp=verbs",
    replaces channels by others. kept, or $FARCACHED_KEPT: each keeps its items over a restart, in a file. disk: rules of a Disk; or
    $FARCACHED_DISK, the megabytes of each node's memory: each has a disk, and all values move there and back. spill: arguments of
    all nodes but the last one, whose values move to the last one's memory; it has `lender_args` more."""

    def __init__(self, channels, args=(), faults=None, env=None, kept=False, disk=None, spill=None, lender_args=()):
        kept = kept or bool(os.environ.get("FARCACHED_KEPT"))
        if os.environ.get("FARCACHED_DISK") and disk is None and "-I" not in args:
            disk, args = BUSY, [*args, "-m", os.environ["FARCACHED_DISK"]]
        instead = dict(pair.split("=") for pair in os.environ.get("FARCACHED_OVER", "").split())
        channels = [instead.get(channel, channel) for channel in channels]
        self.folder = tempfile.mkdtemp(prefix="farcached-nodes-", dir="/dev/shm" if kept else None)
        self.all = [Node("n%d" % i, channel, self.folder, args, faults, env, kept, disk) for i, channel in enumerate(channels)]
        self.spill = spill
        self.all[-1].args += [str(a) for a in lender_args]

    def start(self):
        try:
            if self.spill is not None:
                lender = self.all[-1].start()
                for node in self.all[:-1]:
                    node.args += ["--spill-to", lender.name + "=" + lender.address(), *self.spill]
            for node in self.all:
                if node.process is None:
                    node.start()
        except BaseException:
            self.end()
            raise
        return self

    def end(self):
        for node in self.all:
            node.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def options(self):
        return [word for node in self.all for word in node.option()] + next((node.tls for node in self.all if node.tls), [])


def nodes_shown(daemon):
    """{node: {name: value}} of `stats nodes`, in the daemon's protocol."""
    try:
        found = daemon.stats("nodes")
    except Closed:
        with BinaryClient(daemon.client()) as b:
            found = b.stat("nodes")[1]
    shown = {}
    for key, value in found.items():
        node, _, what = key.rpartition(":")
        shown.setdefault(node, {})[what] = value
    return shown


READS_OVER = ("reads_completed", "reads_failed_transport", "reads_failed_owner", "reads_failed_lost")


def reads_over(shown):
    """Has each READ that was posted to these nodes completed or failed, and been counted once?"""
    return all(int(s["reads_posted"]) == sum(int(s[name]) for name in READS_OVER) for s in shown.values())


# Reads by pointer that found a state that no lease allows: an older item, another key, or an impossible length. (Reads by the
# index may find these.)
AWRY = ("read_invalid_generation", "read_invalid_key", "read_invalid_length")


def all_up(shown):
    return bool(shown) and all(s["links"] == s["links_up"] and s["state"] == "up" for s in shown.values())


def until_up(daemon):
    """Waits until every worker of the daemon is connected to every node."""
    if not all_up(until(lambda: nodes_shown(daemon), all_up)):
        raise StartFailed("links were not established: %s; %s" % (nodes_shown(daemon), daemon.stderr()))


class Behind:
    """The nodes that FARCACHED_NODES puts behind one farcached. Arguments about the cache go to the nodes, too. Arguments that only
    a node accepts are removed from the daemon's."""

    OF_THE_CACHE = {"-m": 1, "-I": 1, "-L": 0, "-M": 0}
    NOT_OF_A_PROXY = {"-M"}

    def __init__(self, mode, daemon_args):
        word, *self.suboptions = mode.split(",")
        args, given = ["-t", "2"], [str(a) for a in daemon_args]
        for i, word_given in enumerate(given):
            if word_given in self.OF_THE_CACHE:
                args += given[i:i + 1 + self.OF_THE_CACHE[word_given]]
        self.table = Table()
        self.nodes = Nodes(channels_of(word), args)

    def start(self):
        self.nodes.start()

    def until_up(self, daemon):
        """Waits for the links, then unlinks the table: its name is not needed any more, and a killed test leaves none behind."""
        until_up(daemon)
        self.table.unlink()

    def args_of(self, daemon_args):
        """The daemon's arguments, with nodes."""
        return [a for a in daemon_args if a not in self.NOT_OF_A_PROXY] + self.options()

    def options(self):
        patience = "node_timeout_ms=30000"  # every node answers in time, also on a busy machine
        return self.nodes.options() + ["-o", ",".join([self.table.options(), patience] + self.suboptions)]

    def end(self):
        self.nodes.end()
        self.table.unlink()

    @staticmethod
    def wanted(daemon):
        """The mode for this daemon, or None for other programs, and for a daemon whose arguments or file may name nodes."""
        mode = os.environ.get("FARCACHED_NODES")
        if not mode or daemon.binary != default_binary():
            return None
        return None if {"--node", "--config"} & set(daemon.args) else mode


class Cluster:
    """`proxies` farcached, each with `threads` workers, in front of nodes; options: of -o, "name=value". local_read: of all, or [of
    each]. faults: Faults of all, or [of each proxy], with the programs for them; nodes have the first. tables: pointer tables,
    assigned to the proxies in turn."""

    def __init__(self, channels="shm shm shm", proxies=2, local_read=True, options=(), node_args=(), proxy_args=(),
                 threads=2, faults=None, proxy_env=None, node_env=None, tables=1, kept=False, disk=None, spill=None,
                 lender_args=()):
        self.tables = [Table() for _ in range(tables)]
        self.table = self.tables[0]
        self.proxy_env = proxy_env or {}
        self.faults = faults if isinstance(faults, list) else [faults]
        self.nodes_behind = Nodes(channels.split(), node_args, self.faults[0], node_env, kept, disk, spill,
                                  lender_args)
        self.nodes = self.nodes_behind.all
        self.proxy_args = ["-o", ",".join(["hash_tag={}", *options]), "-t", threads, *proxy_args]
        self.local_read = local_read if isinstance(local_read, list) else [local_read]
        self.failover = "failover" in options
        self.wanted = proxies
        self.started = 0
        self.proxies = []
        self.tags = {}

    def __enter__(self):
        try:
            self.nodes_behind.start()
            for _ in range(self.wanted):
                self.proxies.append(self.start_proxy())
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *_):
        self.end()
        return False

    def end(self):
        for node in self.nodes:
            if node.process is not None:
                node.process.signal(signal.SIGCONT)
        for proxy in self.proxies:
            self.end_proxy(proxy)
        self.nodes_behind.end()
        for table in self.tables:
            table.unlink()

    @staticmethod
    def end_proxy(proxy, number=signal.SIGTERM):
        proxy.signal(signal.SIGCONT)
        if number == signal.SIGKILL:
            proxy.expect_exit = -signal.SIGKILL
            proxy.stop(number)
        proxy.__exit__(None, None, None)

    def start_proxy(self, *more):
        number, self.started = self.started, self.started + 1
        mode = "local_read" if self.local_read[number % len(self.local_read)] else "no_local_read"
        named = faulty("farcached", self.faults[number % len(self.faults)])
        named["env"] = {**named.get("env", {}), **self.proxy_env}
        table = self.tables[number % len(self.tables)].options()  # a test's own options come behind and override it
        links = os.environ.get("FARCACHED_LINKS")
        proxy = Daemon(*self.nodes_behind.options(), "-o", table, *(["-o", links] if links else []), *self.proxy_args, "-o", mode,
                       "--admin", self.admin(number), *more, **named).start()
        try:
            until_up(proxy)
        except BaseException:
            proxy.stop()
            raise
        return proxy

    def admin(self, number):
        """The admin socket of proxy `number`, counted from the first."""
        return os.path.join(self.nodes_behind.folder, "admin%d" % number)

    # -- Faults of nodes -----------------------------------------------------------------------------

    @staticmethod
    def kill(node):
        """SIGKILL; proxies keep their connections, mappings and pointers."""
        node.end(signal.SIGKILL)

    def restart(self, node, wait=True):
        """Starts a new node at the dead one's address; wait: until all proxies are connected to it."""
        if node.process is not None:
            self.kill(node)
        node.start()
        if wait:
            self.until_up()

    def until_up(self):
        for proxy in self.proxies:
            if proxy.alive():
                until_up(proxy)

    def until_seen_down(self, node):
        """Waits until no proxy has a connection to it. With failover its keys are at other nodes then."""
        for proxy in self.proxies:
            until(lambda: nodes_shown(proxy)[node.name],
                  lambda shown: shown["links_up"] == "0" and (not self.failover or shown["fence"] == "out"))

    def unasked_by(self):
        """The counter of gets without a request to a node, for nodes of one channel."""
        return "get_local" if all(self.local_read) and self.nodes[0].channel == "shm" else "get_onesided"

    # -- Where keys are ------------------------------------------------------------------------------

    def node_of(self, key):
        """The node to which a key is sent: the one whose counter of stores moves when the key is stored."""
        daemon = next(p for p in self.proxies if p.alive())
        before = nodes_shown(daemon)
        with daemon.client() as c:
            reply = c.set(key, "where")
        if reply != "STORED":
            raise AssertionError("set: " + reply)
        after = nodes_shown(daemon)
        moved = [n for n in self.nodes if after[n.name]["set_twosided"] != before[n.name]["set_twosided"]]
        if len(moved) != 1:
            raise AssertionError("the set of %s went to %s" % (key, [n.name for n in moved]))
        return moved[0]

    def key(self, node, name):
        """A key with that prefix that belongs to this node. The first call for each node needs all nodes up; later calls do not."""
        for tag in itertools.count():
            if node in self.tags:
                return "{%d}%s" % (self.tags[node], name)
            self.tags.setdefault(self.node_of("{%d}" % tag), tag)


def newest_version(faults=None):
    """The protocol version that this build's farcached and farnode speak with each other, or others'."""
    with Cluster("tcp", proxies=1, threads=1, faults=faults) as c:
        return int(nodes_shown(c.proxies[0])["n0"]["protocol_version"])
