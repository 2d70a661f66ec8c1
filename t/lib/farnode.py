# SPDX-License-Identifier: BSD-3-Clause
"""A farnode under test, and a proxy's end of a TCP connection to it. It implements a second time the frames
(protocol/frame_layout.h) that tests of the process need.

    with Farnode("--tcp", "127.0.0.1:0") as node:
        with NodeClient(node.port) as c:
            c.greet()
            c.set(b"key", b"value")
"""
import os
import re
import socket
import struct

from daemon import Client, Daemon, connect, default_binary

FRAME = struct.Struct("<IHHQ")
HELLO = struct.Struct("<QIIIHHQ")
HELLO_LIMITS = struct.Struct("<IIIHH")
WELCOME = struct.Struct("<QIIQQQQqQIIIIIIHHI")
REGION = struct.Struct("<QII")
REQUEST = struct.Struct("<BBHIII")
REPLY = struct.Struct("<BBBBIII")
CLOCK = struct.Struct("<II")
SENTENCE = struct.Struct("<HHI")
META_BYTES, STORED_BYTES = 32, 24

KINDS = {2: "welcome", 3: "refuse", 5: "replies", 6: "chunk", 8: "pong", 9: "goodbye"}
GOODBYES = ["stopping", "draining", "idle", "protocol_error", "no_memory"]
REFUSALS = ["protocol_mismatch", "layout_mismatch", "limits", "full", "stopping"]


def farnode_binary():
    return os.path.join(os.path.dirname(default_binary()), "farnode")


class Farnode(Daemon):
    """A running farnode; unless the arguments contain --tcp or --shm it listens on a port of 127.0.0.1."""

    def __init__(self, *args, **more):
        super().__init__(*args, binary=more.pop("binary", None) or farnode_binary(), **more)

    def command(self):
        args = list(self.args)
        self.env = {**self.env, "FARNODE_PORT_FILENAME": self.port_file}
        if "--shm" in args:
            self.path = args[args.index("--shm") + 1]
        elif not {"--tcp", "--verbs", "--config"} & set(args):
            args += ["--tcp", "127.0.0.1:0"]
        if "--verbs" in args:
            args += ["--insecure"]  # an RDMA device has no loopback address
        if self.threads is not None:
            args += ["-t", str(self.threads)]
        return [self.binary] + self.user + args

    def _reachable(self):
        self.ports = self.read_ports()
        if self.ports:
            self.port = self.ports[0][1]
        try:
            if self.path is not None and not self._at_path():
                return False
            if "--verbs" in self.args:
                return self.port is not None
            if self.path is None or "--tcp" in self.args:
                connect(("127.0.0.1", self.port or 0), 1.0).close()
        except OSError:
            return False
        return True

    def _at_path(self):
        """Does this node listen there? A dead node's socket may remain."""
        with open(self.path + ".lock") as lock:
            if lock.read().strip() != str(self.pid):
                return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            s.connect(self.path)
        return True

    def node_client(self):
        return NodeClient(self.port)


class Frame:
    def __init__(self, kind, count, sequence, body):
        self.kind, self.count, self.sequence, self.body = KINDS.get(kind, kind), count, sequence, body

    def sentence(self):
        """(reason, text) of a refuse or a goodbye."""
        reason, size, _ = SENTENCE.unpack_from(self.body)
        names = GOODBYES if self.kind == "goodbye" else REFUSALS
        return names[reason], self.body[SENTENCE.size:SENTENCE.size + size].decode()


class NodeClient(Client):
    layout = None  # (version, hash), as the node reports it

    def frame(self):
        """The next frame."""
        size, kind, count, sequence = FRAME.unpack(self.read(FRAME.size))
        return Frame(kind, count, sequence, self.read(size))

    def send_frame(self, kind, count, sequence, body):
        return self.send(FRAME.pack(len(body), kind, count, sequence) + body)

    def hello(self, layout, version=4, frame_bytes=65536, credits=16, name=b"test"):
        """Sends a hello; returns its reply."""
        body = HELLO.pack(0x6f6c656868636166, version, version, layout[0], len(name), 0, layout[1]) + name
        body += HELLO_LIMITS.pack(os.getpid(), frame_bytes, credits, len(name), 0) + name
        return self.send_frame(1, 0, 0, body).frame()

    def learn_layout(self):
        """Sends an impossible layout and reads the node's own from the refusal; ends the connection."""
        reason, text = self.hello((2**31, 1)).sentence()
        found = re.search(r"item layout version (\d+) \(([0-9a-f]{16})\), proxy", text)
        NodeClient.layout = (int(found.group(1)), int(found.group(2), 16))
        return reason, text

    def greet(self, layout=None, **more):
        """The fields of the welcome. layout: the node's, unless another is given."""
        if NodeClient.layout is None:
            peer = self.socket.getpeername()
            with NodeClient(peer[1], host=peer[0]) as other:
                other.learn_layout()
        answer = self.hello(layout or NodeClient.layout, **more)
        if answer.kind != "welcome":
            raise AssertionError("no welcome: %s" % (answer.sentence(),))
        (_, version, _, _, incarnation, _, _, _, item_max, now, frame_max, credits, _, term_max, grace, name_bytes,
         regions, now_us) = WELCOME.unpack_from(answer.body)
        at = WELCOME.size + regions * REGION.size
        return {"version": version, "incarnation": incarnation, "item_bytes_max": item_max, "now": (now, now_us),
                "frame_bytes_max": frame_max, "credits": credits, "term_ms": term_max, "grace_ms": grace,
                "regions": [REGION.unpack_from(answer.body, WELCOME.size + i * REGION.size) for i in range(regions)],
                "name": answer.body[at:at + name_bytes].decode()}

    def request(self, op, key=b"", fixed=b"", value=b"", flags=0, tag=7, sequence=1):
        """Sends one request in a frame."""
        head = REQUEST.pack(op, 0, len(key), flags, len(value), tag)
        return self.send_frame(4, 1, sequence, head + fixed + key + value)

    def reply(self):
        """(kind, status, value) of one reply in a frame of its own. The value is in the same frame or in chunks behind it."""
        frame = self.frame()
        if frame.kind != "replies":
            return frame.kind, frame.sentence()[0] if frame.kind == "goodbye" else None, b""
        kind, status, _, _, flags, size, _ = REPLY.unpack_from(frame.body, 8)
        if flags & 4:
            value = b""
            while len(value) < size:
                value += self.frame().body[16:]
            return kind, status, value
        return kind, status, frame.body[len(frame.body) - size:]

    def clock(self):
        """(seconds, microseconds), by a ping."""
        frame = self.send_frame(7, 0, 5, b"").frame()
        return CLOCK.unpack(frame.body)

    def exptime(self, key):
        """(exptime of an existing item, the node's clock (seconds, microseconds) then)."""
        body = self.request(1, key).frame().body
        return struct.unpack_from("<I", body, CLOCK.size + REPLY.size + 16)[0], CLOCK.unpack_from(body)

    def set(self, key, value):
        """True: stored."""
        return self.request(2, key, struct.pack("<II", 0, 0), value).reply()[:2] == (2, 0)

    def get(self, key):
        """The value, or None."""
        kind, status, value = self.request(1, key).reply()
        return value if (kind, status) == (1, 0) else None

    def delete(self, key):
        """True: the key existed."""
        return self.request(3, key).reply()[:2] == (3, 0)

    def node_stats(self, group=b""):
        """{name: value}."""
        text = self.request(8, group).reply()[2].decode()
        return dict(line.split(" ", 1) for line in text.splitlines())
