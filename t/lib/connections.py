# SPDX-License-Identifier: BSD-3-Clause
"""Checks of connections: reasons of their endings, their states, open descriptors."""
import fcntl
import os
import struct
import termios
import threading

from farcached import Closed, tap, until


def endings(asker):
    """{"client_closed": 3, ...} of `stats proxy`."""
    return {k[6:]: int(v) for k, v in asker.stats("proxy").items() if k.startswith("close_")}


def ended_as(asker, before, allowed, count, name):
    """A TAP test: this number of connections have ended for one of these reasons since `before`."""
    def ended():
        now = endings(asker)
        return sum(now[r] - before[r] for r in allowed)
    tap.is_(until(ended, lambda n: n >= count), count, name)


def alone(asker):
    """Have all connections but the asker's ended (including the harness's own first one)?"""
    return until(lambda: asker.stats()["curr_connections"], lambda n: n == "1") == "1"


def state_of(d, c):
    """The state of one of our own TCP clients in `stats conns`."""
    conns = d.stats("conns")
    port = c.socket.getsockname()[1]
    fds = [k.split(":")[0] for k, v in conns.items() if k.endswith(":addr") and v.endswith(":%d" % port)]
    return conns.get(fds[0] + ":state") if fds else None


def states(d):
    """The states of all connections."""
    return [v for k, v in d.stats("conns").items() if k.endswith(":state")]


def open_files(d):
    """The daemon's descriptors."""
    return {int(fd) for fd in os.listdir("/proc/%d/fd" % d.pid)}


def unsent(c):
    """Bytes that the server's kernel has not accepted yet."""
    return struct.unpack("i", fcntl.ioctl(c.socket, termios.TIOCOUTQ, b"\0\0\0\0"))[0]


def until_end(c):
    """All bytes until the connection ends, in any way."""
    try:
        c.until(b"no reply looks like this")
    except Closed as e:
        return e.got


class Sender(threading.Thread):
    """Sends much from a thread of its own, while the caller reads, or does not."""

    def __init__(self, client, data):
        super().__init__(daemon=True)
        self.client, self.data, self.failed = client, data, None
        self.start()

    def run(self):
        try:
            self.client.send(self.data)
        except OSError as e:
            self.failed = e
