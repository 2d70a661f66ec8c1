# SPDX-License-Identifier: BSD-3-Clause
"""What tests of connections look at: why they ended, what they are doing, which descriptors are open."""
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
    """A TAP test: so many connections have ended for one of these reasons since `before`."""
    def ended():
        now = endings(asker)
        return sum(now[r] - before[r] for r in allowed)
    tap.is_(until(ended, lambda n: n >= count), count, name)


def alone(asker):
    """Every connection but the asker's has ended (the harness's own first one, too)."""
    return until(lambda: asker.stats()["curr_connections"], lambda n: n == "1") == "1"


def state_of(d, c):
    """What `stats conns` says of one of our own TCP clients."""
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
    """Bytes that the server's kernel has not taken yet."""
    return struct.unpack("i", fcntl.ioctl(c.socket, termios.TIOCOUTQ, b"\0\0\0\0"))[0]


def until_end(c):
    """Everything until the connection ends, however it does."""
    try:
        c.until(b"no reply looks like this")
    except Closed as e:
        return e.got


class Sender(threading.Thread):
    """Sends much while somebody else reads, or nobody does."""

    def __init__(self, client, data):
        super().__init__(daemon=True)
        self.client, self.data, self.failed = client, data, None
        self.start()

    def run(self):
        try:
            self.client.send(self.data)
        except OSError as e:
            self.failed = e
