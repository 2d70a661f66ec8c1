# SPDX-License-Identifier: BSD-3-Clause
"""Running out of memory ends no daemon. During an operation the nth allocation fails, alone or with all later ones, for n = 1, 2,
... The operation is answered, refused, or its connection ends. The daemon goes on, serves a new connection, keeps stored items and
leaves no descriptor open. The same operation succeeds without the failure.

Two kinds of failure end a daemon, and are not tested here. At the start, threads included, it prints "failed to start: out of
memory" and exits with status 71. In a library's malloc(), libevent's refusal to watch a descriptor or to make a buffer ends in a
failed CHECK, which names its line. Any other case ends with "out of memory in an operation that cannot fail" and a crash report.

An argument names a part: shm, farnode-tcp, ..."""
import contextlib
import os
import signal
import socket
import struct
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from cluster import Nodes, Table, nodes_shown, until_up  # noqa: E402
from failing import ALONE, KEPT, LONG, MODES, Failing, Trial, binary, descriptors, numbers, store, text  # noqa: E402
from farcached import Client, Closed, Daemon, TimedOut, has_tls, is_sanitized, slow_factor, tap, until  # noqa: E402
from farctl import farctl  # noqa: E402
from farnode import REQUEST, Farnode, NodeClient  # noqa: E402
from http_get import get, http_args, http_env, http_port  # noqa: E402
from raw_proxy import WANT_GRANT, ShmProxy, access_record  # noqa: E402
from service import Manager, Service  # noqa: E402

SMALL, LARGE = b"v" * 100, b"V" * 300_000
VALUE_FOLLOWS = 1 << 18  # one of a request's flags


def half_then_rest(client):
    client.send(b"set op 0 0 %d\r\n" % len(LARGE), LARGE[:100_000])
    client.send(LARGE[100_000:], b"\r\nmn\r\n")
    return client.until(b"MN\r\n")


COMMANDS = {
    "get": text(b"get kept\r\n"),
    "multi-get": text(b"get kept " + b" ".join(b"m%d" % i for i in range(60)) + b"\r\n"),
    "gat": text(b"gat 0 kept\r\n"),
    "set": store(b"set op 0 0", SMALL),
    "set large": store(b"set op 0 0", LARGE),
    "get large": text(b"get op\r\n"),
    "append": store(b"append op 0 0", SMALL),
    "set in two parts": half_then_rest,
    "incr": text(b"set number 0 0 1\r\n7\r\nincr number 1\r\n"),
    "touch": text(b"touch op 100\r\n"),
    "delete": text(b"delete op\r\n"),
    "mg": text(b"mg kept v t f s c h l\r\n"),
    "mg vivify": text(b"mg vivified v N30\r\n"),
    "ms": text(b"ms op %d c\r\n%s\r\n" % (len(SMALL), SMALL)),
    "ma": text(b"ma number N0 v\r\n"),
    "md": text(b"md op I\r\n"),
    "me": text(b"me kept\r\n"),
    "pipeline": text(b"get kept\r\nset op 0 0 1\r\nx\r\nmg op v\r\n" * 30),
    "verbosity": text(b"verbosity 0\r\n"),
    "cache_memlimit": text(b"cache_memlimit 64\r\n"),
    "metadump": text(b"lru_crawler metadump all\r\n"),
    "mgdump": text(b"lru_crawler mgdump all\r\n"),
    "crawl": text(b"lru_crawler crawl all\r\n"),
    "binary get": binary(0x00, b"kept"),
    "binary set": binary(0x01, b"op", bytes(8), SMALL),
    "binary set large": binary(0x01, b"op", bytes(8), LARGE),
    "binary incr": binary(0x05, b"number", struct.pack("!QQI", 1, 1, 0)),
    "binary delete": binary(0x04, b"op"),
    "binary stats": binary(0x10),
    "binary stats settings": binary(0x10, b"settings"),
}
STATS = ("", "settings", "items", "slabs", "conns", "sizes", "nodes", "latency", "hotkeys", "hotkeys reset", "slow_log", "proxy",
         "leases", "pointers", "config", "extstore", "reset", "detail on", "detail dump", "detail off", "cachedump 5 10",
         "route kept", "node n0", "node n0 all", "node n0 leases", "node n0 classes", "node n0 connections")
for group in STATS:
    COMMANDS[("stats " + group).strip()] = text(b"stats %s\r\n" % group.encode())
STREAMS = "fetchers mutations evictions connevents deletions proxyreqs proxyevents refusals"


def watching(trial):
    """Events for a watcher: an event may be lost, but the watcher stays connected."""
    def watch(arm):
        with trial.client() as c:
            c.send(b"mn\r\n")
            c.until(b"MN\r\n")
            arm()
            c.send(b"watch " + STREAMS.encode() + b"\r\n")
            c.until(b"\r\n")
    trial.run("watch", watch)
    with trial.client() as watcher:
        if watcher.ask("watch " + STREAMS) != "OK":
            return tap.ok(False, trial.where + ": a watcher")
        trial.settled = None

        def once(arm):
            arm()
            with trial.client() as c:
                c.send(b"get kept\r\nset op 0 0 1\r\nx\r\ndelete op\r\nmn\r\n")
                c.until(b"MN\r\n")
        trial.run("events while watching", once)
        with trial.client() as c:
            c.send(b"get last_event\r\nmn\r\n")
            c.until(b"MN\r\n")
        watcher.until(b"key=last_event")
    trial.settled = None


def flushing(trial):
    trial.command("flush_all later", text(b"flush_all 100000\r\n"))
    trial.command("flush_all", text(b"flush_all\r\n"), stored_anew=True)
    trial.command("binary flush_all", binary(0x08), stored_anew=True)
    trial.keep()


def everything(trial):
    tap.is_(trial.keep(), "STORED", trial.where + ": a value is stored")
    watching(trial)
    trial.opening()
    trial.each(COMMANDS)
    if trial.all_alive():
        flushing(trial)
    return trial.told()


# -- The operator, a Unix socket, HTTP -----------------------------------------------------------------------

def ask(line, end=b"\r\n"):
    def run(client):
        client.send(line, b"\r\n")
        return client.until(end)
    return run


def operator(trial, path, with_nodes):
    """At --admin: the text protocol, and the commands of this socket alone."""
    by_clients, trial.client = trial.client, lambda: Client(path)
    where, trial.where = trial.where, trial.where + ", the operator"
    trial.opening()
    commands = {"version": ask(b"version"), "stats": text(b"stats\r\n"), "stats config": text(b"stats config\r\n"),
                "delete_prefix": ask(b"delete_prefix op"), "count_prefix": text(b"count_prefix mine op\r\n"),
                "count_prefix deleted": text(b"count_prefix deleted op\r\n"), "sample_keys": text(b"sample_keys\r\n")}
    if with_nodes:
        commands.update({"drain": ask(b"drain other"), "undrain": ask(b"undrain n0")})
    trial.each(commands)

    def by_farctl(arm):
        arm()
        farctl("--json", "--socket=" + path, "status")
    if trial.all_alive():
        trial.run("farctl status", by_farctl)
    trial.client, trial.where = by_clients, where


def http(trial, port, pages):
    def page(path, **more):
        def once(arm):
            arm()
            with contextlib.suppress(Exception):  # including http.client's errors for a closed connection
                get(port, path, **more)
        return once
    # The first request opens a session of two descriptors, which the daemon keeps; a failed allocation may close it for a while.
    before = trial.settled
    tap_status(port, pages[0])
    trial.settled = None if before is None else until(
        lambda: descriptors(trial.victim.pid), lambda count: count <= before + 2, timeout=5)
    for path in pages:
        trial.run("HTTP " + path, page(path), lambda arm, path=path: tap_status(port, path))
    trial.run("HTTP POST", page("/", method="POST"))
    trial.run("HTTP of another host", page("/metrics", headers={"Host": "example.com"}))
    trial.run("HTTP OpenMetrics", page("/metrics", headers={"Accept": "application/openmetrics-text"}))


def tap_status(port, path):
    status, _, _ = get(port, path)
    if status not in (200, 404):
        raise AssertionError("%s: %d" % (path, status))


PAGES = ("/", "/status.json", "/history.json", "/metrics", "/healthz", "/readyz", "/none")


# -- Parts of the test ---------------------------------------------------------------------------------------

def embedded(folder, io):
    failing = Failing(folder, io)
    with Daemon("-o", "io=" + io, "-I", "2m", "-m", "64", env=failing.env, threads=1) as daemon:
        return everything(Trial("embedded, io=" + io, daemon, failing))


def embedded_otherwise(folder):
    """Over a Unix socket, with the admin socket, HTTP, all log lines and a list of slow requests."""
    failing, admin = Failing(folder, "otherwise"), os.path.join(folder, "admin")
    with Daemon("-s", os.path.join(folder, "unix"), "--admin", admin, *http_args(), "-vv", "-o", "slow_log_ms=1,track_sizes",
                "-I", "2m", "-m", "64", env={**failing.env, **http_env(folder)}, threads=1) as daemon:
        trial = Trial("a Unix socket", daemon, failing)
        tap.is_(trial.keep(), "STORED", trial.where + ": a value is stored")
        watching(trial)
        trial.opening()
        trial.each({name: COMMANDS[name] for name in ("get", "set", "set large", "pipeline", "stats slow_log", "stats sizes")})
        if trial.all_alive():
            http(trial, http_port(folder), PAGES)
        if trial.all_alive():
            operator(trial, admin, with_nodes=False)
        return trial.told()


def over_tls(folder, io):
    """OpenSSL's own allocations do not fail."""
    if not has_tls():
        return 0
    failing, os.environ["FARCACHED_TLS"] = Failing(folder, "tls-" + io), "1.3"
    try:
        with Daemon("-o", "io=" + io, "-I", "2m", "-m", "64", env=failing.env, threads=1) as daemon:
            trial = Trial("over TLS, io=" + io, daemon, failing)
            tap.is_(trial.keep(), "STORED", trial.where)
            watching(trial)
            trial.opening()
            names = ("get", "set", "set large", "get large", "set in two parts", "pipeline", "metadump", "binary set large")
            trial.each({"refresh_certs": text(b"refresh_certs\r\n"), **{name: COMMANDS[name] for name in names}})
            return trial.told()
    finally:
        del os.environ["FARCACHED_TLS"]


def in_front_of_a_node(folder, channel, title="", options=(), threads=1):
    """farcached, with failing allocations, in front of farnode."""
    failing, admin = Failing(folder, channel + title), os.path.join(folder, "admin-" + channel + title)
    nodes, table = Nodes([channel], ["-m", "64", "-I", "2m", "-t", "1"]), Table()
    pages = os.path.join(folder, channel + title + "-http")
    os.mkdir(pages)
    try:
        nodes.start()
        with Daemon("-I", "2m", *nodes.options(), "-o", table.options(), *options, "--admin", admin, *http_args(),
                    env={**failing.env, **http_env(pages)}, threads=threads) as daemon:
            until_up(daemon)
            trial = Trial("farcached over " + channel + title, daemon, failing, [node.process for node in nodes.all])
            everything(trial)
            if trial.all_alive():
                http(trial, http_port(pages), ("/status.json", "/metrics", "/readyz"))
            if trial.all_alive():
                operator(trial, admin, with_nodes=True)
            return trial.told()
    finally:
        nodes.end()
        table.unlink()


class NodeTrial(Trial):
    """A trial of a farnode. Its clients are proxies' ends of connections that this test makes. They connect at once, while
    farcached waits longer after each lost connection."""

    def begin(self, client, name):
        client.greet()

    def keep(self):
        with self.client() as c:
            c.greet()
            return "STORED" if c.set(b"kept", KEPT) else "SERVER_ERROR"

    def kept(self):
        with self.client() as c:
            c.greet()
            return c.get(b"kept")


def in_pieces(end, tag=7):
    """A large value, in chunks behind its request."""
    head = REQUEST.pack(2, 0, 5, VALUE_FOLLOWS, len(LARGE), tag) + b"large" + struct.pack("<II", 0, 0)
    end.send_frame(4, 1, 1, head)
    for at in range(0, len(LARGE), 30_000):
        end.send_frame(6, 0, 1, struct.pack("<IIQ", tag, 0, at) + LARGE[at:at + 30_000])
    return end.reply()


def ask_node(op, key=b"", fixed=b"", value=b"", flags=0):
    return lambda end: end.request(op, key, fixed, value, flags).reply()


def then_ping(kind, count, body):
    """A frame without a reply, and then a ping, which has one."""
    def run(end):
        end.send_frame(kind, count, 2, body)
        end.clock()
    return run


REQUESTS = {
    "get": ask_node(1, b"kept"), "get of nothing": ask_node(1, b"none"), "get and grant": ask_node(1, b"kept", flags=WANT_GRANT),
    "store": ask_node(2, b"op", bytes(8), SMALL), "store 40 kB": ask_node(2, b"op", bytes(8), b"v" * 40_000),
    "get 40 kB": ask_node(1, b"op"), "store in pieces": in_pieces, "get in pieces": ask_node(1, b"large"),
    "delete": ask_node(3, b"op"), "forget": ask_node(5, b"op"),
    "arith": lambda end: (end.set(b"number", b"7"), ask_node(4, b"number", struct.pack("<QQ", 1, 1))(end)),
    "flush at": ask_node(7, fixed=struct.pack("<II", 1 << 30, 0)), "flush prefix": ask_node(9, b"op"),
    "ping": lambda end: end.clock(), "accesses": then_ping(11, 1, access_record(1, 64, 65536, 0, 1)),
}
for group in ("", "general", "leases", "classes", "all", "connections", "none"):
    REQUESTS[("stats " + group).strip()] = ask_node(8, group.encode())


def shm_proxy(path, timeout):
    """A node without memory for the connection closes it in the middle of the greeting."""
    try:
        return ShmProxy(path, NodeClient.layout, timeout)
    except socket.timeout:
        raise TimedOut(b"") from None
    except (OSError, ValueError, struct.error):
        raise Closed(b"") from None


def of_a_proxy(trial):
    tap.is_(trial.keep(), "STORED", trial.where + ": a value is stored")

    def arrival(arm):
        arm()
        with trial.client(timeout=slow_factor()) as c:
            c.greet()

    def at_rest(arm):
        with trial.client() as c:
            c.greet()
    trial.run("a connection and its greeting", arrival, at_rest, may_wait=True)
    trial.each(REQUESTS)
    trial.command("flush", ask_node(6), stored_anew=True)
    trial.keep()


def farnode(folder, channel):
    """A farnode with both channels; the trial uses `channel`."""
    failing, path = Failing(folder, "farnode-" + channel), os.path.join(folder, "node-" + channel)
    admin, pages = os.path.join(folder, "admin-of-" + channel), os.path.join(folder, "pages-of-" + channel)
    os.mkdir(pages)
    with Farnode("--shm", path, "--tcp", "127.0.0.1:0", "-m", "64", "-I", "2m", "--admin", admin, *http_args(),
                 env={**failing.env, **http_env(pages)}, threads=1) as node:
        if NodeClient.layout is None:
            with node.node_client() as c:
                c.learn_layout()
        shm = channel == "shm"
        trial = NodeTrial("farnode over " + channel, node, failing, client=(
            lambda timeout=None: shm_proxy(path, timeout)) if shm else lambda timeout=None: NodeClient(node.port, timeout=timeout))
        of_a_proxy(trial)
        if shm and trial.all_alive():
            trial.command("report", reporting)
        if trial.all_alive():
            http(trial, http_port(pages), ("/metrics", "/healthz", "/readyz", "/none"))
        if shm and trial.all_alive():
            at_admin = Trial("farnode, the operator", node, failing, client=lambda: Client(admin))
            at_admin.served = lambda operation, _: trial.served(operation, False)
            at_admin.begin = lambda client, name: client.ask("version")
            at_admin.each({"version": ask(b"version"), **{"stats " + group: ask(b"stats " + group.encode(), b"END\r\n")
                                                          for group in ("general", "all", "config")}})
            trial.failures += at_admin.failures
        return trial.told()


def reporting(end):
    record = end.leased(b"leased")
    if record:
        end.report([record])


def through_farcached(folder, channel):
    """Failing allocations in a node behind farcached: the link ends, and is made again. Few values of n, since that takes a
    while."""
    failing = Failing(folder, "behind-" + channel)
    nodes, table = Nodes([channel], ["-m", "64", "-I", "2m", "-t", "1"], env=failing.env), Table()
    try:
        nodes.start()
        with Daemon("-I", "2m", *nodes.options(), "-o", table.options(), threads=1) as daemon:
            until_up(daemon)
            processes = [node.process for node in nodes.all]
            trial = Trial("farcached with a farnode over " + channel, daemon, failing, processes, every=4)
            trial.victim = nodes.all[0].process
            tap.is_(trial.keep(), "STORED", trial.where + ": a value is stored")
            trial.each({name: COMMANDS[name] for name in (COMMANDS if LONG else ("multi-get", "ma"))})
            return trial.told()
    finally:
        nodes.end()
        table.unlink()


# -- New processes for each failure -------------------------------------------------------------

class Anew:
    """New processes for each n: started, run with a failing allocation, checked, stopped."""

    def __init__(self, where, folder, modes=MODES):
        self.where, self.failing, self.modes, self.failures = where, Failing(folder, where), modes, 0

    def run(self, start, every, most):
        """start(): a context that gives (do, is_well): do(arm) runs the operation, is_well() returns an error text."""
        for mode in self.modes:
            for n in numbers(every, mode, most):
                with start() as (do, is_well):
                    do(lambda n=n: self.failing.arm(n, mode), mode)
                    failed = self.failing.disarm()
                    self.failures += failed
                    wrong = is_well()
                if wrong:
                    return tap.ok(False, self.where, "allocation %d, mode %d: %s" % (n, mode, wrong))
                if not failed:
                    break
        tap.diag("%s: %d allocations failed" % (self.where, self.failures))
        return tap.ok(True, self.where)


def start_is_over(daemon, admin):
    """Waits for a reload: the main thread does it after all of its start."""
    def reloads():
        with Client(admin) as c:
            return int(c.stats("config")["config_reloads"])
    daemon.signal(signal.SIGHUP)
    until(reloads, lambda count: count > 0)


def stops(folder):
    """SIGTERM: the shutdown is orderly, with exit status 0."""
    total = 0
    with contextlib.ExitStack() as stack:
        nodes = Nodes(["shm"], ["-m", "64", "-t", "1"])
        stack.callback(nodes.end)
        nodes.start()
        table = Table()
        stack.callback(table.unlink)
        admin = os.path.join(folder, "stopped")
        options = ("-m", "64", "--admin", admin, *http_args())
        for name, program, args in (
                ("SIGTERM of farcached", Daemon, options),
                ("SIGTERM of farcached in front of a node", Daemon, (*options, *nodes.options(), "-o", table.options())),
                ("SIGTERM of farnode", Farnode, (*options, "--shm", os.path.join(folder, "stopped-node"), "--tcp", "127.0.0.1:0"))):
            trial = Anew(name, folder)

            @contextlib.contextmanager
            def start():
                daemon = program(*args, env=trial.failing.env, threads=1).start()
                start_is_over(daemon, admin)
                if program is Farnode:
                    with daemon.node_client() as c:
                        c.learn_layout()

                def do(arm, _):
                    if program is Daemon:
                        with daemon.client() as c:
                            c.set("k", "v")
                    arm()
                    daemon.signal(signal.SIGTERM)
                    daemon.wait()
                yield do, lambda: "" if daemon.process.poll() == 0 else "its status is %s: %s" % (
                    daemon.process.poll(), daemon.stderr().decode("latin-1")[-1500:])
                daemon.stop()
            trial.run(start, every=8, most=200)
            total += trial.failures
    return total


def a_link_comes_back(folder, channel):
    """A node is killed and started again."""
    trial = Anew("a link over %s that is lost and comes back" % channel, folder)
    nodes, table = Nodes([channel], ["-m", "64", "-t", "1"]), Table()
    admin = os.path.join(folder, "link-" + channel)

    @contextlib.contextmanager
    def start():
        nodes.start()
        daemon = Daemon(*nodes.options(), "-o", table.options(), "--admin", admin, env=trial.failing.env, threads=1).start()
        start_is_over(daemon, admin)
        until_up(daemon)

        def do(arm, mode):
            node = nodes.all[0]
            arm()
            node.end(signal.SIGKILL)
            node.start()
            until(lambda: links_up(daemon), lambda up: up == "1", timeout=2 if mode == ALONE else 0.2)

        def is_well():
            if not daemon.alive():
                return "it ended by %s: " % daemon.process.poll() + daemon.stderr().decode("latin-1")[-1500:]
            until_up(daemon)
            with daemon.client() as c:
                return "" if c.set("k", "v") == "STORED" and c.get("k") == b"v" else "it is not served"
        yield do, is_well
        daemon.stop()
        nodes.all[0].end()
    try:
        trial.run(start, every=6, most=120 if LONG else 40)
    finally:
        nodes.end()
        table.unlink()
    return trial.failures


def reloads(folder):
    """SIGHUP, by which nodes come and go and settings change. Each reload begins and ends with a message to the service manager,
    which gets the daemon's state throughout."""
    failing, path = Failing(folder, "reload"), os.path.join(folder, "reload.toml")
    nodes, table = Nodes(["shm", "tcp"], ["-m", "64", "-t", "1"]), Table()

    def write(which, idle):
        with open(path + ".new", "w") as f:
            f.write('idle_timeout = "%dh"\nslow_log_ms = %d\npermissions={u%d=[], "*"=["read","write","stats"]}\n' % ((idle,) * 3))
            for node in which:
                f.write('[[node]]\nname = "%s"\naddress = "%s"\n' % (node.name, node.address()))
        os.rename(path + ".new", path)
    try:
        nodes.start()
        write(nodes.all[:1], 1)
        with Manager() as manager, Service(manager, "--config", path, "-o", table.options(), watchdog_us=400_000, env=failing.env,
                                           threads=2) as daemon:
            manager.until("READY=1")
            trial = Trial("a reload", daemon, failing, [node.process for node in nodes.all])
            tap.is_(trial.keep(), "STORED", "a reload: a value is stored")

            def once(arm):
                trial.times = getattr(trial, "times", 0) + 1
                write(nodes.all[:1 + trial.times % 2], 1 + trial.times % 3)
                arm()
                daemon.signal(signal.SIGHUP)
                if manager.until(lambda told: "RELOADING" in told) is None or manager.until("READY=1") is None:
                    raise TimedOut(b"")
            trial.run("SIGHUP", once, stored_anew=True)
            tap.is_(daemon.stats("config")["config_last_result"], "ok", "a reload: without the failure it succeeds")
            return trial.told()
    finally:
        nodes.end()
        table.unlink()


def reports(folder):
    """Accesses by remote pointers, which are reported to the node."""
    failing = Failing(folder, "reports")
    nodes, table = Nodes(["shm"], ["-m", "64", "-t", "1"]), Table()
    try:
        nodes.start()
        options = table.options() + ",no_local_read,access_tracking=report,report_interval_ms=100"
        with Daemon(*nodes.options(), "-o", options, env=failing.env, threads=1) as daemon:
            until_up(daemon)
            trial = Trial("reports", daemon, failing, [node.process for node in nodes.all], every=4)
            tap.is_(trial.keep(), "STORED", "reports: a value is stored")

            def sent():
                try:
                    return int(daemon.stats("proxy").get("reports_sent", 0))
                except (Closed, ConnectionError):
                    return 0

            def once(arm):
                before = sent()
                arm()
                with trial.client() as c:
                    for _ in range(5):
                        c.ask("get kept", end=("END", "SERVER_ERROR"))
                until(sent, lambda now: now > before, timeout=0.3)  # goes on at the timeout if no report is sent
            trial.run("reads that are reported", once, lambda arm: None, most=200 if LONG else 40)
            return trial.told()
    finally:
        nodes.end()
        table.unlink()


def links_up(daemon):
    try:
        return nodes_shown(daemon)["n0"]["links_up"]
    except Exception:  # the request found no memory
        return None


def main():
    if is_sanitized():
        tap.skip_all("a sanitizer has its own operator new")
    total = 0
    with tempfile.TemporaryDirectory(prefix="farcached-failing-") as folder:
        only = sys.argv[1:]
        for name, part in PARTS.items():
            if not only or name in only:
                total += part(folder)
    tap.ok(total > 0, "allocations failed: %d" % total)
    tap.done()


PARTS = {
    "libevent": lambda folder: embedded(folder, "libevent"),
    "uring": lambda folder: embedded(folder, "uring"),
    "tls": lambda folder: over_tls(folder, "libevent"),
    "tls-uring": lambda folder: over_tls(folder, "uring"),
    "otherwise": embedded_otherwise,
    "shm": lambda folder: in_front_of_a_node(folder, "shm"),
    "tcp": lambda folder: in_front_of_a_node(folder, "tcp"),
    "shared": lambda folder: in_front_of_a_node(folder, "tcp", ", a shared link", ("-o", "links_per_node=1"), threads=2),
    "farnode-shm": lambda folder: farnode(folder, "shm"),
    "farnode-tcp": lambda folder: farnode(folder, "tcp"),
    "behind-shm": lambda folder: through_farcached(folder, "shm"),
    "behind-tcp": lambda folder: through_farcached(folder, "tcp"),
    "stops": stops,
    "reloads": reloads,
    "reports": reports,
    "link-shm": lambda folder: a_link_comes_back(folder, "shm"),
    "link-tcp": lambda folder: a_link_comes_back(folder, "tcp"),
}

main()
