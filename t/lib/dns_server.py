# SPDX-License-Identifier: BSD-3-Clause
"""A DNS server (dnsmasq) on a port of 127.0.0.1 that the kernel chooses. It answers for names below .test alone.

    with DnsServer() as dns:
        dns.serve(addresses={"nodes.test": ["127.0.0.1", "::1"]}, ttl=1)
        dns.stop()
        with Relay(dns) as relay:       # in front of it
            relay.refused = {("nodes.test", AAAA)}
"""
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

from daemon import _die_with_parent, deadline, until
from ports import HeldPort
from tap_output import tap

STARTS = 3  # attempts
A, AAAA = 1, 28


def program():
    """None: not installed."""
    return tap.path_of("dnsmasq", os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


class DnsServer:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="farcached-dns-")
        self.held = HeldPort(socket.SOCK_DGRAM, socket.SOCK_STREAM)
        self.port = self.held.number
        self.process = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        self.held.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        return False

    def address(self):
        return "127.0.0.1:%d" % self.port

    def serve(self, addresses=None, services=None, ttl=1, service_ttl=None):
        """Answers with these records from now on. addresses: {name: [address]}; a name with none has only a TXT record. services:
        {name: [(target, port, weight)]}. service_ttl: None: ttl."""
        lines = ["port=%d" % self.port, "listen-address=127.0.0.1", "bind-interfaces", "no-resolv", "no-hosts", "local=/test/",
                 "user=" + ("root" if os.getuid() == 0 else ""), "pid-file=",
                 "local-ttl=%d" % (ttl if service_ttl is None else service_ttl)]
        for name, found in (addresses or {}).items():
            lines += ["host-record=%s,%s,%d" % (name, address, ttl) for address in found] or ["txt-record=%s,none" % name]
        for name, found in (services or {}).items():
            lines += ["srv-host=%s,%s,%d,0,%d" % (name, target, port, weight) for target, port, weight in found]
        path, said = os.path.join(self.folder, "dnsmasq.conf"), []
        with open(path, "w") as f:
            f.write("\n".join(lines) + "\n")
        for _ in range(STARTS):
            if self.start(path, deadline() / STARTS):
                return
            said.append(self.state())
        raise RuntimeError("dnsmasq on port %d does not answer: %s" % (self.port, "; ".join(said)))

    def start(self, path, timeout):
        self.stop()
        with open(os.path.join(self.folder, "log"), "wb") as log:
            self.process = subprocess.Popen([program(), "--keep-in-foreground", "--conf-file=" + path], stdin=subprocess.DEVNULL,
                                            stdout=subprocess.DEVNULL, stderr=log, preexec_fn=_die_with_parent)
        return until(self.answers, lambda good: good or self.process.poll() is not None, timeout=timeout)

    def state(self):
        """What a process does that does not answer: its exit status, or where it waits, and what it said."""
        if self.process.poll() is not None:
            doing = "exit status %d" % self.process.returncode
        else:
            with open("/proc/%d/status" % self.process.pid) as status, open("/proc/%d/wchan" % self.process.pid) as wchan:
                doing = "%s in %s" % (status.read().split("State:")[1].split("\n")[0].strip(), wchan.read() or "no call")
        with open(os.path.join(self.folder, "log")) as log:
            return doing + " " + repr(log.read())

    def answers(self):
        """Does it reply to a query?"""
        query = struct.pack(">6H", 1, 0x100, 1, 0, 0, 0) + b"\x01x\x04test\x00" + struct.pack(">2H", 1, 1)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(0.2)
            try:
                s.connect(("127.0.0.1", self.port))
                s.send(query)
                return len(s.recv(512)) > 12
            except OSError:
                time.sleep(0.01)
                return False

    def stop(self):
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(deadline())
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None


class Relay:
    """Passes queries on to the server, and refuses some itself."""

    def __init__(self, dns):
        self.refused = set()  # {(name, type)}
        self.most_open = 0    # queries of UDP without a reply
        self.delay = 0.0      # seconds before the replies to all queries that came meanwhile
        self.server = ("127.0.0.1", dns.port)
        self.held = HeldPort(socket.SOCK_DGRAM, socket.SOCK_STREAM)
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.tcp = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        for s in (self.udp, self.tcp):
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind(("127.0.0.1", self.held.number))
        self.tcp.listen()
        self.udp.setblocking(False)
        self.ended = False
        self.thread = threading.Thread(target=self.run, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended = True
        self.thread.join()
        for s in (self.udp, self.tcp, self.held):
            s.close()
        return False

    def address(self):
        return "127.0.0.1:%d" % self.held.number

    def run(self):
        while not self.ended:
            for s in select.select([self.udp, self.tcp], [], [], 0.1)[0]:
                try:
                    if s is self.udp:
                        self.answer_datagrams()
                    else:
                        self.answer_connection()
                except (OSError, struct.error):  # the server is being started again, or the client has gone
                    pass

    def answer_datagrams(self):
        time.sleep(self.delay)
        waiting = []
        try:
            while True:
                waiting.append(self.udp.recvfrom(512))
        except BlockingIOError:
            self.most_open = max(self.most_open, len(waiting))
        for query, client in waiting:
            self.udp.sendto(self.reply(query, socket.SOCK_DGRAM), client)

    def answer_connection(self):
        with self.tcp.accept()[0] as client:
            client.settimeout(1.0)
            reply = self.reply(read_message(client), socket.SOCK_STREAM)
            client.sendall(struct.pack(">H", len(reply)) + reply)
            client.recv(1)  # it closes first

    def reply(self, query, kind):
        if question(query) in self.refused:
            number, flags, questions = struct.unpack(">3H", query[:6])
            return struct.pack(">6H", number, 0x8085 | (flags & 0x100), questions, 0, 0, 0) + query[12:]
        with socket.socket(socket.AF_INET, kind) as s:
            s.settimeout(1.0)
            s.connect(self.server)
            if kind == socket.SOCK_DGRAM:
                s.send(query)
                return s.recv(512)
            s.sendall(struct.pack(">H", len(query)) + query)
            return read_message(s)


def read_message(connection):
    """Of TCP."""
    def read(size):
        data = connection.recv(size, socket.MSG_WAITALL)
        if len(data) < size:
            raise OSError("the connection ended")
        return data

    return read(struct.unpack(">H", read(2))[0])


def question(query):
    """(name, type)"""
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1:at + 1 + query[at]].decode())
        at += 1 + query[at]
    return ".".join(labels).lower(), struct.unpack(">H", query[at + 1:at + 3])[0]
