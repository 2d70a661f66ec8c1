# SPDX-License-Identifier: BSD-3-Clause
"""Out of file descriptors: open connections are served, new ones wait for a free descriptor. Tested for clients, HTTP, the admin
socket and connections to nodes. The shortage is counted and logged once. A node refuses connections for which it has no
descriptor."""
import contextlib
import os
import resource
import socket
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from connections import open_files  # noqa: E402
from farcached import Client, Daemon, tap, until  # noqa: E402
from farnode import Farnode  # noqa: E402
from http_get import http_args, http_env, http_port  # noqa: E402

SPARE = 6     # descriptors left to the daemon
WAITING = 20  # clients without a descriptor


def leave(daemon, spare):
    """Limits the daemon to this number of free descriptors."""
    used = open_files(daemon)
    limit = max(used) + 1
    while limit - len([fd for fd in used if fd < limit]) < spare:
        limit += 1
    _, hard = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (limit, hard))


def clients_wait(folder):
    admin = os.path.join(folder, "admin")
    with Daemon("-c", "500", "--admin", admin, *http_args(), env=http_env(folder), threads=2) as d, d.client() as first:
        port = http_port(folder)
        until(first.stats, lambda stats: stats["curr_connections"] == "1")
        leave(d, SPARE)
        with contextlib.ExitStack() as ends:
            served, waiting = [], []
            for _ in range(SPARE):
                served.append(ends.enter_context(d.client()))
                served[-1].ask("mn")
            tap.is_(first.stats()["listen_disabled_num"], "0", "without a waiting client accepting does not pause")
            for i in range(WAITING):
                waiting.append(ends.enter_context(d.client()))
                waiting[-1].send("set k%d 0 0 1\r\nv\r\n" % i)
            page = ends.enter_context(socket.create_connection(("127.0.0.1", port), timeout=first.timeout))
            page.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            operator = ends.enter_context(Client(admin))
            operator.send("version\r\n")
            stats = until(first.stats, lambda s: int(s["listen_disabled_num"]) > 0)
            tap.ok(int(stats["listen_disabled_num"]) > 0, "that accepting pauses is counted")
            tap.is_([c.ask("mn") for c in [first] + served], ["MN"] * (1 + SPARE), "connected clients are served")
            said = until(d.stderr, lambda text: b"accepting clients" in text).decode()
            tap.is_(said.count("accepting clients is suspended: Too many open files"), 1, "it is logged once")
            for c in served:
                c.close()
            replies = []
            for c in waiting:
                replies.append(c.line().strip())
                c.close()
            tap.is_(replies, [b"STORED"] * WAITING, "waiting clients are served when others disconnect, without a loss")
            tap.like(page.recv(4096), "^HTTP/1.1 200 OK", "HTTP, too")
            tap.like(operator.line(), "^VERSION ", "and the operator")
        with d.client() as c:
            tap.is_(c.ask("mn"), "MN", "later clients find room")
            stats = c.stats()
            tap.is_(stats["accepting_conns"], "1", "all are accepted again")
            tap.ok(int(stats["time_in_listen_disabled_us"]) > 0, "for how long it paused is counted")
        until(d.stderr, lambda text: b"accepting clients again" in text)
    lines = d.stderr_at_end.decode().splitlines()
    tap.ok("accepting clients again" in lines and len(lines) <= 20, "and the end of the shortage is logged", lines)


def connections_to_nodes(folder):
    path = os.path.join(folder, "node.sock")
    with contextlib.ExitStack() as ends:
        node = ends.enter_context(Farnode("--name", "n", "--shm", path, threads=1, expect_exit=0))
        d = ends.enter_context(Daemon("--node", "a=shm:" + path, threads=1))
        first = ends.enter_context(d.client())
        d.until_stat("a:links_up", lambda n: n == "1", "nodes")
        until(first.stats, lambda stats: stats["curr_connections"] == "1")
        tap.is_(first.set("k", "v"), "STORED", "a node")
        leave(d, SPARE)
        clients = [ends.enter_context(d.client()) for _ in range(SPARE)]
        tap.is_([c.ask("mn") for c in clients], ["MN"] * SPARE, "its proxy has no descriptor left")
        node.stop()
        until(lambda: first.stats("nodes")["a:links_up"], lambda n: n == "0")
        # The closed connection's descriptor is free now: a client takes it before the node is back.
        with contextlib.ExitStack() as takers:
            for _ in range(8):
                takers.enter_context(d.client()).send("mn\r\n")
            ends.enter_context(Farnode("--name", "n", "--shm", path, threads=1))
            down = until(lambda: first.stats("proxy"), lambda stats: int(stats["down_no_channel"]) > 0)
            tap.ok(int(down["down_no_channel"]) > 0, "a connection that finds no descriptor is counted", down)
        for c in clients:
            c.close()
        tap.is_(until(lambda: first.stats("nodes")["a:links_up"], lambda n: n == "1"), "1", "and made when there is one")
        tap.is_(until(lambda: first.set("k", "w"), lambda reply: reply == "STORED"), "STORED", "and used")


def a_node_turns_away(folder):
    admin = os.path.join(folder, "node-admin")
    with Farnode("--admin", admin, threads=1) as node, node.node_client() as proxy, Client(admin) as operator:
        proxy.greet()
        proxy.set(b"k", b"v")
        leave(node, 4)
        with contextlib.ExitStack() as ends:
            strangers = [ends.enter_context(Client(node.port)) for _ in range(12)]

            def away():
                return int(operator.stats()["connections_turned_away"])
            tap.ok(until(away, lambda n: n > 0) > 0, "a node refuses a connection without a descriptor, and counts it")
            tap.like(node.stderr(), "(?m)^tcp:127.0.0.1:.*: no descriptor for a connection", "and logs it")
            tap.ok(proxy.get(b"k") in (b"v", "v"), "connected proxies are served")
            del strangers
        with contextlib.ExitStack() as ends:
            def greeted():
                try:
                    again = ends.enter_context(node.node_client())
                    again.greet()
                    return again.set(b"l", b"v")
                except Exception:  # still refused
                    return False
            tap.ok(until(greeted, bool), "and new ones are served when there is room")


def main():
    with tempfile.TemporaryDirectory(prefix="farcached-files-") as folder:
        clients_wait(folder)
        connections_to_nodes(folder)
        a_node_turns_away(folder)
    tap.done()


main()
