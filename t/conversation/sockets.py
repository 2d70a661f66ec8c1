# SPDX-License-Identifier: BSD-3-Clause
"""Sockets passed by the service manager (socket activation): service on them, invalid ones, and connections that wait while the
daemon restarts again and again under load."""
import contextlib
import os
import shutil
import signal
import socket
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from farcached import Client, StartFailed, connect, deadline, tap, until  # noqa: E402
from restart_load import KINDS, RestartLoad  # noqa: E402
from service import Manager, Service, listening  # noqa: E402

FOLDER = tempfile.mkdtemp(prefix="farcached-sockets-")
RESTARTS = 5


def path_of(name):
    return os.path.join(FOLDER, name)


def serves(address, name):
    for kind, ask in KINDS.items():
        with Client(connect(address, deadline())) as c:
            tap.ok(ask(c, "k-" + kind, "value"), "%s: a %s client is served" % (name, kind))


def taken():
    """TCP and Unix sockets together, and the admin socket by its name; the options for the same are ignored."""
    paths = {name: path_of(name) for name in ("clients", "operator", "unused", "unused-admin")}
    with listening() as tcp, listening(paths["clients"]) as unix, listening(paths["operator"]) as admin:
        port = tcp.getsockname()[1]
        for mine, theirs in ((["-p", "1", "-l", "192.0.2.1"], "-p and -l"), (["-s", paths["unused"]], "-s")):
            passed = [(tcp, "farcached.socket"), (unix, "farcached.socket"), (admin, "admin")]
            with Service(None, "-v", *mine, "--admin", paths["unused-admin"], sockets=passed) as d:
                serves(("127.0.0.1", port), theirs + " and a TCP socket")
                serves(paths["clients"], theirs + " and a Unix socket")
                tap.is_(d.ports, [("TCP INET", port)], "the port file names the port that was passed")
                with Client(paths["operator"]) as c:
                    left = until(lambda: c.stats()["curr_connections"], lambda n: n == "0")  # clients that end
                    tap.is_(left, "0", "the socket named admin is the operator's: he is no client")
                tap.like(d.stderr(), r"(?m)^listening at 2 sockets from the service manager; -p, -l and -s are ignored$",
                         "-v logs it")
                shown = d.until_stat("pid", bool)
                tap.is_(shown, str(d.pid), "stats name the serving process")
            tap.is_([name for name in paths if os.path.exists(paths[name])], ["clients", "operator"],
                    "files of sockets that were passed stay, and no others are made")


def nobody_is_refused():
    """A client that connects during a restart waits until the new daemon serves it."""
    path = path_of("between")
    with listening() as tcp, listening(path) as unix:
        sockets = [(tcp, "a"), (unix, "b")]
        with Service(None, sockets=sockets) as d:
            serves(("127.0.0.1", tcp.getsockname()[1]), "first")
            tap.is_(d.stop(), 0, "it ends")
        early = [Client(connect(address, deadline())) for address in (("127.0.0.1", tcp.getsockname()[1]), path)]
        for c in early:
            c.send(b"version\r\n")
        with Service(None, sockets=sockets):
            for c in early:
                tap.like(c.line(), "^VERSION ", "a client that connected between two daemons is served by the next one")
                c.close()


def under_load():
    path = path_of("load")
    with listening() as tcp, listening(path) as unix:
        sockets = [(tcp, "a"), (unix, "b")]
        lives = [Service(None, "-t", "2", sockets=sockets).start()]
        try:
            with RestartLoad([tcp.getsockname(), path]) as load:
                for number in range(RESTARTS):
                    number_of_signal = signal.SIGUSR1 if number % 2 else signal.SIGTERM
                    lives[-1].stop(number_of_signal)
                    lives[-1].__exit__(None, None, None)
                    lives.append(Service(None, "-t", "2", sockets=sockets).start())
                    done = load.until_served()
                connections = min(load.connections.values())
        finally:
            lives[-1].__exit__(None, None, None)
        tap.is_(load.refused, [], "%d restarts under load: no connection attempt is refused" % RESTARTS)
        tap.is_(load.wrong, [], "and every answer is the right one")
        tap.ok(connections > RESTARTS and min(done.values()) > RESTARTS, "text, meta and binary clients reconnected each time",
               load.connections, done)


# -- What is refused ------------------------------------------------------------------------------------------


def refused(sockets, said, name, program="farcached", arguments=("-l", "127.0.0.1", "-p", "-1"), **more):
    service = Service(None, *arguments, sockets=sockets, program=program, **more)
    try:
        service.start().wait()
    except StartFailed:
        pass
    tap.is_(service.stop(), 71, name + " is refused")
    tap.is_(service.stderr_at_end.decode(), said + "\n", name + ": and why")


def refusals():
    by = " from the service manager "
    with listening() as tcp, listening() as other, listening(path_of("one")) as unix, listening(path_of("two")) as second, \
            listening(kind=socket.SOCK_DGRAM) as datagrams, tempfile.TemporaryFile() as file:
        refused([(tcp, "a"), (datagrams, "b")], "socket 4 (b)%sis not a stream socket: use ListenStream= in its unit" % by,
                "a datagram socket")
        with connect(tcp.getsockname(), deadline()) as connection:
            refused([(connection, "a")], "socket 3 (a)%sis a connection, not a listening socket: use Accept=no in its unit" % by,
                    "a connection")
        refused([(file, "")], "socket 3%sis not a socket" % by, "a file")
        refused([(tcp, "a")], "socket 4%sis not open: LISTEN_FDS is more than the number of sockets" % by, "one too few",
                listen_env={"LISTEN_FDS": "2"})
        refused([(tcp, "a")], "LISTEN_FDS=many: not a number of sockets from 0 to 1024", "a count that is none",
                listen_env={"LISTEN_FDS": "many"})
        refused([(unix, "admin"), (second, "admin")],
                "socket 4 (admin)%sis a second socket for the operator; the first is socket 3 (admin)%s"
                % (by, by.rstrip()), "a second socket for the operator")
        refused([(tcp, "admin")],
                "socket 3 (admin)%sis a TCP socket; the operator's socket must be a Unix socket" % by,
                "an operator's socket over TCP")
        refused([(unix, "a")], "socket 3 (a)%sis a Unix socket: proxies connect over TCP, or at the path of --shm, which the node "
                "creates itself" % by, "farnode: a Unix socket", program="farnode", arguments=["--tcp", "127.0.0.1:0"])
        with contextlib.closing(socket.create_server(("0.0.0.0", 0))) as reachable:
            place = "socket 3 (a) from the service manager at 0.0.0.0:%d can be reached from other machines" % (
                reachable.getsockname()[1])
            refused([(reachable, "a")], place + ", and peers need no key there: set --auth-key-file FILE, or --insecure if the "
                    "network is trusted", "farnode: a socket for other machines",
                    program="farnode", arguments=["--tcp", "127.0.0.1:0"])
            with Service(None, "--tcp", "127.0.0.1:0", "--insecure", sockets=[(reachable, "a")], program="farnode") as d:
                tap.is_(d.ports, [("TCP INET", reachable.getsockname()[1])], "which --insecure accepts")
            with Service(None, sockets=[(reachable, "a")]) as d:
                tap.like(d.stderr().decode(), r"(?m)^tcp:0\.0\.0\.0:%d can be reached from other machines, and clients need no "
                         "authentication there: " % reachable.getsockname()[1], "farcached warns of such a socket")
        with Service(None, "-l", "127.0.0.1", "-p", "-1", sockets=[(other, "a")], listen_env={"LISTEN_PID": "1"}) as d:
            tap.ok(d.port != other.getsockname()[1], "sockets passed to another process are ignored")


def node():
    """A node's TCP socket survives its restart, too."""
    path = path_of("node-admin")
    with listening() as tcp, listening(path) as admin:
        port = tcp.getsockname()[1]
        arguments = ["--tcp", "127.0.0.1:1", "--name", "a"]
        sockets = [(tcp, "farnode.socket"), (admin, "admin")]
        with Service(None, *arguments, sockets=sockets, program="farnode") as d:
            tap.is_(d.ports, [("TCP INET", port)], "farnode listens at the socket that it was passed")
            with Client(path) as c:
                tap.like(c.ask("version"), "^VERSION farnode", "and answers the operator at his")
        with Manager() as manager, Service(manager, "--node", "a=tcp:127.0.0.1:%d" % port, "-t", "1",
                                           "-o", "node_timeout_ms=%d" % min(60000, deadline() * 1000)) as proxy:
            tap.ok(manager.next(), "a proxy waits for a node that is starting")
            with Service(None, *arguments, sockets=sockets, program="farnode"):
                tap.is_(until(lambda: proxy.client().set("k", "v"), lambda got: got == "STORED"), "STORED",
                        "and uses it when it is there")


def main():
    try:
        taken()
        nobody_is_refused()
        under_load()
        refusals()
        node()
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)
    tap.done()


main()
