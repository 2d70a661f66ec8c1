# SPDX-License-Identifier: BSD-3-Clause
"""A farnode in the guest beside this one (t/guest/far_node.py)."""
import contextlib
import os
import socket
import time

from daemon import deadline

PORT = 7000


class FarnodeBeside:
    """Runs there as long as the connection lasts. {address} in an argument is that of its guest."""

    def __init__(self, *args):
        self.host = os.environ["FARCACHED_RDMA_PEER"]
        self.args = [arg.format(address=self.host) for arg in args]
        self.path = None

    def __enter__(self):
        end = time.monotonic() + deadline()
        while True:
            try:
                self.socket = socket.create_connection((self.host, PORT), deadline())
                break
            except OSError:  # the other guest boots
                assert time.monotonic() < end, "nobody listens at %s:%d" % (self.host, PORT)
                time.sleep(0.1)
        self.lines = self.socket.makefile("rw")
        self.verbs_port = int(self.ask(" ".join(self.args)))
        return self

    def __exit__(self, *_):
        self.lines.close()
        self.socket.close()

    def ask(self, line):
        self.lines.write(line + "\n")
        self.lines.flush()
        return self.lines.readline().strip()

    def read_ports(self):
        return [("VERBS", self.verbs_port)]

    @contextlib.contextmanager
    def stopped(self):
        assert self.ask("stop") == "stopped"
        try:
            yield
        finally:
            assert self.ask("go") == "goes on"
