# SPDX-License-Identifier: BSD-3-Clause
"""Nodes in etcd whose memory is mapped (discover_shm): those with a socket on this host, and only if it is the one that the node
registered. Whatever is at its path otherwise, the node is reached over TCP, and no value comes from another node. With a real etcd.
(t/fleet/replicas_mapped.py has two copies of each item.)
"""
import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import etcd as etcd_servers  # noqa: E402
from cluster import Table, all_up, nodes_shown  # noqa: E402
from etcd import Etcd  # noqa: E402
from farcached import Daemon, Pace, tap, until  # noqa: E402
from farnode import Farnode  # noqa: E402
from ports import HeldPort  # noqa: E402

etcd_servers.skip_without()
KEYS = ["key-%d" % i for i in range(60)]
FOLDER = tempfile.TemporaryDirectory(prefix="farcached-test-")
os.chmod(FOLDER.name, 0o711)  # another user may look for a socket
KEY_FILE = os.path.join(FOLDER.name, "keys")
with open(KEY_FILE, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as keys:
    keys.write("proxy one %s\n" % secrets.token_hex(32))


def identity(path):
    """As the node registers it."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        boot = file.read().strip().replace("-", "")
    return "%s:%d:%d" % (boot, os.stat(path).st_dev, os.stat(path).st_ino)


def path_of(name):
    return os.path.join(os.path.realpath(FOLDER.name), name + ".sock")


def node(etcd, name, *args, port=0, kind=Farnode):
    return kind("--tcp", "127.0.0.1:%d" % port, "-m", "16", "-t", "1", "--name", name, "--discover", etcd.source(),
                "--member-ttl", "2", *args)


class Stranger(Daemon):
    """Not allowed to use sockets of this test: another user, or, without root, the same one after a chmod()."""

    def command(self):
        os.chmod(self.folder, 0o777)
        if os.geteuid() == 0:
            self.user = ["-u", "nobody"]
        return super().command()


@contextlib.contextmanager
def proxy(etcd, options, *args, kind=Daemon):
    table = Table()
    try:
        with kind("--discover", etcd.source(), "-o", options + table.options(), *args, threads=2) as daemon:
            yield daemon
    finally:
        table.unlink()


def links(daemon):
    """{node: connections over its socket, or None}, once all nodes are up."""
    shown = until(lambda: nodes_shown(daemon), all_up)
    return {name: one.get("links_shm") for name, one in shown.items()} if all_up(shown) else shown


def until_links(daemon, wanted):
    return until(lambda: links(daemon), lambda found: found == wanted)


class Pair:
    """A farcached that maps memory, and one that does not."""

    def __init__(self, stack, etcd, *args, options="", kind=Daemon):
        self.mapped = stack.enter_context(proxy(etcd, "discover_shm," + options, *args, kind=kind))
        self.plain = stack.enter_context(proxy(etcd, "", *args))
        self.one, self.two = stack.enter_context(self.mapped.client()), stack.enter_context(self.plain.client())
        self.round = 0

    def wrong(self):
        """What one of the two stores, the other must read: the differences."""
        self.round += 1
        wrong = []
        for i, key in enumerate(KEYS):
            here, there = (self.one, self.two) if i % 2 == 0 else (self.two, self.one)
            said = here.set(key, "%d-%s" % (self.round, key))
            got = {there.get(key), here.get(key)}
            if said != "STORED" or got != {b"%d-%s" % (self.round, key.encode())}:
                wrong.append((key, said, got))
        return wrong

    def mapped_reads(self):
        return int(self.mapped.stats("proxy")["get_local"])

    def homes(self):
        return [{key: daemon.stats("route " + key)["node"] for key in KEYS} for daemon in (self.mapped, self.plain)]


def mixed(etcd):
    """Node a has a socket here, b has none; a is restarted at its path, and killed."""
    with contextlib.ExitStack() as stack:
        port = stack.enter_context(contextlib.closing(HeldPort())).number
        a = stack.enter_context(node(etcd, "a", "--shm", path_of("a"), port=port))
        stack.enter_context(node(etcd, "b"))
        found = until(etcd.keys, lambda keys: set(keys) == {"a", "b"})
        record = json.loads(found["a"][0])
        tap.is_((record["addresses"].get("shm"), record.get("shm_socket")), (path_of("a"), identity(path_of("a"))),
                "a node registers its socket")
        tap.ok("shm" not in json.loads(found["b"][0])["addresses"], "one without a socket registers none")
        linked = os.path.join(FOLDER.name, "linked")
        os.symlink(FOLDER.name, linked)
        with node(etcd, "l", "--shm", os.path.join(linked, "l.sock")):
            found = until(etcd.keys, lambda keys: "l" in keys)
            tap.is_(json.loads(found["l"][0])["addresses"].get("shm"), path_of("l"), "a node registers its path without links")
        both = Pair(stack, etcd)
        tap.is_(until_links(both.mapped, {"a": "2", "b": None}), {"a": "2", "b": None}, "a is mapped, b is not")
        tap.is_(until_links(both.plain, {"a": None, "b": None}), {"a": None, "b": None}, "without the option neither is")
        tap.is_(both.wrong(), [], "each farcached reads what the other one stores")
        tap.ok(both.mapped_reads() > 0 and both.plain.stats("proxy")["get_local"] == "0", "one of them in mapped memory")
        homes = both.homes()
        tap.ok(homes[0] == homes[1] and set(homes[0].values()) == {"a", "b"}, "both send a key to the same node")
        for number, how in ((signal.SIGTERM, "restarted"), (signal.SIGKILL, "killed and started")):
            before = json.loads(etcd.keys()["a"][0])["incarnation"]
            a.expect_exit = 0 if number == signal.SIGTERM else -number
            a.stop(number)
            a = stack.enter_context(node(etcd, "a", "--shm", path_of("a"), port=port))
            found = until(lambda: etcd.keys().get("a"), lambda at: at and json.loads(at[0])["incarnation"] != before)
            tap.is_(found and json.loads(found[0])["shm_socket"], identity(path_of("a")), "a is %s at its path" % how)
            tap.is_(until_links(both.mapped, {"a": "2", "b": None}), {"a": "2", "b": None}, how + ": it is mapped again")
            read = both.mapped_reads()
            stored = until(both.wrong, lambda wrong: wrong == [])  # a node that registers refuses for a moment
            tap.is_(stored, [], how + ": each farcached reads what the other one stores")
            used = until(lambda: both.wrong() == [] and both.mapped_reads() > read, bool)  # a right ends on a busy machine
            tap.ok(used, how + ": in mapped memory")
            tap.is_(both.homes(), homes, how + ": by the same node")
        lines = [line for line in both.mapped.stderr().splitlines() if b"is not read in mapped memory" in line]
        tap.is_(lines, [], "a restart is no failure of the socket")


class Load:
    """A client that stores and reads until the end of the block, and counts what is not as it should be."""

    def __init__(self, daemon, key="load"):
        self.key = key
        self.daemon, self.ends, self.wrong, self.rounds = daemon, threading.Event(), [], 0
        self.thread = threading.Thread(target=self.run)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()

    def run(self):
        pace = Pace()
        with self.daemon.client() as client:
            while not self.ends.is_set():
                pace.rest()
                self.rounds += 1
                value = "load-%d" % self.rounds
                said = client.set(self.key, value), client.get(self.key)
                if said != ("STORED", value.encode()):
                    self.wrong.append((value, said))


def listening(path, kind=socket.SOCK_SEQPACKET, accepts=True):
    s = socket.socket(socket.AF_UNIX, kind)
    s.bind(path)
    if accepts:
        s.listen(64)
    return s


def incarnation_of(farnode):
    with farnode.node_client() as client:
        return str(client.greet()["incarnation"])


def counters(farnode):
    with Daemon("--node", "n=tcp:127.0.0.1:%d" % farnode.port) as daemon:
        until(lambda: nodes_shown(daemon), all_up)
        return daemon.stats("node n")


IS_MAPPED, IS_NOT, IS_ELSEWHERE = {"c": "2"}, {"c": "0"}, {"c": None}
HAS_CACHED = tuple(int(part) for part in os.uname().release.split(".")[:2]) >= (5, 12)  # RESOLVE_CACHED of openat2()
IS_LINKED = IS_NOT if HAS_CACHED else IS_MAPPED


def cases(at_c, x, twin):
    """(name, connections over the socket, fields of the record)"""
    def at(name, **more):
        return {"path": path_of(name), "shm_socket": identity(path_of(name)), **more}
    return (
        ("a path without anything", IS_NOT, {**at_c, "path": path_of("none")}),
        ("the socket of another node", IS_NOT, {**at_c, "path": path_of("x")}),
        ("a link to the node's own socket", IS_LINKED, {**at_c, "path": path_of("link")}),
        ("a link of the kernel to it", IS_LINKED, {**at_c, "path": "/proc/self/root" + path_of("c")}),
        ("another node, at a socket that the record names", IS_NOT, at("x")),
        ("another node, and its incarnation", IS_NOT, at("x", of=x)),
        ("a node of that name, of another incarnation", IS_NOT, at("twin")),
        ("the node's own socket, with the incarnation of another one", IS_NOT, {**at_c, "of": twin}),
        ("a socket without a process", IS_NOT, at("dead")),
        ("a socket of another kind", IS_NOT, at("stream")),
        ("a file", IS_NOT, {**at_c, "path": KEY_FILE}),
        ("a socket of another boot", IS_ELSEWHERE, {**at_c, "shm_socket": "0" * 32 + ":1:1"}),
        ("a path that is none", IS_ELSEWHERE, {**at_c, "path": 7}),
        ("a relative path", IS_ELSEWHERE, {**at_c, "path": "c.sock"}),
        ("no identity", IS_ELSEWHERE, {"path": path_of("c")}),
        ("no incarnation", IS_ELSEWHERE, {**at_c, "incarnation": "0"}),
        ("the node's own socket", IS_MAPPED, at_c),
    )


def records(etcd):
    """A record that this test writes: node c, which has not registered, and what else may be at its path. x is another node."""
    with contextlib.ExitStack() as stack:
        def unlisted(file, *args):
            return stack.enter_context(Farnode("--tcp", "127.0.0.1:0", "--shm", path_of(file), "-m", "16", "-t", "1", *args))
        c, x, twin = unlisted("c", "--name", "c"), unlisted("x", "--name", "x"), unlisted("twin", "--name", "c")
        incarnation = {one: incarnation_of(one) for one in (c, x, twin)}
        os.symlink(path_of("c"), path_of("link"))
        for name, more in (("dead", {"accepts": False}), ("stream", {"kind": socket.SOCK_STREAM}), ("mute", {})):
            stack.enter_context(listening(path_of(name), **more))

        def put(path=None, of=c, **fields):
            record = {"name": "c", "addresses": {"tcp": "127.0.0.1:%d" % c.port}, "incarnation": incarnation[of]}
            if path is not None:
                record["addresses"]["shm"] = path
            etcd.put("/far/nodes/c", json.dumps({**record, **fields}))

        at_c = {"path": path_of("c"), "shm_socket": identity(path_of("c"))}
        put(**at_c)
        both = Pair(stack, etcd)
        with Load(both.mapped) as load:
            for name, wanted, fields in cases(at_c, x, twin):
                put(**at_c)
                until_links(both.mapped, IS_MAPPED)
                put(**fields)
                tap.is_(until_links(both.mapped, wanted), wanted, name + (": mapped" if wanted == IS_MAPPED else ": not mapped"))
                read = both.mapped_reads()
                tap.is_(both.wrong(), [], name + ": each farcached reads what the other one stores")
                tap.ok((both.mapped_reads() > read) == (wanted == IS_MAPPED), name + ": in mapped memory, or not")
        tap.ok(load.rounds > 0 and load.wrong == [], "meanwhile no request failed", (load.rounds, load.wrong[:5]))
        put(**at_c)
        until_links(both.mapped, IS_MAPPED)
        os.chmod(path_of("c"), 0)
        with proxy(etcd, "discover_shm,", kind=Stranger) as late, late.client() as client:
            tap.is_(until_links(late, IS_NOT), IS_NOT, "a socket that may not be used: not mapped")
            tap.is_([key for key in KEYS if client.get(key) != both.one.get(key)], [], "and all values are right")
            tap.like(late.stderr(), r"node c is not read in mapped memory: \S+c\.sock: [^;]*Permission denied", "the log says why")
        put(path_of("mute"), shm_socket=identity(path_of("mute")))
        tap.is_(until_links(both.mapped, IS_NOT), IS_NOT, "a socket that says nothing: not mapped, after the timeout")
        tap.is_(both.wrong(), [], "a socket that says nothing: each farcached reads what the other one stores")
        put(**at_c)
        until_links(both.mapped, IS_MAPPED)
        os.rename(path_of("x"), path_of("c"))
        with proxy(etcd, "discover_shm,") as late, late.client() as client:
            tap.is_(until_links(late, IS_NOT), IS_NOT, "a socket that was moved over the node's own: not mapped")
            tap.is_([key for key in KEYS if client.get(key) != both.one.get(key)], [], "and all values are right")
            tap.like(late.stderr(), r"node c is not read in mapped memory: its socket is not at \S+c\.sock here; it is reached at "
                     r"tcp:127\.0\.0\.1:%d" % c.port, "the log says why")
        for why in (r"its socket is not at \S+none\.sock here", r"\S+x\.sock: another node, or another run of it, listens there",
                    r"\S+dead\.sock: [^;]*refused"):
            tap.like(both.mapped.stderr(), r"node c is not read in mapped memory: " + why, "the log says " + why)
        seen = {name: {key: counters(one)[key] for key in ("curr_items", "cmd_get", "cmd_set")}
                for name, one in (("x", x), ("twin", twin))}
        tap.is_(seen, dict.fromkeys(seen, {"curr_items": "0", "cmd_get": "0", "cmd_set": "0"}), "no other node saw a request")
    etcd.delete("/far/nodes/c")


def shared_links(etcd):
    """With links_per_node workers share a connection, but for a node whose memory is mapped. The change fails no request."""
    with contextlib.ExitStack() as stack:
        d = stack.enter_context(Farnode("--tcp", "127.0.0.1:0", "--shm", path_of("d"), "-m", "16", "-t", "1", "--name", "d"))
        record = {"name": "d", "addresses": {"tcp": "127.0.0.1:%d" % d.port}, "incarnation": incarnation_of(d)}
        with_socket = {**record, "addresses": {**record["addresses"], "shm": path_of("d")}, "shm_socket": identity(path_of("d"))}
        etcd.put("/far/nodes/d", json.dumps(record))
        both = Pair(stack, etcd, options="links_per_node=1,")
        loads = [stack.enter_context(Load(both.mapped, "load-%d" % i)) for i in range(4)]
        wrong, reads = [], 0
        for count in range(8):
            is_mapped = count % 2 == 0
            etcd.put("/far/nodes/d", json.dumps(with_socket if is_mapped else record))
            wanted = ("2", "2") if is_mapped else ("1", None)

            def seen():
                shown = nodes_shown(both.mapped)["d"]
                return (shown["links"], shown.get("links_shm")) if all_up({"d": shown}) else None
            found = until(seen, lambda found: found == wanted)
            if found != wanted or both.wrong():
                wrong.append((count, found))
            reads, before = both.mapped_reads(), reads
        tap.is_(wrong, [], "a node gets a socket and loses it: each worker has a connection, or they share one")
        tap.ok(reads > before, "it is read in mapped memory")
        tap.ok(all(load.rounds for load in loads) and not any(load.wrong for load in loads), "meanwhile no request failed",
               [load.wrong[:3] for load in loads])
    etcd.delete("/far/nodes/d")


def with_keys(etcd):
    """Over the socket, too, the node proves its key before its memory is mapped; one without it is not used."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(node(etcd, "a", "--shm", path_of("a"), "--auth-key-file", KEY_FILE))
        until(etcd.keys, lambda keys: set(keys) == {"a"})
        both = Pair(stack, etcd, "--auth-key-file", KEY_FILE)
        tap.is_(until_links(both.mapped, {"a": "2"}), {"a": "2"}, "with keys: the node is mapped")
        tap.is_(both.wrong(), [], "with keys: each farcached reads what the other one stores")
        tap.ok(both.mapped_reads() > 0, "with keys: in mapped memory")
        x = stack.enter_context(Farnode("--tcp", "127.0.0.1:0", "--shm", path_of("x"), "-m", "16", "-t", "1", "--name", "a"))
        value, lease = etcd.keys()["a"]
        record = json.loads(value)
        record["addresses"]["shm"] = path_of("x")
        etcd.put("/far/nodes/a", json.dumps({**record, "shm_socket": identity(path_of("x")),
                                             "incarnation": incarnation_of(x)}), lease=lease)
        log = until(both.mapped.stderr, lambda text: b"is not read in mapped memory" in text)
        tap.like(log, r"not read in mapped memory: node a has no keys, and proxy farcached demands authentication",
                 "with keys: a node without one is not used")


IN_CONTAINERS = os.path.join(os.path.realpath(FOLDER.name), "run")  # each has a folder of its own there


def container(kind, folder):
    """A program in a container: a mount namespace with this folder at IN_CONTAINERS."""
    class Contained(kind):
        def command(self):
            command = super().command()
            if kind is Farnode:
                self.path = os.path.join(folder, "node.sock")  # outside
            return ["unshare", "-m", "bash", "-c", mount(folder) + ' && exec "$0" "$@"', *command]
    return Contained


def mount(folder):
    return "mount --bind %s %s" % (folder, IN_CONTAINERS)


def in_containers(etcd):
    """Two nodes in containers have their sockets at the same path."""
    folders = {name: os.path.join(FOLDER.name, "of-" + name) for name in "ab"}
    for folder in (IN_CONTAINERS, *folders.values()):
        os.mkdir(folder)
    if subprocess.run(["unshare", "-m", "bash", "-c", mount(folders["a"])], capture_output=True, check=False).returncode != 0:
        return tap.skip("nodes in containers", "no mount namespace for us here")
    path = os.path.join(IN_CONTAINERS, "node.sock")
    with contextlib.ExitStack() as stack:
        for name, folder in folders.items():
            stack.enter_context(node(etcd, name, "--shm", path, kind=container(Farnode, folder)))
        records = {name: json.loads(value) for name, (value, _) in until(etcd.keys, lambda keys: set(keys) == set("ab")).items()}
        tap.is_({name: (one["addresses"]["shm"], one["shm_socket"]) for name, one in records.items()},
                {name: (path, identity(os.path.join(folder, "node.sock"))) for name, folder in folders.items()},
                "in containers: two nodes register sockets at one path")
        for title, kind, mapped in (("a container that shares the folder of a", container(Daemon, folders["a"]), "a"),
                                    ("a container that shares the folder of b", container(Daemon, folders["b"]), "b"),
                                    ("no container", Daemon, "")):
            both = Pair(stack, etcd, kind=kind)
            wanted = {name: "2" if name in mapped else "0" for name in "ab"}
            tap.is_(until_links(both.mapped, wanted), wanted, title + ": only the node whose socket is there is mapped")
            tap.is_(until(both.wrong, lambda wrong: not wrong), [], title + ": each farcached reads what the other one stores")
            tap.ok((both.mapped_reads() > 0) == bool(mapped), title + ": in mapped memory, or not")
            log = both.mapped.stderr()
            told = {name for name in "ab" if b"node %s is not read in mapped memory: its socket is not at %s here" %
                    (name.encode(), path.encode()) in log}
            tap.is_(told, set("ab") - set(mapped), title + ": the log says why")
    return None


with Etcd() as etcd:
    mixed(etcd)
    in_containers(etcd)
    records(etcd)
    shared_links(etcd)
    with_keys(etcd)
tap.done()
