# SPDX-License-Identifier: BSD-3-Clause
"""The contestants of `bench/compare --proxied`: a proxy in front of two servers, all on the same CPUs.

    farcached       -> 2 farnode     over shm, with local_read and without, and over tcp
    nutcracker      -> 2 memcached   over TCP and over Unix sockets
    memcached proxy -> 2 memcached   if the memcached has its built-in proxy

Every proxy listens on TCP. C1 ends everything that a contestant started, whatever happens; C2 no port is chosen
by us but nutcracker's two, which are held until it has them.
"""
import os
import shutil
import socket
import subprocess
import tempfile
import time

from compare_servers import Failed, Process, START_SECONDS, accepts, as_whom, port_in

BACKS = ("a", "b")
CONNECTIONS_MAX = "4096"
PATIENCE_MS = 10_000  # of a proxy for its servers: nobody fails because the machine is busy
READY_CONNECTIONS, READY_KEYS = 32, 16


class Contestant:
    """A front and its backs, running. Owner: who called start(), until stop()."""

    def __init__(self, label, setup, cpus):
        self.label = label
        self.setup = setup  # binaries, threads_back, megabytes
        self.cpus = cpus
        self.folder = None  # while it runs
        self.backs = []
        self.front = None
        self.port = None

    @property
    def pid(self):
        return self.front.pid

    @property
    def back_pids(self):
        return [back.pid for back in self.backs]

    def start(self):
        self.folder = tempfile.mkdtemp(prefix="farcached-compare-")
        try:
            where = [self.start_back(name) for name in BACKS]
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
        self.run_front([binary] + as_whom() + ["-l", "127.0.0.1", "-p", "-1", "-c", CONNECTIONS_MAX] + more,
                       {"MEMCACHED_PORT_FILENAME": ports})
        self.port = self.front.wait_until(lambda: port_in(ports))


class Farcached(Contestant):
    """threads: of the proxy; None: as many as it has by default."""

    def __init__(self, label, setup, cpus, threads, channel, local_read=True):
        super().__init__(label, setup, cpus)
        self.threads = threads
        self.channel = channel
        self.local_read = local_read

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
        more = [] if self.threads is None else ["-t", str(self.threads)]
        for name, address in zip(BACKS, where):
            more += ["--node", "%s=%s" % (name, address)]
        more += ["-o", "node_timeout_ms=%d" % PATIENCE_MS, "-o", "pointer_table.path=" + self.table]
        more += [] if self.local_read else ["-o", "no_local_read"]
        self.run_front_like_memcached(self.setup.farcached, more)

    def stop(self):
        super().stop()
        if self.folder is not None and os.path.exists("/dev/shm" + self.table):
            os.unlink("/dev/shm" + self.table)  # farcached leaves it for the next


class BehindMemcached(Contestant):
    """Contestants whose backs are memcached."""

    unix = False

    def start_back(self, name):
        ports, socket_path = self.path(name + ".ports"), self.path(name + ".sock")
        where = ["-s", socket_path] if self.unix else ["-l", "127.0.0.1", "-p", "-1", "-U", "0"]
        back = self.run_back(name, [self.setup.memcached] + as_whom() + where + [
            "-m", str(self.setup.megabytes), "-t", str(self.setup.back_threads), "-c", CONNECTIONS_MAX],
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
        with held_port() as main, held_port() as stats:
            port, stats_port = (s.getsockname()[1] for s in (main, stats))
            conf = self.write("nutcracker.yml", NUTCRACKER.format(port=port, patience=PATIENCE_MS, servers=servers))
            self.run_front([self.setup.nutcracker, "-c", conf, "-a", "127.0.0.1", "-s", str(stats_port),
                            "-o", self.path("nutcracker.log"), "-p", self.path("nutcracker.pid")])
            self.front.wait_until(lambda: accepts(("127.0.0.1", port)) or None)
        self.port = port


def held_port():
    """A port that the kernel chose and gives to nobody else who asks for any; who names it with SO_REUSEADDR has it."""
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
        more = [] if self.threads is None else ["-t", str(self.threads)]
        self.run_front_like_memcached(self.setup.memcached, more + ["-U", "0", "-o", "proxy_config=" + conf])


def has_proxy(memcached):
    """Is its built-in proxy compiled in?"""
    told = subprocess.run([memcached, "-h"], capture_output=True, timeout=10, stdin=subprocess.DEVNULL)
    return b"proxy_config" in told.stdout + told.stderr


def wait_until_it_stores(contestant):
    """Until every thread of the front has a connection to every back: sets through many connections succeed."""
    end = time.monotonic() + START_SECONDS
    last = b""
    lines = b"".join(b"set compare-ready-%d 0 0 1\r\nx\r\n" % i for i in range(READY_KEYS))
    wanted = b"STORED\r\n" * READY_KEYS
    ready = 0
    while ready < READY_CONNECTIONS:
        if time.monotonic() > end:
            raise Failed("%s does not store: it says %r" % (contestant.label, last.decode("latin-1")))
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


def all_contestants(setup, cpus):
    """Makes none run yet. setup.memcached, setup.nutcracker: None where there is none. Ours come first."""
    one, standard = "farcached -t 1 -> 2 farnode (%s)", "farcached -> 2 farnode (%s)"
    found = [
        Farcached(one % "shm", setup, cpus, 1, "shm"),
        Farcached(standard % "shm", setup, cpus, None, "shm"),
        Farcached(one % "shm, no local_read", setup, cpus, 1, "shm", local_read=False),
        Farcached(one % "tcp", setup, cpus, 1, "tcp"),
    ]
    if setup.memcached and setup.nutcracker:
        found += [Nutcracker("nutcracker -> 2 memcached (TCP)", setup, cpus, unix=False),
                  Nutcracker("nutcracker -> 2 memcached (Unix)", setup, cpus, unix=True)]
    if setup.memcached and has_proxy(setup.memcached):
        found += [MemcachedProxy("memcached proxy -t 1 -> 2 memcached", setup, cpus, 1),
                  MemcachedProxy("memcached proxy -> 2 memcached", setup, cpus, None)]
    return found
