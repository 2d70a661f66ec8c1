# SPDX-License-Identifier: BSD-3-Clause
"""A node that sends false frames: it sits between a farcached and a real farnode, over tcp or shm, and forwards both sides' bytes
until the test replaces some.

    with Liar(node) as liar:                 # a cluster.Node that runs, or its channel and port, or path
        node.address = liar.address          # for proxies started from now on
        liar.lie = lambda frame: frame[:-1]  # bytes instead of a frame of the node's, or Last(bytes)
        liar.shm_lie = lambda welcome, fds: (welcome, fds)  # changes the record and descriptors of the greeting over shm

L1  `lie` gets whole frames, header and body, and only frames of the node.
L2  Over shm, rings, containers and wake-ups are the liar's own; the region's descriptor is the node's. The contents of containers
    are forwarded unchanged.
L3  One thread polls: correct, but not fast.
"""
import contextlib
import fcntl
import mmap
import os
import select
import socket
import struct
import tempfile
import threading

from farcached import connect
from farnode import FRAME

RINGS_AT = 4096
CONTAINER_BYTES = 8192  # behind the rings: the node's container, then the proxy's
HELLO_BYTES, WELCOME_BYTES = 32, 200
POLL_S = 0.002


class Last(bytes):
    """The last bytes that the proxy gets over this connection, which stays open."""


class StreamEnd:
    """One side of a TCP connection."""

    def __init__(self, sock):
        self.socket, self.unsent = sock, b""
        sock.setblocking(False)

    def descriptors(self):
        return [self.socket]

    def container(self):
        return b""

    def write(self, container):
        pass

    def receive(self):
        """The received bytes; None: the connection has ended."""
        try:
            return self.socket.recv(65536) or None
        except BlockingIOError:
            return b""
        except OSError:
            return None

    def send(self, data):
        self.unsent += data
        with contextlib.suppress(OSError):
            while self.unsent:
                self.unsent = self.unsent[self.socket.send(self.unsent):]

    def close(self):
        self.socket.close()


class RingEnd:
    """One side of a connection over shared memory (fabric/shm/shm_ring.h)."""

    def __init__(self, sock, link, ring_bytes, is_node, wake_me, wake_peer):
        self.socket, self.ring_bytes, self.wake_me, self.wake_peer = sock, ring_bytes, wake_me, wake_peer
        sock.setblocking(False)
        self.memory = mmap.mmap(link, 0)  # the whole link; version 1 has no containers
        self.words = memoryview(self.memory)[:RINGS_AT].cast("Q")
        containers = [RINGS_AT + 2 * ring_bytes, RINGS_AT + 2 * ring_bytes + CONTAINER_BYTES]
        self.mine_at, self.peers_at = containers if is_node else containers[::-1]
        os.close(link)
        to_node, to_proxy = (128, RINGS_AT), (256, RINGS_AT + ring_bytes)
        self.incoming, self.outgoing = (to_node, to_proxy) if is_node else (to_proxy, to_node)
        self.sleeps_at = 384 if is_node else 512
        self.unsent = b""

    # Positions are read and written as one word: struct accesses "<Q" byte by byte, while the other side reads.
    def _u64(self, at):
        return self.words[at // 8]

    def publish(self, at, position):
        self.words[at // 8] = position
        with contextlib.suppress(OSError):
            os.eventfd_write(self.wake_peer, 1)

    def descriptors(self):
        return [self.socket, self.wake_me]

    def container(self):
        return self.memory[self.mine_at:self.mine_at + CONTAINER_BYTES]

    def write(self, container):
        self.memory[self.peers_at:self.peers_at + len(container)] = container

    def receive(self):
        with contextlib.suppress(OSError):
            os.eventfd_read(self.wake_me)
        struct.pack_into("<I", self.memory, self.sleeps_at, 3)
        try:
            if not self.socket.recv(1):
                return None
        except BlockingIOError:
            pass
        except ConnectionResetError:
            return None
        at, ring = self.incoming
        tail, head = self._u64(at), self._u64(at + 64)
        data = b"".join(self._piece(ring, head, tail - head))
        if data:
            self.publish(at + 64, tail)
        return data

    def _piece(self, ring, position, size):
        while size:
            start = position % self.ring_bytes
            n = min(size, self.ring_bytes - start)
            yield self.memory[ring + start:ring + start + n]
            position, size = position + n, size - n

    def send(self, data):
        self.unsent += data
        at, ring = self.outgoing
        tail, head = self._u64(at), self._u64(at + 64)
        room = self.ring_bytes - (tail - head)
        now, self.unsent = self.unsent[:room], self.unsent[room:]
        while now:
            start = tail % self.ring_bytes
            part, now = now[:self.ring_bytes - start], now[self.ring_bytes - start:]
            self.memory[ring + start:ring + start + len(part)] = part
            tail += len(part)
        if tail != self._u64(at):
            self.publish(at, tail)

    def close(self):
        self.socket.close()
        os.close(self.wake_me)
        os.close(self.wake_peer)
        self.words.release()
        self.memory.close()


def eventfd():
    return os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)


def memory_bytes(ring_bytes):
    return RINGS_AT + 2 * ring_bytes + 2 * CONTAINER_BYTES


def link_memory(like, ring_bytes):
    """A descriptor of new memory for a connection, with the header of another's."""
    made = os.memfd_create("liar", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(made, memory_bytes(ring_bytes))
    fcntl.fcntl(made, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    os.pwrite(made, os.pread(like, 16, 0), 0)
    return made


class Pair:
    """A connection from the proxy, and the corresponding one to the node."""

    def __init__(self, proxy, node):
        self.proxy, self.node = proxy, node
        self.partial, self.muted = b"", False

    def pump(self, lie):
        """Forwards pending bytes; False: the connection has ended."""
        asked, told = self.proxy.receive(), self.node.receive()
        if asked is None or told is None:
            return False
        if asked:
            self.node.write(self.proxy.container())
        self.node.send(asked)
        if told:
            self.proxy.write(self.node.container())
        self.partial += told
        while len(self.partial) >= FRAME.size:
            size = FRAME.size + FRAME.unpack_from(self.partial)[0]
            if len(self.partial) < size:
                break
            frame, self.partial = self.partial[:size], self.partial[size:]
            said = lie(frame) if lie else frame
            if not self.muted:
                self.proxy.send(said)
            self.muted = self.muted or isinstance(said, Last)
        self.proxy.send(b"")
        return True

    def close(self):
        self.proxy.close()
        self.node.close()


class Liar:
    def __init__(self, node):
        self.node, self.channel = node, node.channel
        self.lie = self.shm_lie = None
        self.pairs, self.over, self.lock = [], False, threading.Lock()
        self.folder = tempfile.mkdtemp(prefix="farcached-liar-")
        if self.channel == "shm":
            self.path = os.path.join(self.folder, "s")
            self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self.listener.bind(self.path)
        else:
            self.listener = socket.socket()
            self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(16)
        self.thread = threading.Thread(target=self._run, daemon=True)

    def address(self):
        return "shm:" + self.path if self.channel == "shm" else "tcp:127.0.0.1:%d" % self.listener.getsockname()[1]

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over = True
        self.thread.join()
        self.hang_up()
        self.listener.close()
        if self.channel == "shm":
            os.unlink(self.path)
        os.rmdir(self.folder)

    def hang_up(self):
        """Ends all connections; new ones begin with a new greeting."""
        with self.lock:
            for pair in self.pairs:
                pair.close()
            self.pairs = []

    def ends(self):
        """The proxy's ends of all connections."""
        with self.lock:
            return [pair.proxy for pair in self.pairs]

    def _run(self):
        while not self.over:
            with self.lock:
                watched = [self.listener] + [d for p in self.pairs for e in (p.proxy, p.node) for d in e.descriptors()]
                ready, _, _ = select.select(watched, [], [], 0)
                if self.listener in ready:
                    self._admit()
                for pair in list(self.pairs):
                    if not pair.pump(self.lie):
                        self.pairs.remove(pair)
                        pair.close()
            if not ready:
                select.select([self.listener], [], [], POLL_S)

    def _admit(self):
        sock, _ = self.listener.accept()
        try:
            if self.channel == "tcp":
                self.pairs.append(Pair(StreamEnd(sock), StreamEnd(connect(("127.0.0.1", self.node.port), 1.0))))
            else:
                self._admit_shm(sock)
        except OSError:
            sock.close()

    def _admit_shm(self, sock):
        node = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sock.settimeout(1.0)
        node.settimeout(1.0)
        try:
            node.connect(self.node.path)
            node.send(sock.recv(HELLO_BYTES))
            welcome, fds, _, _ = socket.recv_fds(node, WELCOME_BYTES, 4)
        except OSError:
            node.close()
            raise
        link, wake_node, wake_proxy, region = fds
        ring_bytes = struct.unpack_from("<I", welcome, 16)[0]
        own, wake_me, wake_it = link_memory(link, ring_bytes), eventfd(), eventfd()
        said, given = welcome, [own, wake_me, wake_it, region]
        if self.shm_lie:
            said, given = self.shm_lie(welcome, given)
        socket.send_fds(sock, [said], given)
        os.close(region)
        for extra in set(given) - {own, wake_me, wake_it, region}:
            os.close(extra)
        self.pairs.append(Pair(RingEnd(sock, own, ring_bytes, True, wake_me, wake_it),
                               RingEnd(node, link, ring_bytes, False, wake_proxy, wake_node)))
