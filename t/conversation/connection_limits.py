# SPDX-License-Identifier: BSD-3-Clause
"""Limits of connections: their number, descriptors, memory, time, requests per loop iteration, and the server's shutdown."""
import os
import re
import resource
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from connections import Sender, alone, endings, open_files, states, unsent, until_end  # noqa: E402
from farcached import Daemon, deadline, is_sanitized, tap, until  # noqa: E402

MB = 1 << 20


# -- Limits ----------------------------------------------------------------------------------------------

def connected(d, count):
    """`count` clients that the server has accepted, after the harness's own connection is closed."""
    first = d.client()
    alone(first)
    clients = [first] + [d.client() for _ in range(count - 1)]
    for c in clients:
        assert c.ask("mn") == "MN"
    return clients


def reject_over_limit():
    with Daemon("-c", "10", "-t", "2") as d:
        clients = connected(d, 10)
        told = []
        for _ in range(25):
            with d.client() as c:
                told.append(c.until_close())
        tap.is_(set(told), {b"ERROR Too many open connections\r\n"}, "-c 10: the eleventh gets an error and is closed")
        stats = clients[0].stats()
        tap.is_((stats["rejected_connections"], stats["curr_connections"], stats["accepting_conns"],
                 stats["listen_disabled_num"]), ("25", "10", "1", "0"), "and counted")
        clients.pop().close()
        until(lambda: clients[0].stats()["curr_connections"], lambda n: n == "9")
        clients.append(d.client())
        tap.is_(clients[-1].ask("mn"), "MN", "a closed connection frees its place")
        watcher = clients.pop()
        watcher.ask("watch")
        with d.client() as c:
            tap.is_(c.until_close(), b"ERROR Too many open connections\r\n", "a watcher keeps its place")
        watcher.close()
        until(lambda: clients[0].stats()["curr_connections"], lambda n: n == "9")
        with d.client() as c:
            tap.is_(c.ask("mn"), "MN", "until it leaves")


def suspend_over_limit():
    with Daemon("-c", "6", "-t", "2", "-o", "no_maxconns_fast") as d:
        clients = connected(d, 6)
        one = clients[0]

        def listening():
            s = one.stats()
            return s["accepting_conns"], s["curr_connections"]
        tap.is_(until(listening, lambda s: s == ("0", "6")), ("0", "6"), "no_maxconns_fast: the sixth stops the accepting")
        disabled = int(one.stats()["listen_disabled_num"])
        tap.ok(disabled >= 1, "listen_disabled_num", disabled)
        tap.ok("rejected_connections" not in one.stats(), "no connection is rejected")
        total = one.stats()["total_connections"]
        waiting = [d.client() for _ in range(3)]
        for c in waiting:
            c.send(b"version\r\n")
        tap.is_(one.stats()["total_connections"], total, "more may connect but are not accepted")
        for i, c in enumerate(waiting):
            clients.pop().close()
            c.expect(b"VERSION 1.6.45\r\n", "until one leaves (%d)" % (i + 1))
            tap.is_(until(listening, lambda s: s == ("0", "6")), ("0", "6"), "then it is full again")
        tap.ok(int(one.stats()["listen_disabled_num"]) >= disabled + 3, "each time it is counted")
        waiting.pop().close()
        tap.is_(until(listening, lambda s: s == ("1", "5")), ("1", "5"), "and accepts again when there is room")
        tap.ok(int(one.stats()["time_in_listen_disabled_us"]) > 0, "time_in_listen_disabled_us")
        for c in clients + waiting:
            c.close()


def no_descriptors():
    """No descriptor is left for one more connection: it waits until there is one."""
    with Daemon("-t", "1") as d, d.client() as asker:
        tap.ok(alone(asker), "one client")
        limits = resource.prlimit(d.pid, resource.RLIMIT_NOFILE)
        used = open_files(d)
        free = min(set(range(len(used) + 1)) - used)
        resource.prlimit(d.pid, resource.RLIMIT_NOFILE, (free, limits[1]))
        with d.client() as c:
            c.send(b"version\r\n")
            disabled = until(lambda: int(asker.stats()["listen_disabled_num"]), lambda n: n >= 2)
            tap.ok(disabled >= 2, "no descriptor left: accepting pauses, and tries again", disabled)
            resource.prlimit(d.pid, resource.RLIMIT_NOFILE, limits)
            c.expect(b"VERSION 1.6.45\r\n", "as soon as there is one, it is accepted")
            tap.is_(until(lambda: asker.stats()["accepting_conns"], lambda n: n == "1"), "1", "and new connections are accepted")


def no_memory():
    """The system has no memory for one client's value: that client's connection is closed."""
    name = "a value for which the system has no memory"
    if is_sanitized():
        tap.skip(name, "a sanitizer build cannot run under the limit")
        return
    with Daemon("-t", "1", "-m", "256", "-I", "100m") as d, d.client() as asker:
        asker.set("k", "v")
        asker.set("large", b"x" * 40000000)
        with open("/proc/%d/status" % d.pid) as f:
            size = int(re.search(r"VmSize:\s+(\d+) kB", f.read()).group(1)) << 10
        resource.prlimit(d.pid, resource.RLIMIT_AS, (size + 24 * MB, -1))
        with d.client() as c:
            sender = Sender(c, b"set big 0 0 90000000\r\n" + b"x" * 90000000 + b"\r\n")
            tap.ok(c.is_closed(), name + " closes that client")
            sender.join(deadline())
        tap.is_(endings(asker)["no_memory"], 1, "and it is counted")
        # The memory is full of incomplete values; a GET of a large value needs no new memory.
        halves = [d.client() for _ in range(12)]
        senders = [Sender(c, b"set half 0 0 90000000\r\n" + b"x" * 20 * MB) for c in halves]
        for sender in senders:
            sender.join(deadline())
        seen = []

        def stands_still(count):  # the server reads no more of what it has no memory for
            seen.append(count)
            return seen[-50:] == [count] * 50

        until(lambda: sum(unsent(c) for c in halves), stands_still)
        with d.client() as c:
            c.send(b"get large\r\n")
            value = b"VALUE large 0 40000000\r\n" + b"x" * 40000000 + b"\r\nEND\r\n"
            tap.ok(c.read(len(value)) == value, "a large value is sent without any")
        for c in halves:
            c.close()
        tap.is_(asker.get("k"), b"v", "others are served")


def idle_timeout():
    with Daemon("-t", "2", "-o", "idle_timeout=1") as d:
        active, silent, half, full = [d.client() for _ in range(4)]
        active.set("v", "x" * 900000)
        half.send(b"set k 0 0 10\r\nabc")
        full.send(b"get v\r\n" * 100)
        kicked = until(lambda: active.stats()["idle_kicks"], lambda n: int(n) >= 3)
        tap.is_(kicked, "3", "idle_timeout: idle_kicks")
        tap.ok(silent.is_closed(), "a silent client is closed without a message")
        tap.ok(half.is_closed(), "so is one with an incomplete request")
        tap.is_(endings(active)["idle_timeout"], 3, "and one that does not read; all three are counted")
        tap.is_(active.ask("mn"), "MN", "an active client is kept")
        for c in (active, silent, half, full):
            c.close()


# -- Fairness --------------------------------------------------------------------------------------------

def fairness():
    count = 100000
    with Daemon("-t", "1", "-R", "20") as d, d.client() as greedy, d.client() as modest:
        modest.set("n", "0")
        # Both clients' requests are pending when the worker continues: one receive holds all 2000 of them.
        with d.stopped():
            greedy.send(b"incr n 1 noreply\r\n" * 2000)
            modest.send(b"get n\r\n")
            until(lambda: unsent(greedy) + unsent(modest), lambda n: n == 0)
        modest.line()
        seen = int(modest.line())
        modest.line()
        tap.ok(seen <= 100, "served in between with a client that sent 2000 requests", seen)
        sender = Sender(greedy, b"incr n 1 noreply\r\n" * (count - 2000) + b"mn\r\n")
        sender.join(deadline())
        greedy.expect(b"MN\r\n", "which is served in full")
        tap.is_(modest.get("n"), b"%d" % count, "and all its increments are done")
        yields = int(modest.stats()["conn_yields"])
        tap.ok(count / 40 <= yields <= count / 20 + 10, "conn_yields counts the interruptions", yields)
    with Daemon("-t", "1", "-R", "1") as d, d.client() as c:
        c.send(b"mn\r\n" * 500)
        tap.ok(c.upto(b"MN\r\n" * 500) == b"MN\r\n" * 500, "-R 1: one request per loop iteration")
        tap.ok(int(c.stats()["conn_yields"]) >= 400, "and is counted")


# -- Shutdown --------------------------------------------------------------------------------------------

def stop_answers(number, name):
    """All requests in the server's socket buffers are answered before it exits, over any number of loop iterations."""
    count = 300
    with Daemon("-t", "2", "-R", "1") as d:
        clients = [d.client() for _ in range(16)]
        for i, c in enumerate(clients):
            c.set("n%d" % i, "0")
        for i, c in enumerate(clients):
            c.send(b"incr n%d 1\r\n" % i * count + b"get half")
        for c in clients:
            until(lambda: unsent(c), lambda n: n == 0)
        d.signal(number)
        want = b"".join(b"%d\r\n" % (i + 1) for i in range(count))
        got = [until_end(c) for c in clients]
        tap.is_([len(g) for g in got], [len(want)] * 16, name + ": all that was received is answered")
        tap.ok(all(g == want for g in got), name + ": in order")
        tap.is_(d.wait(), 0, name + ": and it ends")


def stop_finishes_replies():
    with Daemon("-t", "1") as d:
        value = b"z" * 900000
        with d.client() as c, d.client() as stuck:
            c.set("v", value)
            stuck.send(b"get v\r\n" * 100)
            c.send(b"get v\r\n" * 20)
            until(lambda: states(d).count("conn_mwrite"), lambda n: n == 2)
            d.signal(signal.SIGTERM)
            want = b"VALUE v 0 900000\r\n" + value + b"\r\nEND\r\n"
            tap.ok(until_end(c) == want * 20, "pending replies are completed for clients that read")
            tap.is_(d.wait(), 0, "a client that does not read delays the exit for a bounded time")


reject_over_limit()
suspend_over_limit()
no_descriptors()
no_memory()
idle_timeout()
fairness()
stop_answers(signal.SIGTERM, "SIGTERM")
stop_answers(signal.SIGUSR1, "SIGUSR1")
stop_finishes_replies()
tap.done()
