# SPDX-License-Identifier: BSD-3-Clause
"""A proxy's end of a connection to a farnode over shared memory, which sends any frames of a test, and reports.

    with ShmProxy(path, layout) as proxy:       # layout: from NodeClient.learn_layout()
        proxy.greet(name=b"who")
        record = proxy.leased(b"key00001")      # an access record for a report
        proxy.report([record])                  # terms, in ms
"""
import ctypes
import select
import socket
import struct
import time

from farcached import Closed, TimedOut, deadline, select_nothing, to_bytes
from farnode import CLOCK, META_BYTES, REPLY, NodeClient
from liar import RingEnd, WELCOME_BYTES

SHM_HELLO = struct.Struct("<QIIQII")
SHM_HELLO_MAGIC = 0x6f6d687363616661
GRANT = struct.Struct("<QQIIII")
ACCESS = struct.Struct("<QQ")  # hash; from the low bits up: place in strides, region, count, tag of the generation
STRIDE, PARTITIONS_MAX = 16, 64
PLACE_BITS, REGION_BITS, COUNT_BITS, TAG_BITS = 36, 4, 8, 16
REPORT, REPORTED, ACCESSES = 14, 15, 11
VERSION = 4  # of the protocol: the first with this format of records
RECORDS_MAX = (8192 - 16) // ACCESS.size
WANT_GRANT, GRANTED = 1 << 17, 1 << 1
SEED_AT = 32  # in a welcome's body


def access_record(hashed, generation, offset, region, count):
    """The bytes of a record; each number is truncated to its field."""
    word, at = 0, 0
    for value, bits in ((offset // STRIDE, PLACE_BITS), (region, REGION_BITS), (count, COUNT_BITS),
                        (generation // PARTITIONS_MAX, TAG_BITS)):
        word |= value % (1 << bits) << at
        at += bits
    return ACCESS.pack(hashed, word)


def key_hash(key, seed):
    """The node's hash: XXH3-64."""
    library = ctypes.CDLL("libxxhash.so.0")
    library.XXH3_64bits_withSeed.restype = ctypes.c_uint64
    library.XXH3_64bits_withSeed.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]
    return library.XXH3_64bits_withSeed(key, len(key), seed)


class ShmProxy(NodeClient):
    """NodeClient's functions, over rings instead of a stream."""

    def __init__(self, path, layout, timeout=None):
        self.timeout, self.buffer, self.layout_said = timeout or deadline(), bytearray(), layout
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(self.timeout)
        self.socket.connect(path)
        self.socket.send(SHM_HELLO.pack(SHM_HELLO_MAGIC, 1, layout[0], layout[1], 0, 0))
        welcome, fds, _, _ = socket.recv_fds(self.socket, WELCOME_BYTES, 4)
        link, wake_node, wake_proxy, self.region = fds
        ring_bytes, = struct.unpack_from("<I", welcome, 16)
        self.ring = RingEnd(self.socket, link, ring_bytes, False, wake_proxy, wake_node)
        self.sequence = 1
        self.deaf = False  # True: reads nothing

    def close(self):
        self.ring.close()

    def send(self, *data):
        """Sends all of it; bytes that arrive meanwhile are kept."""
        self.ring.send(b"".join(to_bytes(d) for d in data))
        end = time.monotonic() + self.timeout
        while self.ring.unsent:
            if time.monotonic() > end:
                raise TimedOut(bytes(self.buffer))
            self._take_in(0.001)
            self.ring.send(b"")
        return self

    def _take_in(self, seconds):
        if self.deaf:
            select_nothing(seconds)
            return False
        select.select(self.ring.descriptors(), [], [], seconds)
        got = self.ring.receive()
        if got is None:
            raise Closed(bytes(self.buffer))
        self.buffer += got
        return bool(got)

    def _more(self):
        end = time.monotonic() + self.timeout
        while not self._take_in(0.01):
            if time.monotonic() > end:
                raise TimedOut(bytes(self.buffer))

    def greet(self, **more):
        answer = self.hello(self.layout_said, **{"version": VERSION, **more})
        if answer.kind != "welcome":
            raise AssertionError("no welcome: %s" % (answer.sentence(),))
        self.seed, = struct.unpack_from("<Q", answer.body, SEED_AT)

    def grant(self, key):
        """(offset, generation, term_ms) of the lease in a get's reply, or None."""
        body = self.request(1, key, flags=WANT_GRANT).frame().body
        flags = REPLY.unpack_from(body, CLOCK.size)[4]
        if not flags & GRANTED:
            return None
        offset, generation, _, _, term_ms, _ = GRANT.unpack_from(body, CLOCK.size + REPLY.size + META_BYTES)
        return (offset, generation, term_ms) if term_ms else None

    def leased(self, key, value=b"v"):
        """The access record of the item, which is stored and leased first; None: no lease."""
        self.set(key, value)
        granted = self.grant(key) or self.grant(key)
        return granted and (key_hash(key, self.seed), granted[1], granted[0], 0, 1)

    def post_report(self, records, kind=REPORT, count=None, body=None):
        self.sequence += 1
        body = b"".join(access_record(*record) for record in records) if body is None else body
        return self.send_frame(kind, len(records) if count is None else count, self.sequence, body)

    def answer(self):
        """The reply to one report: the terms of its handled records."""
        frame = self.frame()
        if frame.kind != REPORTED:
            raise AssertionError("no answer to a report: %s" % frame.kind)
        return list(struct.unpack_from("<%dI" % ((len(frame.body) - 8) // 4), frame.body, 8))

    def report(self, records):
        self.post_report(records)
        return self.answer()
