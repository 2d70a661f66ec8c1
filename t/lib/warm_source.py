# SPDX-License-Identifier: BSD-3-Clause
"""A memcached of the commands that farcached sends to warm_from, for races and for wrong replies."""
import socket
import threading

from farcached import deadline


class Source:
    """A memcached of one table, for races. hold(KEY): the next mg of the key is executed, and its reply waits for `go`.
    hold_delete(KEY): the next md of it waits, and is executed then.
    Replies to commands for repeated_key are sent twice; the next command for closing_key ends the connection."""

    def __init__(self, **items):
        self.items = dict(items)
        self.held_key, self.held, self.go = None, threading.Event(), threading.Event()
        self.gets = []
        self.repeated_key = self.closing_key = self.held_delete = None
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.sockets = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.go.set()
        for s in [self.listener] + self.sockets:
            s.close()

    def hold(self, key):
        self.held.clear()
        self.go.clear()
        self.held_key = key

    def hold_delete(self, key):
        self.held.clear()
        self.go.clear()
        self.held_delete = key

    def _wait(self):
        self.held.set()
        self.go.wait(deadline())

    def _accept(self):
        while True:
            try:
                s, _ = self.listener.accept()
            except OSError:
                return
            self.sockets.append(s)
            threading.Thread(target=self._serve, args=(s,), daemon=True).start()

    def _serve(self, s):
        try:
            for line in s.makefile("rb"):
                words = line.split()
                if len(words) > 1 and words[1].decode() == self.closing_key:
                    self.closing_key = None
                    s.shutdown(socket.SHUT_RDWR)
                    return
                times = 2 if len(words) > 1 and words[1].decode() == self.repeated_key else 1
                s.sendall(self._reply(words) * times)
        except OSError:
            pass

    def _reply(self, words):
        if words[0] == b"mn":
            return b"MN\r\n"
        if words[0] == b"flush_all":
            self.items.clear()
            return b"OK\r\n"
        key, number = words[1].decode(), words[-1]
        if words[0] == b"md":
            if key == self.held_delete:
                self.held_delete = None
                self._wait()
            return (b"HD " if self.items.pop(key, None) is not None else b"NF ") + number + b"\r\n"
        value = self.items.get(key)
        self.gets.append(key)
        if key == self.held_key:
            self.held_key = None
            self._wait()
        return b"EN\r\n" if value is None else b"VA %d f7 t-1 %s\r\n%s\r\n" % (len(value), number, value.encode())
