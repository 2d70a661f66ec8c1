# SPDX-License-Identifier: BSD-3-Clause
"""Harness of the Python tests: TAP output, a daemon under test, a raw client, conversations.

Standard library only. A test script begins with

    import os, sys
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
    from farcached import tap, Daemon, Client, conversations

and ends with `tap.done()`. Invariants that scripts may rely on:

H1  No test waits without a deadline (`deadline()` seconds, times $FARCACHED_TEST_SLOW for slow builds).
H2  The end of its `with` block ends a Daemon by its own pid, also after a failure; a Daemon dies with the test.
H3  A daemon fails the test if it exits with an unexpected status, or if its stderr holds a sanitizer's report.
    The script need not check either.
H4  The kernel chooses ports; every file is in a temporary folder that is removed.
H5  With $FARCACHED_NODES=MODE every farcached keeps its items in nodes of its own (see cluster.py).
H6  With $FARCACHED_IO=BACKEND every Daemon gets `-o io=BACKEND`.
H7  With $FARCACHED_DISK=MEGABYTES every node, embedded or not, has so much memory and a disk, where all values move to and fro.
H8  With $FARCACHED_TLS=VERSION every Daemon without -s has TLS, and each Client made by Daemon.client() speaks it.

daemon.py describes the choice of the tested program. `FARCACHED=/usr/bin/memcached python3 t/conversation/x.py` runs a test against
memcached.

Imports go one way: {tap_output, certificates} <- daemon <- {conversation, farnode, binary_client} <- cluster <- this module <-
the other modules of t/lib and the scripts.
"""
import os

import daemon
from cluster import Behind
from conversation import conversations, converse  # noqa: F401
from daemon import (SANITIZER_REPORT, Client, Closed, Pace, StartFailed, TimedOut, connect, deadline,  # noqa: F401
                    default_binary, gone, has_tls, is_sanitized, raise_descriptor_limit, run_binary, select_nothing, slow_factor,
                    stat_words, test_program, until, user_args)
from disk import BUSY, Disk
from tap_output import show, tap, to_bytes  # noqa: F401


def remaining(seconds):
    """A pattern for an item's remaining time. In front of nodes it may be a second more: after a greeting of over 50 ms a proxy
    errs late by up to a second (proxy/node_clock_estimate.h, N2)."""
    return "(%d|%d)" % (seconds, seconds + 1) if os.environ.get("FARCACHED_NODES") else str(seconds)


class Daemon(daemon.Daemon):
    """daemon.Daemon, with nodes behind it if $FARCACHED_NODES asks for them. Subclasses have none."""

    # Options that do not go with that memory, or with the disk's write buffers.
    NOT_WITH_A_DISK = {"-e", "-I", "-M", "--config", "--node"}

    def command(self):
        memory, args = os.environ.get("FARCACHED_DISK"), super().command()
        if not memory or self.behind or type(self) is not Daemon or self.binary != default_binary():
            return args
        if self.NOT_WITH_A_DISK & set(args) or any("ext_path" in a for a in args):
            return args
        return args + ["-o", Disk.at(os.path.join(self.folder, "values"), **BUSY).options(), "-m", memory]

    def _start_nodes(self):
        mode = Behind.wanted(self) if type(self) is Daemon else None
        if mode:
            self.behind = Behind(mode, self.args)
            self.behind.start()
