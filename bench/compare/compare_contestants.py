# SPDX-License-Identifier: BSD-3-Clause
"""The contestants of `farbench compare`, all on the same CPUs.

    farcached, memcached, floor      by themselves
    farcached       -> 2 farnode     over shm and over tcp
    old farcached                    the same with another build: --old
    nutcracker      -> 2 memcached   over TCP and over Unix sockets
    memcached proxy -> 2 memcached   if the memcached has its built-in proxy
    mcrouter        -> 2 memcached

Every front end listens on TCP. C1: all processes of a contestant end with it, even after a failure. C2: the kernel chooses the
ports, except those of nutcracker and mcrouter. These are reserved until the program binds them.
"""
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
import types

from compare_contest import OLD
from compare_servers import Failed, Process, START_SECONDS, accepts, as_whom, port_in, stats

BACKS = ("a", "b")
PATIENCE_MS = 10_000  # proxy's timeout for its servers, long enough for a busy machine
READY_CONNECTIONS, READY_KEYS = 32, 16
DIRECT, PROXIED = "direct", "proxied"


class Contestant:
    """A running front end and, behind a proxy, its back ends. Owner: the caller of start(), until stop().

    group: DIRECT or PROXIED. ours: the baseline of the ratios. counts_requests: `stats` has cmd_get.
    """

    group = PROXIED
    ours = False
    stores = True
    counts_requests = False
    host = "127.0.0.1"

    def __init__(self, label, setup, cpus):
        self.label = label
        self.setup = setup  # paths of programs, megabytes, back_threads, connections_max
        self.cpus = cpus
        self.folder = None  # set while it runs
        self.backs = []
        self.front = None
        self.port = None

    @property
    def pid(self):
        return self.front.pid

    @property
    def back_pids(self):
        return [back.pid for back in self.backs]

    def at(self, _data):
        """The server that holds this data."""
        return self

    def start(self):
        self.folder = tempfile.mkdtemp(prefix="farcached-compare-")
        try:
            where = [self.start_back(name) for name in BACKS] if self.group == PROXIED else []
            self.start_front(where)
            wait_until_it_stores(self)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self):
        for process in ([self.front] if self.front else []) + self.backs:
            process.stop()
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)
        return self.path(name)

    def run_back(self, name, command, env=None):
        self.backs.append(Process(name, command, self.cpus, self.folder, env))
        return self.backs[-1]

    def run_front(self, command, env=None):
        self.front = Process("front", command, self.cpus, self.folder, env)

    def run_front_like_memcached(self, binary, more):
        ports = self.path("front.ports")
        self.run_front([binary] + as_whom() + ["-l", "127.0.0.1", "-p", "-1", "-U", "0", "-c", str(self.setup.connections_max)] +
                       more, {"MEMCACHED_PORT_FILENAME": ports})
        self.port = self.front.wait_until(lambda: port_in(ports))


class Direct(Contestant):
    """memcached, or a program with the same command line."""

    group = DIRECT
    counts_requests = True

    def __init__(self, label, setup, cpus, binary, threads, more=(), ours=False):
        super().__init__(label, setup, cpus)
        self.binary, self.threads, self.more, self.ours = binary, threads, list(more), ours

    def start_front(self, _where):
        self.run_front_like_memcached(self.binary, ["-t", str(self.threads), "-m", str(self.setup.megabytes)] + self.more)


class Floor(Contestant):
    """farbench floor: one process for each value length."""

    group = DIRECT
    stores = False

    def __init__(self, label, setup, cpus, threads, datas):
        super().__init__(label, setup, cpus)
        self.threads, self.datas, self.floors = threads, datas, []

    def start(self):
        self.floors = [OneFloor(self, data.value_bytes) for data in self.datas]
        for floor in self.floors:
            floor.start()
        return self

    def stop(self):
        for floor in self.floors:
            floor.stop()

    def at(self, data):
        return next(floor for floor in self.floors if floor.value_bytes == data.value_bytes)


class OneFloor(Contestant):
    group = DIRECT
    stores = False

    def __init__(self, floor, value_bytes):
        super().__init__(floor.label, floor.setup, floor.cpus)
        self.threads, self.value_bytes = floor.threads, value_bytes

    def start_front(self, _where):
        ports = self.path("floor.ports")
        self.run_front([self.setup.farbench, "floor", "--threads", str(self.threads), "--value-bytes", str(self.value_bytes),
                        "--port-file", ports])
        self.port = self.front.wait_until(lambda: port_in(ports))


class Farcached(Contestant):
    """farcached in front of two farnode. more: further arguments of farcached."""

    ours = True
    counts_requests = True

    def __init__(self, label, setup, cpus, threads, channel, more=()):
        super().__init__(label, setup, cpus)
        self.threads, self.channel, self.more = threads, channel, list(more)

    @property
    def table(self):
        return "/" + os.path.basename(self.folder)

    def start_back(self, name):
        ports, socket_path = self.path(name + ".ports"), self.path(name + ".sock")
        where = ["--shm", socket_path] if self.channel == "shm" else ["--tcp", "127.0.0.1:0"]
        back = self.run_back(name, [self.setup.farnode] + as_whom() + ["--name", name] + where +
                             ["-m", str(self.setup.megabytes), "-t", str(self.setup.back_threads)],
                             {"FARNODE_PORT_FILENAME": ports})
        if self.channel == "tcp":
            return "tcp:127.0.0.1:%d" % back.wait_until(lambda: port_in(ports))
        back.wait_until(lambda: os.path.exists(socket_path) or None)
        return "shm:" + socket_path

    def start_front(self, where):
        more = ["-t", str(self.threads)]
        for name, address in zip(BACKS, where):
            more += ["--node", "%s=%s" % (name, address)]
        more += ["-o", "node_timeout_ms=%d" % PATIENCE_MS, "-o", "pointer_table.path=" + self.table]
        self.run_front_like_memcached(self.setup.farcached, more + self.more)

    def stop(self):
        super().stop()
        if self.folder is not None and os.path.exists("/dev/shm" + self.table):
            os.unlink("/dev/shm" + self.table)  # farcached leaves it for its successor


class BehindMemcached(Contestant):
    """Contestants with memcached as back end."""

    unix = False

    def start_back(self, name):
        ports, socket_path = self.path(name + ".ports"), self.path(name + ".sock")
        where = ["-s", socket_path] if self.unix else ["-l", "127.0.0.1", "-p", "-1", "-U", "0"]
        back = self.run_back(name, [self.setup.memcached] + as_whom() + where + [
            "-m", str(self.setup.megabytes), "-t", str(self.setup.back_threads), "-c", str(self.setup.connections_max)],
            {"MEMCACHED_PORT_FILENAME": ports})
        if self.unix:
            return back.wait_until(lambda: socket_path if accepts(socket_path) else None)
        return "127.0.0.1:%d" % back.wait_until(lambda: port_in(ports))


NUTCRACKER = """proxied:
  listen: 127.0.0.1:{port}
  hash: fnv1a_64
  distribution: ketama
  timeout: {patience}
  backlog: 1024
  preconnect: true
  auto_eject_hosts: false
  servers:
{servers}"""


class Nutcracker(BehindMemcached):
    def __init__(self, label, setup, cpus, unix):
        super().__init__(label, setup, cpus)
        self.unix = unix

    def start_front(self, where):
        servers = "".join("   - %s:1 %s\n" % (address, name) for name, address in zip(BACKS, where))
        with held_port() as main, held_port() as told:
            port, stats_port = (s.getsockname()[1] for s in (main, told))
            conf = self.write("nutcracker.yml", NUTCRACKER.format(port=port, patience=PATIENCE_MS, servers=servers))
            self.run_front([self.setup.nutcracker, "-c", conf, "-a", "127.0.0.1", "-s", str(stats_port),
                            "-o", self.path("nutcracker.log"), "-p", self.path("nutcracker.pid")])
            self.front.wait_until(lambda: accepts(("127.0.0.1", port)) or None)
        self.port = port


class Mcrouter(BehindMemcached):
    def __init__(self, label, setup, cpus, threads):
        super().__init__(label, setup, cpus)
        self.threads = threads

    def start_front(self, where):
        conf = self.write("mcrouter.json", json.dumps({"pools": {"all": {"servers": where}}, "route": "PoolRoute|all"}))
        with held_port() as held:
            self.port = held.getsockname()[1]
            self.run_front([self.setup.mcrouter, "--config", "file:" + conf, "--port", str(self.port), "--num-proxies",
                            str(self.threads), "--async-dir", self.folder, "--stats-root", self.folder])
            self.front.wait_until(lambda: accepts(("127.0.0.1", self.port)) or None)


def held_port():
    """A port reserved by the kernel: no other process gets it by asking for any port, but SO_REUSEADDR can bind it by number."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held


PROXY_LUA = """function mcp_config_pools()
    return mcp.pool({{ {backends} }})
end

function mcp_config_routes(pool)
    local all = mcp.funcgen_new()
    local handle = all:new_handle(pool)
    all:ready({{ n = "all", f = function(context)
        return function(request) return context:enqueue_and_wait(request, handle) end
    end }})
    mcp.attach(mcp.CMD_ANY_STORAGE, all)
end
"""


class MemcachedProxy(BehindMemcached):
    def __init__(self, label, setup, cpus, threads):
        super().__init__(label, setup, cpus)
        self.threads = threads

    def start_front(self, where):
        backends = ", ".join('mcp.backend("%s", "127.0.0.1", %s)' % (name, address.rpartition(":")[2])
                             for name, address in zip(BACKS, where))
        conf = self.write("proxy.lua", PROXY_LUA.format(backends=backends))
        self.run_front_like_memcached(self.setup.memcached, ["-t", str(self.threads), "-o", "proxy_config=" + conf])


def help_of(binary):
    told = subprocess.run([binary, "-h"], capture_output=True, timeout=10, stdin=subprocess.DEVNULL)
    return (told.stdout + told.stderr).decode("utf-8", "replace")


def has_proxy(memcached):
    """Does this memcached include the built-in proxy?"""
    return "proxy_config" in help_of(memcached)


def io_choices(farcached):
    """{socket back end: arguments} for the io back ends of this farcached; {} if it has only one."""
    known = re.search(r"(?m)^\s*(?:-o )?io=", help_of(farcached))
    return {io: ["-o", "io=" + io] for io in ("libevent", "uring")} if known else {}


def uses(contestant, io):
    """Does it use that back end? It falls back where the kernel refuses io_uring."""
    return stats(contestant.port).get("farcached_io") == io


def wait_until_it_stores(contestant):
    """Waits until each thread of the front end is connected to each back end: sets through many connections succeed."""
    end = time.monotonic() + START_SECONDS
    last = b""
    lines = b"".join(b"set compare-ready-%d 0 0 1\r\nx\r\n" % i for i in range(READY_KEYS))
    wanted = b"STORED\r\n" * READY_KEYS
    ready = 0
    while ready < READY_CONNECTIONS:
        if time.monotonic() > end:
            raise Failed("%s does not store: its reply is %r" % (contestant.label, last.decode("latin-1")))
        with socket.create_connection(("127.0.0.1", contestant.port), 10) as s:
            s.sendall(lines)
            last = b""
            while last.count(b"\r\n") < READY_KEYS:
                more = s.recv(65536)
                if not more:
                    break
                last += more
        ready = ready + 1 if last == wanted else 0
        if not ready:
            time.sleep(0.02)


URING = " io=uring"


def builds(setup):
    """[(prefix of the labels, setup)] of this build, and of the old build if there is one."""
    return [("", setup)] + ([(OLD, types.SimpleNamespace(**{**vars(setup), **setup.old}))] if setup.old else [])


def direct_contestants(setup, cpus, threads, datas, again=False):
    """Makes the contestants without starting them, ours first. datas: the values that the floor returns."""
    found = []
    for prefix, build in builds(setup):
        for io, more in (io_choices(build.farcached) or {"libevent": []}).items():
            label = prefix + "farcached" + (URING if io == "uring" else "")
            found.append(Direct(label, build, cpus, build.farcached, threads, more, ours=True))
    if again:
        found.append(Direct("farcached again", setup, cpus, setup.farcached, threads, found[0].more, ours=True))
    if setup.memcached:
        found.append(Direct("memcached", setup, cpus, setup.memcached, threads))
    if datas:
        found.append(Floor("floor", setup, cpus, threads, datas))
    return found


def proxied_contestants(setup, cpus, threads):
    """The same for proxies. nutcracker has only one thread, so it compares with `-t 1`."""
    found = []
    for prefix, build in builds(setup):
        choices = io_choices(build.farcached) or {"libevent": []}
        for io, more in choices.items():
            name = prefix + "farcached" + (URING if io == "uring" else "")
            for n in sorted({1, threads}):
                found.append(Farcached("%s -t %d -> 2 farnode (shm)" % (name, n), build, cpus, n, "shm", more))
        found.append(Farcached(prefix + "farcached -t 1 -> 2 farnode (tcp)", build, cpus, 1, "tcp", choices["libevent"]))
    if setup.memcached and setup.nutcracker:
        found += [Nutcracker("nutcracker -> 2 memcached (TCP)", setup, cpus, unix=False),
                  Nutcracker("nutcracker -> 2 memcached (Unix)", setup, cpus, unix=True)]
    if setup.memcached and has_proxy(setup.memcached):
        for n in sorted({1, threads}):
            found.append(MemcachedProxy("memcached proxy -t %d -> 2 memcached" % n, setup, cpus, n))
    if setup.memcached and setup.mcrouter:
        found.append(Mcrouter("mcrouter -> 2 memcached", setup, cpus, threads))
    return found


def what_is_missing(setup):
    """Sentences that name the peers which do not take part."""
    missing = []
    if "uring" not in io_choices(setup.farcached):
        missing.append("This farcached has no io=uring: it does not take part.")
    if setup.memcached is None:
        return missing + ["There is no memcached (Debian package memcached): no peers take part."]
    if setup.nutcracker is None:
        missing.append("There is no nutcracker (Debian package nutcracker): it does not take part.")
    if not has_proxy(setup.memcached):
        missing.append("%s has no built-in proxy (-o proxy_config, from 1.6.23 if built with --enable-proxy): "
                       "it does not take part as a proxy." % setup.memcached)
    if setup.mcrouter is None:
        missing.append("There is no mcrouter: it does not take part.")
    return missing
