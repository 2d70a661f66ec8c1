# SPDX-License-Identifier: BSD-3-Clause
"""Ports of 127.0.0.1 for servers that must know their port before they start."""
import socket


class HeldPort:
    """A port that the kernel chose. Until close() it gives the port to no other socket that asks for any: bound sockets that do not
    listen hold it. A server with SO_REUSEADDR can bind it by its number, as often as it likes. kinds: SOCK_STREAM, SOCK_DGRAM."""

    def __init__(self, *kinds):
        self.number = 0
        while not self.number:
            self.held = [socket.socket(socket.AF_INET, kind) for kind in kinds or (socket.SOCK_STREAM,)]
            self.number = self.hold()

    def hold(self):
        """0: another process has the port for another kind."""
        number = 0
        try:
            for one in self.held:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                one.bind(("127.0.0.1", number))
                number = one.getsockname()[1]
            return number
        except OSError:
            if not number:
                raise
            self.close()
            return 0

    def close(self):
        for one in self.held:
            one.close()
