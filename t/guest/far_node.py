# SPDX-License-Identifier: BSD-3-Clause
"""A farnode for a test in the guest beside this one (t/lib/beside.py). The test connects, and sends lines: first the arguments of
the node, then `stop` or `go`. Each line gets one as a reply; the first is the port of --verbs."""
import os
import signal
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from beside import PORT  # noqa: E402
from farnode import Farnode  # noqa: E402


def serve(lines):
    with Farnode(*lines.readline().split()) as node:
        def reply(word):
            lines.write("%s\n" % word)
            lines.flush()
        reply(next(port for kind, port in node.read_ports() if kind.startswith("VERBS")))
        for line in lines:
            if line.strip() == "stop":
                with node.stopped():
                    reply("stopped")
                    lines.readline()
                reply("goes on")
        node.signal(signal.SIGCONT)


with socket.create_server((os.environ["FARCACHED_RDMA_ADDRESS"], PORT)) as listener, listener.accept()[0] as test, \
        test.makefile("rw") as stream:
    serve(stream)
