# SPDX-License-Identifier: BSD-3-Clause
"""The admin sockets (--admin) of farcached and farnode: access rights, commands, limits, and creation and removal of the
socket's file."""
import contextlib
import os
import pwd
import re
import shutil
import signal
import socket
import stat
import struct
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from farcached import (Client, Closed, Daemon, TimedOut, conversations, deadline, default_binary, gone,  # noqa: E402
                       run_binary, tap, until)
from farnode import Farnode, farnode_binary  # noqa: E402

ROOT = os.geteuid() == 0
FOLDER = tempfile.mkdtemp(prefix="farcached-admin-")
os.chmod(FOLDER, 0o777)
CONNECTIONS_MAX = 16


def path_of(name):
    return os.path.join(FOLDER, name)


class Operator:
    """Conversations with a daemon's admin socket."""

    def __init__(self, path):
        self.path = path

    def client(self):
        return Client(self.path)


# -- Both daemons -----------------------------------------------------------------------------------------

def check_bounds(path, name):
    """The number of connections is limited, and a closed connection frees its place."""
    held = [Client(path) for _ in range(CONNECTIONS_MAX)]
    for c in held:
        c.ask("version")
    with Client(path) as c:
        tap.is_(c.until_close(), b"ERROR too many connections to this socket: close one first\r\n",
                name + ": one more gets an error")
    held.pop().close()

    def enters():
        with Client(path) as c:
            try:
                return c.ask("version")
            except (OSError, Closed):
                return ""
    tap.like(until(enters, lambda got: got.startswith("VERSION")), "^VERSION", name + ": a place that was left is free")
    for c in held:
        c.close()


def ask_as(user, path):
    """The reply to `version` for that user. A process of its own asks, which need not be able to execute anything."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(pwd.getpwnam(user).pw_gid)
            os.setuid(pwd.getpwnam(user).pw_uid)
            with Client(path) as c:
                with contextlib.suppress(ConnectionError):
                    c.send("version\r\n")
                theirs.send(c.line().rstrip())
        except Exception as e:
            theirs.send(type(e).__name__.encode())
        finally:
            os._exit(0)
    theirs.close()
    with ours:
        ours.settimeout(deadline())
        answer = ours.recv(1000).decode()
    os.waitpid(child, 0)
    return answer


def check_strangers(daemon, path, name):
    """The daemon runs as nobody and so cannot write a port file."""
    if not ROOT:
        tap.skip(name + ": other users", "only root can become one")
        return
    with daemon:
        tap.like(ask_as("root", path), "^VERSION", name + " of nobody: root may")
        tap.like(ask_as("nobody", path), "^VERSION", "  nobody may")
        tap.is_(ask_as("daemon", path), "PermissionError", "  the file's mode refuses another user")
        os.chmod(path, 0o666)
        tap.is_(ask_as("daemon", path), "ERROR only root and the user of the process may use this socket",
                "  and so does the process")


def check_without_chown(path):
    if not ROOT:
        tap.skip("without CAP_CHOWN", "only root has it")
        return
    _, _, err = run_binary("--bounding-set=-chown", default_binary(), "-u", "nobody", "--admin", path, "-s", "/nonexistent/s",
                           binary="setpriv", as_is=True)
    tap.is_(err.decode().split("\n")[0], "failed to give %s to nobody: Operation not permitted; its owner stays root, so nobody "
            "may be unable to connect: grant CAP_CHOWN, or start as nobody" % path, "without CAP_CHOWN: a warning, with a remedy")


def check_file(start, binary, path, name):
    """Files that may exist at the path before the start, and the file's state afterwards."""
    with start() as daemon:
        mode = os.stat(path).st_mode
        tap.ok(stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o600, name + ": the socket's mode is 0600", oct(mode))
        more = ["--tcp", "127.0.0.1:0"] if binary else ["-l", "127.0.0.1", "-p", "-1"]
        status, _, err = run_binary("--admin", path, *more, binary=binary)
        tap.is_((status, err.decode()), (71, "--admin %s: in use by %s, process %d; stop it, or choose another address\n"
                                        % (path, os.path.basename(binary or "farcached"), daemon.pid)),
                "  one at which a process answers is left to it")
    tap.ok(not os.path.exists(path), "  it is removed at the end")
    with open(path, "w") as f:
        f.write("mine")
    status, _, err = run_binary("--admin", path, *more, binary=binary)
    tap.is_((status, err.decode()), (71, "--admin %s: a file exists that is not a socket\n" % path),
            "  another file is not touched")
    os.unlink(path)
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(path)
    dead.close()
    with start(), Client(path) as c:
        tap.like(c.ask("version"), "^VERSION", "  a dead one's is replaced")
    status, _, err = run_binary("--admin", "x" * 108, *more, binary=binary)
    tap.is_(status, 64, "  a path that is too long is refused")
    tap.like(err.decode(), "1 to 107 printable bytes", "  in words")
    status, _, err = run_binary("--admin", "/nonexistent/s", *more, binary=binary)
    tap.is_((status, err.decode()), (71, "--admin /nonexistent/s: No such file or directory\n"),
            "  and one that cannot be made")


def peer_pid(client):
    return struct.unpack("3i", client.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))[0]


def check_background(path, name, *args):
    """A bug: with -d, the peer of the socket's clients was the parent, which has ended."""
    pid_file = path_of("pid")
    binary = farnode_binary() if name == "farnode" else None
    status, _, err = run_binary("-d", "-P", pid_file, "--admin", path, *args, binary=binary)
    tap.is_((status, err), (0, b""), name + " -d")
    pid = until(lambda: read_number(pid_file), bool)
    try:
        with Client(path) as c:
            tap.is_(c.stats()["pid"], str(pid), "  it answers")
        with Client(path) as c:
            tap.is_(peer_pid(c), pid, "  the peer of a client is the daemon")
    finally:
        os.kill(pid, signal.SIGTERM)
    tap.ok(until(lambda: gone(pid), bool), "  it ends")


def read_number(path):
    with contextlib.suppress(FileNotFoundError), open(path) as f:
        return int(f.read() or 0)
    return 0


# -- farnode ----------------------------------------------------------------------------------------------

NODE_TALK = r'''
== version and quit
> version\r\nquit\r\n
<~ VERSION farnode \d+\.\d+\.\d+.*
!
== what is no command
> flush_all\r\n\r\nstat\r\nversion 1\r\nquit now\r\nSTATS\r\n
< ERROR\r\nERROR\r\nERROR\r\nERROR\r\nERROR\r\nERROR\r\n
== the general group is the default
> stats\r\n
< STAT node n1\r\n
<~ STAT incarnation [0-9a-f]{16}
<~ STAT pid \d+
<.. STAT limit_maxbytes 16777216
<.. STAT lease_granted 0
<.. END
> stats general\r\n
< STAT node n1\r\n
<.. END
== the other groups
> stats leases\r\n
<~ STAT incarnation [0-9a-f]{16}
< STAT lease_enabled 1\r\nSTAT lease_term_ms 3000\r\n
<.. END
> stats connections\r\n
<~ STAT end_\w+ \d+
<.. END
> stats classes\r\n
< END\r\n
> stats groups\r\n
< STAT general 1\r\nSTAT leases 1\r\nSTAT classes 1\r\nSTAT all 1\r\nSTAT connections 1\r\nSTAT keys 1\r\n
< STAT proxies 1\r\nSTAT transport 1\r\nSTAT groups 1\r\nSTAT config 1\r\nEND\r\n
== a group that there is not
> stats nosuch\r\n
< CLIENT_ERROR no group of this name; groups: general, leases, classes, all, connections,
< \x20keys, proxies, transport, groups, config\r\n
== blanks and bare newlines
>   stats   classes  \nversion\n
< END\r\n
<~ VERSION farnode .*
== half-closed by the client, it is answered
> version\r\nstats classes\r\n
=
<~ VERSION .*
< END\r\n
!
== a line at its longest, and one longer
> {x*255}\r\n
< ERROR\r\n
> {x*258}
< CLIENT_ERROR line too long\r\n
!
== a longer line that is whole
> version\r\n{x*257}\nversion\r\n
<~ VERSION .*
< CLIENT_ERROR line too long\r\n
!
'''


def node():
    return Farnode("--tcp", "127.0.0.1:0", "--admin", path_of("n.sock"), "--name", "n1", "-m", "16", "--lease-ms", "3000")


def check_pieces(path):
    with Client(path) as c:
        c.send_split("version\r\nstats classes\r\nnothing\r\n")
        tap.like(c.line().decode(), "^VERSION farnode", "byte by byte: version")
        c.expect("END\r\nERROR\r\n", "  and the rest")
    with Client(path) as c:
        c.send("stats classes\r\n" * 1000)
        c.expect("END\r\n" * 1000, "a thousand lines at once are all answered")


def check_unread(path):
    """A client that does not read its replies is disconnected; others are served meanwhile."""
    with Client(path) as c:
        c.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        c.socket.settimeout(0.2)
        try:
            while True:
                c.send("stats\r\n" * 100)
        except (socket.timeout, BlockingIOError, BrokenPipeError, ConnectionError):
            pass
        with Client(path) as other:
            tap.like(other.ask("version"), "^VERSION", "while one does not read, others are answered")
        tap.ok(until(lambda: cut_off(c), bool), "and it is cut off")


def cut_off(client):
    try:
        client.socket.send(b"x", socket.MSG_DONTWAIT)
        return False
    except BlockingIOError:
        return False
    except OSError:
        return True


def test_farnode():
    path = path_of("n.sock")
    with node() as n:
        conversations(Operator(path), NODE_TALK, fence=False)
        check_pieces(path)
        with n.node_client() as proxy, Client(path) as c:
            proxy.greet()
            proxy.set(b"key", b"value")
            # The connection of check_pieces() may end late.
            stats = until(c.stats, lambda s: int(s["connections_opened"]) - int(s["connections_over"]) == 1)
            tap.is_((stats["curr_items"], stats["pid"]), ("1", str(n.pid)), "it shows the proxies' requests")
            own = ("request_frames", "requests", "cmd_stats", "uptime", "rusage_user", "rusage_system", "log_lines_lost")
            tap.is_(stats, {**proxy.node_stats(), **{k: stats[k] for k in stats if k in own}}, "  the same numbers")
            tap.ok(re.search(r"^1:", " ".join(c.stats("classes"))) or "slot_bytes" in " ".join(c.stats("classes")),
                   "  and of size classes")
        check_bounds(path, "farnode")
        check_unread(path)
        with Client(path) as c:
            c.ask("version")
            n.stop()
            tap.ok(c.is_closed(), "a connection ends with the node")
    check_file(node, farnode_binary(), path, "farnode")
    check_strangers(Farnode("--shm", path_of("shm"), "--admin", path, user=["-u", "nobody"]), path, "farnode")
    check_background(path, "farnode", "--tcp", "127.0.0.1:0", "-m", "16")
    config = path_of("f.toml")
    with open(config, "w") as f:
        f.write('tcp = "127.0.0.1:0"\nadmin = "%s"\n' % path)
    with Farnode("--config", config), Client(path) as c:
        tap.like(c.ask("version"), "^VERSION farnode", "the path may be in the file")


# -- farcached ----------------------------------------------------------------------------------------------

PROXY_TALK = r'''
== it is a text session like others
> set k 0 0 1\r\n1\r\nget k\r\nmn\r\n
< STORED\r\nVALUE k 0 1\r\n1\r\nEND\r\nMN\r\n
== version and quit
> version\r\nquit\r\n
< VERSION 1.6.45\r\n
!
== without nodes none can be drained
> drain a\r\nundrain a\r\n
< CLIENT_ERROR no nodes are configured\r\nCLIENT_ERROR no nodes are configured\r\n
== one node must be named
> drain\r\nundrain\r\ndrain a b\r\n
< CLIENT_ERROR usage: drain NODE\r\nCLIENT_ERROR usage: undrain NODE\r\nCLIENT_ERROR usage: drain NODE\r\n
== a line in pieces
> dra
> in a\r
> \n
< CLIENT_ERROR no nodes are configured\r\n
'''

CLIENTS_TALK = r'''
== to clients these are no commands
> drain a\r\nundrain a\r\ndrain\r\nundrain a b c\r\n
< ERROR\r\nERROR\r\nERROR\r\nERROR\r\n
== and answered as unknown ones are
> drain a noreply\r\nmn\r\n
< MN\r\n
> drain / HTTP/1.1\r\n
!
'''


def proxy(*more):
    return Daemon("--admin", path_of("p.sock"), *more)


def check_not_counted(path):
    with proxy("-c", "2") as d:
        clients = [d.client()]
        until(lambda: clients[0].stats()["curr_connections"], lambda n: n == "1")  # the start check's connection is closed
        clients.append(d.client())
        tap.like(clients[1].ask("version"), "VERSION ", "-c 2: a second client")
        with d.client() as c:
            tap.is_(c.until_close(), b"ERROR Too many open connections\r\n", "-c 2: a third client is refused")
        with Client(path) as c:
            tap.is_(c.stats()["curr_connections"], "2", "the operator is not counted")
            tap.ok("unix:" + path in c.stats("conns").values(), "but shown in stats conns")
            c.send("watch\r\n")
            c.expect("OK\r\n", "and may watch")
        tap.is_(until(lambda: clients[0].stats()["log_watchers"], lambda n: n == "0"), "0", "until it leaves")
        check_bounds(path, "farcached")
        tap.is_(clients[0].stats()["curr_connections"], "2", "nor is its leaving counted")
        for c in clients:
            c.close()
    with proxy("-c", "1", "-o", "no_maxconns_fast") as d, d.client() as only, Client(path) as c:
        only.ask("version")
        tap.is_(until(lambda: c.stats()["accepting_conns"], lambda on: on == "0"), "0", "full, and not accepting")
        with Client(path) as another:
            tap.like(another.ask("version"), "^VERSION", "the operator enters all the same")
        with d.client() as waiting:
            waiting.send("version\r\n")
            waiting.timeout = 0.2
            waiting.socket.settimeout(0.2)
            try:
                waiting.line()
                tap.ok(False, "a client waits")
            except TimedOut:
                tap.ok(True, "a client waits")


def test_farcached():
    path = path_of("p.sock")
    with proxy() as d:
        conversations(Operator(path), PROXY_TALK)
        conversations(d, CLIENTS_TALK)
        with Client(path) as c:
            c.send(b"\x80" + b"\0" * 23 + b"\r\n")
            c.expect("ERROR\r\n", "the binary protocol is not spoken there")
        with Client(path) as c:
            c.ask("version")
            d.stop()
            tap.ok(c.is_closed(), "a connection ends with the daemon")
    check_not_counted(path)
    check_file(proxy, None, path, "farcached")
    check_strangers(Daemon("-s", path_of("s"), "--admin", path, user=["-u", "nobody"]), path, "farcached")
    check_without_chown(path)
    check_background(path, "farcached", "-s", path_of("s"), "-m", "16")


def main():
    try:
        test_farnode()
        test_farcached()
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)
    tap.done()


main()
