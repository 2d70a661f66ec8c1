# SPDX-License-Identifier: BSD-3-Clause
"""Real etcd servers for tests, on ports of 127.0.0.1 that the kernel chose, and a relay in front of one that can cut streams.

    with Etcd() as etcd:
        etcd.put("/far/nodes/a", b"...")
        etcd.stop(), etcd.start()
"""
import base64
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request

import certificates
from daemon import deadline, run_binary, tap, _die_with_parent
from ports import HeldPort


def is_available():
    return tap.path_of("etcd") is not None


def skip_without():
    """Ends the test here unless the program can use etcd, and there is one."""
    if b"without libcurl" in run_binary("--version-full")[1]:
        tap.skip_all("built without libcurl")
    if not is_available():
        tap.skip_all("etcd is not installed")


def encoded(text):
    return base64.b64encode(text if isinstance(text, bytes) else text.encode()).decode()


class Etcd:
    """One member. peers: of its cluster, {name: HeldPort}; its own name is in them, and it closes that port. tls: files of a
    certificate and its key. authority: its issuer, with which ask() trusts it. host: its address. on: the beginning of its
    command, for a host of a Network."""

    def __init__(self, *args, name="m0", peers=None, tls=None, authority=None, host="127.0.0.1", on=()):
        self.name, self.args, self.tls, self.host, self.on = name, list(args), tls, host, list(on)
        self.context = certificates.context(authority) if authority else None
        self.held = HeldPort()
        self.port = self.held.number
        self.peers = peers if peers is not None else {name: HeldPort()}
        self.folder = tempfile.mkdtemp(prefix="farcached-etcd-")
        self.process = None
        self.token = None

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.kill()
        self.held.close()
        self.peers[self.name].close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def launch(self):
        """Starts it, without waiting."""
        peers = [(name, "http://127.0.0.1:%d" % port.number) for name, port in self.peers.items()]
        at, peer = self.url(), dict(peers)[self.name]
        command = [*self.on, "etcd", "--name", self.name, "--data-dir", os.path.join(self.folder, "data"),
                   "--listen-client-urls", at, "--advertise-client-urls", at, "--listen-peer-urls", peer,
                   "--initial-advertise-peer-urls", peer,
                   "--initial-cluster", ",".join("%s=%s" % one for one in peers),
                   "--logger", "zap", "--log-level", "error", *self.args]
        if self.tls:
            command += ["--cert-file", self.tls[0], "--key-file", self.tls[1]]
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            preexec_fn=_die_with_parent)

    def start(self):
        self.launch()
        return self.wait()

    def wait(self):
        """Until it has a leader."""
        end = time.monotonic() + deadline()
        while not self.answers():
            if time.monotonic() > end or self.process.poll() is not None:
                with open(os.path.join(self.folder, "log")) as log:
                    raise AssertionError("etcd did not start: " + log.read()[-500:])
            time.sleep(0.02)
        return self

    def answers(self):
        if self.tls:
            with socket.socket() as s:
                return s.connect_ex((self.host, self.port)) == 0
        try:
            self.ask("kv/range", {"key": encoded("none")}, timeout=1.0)
            return True
        except urllib.error.HTTPError as e:  # authentication is enabled
            return e.code in (400, 401, 403)
        except OSError:
            return False

    def kill(self):
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()
            self.process = None

    def forget(self):
        """Loses its data."""
        shutil.rmtree(os.path.join(self.folder, "data"))

    def url(self):
        return "%s://%s:%d" % ("https" if self.tls else "http", self.host, self.port)

    def source(self, *others, prefix="/far"):
        """As in --discover."""
        return "etcd%s://%s%s" % ("s" if self.tls else "", ",".join("%s:%d" % (e.host, e.port) for e in (self, *others)), prefix)

    def ask(self, path, body, timeout=None):
        request = urllib.request.Request(self.url() + "/v3/" + path, json.dumps(body).encode())
        if self.token is not None:
            request.add_header("Authorization", self.token)
        with urllib.request.urlopen(request, timeout=timeout or deadline(), context=self.context) as reply:
            return json.load(reply)

    def put(self, key, value, lease=0):
        return int(self.ask("kv/put", {"key": encoded(key), "value": encoded(value), "lease": str(lease)})["header"]["revision"])

    def delete(self, key):
        self.ask("kv/deleterange", {"key": encoded(key)})

    def compact(self):
        self.ask("kv/compaction", {"revision": str(self.revision())})

    def keys(self, prefix="/far/nodes/"):
        """{key without the prefix: (value, lease)}"""
        found = self.ask("kv/range", {"key": encoded(prefix), "range_end": encoded(prefix[:-1] + chr(ord(prefix[-1]) + 1))})
        return {base64.b64decode(kv["key"]).decode()[len(prefix):]:
                (base64.b64decode(kv.get("value", "")), int(kv.get("lease", "0"))) for kv in found.get("kvs", [])}

    def revision(self):
        return int(self.ask("kv/range", {"key": encoded("none")})["header"]["revision"])

    def revoke(self, lease):
        self.ask("lease/revoke", {"ID": str(lease)})

    def authenticate(self, user, password):
        self.token = None  # etcd refuses an expired one here, too
        self.token = self.ask("auth/authenticate", {"name": user, "password": password})["token"]

    def change_password(self, user, password):
        """The user's tokens end."""
        self.ask("auth/user/changepw", {"name": user, "password": password})

    def enable_auth(self, password, prefix="/far/"):
        """From now on each request needs a user: root, far, which may write below the prefix, or reader, which may not."""
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        for user, role, kind in (("root", "root", None), ("far", "fleet", "READWRITE"), ("reader", "readers", "READ")):
            self.ask("auth/user/add", {"name": user, "password": password})
            if kind is not None:
                self.ask("auth/role/add", {"name": role})
                self.ask("auth/role/grant", {"name": role, "perm": {"permType": kind, "key": encoded(prefix),
                                                                   "range_end": encoded(end)}})
            self.ask("auth/user/grant", {"user": user, "role": role})
        self.ask("auth/enable", {})


def cluster(count, *args):
    """Members of one cluster, not started."""
    peers = {"m%d" % i: HeldPort() for i in range(count)}
    return [Etcd(*args, name=name, peers=peers) for name in peers]


def running_cluster(stack, count):
    """Members of one cluster, which has a leader. They end with the stack."""
    members = cluster(count)
    for member in members:
        stack.callback(member.__exit__)
        member.launch()
    for member in members:
        member.wait()
    return members


def write_weight(folder, name, weight):
    """The path of a configuration file of the farnode with that name. SIGHUP makes it live."""
    path = os.path.join(folder, name + ".toml")
    with open(path, "w") as file:
        file.write("weight = %d\n" % weight)
    return path


class Relay:
    """Forwards connections to a port. cut(): a connection ends after so many further bytes of answers. before(): calls once, when a
    request for that path comes, before it is forwarded. close(), open(): connections are refused in between. silence_watches:
    watches tell nothing. requests, replies: all bytes of them."""

    def __init__(self, port):
        self.target = port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.budget = None
        self.cuts = 0
        self.closed = self.silence_watches = False
        self.requests, self.replies = bytearray(), bytearray()
        self.path, self.call = None, None
        self.lock = threading.Lock()
        self.wake = os.pipe()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.write(self.wake[1], b"x")
        self.thread.join()
        self.listener.close()
        for fd in self.wake:
            os.close(fd)

    def cut(self, after):
        with self.lock:
            self.budget = after

    def close(self):
        self.closed = True
        os.write(self.wake[1], b"c")

    def open(self):
        self.closed = False

    def before(self, path, call):
        with self.lock:
            self.path, self.call = path.encode(), call

    def meet(self, data):
        with self.lock:
            call = self.call if self.call is not None and b"POST " + self.path in data else None
            if call is not None:
                self.call = None
        if call is not None:
            call()

    def run(self):
        pairs = {}  # socket -> (its other end, is it the server's)
        watches = set()  # the servers' sockets

        def drop(one):
            other = pairs.pop(one)[0]
            pairs.pop(other, None)
            watches.difference_update((one, other))
            one.close()
            other.close()

        while True:
            ready, _, _ = select.select([self.listener, self.wake[0], *pairs], [], [])
            if self.wake[0] in ready:
                if os.read(self.wake[0], 1) != b"c":
                    break
                for one in list(pairs):
                    if one in pairs:
                        drop(one)
                continue
            if self.listener in ready:
                client = self.listener.accept()[0]
                server = socket.socket()
                if not self.closed and server.connect_ex(("127.0.0.1", self.target)) == 0:
                    pairs[client], pairs[server] = (server, False), (client, True)
                else:
                    client.close()
                    server.close()
                continue
            for one in ready:
                if one not in pairs:
                    continue
                other, is_server = pairs[one]
                try:
                    data = one.recv(65536)
                    (self.replies if is_server else self.requests).extend(data)
                    if not is_server:
                        self.meet(data)
                        if b"/watch HTTP" in data:
                            watches.add(other)
                    elif data and one in watches and self.silence_watches:
                        continue
                    with self.lock:
                        if data and is_server and self.budget is not None:
                            data, self.budget = data[:self.budget], self.budget - len(data)
                    other.sendall(data)
                except OSError:
                    data = b""
                with self.lock:
                    over = self.budget is not None and self.budget < 0
                    if over:
                        self.budget, self.cuts = None, self.cuts + 1
                if not data or over:
                    drop(one)
        for one in list(pairs):
            one.close()
