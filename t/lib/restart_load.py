# SPDX-License-Identifier: BSD-3-Clause
"""Clients that stay under load during restarts of their server: one of each kind (text, meta, binary) at each address. Each one
stores and reads its own keys, and connects again when its connection ends.

    with RestartLoad([("127.0.0.1", 11211), "/run/x.sock"]) as load:
        restart()
        load.until_served()     # each client had a reply on a connection made since
    load.refused, load.wrong    # errors

L1  A connection that ends without a reply is no error, because the outcome of its request is unknown. A refused connection is an
    error, and so is a reply to another request.
"""
import threading
import time

from binary_client import BinaryClient, op, set_extras
from farcached import Client, Closed, Pace, TimedOut, connect, deadline, until


def by_text(client, key, value):
    return (client.set(key, value), client.get(key)) == ("STORED", value.encode())


def by_meta(client, key, value):
    stored = client.ask("ms %s %d\r\n%s" % (key, len(value), value))
    read = client.ask("mg %s v" % key, end=(value, "EN"))
    return (stored, read) == ("HD", ["VA %d" % len(value), value])


def by_binary(client, key, value):
    b = BinaryClient(client)
    stored = b.ask(op.SET, key, value, extras=set_extras())
    read = b.ask(op.GET, key)
    return (stored.status, read.status, read.value) == (0, 0, value.encode())


KINDS = {"text": by_text, "meta": by_meta, "binary": by_binary}


class RestartLoad:
    def __init__(self, addresses):
        self.stopping = threading.Event()
        self.refused, self.wrong = [], []
        self.done, self.connections = {}, {}
        self.threads = []
        for address in addresses:
            for kind in KINDS:
                name = "%s at %s" % (kind, address)
                self.done[name] = self.connections[name] = 0
                self.threads.append(threading.Thread(target=self._run, args=(name, kind, address), daemon=True))

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        self.until_served()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        for thread in self.threads:
            thread.join(deadline() * 2)
        return False

    def _connect(self, name, address):
        """Connects once: a listener may answer late, but a missing listener is an error."""
        try:
            socket = connect(address, deadline())
        except OSError as failed:
            self.refused.append("%s: %r" % (name, failed))
            time.sleep(0.01)
            return None
        self.connections[name] += 1
        return Client(socket)

    def _run(self, name, kind, address):
        number, pace = 0, Pace()
        while not self.stopping.is_set():
            client = self._connect(name, address)
            if client is None:
                continue
            try:
                while not self.stopping.is_set():
                    pace.rest()
                    number += 1
                    value = "%s-%d" % (kind, number)
                    if not KINDS[kind](client, "restart-" + "".join(c for c in name if c.isalnum()), value):
                        self.wrong.append("%s: not %s" % (name, value))
                    self.done[name] += 1
            except (Closed, ConnectionError):
                pass
            except TimedOut as late:
                self.wrong.append("%s: %s" % (name, late))
            finally:
                client.close()

    def until_served(self):
        """Waits for two more replies per client. The second one comes over a connection made after the call, or from the current
        server."""
        before = dict(self.done)
        until(lambda: all(self.done[name] >= before[name] + 2 for name in before), bool)
        return self.done
