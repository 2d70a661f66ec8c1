# SPDX-License-Identifier: BSD-3-Clause
"""Messages to the service manager (sd_notify): ready, reloading, stopping, a status text, and a watchdog that is fed only while
every thread runs its loop."""
import contextlib
import os
import re
import signal
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from farcached import Client, Daemon, deadline, gone, run_binary, tap, until  # noqa: E402
from farnode import Farnode  # noqa: E402
from service import Manager, Service, listening, standing_still  # noqa: E402

WATCHDOG_US = 800_000


def monotonic_us():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000


def life(abstract):
    """Start, clients, reload, stop."""
    where = "an abstract socket: " if abstract else "a socket with a path: "
    with Manager(abstract) as manager, Service(manager, "-t", "2", watchdog_us=WATCHDOG_US) as d:
        ready = manager.until("READY=1")
        tap.is_(ready, {"READY": "1", "STATUS": "0 clients, 0 requests/s"}, where + "it reports readiness once it serves")
        tap.is_(manager.told[:-1], [], where + "and nothing before")
        tap.is_(manager.senders, {d.pid}, where + "the messages come from its own process")
        with d.client() as one, d.client() as other:
            tap.ok(manager.until_status("2 clients, "), where + "the status follows changes")
            one.ask("version"), other.ask("version")
            tap.ok(manager.until(lambda m: "requests/s" in m.get("STATUS", "") and ", 0 req" not in m["STATUS"]),
                   where + "and shows the request rate")
        before = monotonic_us()
        d.signal(signal.SIGHUP)
        began = manager.until("RELOADING=1")
        tap.ok(began and before <= int(began["MONOTONIC_USEC"]) <= monotonic_us(),
               where + "a reload is reported with its time", began)
        tap.is_(manager.until(lambda m: "READY" in m), {"READY": "1"}, where + "and its end")
        # The daemon may notice a closed connection later.
        latest = [m["STATUS"] for m in manager.told if "STATUS" in m][-1]
        tap.ok(latest.startswith("0 clients") or manager.until_status("0 clients, "), where + "clients that left are none")
        d.signal(signal.SIGTERM)
        last = manager.until("STOPPING=1")
        tap.like((last or {}).get("STATUS"), "^stopping: 0 clients", where + "the end is reported")
        tap.is_(d.wait(), 0, where + "it ends well")
    known = {"READY", "STATUS", "RELOADING", "MONOTONIC_USEC", "WATCHDOG", "STOPPING"}
    tap.is_(set().union(*manager.told) - known, set(), where + "and nothing else")


def nobody_there():
    """A manager that has ended, and invalid socket names."""
    manager = Manager()
    with manager:
        pass
    with Service(manager) as d:
        tap.is_(d.client().set("k", "v"), "STORED", "a manager that is gone is no reason not to serve")
    tap.is_(d.stderr_at_end, b"", "nor to complain")
    for name in ("relative/path", "@", "/" + "x" * 200):
        with Daemon(env={"NOTIFY_SOCKET": name}) as d:
            tap.like(d.stderr(), r"\ANOTIFY_SOCKET=%s: not the path of a Unix socket: " % name, "no socket: " + name[:20])
            tap.is_(d.client().set("k", "v"), "STORED", "it serves all the same")


def background():
    with Manager() as manager, Service(manager, "-d", listen_env={"SYSTEMD_EXEC_PID": "$$"}) as d:
        tap.ok(manager.until("READY=1"), "-d: it is ready")
        tap.like(d.stderr(), r"\A-d is ignored: the service manager requires a foreground process\n\Z",
                 "and prints why it stays in the foreground")
        tap.ok(d.alive(), "it is the process that was started")
        pid_file = os.path.join(manager.folder, "pid")
        status, _, errors = run_binary("-d", "-P", pid_file, "-l", "127.0.0.1", "-p", "-1",
                                       env={"NOTIFY_SOCKET": manager.name, "SYSTEMD_EXEC_PID": str(d.pid)})
        tap.is_((status, errors), (0, b""), "-d works in a process that a service starts")
        with open(until(lambda: pid_file, os.path.exists)) as f:
            pid = int(f.read())
        os.kill(pid, signal.SIGTERM)
        tap.ok(until(lambda: gone(pid), bool), "which can be ended")


# -- Nodes -----------------------------------------------------------------------------------------------


def with_nodes():
    """Ready after one connection attempt to each node, successful or not."""
    with contextlib.closing(listening()) as nobody:
        closed_port = nobody.getsockname()[1]
    with Farnode("--name", "a") as a, Manager() as manager:
        nodes = ["--node", "a=tcp:127.0.0.1:%d" % a.port, "--node", "b=tcp:127.0.0.1:%d" % closed_port]
        with Service(manager, *nodes, "-t", "2", watchdog_us=WATCHDOG_US):
            ready = manager.until("READY=1")
            tap.like((ready or {}).get("STATUS"), r"^1/2 nodes up \(b is down: .*Connection refused.*\), 0 clients",
                     "ready names the nodes that are up, and the reason of one that is not")
            a.stop()
            tap.ok(manager.until_status("0/2 nodes up (a is down"), "the status follows a node that ends")


def with_silent_node():
    with contextlib.closing(listening()) as silent, Manager() as manager:
        node = ["--node", "a=tcp:127.0.0.1:%d" % silent.getsockname()[1]]
        with Service(manager, *node, "-t", "1", "-o", "node_timeout_ms=60000"):
            first = manager.next()
            tap.is_(first, {"STATUS": "0/1 nodes up (a is down), 0 clients, 0 requests/s"},
                    "before the first connection attempt the daemon is not ready, and its status shows it")
            silent.settimeout(deadline())
            silent.accept()[0].close()
            tap.ok(manager.until("READY=1"), "it is when that connection has ended")


# -- The watchdog ----------------------------------------------------------------------------------------


def feeds(manager, name):
    fed = [manager.until("WATCHDOG=1") for _ in range(3)]
    tap.ok(all(fed), name + ": an idle process feeds its watchdog, again and again")


def anothers_watchdog():
    with Manager() as manager, Service(manager, watchdog_us=1000, listen_env={"WATCHDOG_PID": "1"}) as d:
        manager.until("READY=1")
        d.signal(signal.SIGHUP)
        manager.until("RELOADING=1")
        manager.until("READY=1")
        tap.ok(not any("WATCHDOG" in m for m in manager.told), "another process's watchdog is not fed")


def stuck(name, arguments, thread, called):
    """A thread that does not run its loop starves the watchdog, although all others run."""
    with Manager() as manager, Service(manager, *arguments, watchdog_us=WATCHDOG_US, program=name) as d:
        manager.until("READY=1")
        feeds(manager, name)
        with standing_still(d.thread(thread)) as still:
            if not still:
                tap.skip(name + ": a thread that is stuck", "tracing is not allowed here")
                return
            tap.ok(manager.until_status(called + " is stuck, "), name + ": a stuck thread is in the status")
            since = len(manager.told)
            manager.until("WATCHDOG=1", WATCHDOG_US * 2 / 1e6)
            tap.is_([m for m in manager.told[since:] if "WATCHDOG" in m], [], name + ": the watchdog is not fed")
            line = r"(?m)^%s is stuck: its loop has not run for \d+\.\d s; the watchdog is not notified until it runs$" % called
            tap.is_(len(re.findall(line, d.stderr().decode())), 1, name + ": a line names it, once")
        tap.ok(manager.until("WATCHDOG=1"), name + ": the watchdog is fed when it continues")
        wanted = b"%s is running again\n" % called.encode()
        tap.ok(wanted in until(d.stderr, lambda text: wanted in text), name + ": and a line reports it")


def busy():
    """Busy clients do not keep a worker from feeding the watchdog."""
    with Manager() as manager, Service(manager, "-t", "1", watchdog_us=WATCHDOG_US) as d:
        manager.until("READY=1")
        with Client(d.port) as c:
            c.set("k", "x" * 1000)
            c.socket.setblocking(False)
            for _ in range(3):
                end = time.monotonic() + WATCHDOG_US / 1e6
                while not any("WATCHDOG" in m for m in manager.told[-1:]) and time.monotonic() < end:
                    with contextlib.suppress(BlockingIOError):
                        c.socket.send(b"get k\r\n" * 100)
                    with contextlib.suppress(BlockingIOError):
                        c.socket.recv(1 << 20)
                    manager.next(0.001)
                tap.ok("WATCHDOG" in manager.told[-1], "a busy worker feeds the watchdog")
                manager.told.clear()
                manager.told.append({})
            c.socket.setblocking(True)


# -- farnode -----------------------------------------------------------------------------------------------


def node_life():
    with Manager() as manager, Service(manager, "--tcp", "127.0.0.1:0", "-m", "64", watchdog_us=WATCHDOG_US,
                                       program="farnode") as d:
        ready = manager.until("READY=1")
        tap.is_((ready or {}).get("STATUS"), "0 connections of proxies, 0 items in 0 of 64 MB",
                "farnode is ready, with its memory as status")
        with Daemon("--node", "a=tcp:127.0.0.1:%d" % d.port, "-t", "1") as proxy:
            tap.is_(proxy.client().set("k", "v"), "STORED", "a proxy stores something in it")
            tap.ok(manager.until_status("1 connection of proxies, 1 item in "), "its status shows it")
        d.signal(signal.SIGHUP)
        tap.ok(manager.until("RELOADING=1") and manager.until(lambda m: "READY" in m), "farnode reports a reload")
        d.signal(signal.SIGTERM)
        tap.ok(manager.until("STOPPING=1"), "and of its end")


def main():
    socket.setdefaulttimeout(deadline())
    life(abstract=False)
    life(abstract=True)
    nobody_there()
    background()
    with_nodes()
    with_silent_node()
    anothers_watchdog()
    stuck("farcached", ["-t", "2"], "worker 1", "worker 1")
    stuck("farcached", ["-t", "2"], "accept", "the thread that accepts")
    stuck("farnode", ["--tcp", "127.0.0.1:0", "-t", "1"], "loop", "loop 0")
    busy()
    node_life()
    tap.done()


main()
