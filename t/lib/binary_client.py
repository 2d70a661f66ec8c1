# SPDX-License-Identifier: BSD-3-Clause
"""A client of the binary protocol: packets as values, sent and read without changes.

    with daemon.client() as raw:
        b = BinaryClient(raw)
        reply = b.ask(op.SET, b"key", b"value", extras=set_extras(flags=5))
        reply.status, reply.cas, reply.opaque, reply.extras, reply.key, reply.value

The client corrects nothing: a length in the header can differ from the bytes that follow (packet(..., body=n)).
"""
import struct

from daemon import Closed, TimedOut
from tap_output import to_bytes

HEADER = struct.Struct(">BBHBBHIIQ")
REQUEST, RESPONSE = 0x80, 0x81
NO_CREATE = 0xFFFFFFFF  # with this expiration incr and decr do not create


class op:
    """Opcodes by memcached's names."""
    GET, SET, ADD, REPLACE, DELETE, INCR, DECR, QUIT, FLUSH, GETQ, NOOP, VERSION, GETK, GETKQ, APPEND, PREPEND, \
        STAT, SETQ, ADDQ, REPLACEQ, DELETEQ, INCRQ, DECRQ, QUITQ, FLUSHQ, APPENDQ, PREPENDQ, VERBOSITY, TOUCH, \
        GAT, GATQ = range(0x1F)
    SASL_LIST, SASL_AUTH, SASL_STEP, GATK, GATKQ = range(0x20, 0x25)


class status:
    OK, NOT_FOUND, EXISTS, TOO_LARGE, INVALID, NOT_STORED, NON_NUMERIC = range(7)
    AUTH, UNKNOWN, NO_MEMORY = 0x20, 0x81, 0x82


TEXT = {
    status.NOT_FOUND: b"Not found", status.EXISTS: b"Data exists for key.", status.TOO_LARGE: b"Too large.",
    status.INVALID: b"Invalid arguments", status.NOT_STORED: b"Not stored.",
    status.NON_NUMERIC: b"Non-numeric server-side value for incr or decr", status.AUTH: b"Auth failure.",
    status.UNKNOWN: b"Unknown command",
}


def set_extras(flags=0, exptime=0):
    return struct.pack(">II", flags, exptime)


def touch_extras(exptime):
    return struct.pack(">I", exptime)


def arith_extras(delta=1, initial=0, exptime=0):
    return struct.pack(">QQI", delta, initial, exptime)


def packet(opcode, key=b"", value=b"", extras=b"", opaque=0, cas=0, magic=REQUEST, datatype=0, vbucket=0,
           keylen=None, extlen=None, body=None):
    """The bytes of a request; keylen, extlen and body override the header's lengths."""
    key, value, extras = to_bytes(key), to_bytes(value), to_bytes(extras)
    if body is None:
        body = len(extras) + len(key) + len(value)
    return HEADER.pack(magic, opcode, len(key) if keylen is None else keylen,
                       len(extras) if extlen is None else extlen, datatype, vbucket, body, opaque,
                       cas) + extras + key + value


class Reply:
    def __init__(self, header, body):
        (self.magic, self.opcode, keylen, extlen, self.datatype, self.status, self.body_len, self.opaque,
         self.cas) = HEADER.unpack(header)
        self.raw = header + body
        self.extras = body[:extlen]
        self.key = body[extlen:extlen + keylen]
        self.value = body[extlen + keylen:]

    @property
    def flags(self):
        return struct.unpack(">I", self.extras)[0]

    @property
    def number(self):
        return struct.unpack(">Q", self.value)[0]

    def __repr__(self):
        return "<reply op=%02x status=%x opaque=%x cas=%d extras=%r key=%r value=%r>" % (
            self.opcode, self.status, self.opaque, self.cas, self.extras, self.key[:300], self.value[:300])


class BinaryClient:
    """Binary packets over a farcached.Client."""

    def __init__(self, raw):
        self.raw = raw
        self.next_opaque = 0x01020304

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.raw.close()

    def send(self, *args, **kwargs):
        """Sends one packet (see packet())."""
        self.raw.send(packet(*args, **kwargs))
        return self

    def read(self):
        """The next reply."""
        header = self.raw.read(HEADER.size)
        return Reply(header, self.raw.read(HEADER.unpack(header)[6]))

    def ask(self, opcode, *args, **kwargs):
        """Sends one packet; returns its reply after a check of magic, opcode and opaque."""
        if "opaque" not in kwargs:
            self.next_opaque = (self.next_opaque + 0x01010101) & 0xFFFFFFFF
            kwargs["opaque"] = self.next_opaque
        self.send(opcode, *args, **kwargs)
        reply = self.read()
        if (reply.magic, reply.opcode, reply.opaque) != (RESPONSE, opcode, kwargs["opaque"]):
            raise AssertionError("not the reply to opcode %02x: %r" % (opcode, reply))
        return reply

    def until_noop(self, opaque=0xF00DF00D):
        """Sends a NOOP; returns the replies before its own."""
        self.send(op.NOOP, opaque=opaque)
        replies = []
        while True:
            reply = self.read()
            if (reply.opcode, reply.opaque) == (op.NOOP, opaque):
                return replies
            replies.append(reply)

    def quiet(self, *args, **kwargs):
        """Sends one packet and a NOOP; returns the replies between."""
        self.send(*args, **kwargs)
        return self.until_noop()

    def stat(self, group=b""):
        """STAT as (status, {name: value}) in the order of the reply."""
        self.send(op.STAT, group)
        found = {}
        while True:
            reply = self.read()
            if reply.status != status.OK or not reply.key:
                return reply.status, found
            found[reply.key.decode("latin-1")] = reply.value.decode("latin-1")

    def closed(self):
        """True if the server closes without another byte."""
        try:
            return self.raw.until_close() == b""
        except TimedOut:
            return False

    def closes_after(self, *args, **kwargs):
        """Sends a packet; returns the replies until the server closes, None if it does not close."""
        self.send(*args, **kwargs)
        replies = []
        try:
            while True:
                replies.append(self.read())
        except Closed as e:
            return replies if not e.got else None
        except TimedOut:
            return None
