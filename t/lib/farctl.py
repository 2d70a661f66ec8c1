# SPDX-License-Identifier: BSD-3-Clause
"""farctl under test: runs of the program, a folder for the sockets of its daemons, and a daemon that answers what a test wants.

    with Daemon("--admin", path_of("p")):
        asked("status", *at("p"))["nodes"]
"""
import contextlib
import json
import os
import socket
import tempfile
import threading

from farcached import deadline, default_binary, run_binary, tap

FARCTL = os.path.join(os.path.dirname(default_binary()), "farctl")
FOLDER = tempfile.mkdtemp(prefix="farctl-")


def path_of(name):
    return os.path.join(FOLDER, name)


def farctl(*args, env=None):
    """(status, stdout, stderr) as int, str, str."""
    status, out, err = run_binary(*args, binary=FARCTL, as_is=True, env={"FARCTL_SOCKET": "", **(env or {})})
    return status, out.decode(), err.decode()


def at(*names):
    return ["--socket=" + path_of(name) for name in names]


def asked(*args):
    """The JSON that it prints, after a check of its exit status and stderr."""
    status, out, err = farctl("--json", *args)
    if status != 0 or err:
        raise AssertionError("%s: status %d: %s" % (" ".join(args), status, err))
    return json.loads(out)


def refused(args, sentence, name, status=1):
    got, _, err = farctl(*args)
    tap.is_((got, err), (status, "farctl: %s\n" % sentence), name)


@contextlib.contextmanager
def listener(name, serve):
    """A Unix socket: serve(client) in a thread for each client in turn; the client's errors end its turn."""
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(path_of(name))
    sock.listen(8)

    def loop():
        while True:
            try:
                client, _ = sock.accept()
            except OSError:
                return
            with client, contextlib.suppress(OSError):
                serve(client)
    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    try:
        yield path_of(name)
    finally:
        sock.shutdown(socket.SHUT_RDWR)
        sock.close()
        thread.join(deadline())
        os.unlink(path_of(name))


def fake_farcached(name, answer):
    """A daemon. answer(line): the lines of the reply to a command, None: silence. `version` and `stats` are answered here."""
    own = {"version": ["VERSION 1.6.45"], "stats": ["STAT farcached_version 1.0", "STAT pid %d" % os.getpid(), "END"]}

    def serve(client):
        with client.makefile("rwb") as file:
            for line in file:
                word = line.decode().strip()
                file.write("".join(row + "\r\n" for row in own.get(word) or answer(word) or []).encode())
                file.flush()
    return listener(name, serve)
