# SPDX-License-Identifier: BSD-3-Clause
"""A client of UDP by memcached's conventions: eight bytes (request id, number, number of datagrams, zero; big-endian) in front of
each datagram, a request in one, a reply in as many as it needs.

    with UdpClient(port) as u:
        u.ask(b"get a\\r\\n")               # the whole reply, put together
        u.silent(b"get a\\r\\n", total=2)   # no reply: that of a later request is the next
"""
import itertools
import socket
import struct

from daemon import TimedOut, deadline

HEADER = struct.Struct(">HHHH")
PAYLOAD_MAX = 1392


class UdpClient:
    IDS = itertools.count(0xfff0)

    def __init__(self, port, host="127.0.0.1", source=None, timeout=None):
        self.socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self.socket.settimeout(timeout or deadline())
        if source:
            self.socket.bind((source, 0))
        self.socket.connect((host, port))
        self.parts = {}  # of replies that are not complete: {id: {number: bytes}}
        self.faults = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def raw(self, datagram):
        self.socket.send(datagram)

    def send(self, request, number=0, total=1, reserved=0, id=None):
        """Returns the request's id."""
        id = next(self.IDS) & 0xffff if id is None else id
        self.raw(HEADER.pack(id, number, total, reserved) + request)
        return id

    def datagram(self):
        """The next one: (id, number, total, bytes)."""
        try:
            got = self.socket.recv(65536)
        except socket.timeout:
            raise TimedOut(b"") from None
        id, number, total, reserved = HEADER.unpack(got[:8])
        if reserved or number >= total or len(got) - 8 > PAYLOAD_MAX or (number < total - 1 and len(got) - 8 != PAYLOAD_MAX):
            self.faults.append((id, number, total, reserved, len(got)))
        return id, number, total, got[8:]

    def any_reply(self):
        """The next whole reply: (id, bytes)."""
        while True:
            id, number, total, part = self.datagram()
            parts = self.parts.setdefault(id, {})
            if number in parts:
                self.faults.append((id, number, "twice"))
            parts[number] = part
            if len(parts) == total:
                del self.parts[id]
                return id, b"".join(parts[i] for i in range(total))

    def reply(self, id):
        got, reply = self.any_reply()
        return reply if got == id else (got, reply)

    def ask(self, request, **header):
        return self.reply(self.send(request, **header))

    def silent(self, request, **header):
        """True: it gets no reply. The daemon answers one sender in order, except in front of nodes."""
        self.send(request, **header)
        return self.ask(b"mn\r\n") == b"MN\r\n"

    def silent_raw(self, datagram):
        self.raw(datagram)
        return self.ask(b"mn\r\n") == b"MN\r\n"
