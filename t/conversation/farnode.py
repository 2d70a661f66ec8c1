# SPDX-License-Identifier: BSD-3-Clause
"""The farnode process: options and refused values, greeting, many connections, signals and shutdown, daemon mode, another user, and
at most one node per path or address."""
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from farcached import deadline, gone, is_sanitized, run_binary, slow_factor, tap, test_program, until  # noqa: E402
from farnode import Farnode, NodeClient, farnode_binary  # noqa: E402

ROOT = os.geteuid() == 0
FOLDER = tempfile.mkdtemp(prefix="farnode-")
os.chmod(FOLDER, 0o777)
PROBE = test_program("conversation/farnode_probe")


def run(*args, **more):
    return run_binary(*args, binary=farnode_binary(), **more)


def probe(address, name, user=None):
    """Runs t/conversation/farnode_probe, which holds a conversation with the node over any channel."""
    done = subprocess.run([PROBE, address], stdin=subprocess.DEVNULL, capture_output=True, timeout=deadline(),
                          user=user)
    tap.ok(done.returncode == 0, name, done.stdout.decode() + done.stderr.decode())


# -- Options ---------------------------------------------------------------------------------------------

def test_options():
    tap.is_(run("-V", as_is=True)[0], 0, "-V ends well")
    tap.like(run("-V", as_is=True)[1].decode(), r"\Afarnode \d", "and prints name and version")
    status, out, _ = run("--help", as_is=True)
    tap.is_(status, 0, "--help ends well")
    tap.like(out.decode(), r"(?m)^Usage: farnode ", "and is farnode's")
    for args, wanted, words in (
            ((), 64, "No address to listen on: give --shm <path>, --tcp <addr>:<port>"),
            (("--nosuch",), 1, "unrecognized option"),
            (("--tcp", "127.0.0.1"), 64, "needs a host and a port"),
            (("--tcp", "0.0.0.0:0"), 64, "can be reached from other machines, and peers need no key there"),
            (("--tcp", "127.0.0.1:0", "--http", "*:0"), 64, "and its clients need no token there"),
            (("--tcp", "no.such.host.invalid:1", "--insecure"), 71, "the host is not known"),
            (("--tcp", "127.0.0.1:0", "-t", "0"), 64, "'0' is out of range: 1 to 64"),
            (("--tcp", "127.0.0.1:0", "--name", "a b"), 64, "letters, digits"),
            (("--shm", "/nonexistent/a.sock"), 71, "/nonexistent/a.sock"),
            (("--config", "/nonexistent/f"), 64, "/nonexistent/f: cannot be opened")):
        status, _, err = run(*args)
        tap.is_(status, wanted, "%s: status %d" % (" ".join(args) or "no options", wanted))
        tap.ok(words in err.decode(), "  in words", err.decode())
    config = os.path.join(FOLDER, "f.toml")
    with open(config, "w") as f:
        f.write('threads = 0\ncolour = "red"\n')
    status, _, err = run("--config", config)
    tap.is_((status, err.decode().count(config + ":")), (64, 2), "all errors of a file are printed, with their places")
    with open(config, "w") as f:
        f.write('name = "fromfile"\ntcp = "127.0.0.1:0"\nmemory-limit = 32\nno-lease = true\nthreads = 2\n')
    with Farnode("--config", config, "-m", "16") as node, node.node_client() as c:
        facts = c.greet()
        stats = c.node_stats()
        tap.is_((facts["name"], facts["term_ms"]), ("fromfile", 0), "a file is read")
        tap.is_(stats["limit_maxbytes"], str(16 << 20), "and the command line takes precedence")
        title = "two threads that serve, one that accepts, one that sweeps, and main"
        if is_sanitized():
            tap.skip(title, "a sanitizer build has threads of its own")
        else:
            tap.is_(len(os.listdir("/proc/%d/task" % node.pid)), 5, title)


# -- The clock ----------------------------------------------------------------------------------------------

def clocks_of(client, version):
    """The clock fields of a node's frames by version: microseconds from version 2 on."""
    facts, title = client.greet(version=version), "version %d: " % version
    tap.is_(facts["version"], version, title + "the welcome is of that")
    client.set(b"k", b"v")
    told = [facts["now"], client.exptime(b"k")[1], client.clock()]
    tap.is_(told, sorted(told), title + "the clock does not go back")
    fractions = [us for _, us in told]
    if version == 1:
        tap.is_(fractions, [0, 0, 0], title + "and has no fraction")
    else:
        tap.ok(max(fractions) <= 999999, title + "its fraction is one", told)
        again = until(client.clock, lambda now: now != told[-1])
        tap.ok(told[-1] < again < (told[-1][0] + 10 * slow_factor(), 0), title + "and advances", told, again)


# -- The greeting, and after it ---------------------------------------------------------------------------

def test_greeting():
    with Farnode("--name", "n1", "-I", "2m", "--lease-ms", "3000") as node:
        with node.node_client() as c:
            reason, text = c.learn_layout()
            tap.is_(reason, "layout_mismatch", "a later layout is refused")
            tap.like(text, r"node n1 has item layout version \d+ \(.*\), proxy test has", "naming both")
            tap.ok(c.is_closed(), "and the connection is closed")
        with node.node_client() as c:
            reason, text = c.hello(NodeClient.layout, version=99).sentence()
            tap.is_(reason, "protocol_mismatch", "another protocol is refused")
            tap.like(text, r"node n1 speaks protocol version 1 to 13, proxy test speaks 99", "naming both")
        with node.node_client() as c:
            facts = c.greet(layout=(2, 0xdbd23bfbf1837253), version=3)
            tap.is_((facts["version"], facts["regions"], facts["term_ms"]), (3, [], 0), "an older one is served, without leases")
            tap.ok(c.set(b"old", b"value") and c.get(b"old") == b"value", "all the same")
        with node.node_client() as c, node.node_client() as other:
            facts = c.greet()
            tap.is_((facts["name"], facts["item_bytes_max"], facts["term_ms"]), ("n1", 2 << 20, 3000), "the facts")
            tap.is_(len(facts["regions"]), 1, "one region")
            tap.is_(facts["regions"][0][2], 0, "not to be read over TCP")
            tap.is_(other.greet()["incarnation"], facts["incarnation"], "of one incarnation")
            first = facts["incarnation"]
            tap.ok(c.set(b"k", b"v"), "a set")
            tap.is_(other.get(b"k"), b"v", "is seen on another connection")
            tap.ok(c.request(2, b"large", b"\0" * 8, b"", 1 << 18).reply()[1] == "protocol_error",
                   "an impossible frame gets a goodbye with the reason")
            tap.ok(c.is_closed(), "and ends its connection")
            tap.is_(other.get(b"k"), b"v", "and no other")
            stats = other.node_stats(b"connections")
            tap.is_((stats["frame_value_unexpected"], stats["end_refused"]), ("1", "2"), "both are counted")
            tap.is_(other.get(b"none"), None, "a miss")
        for version in 1, 2:
            with node.node_client() as c:
                clocks_of(c, version)
        probe("tcp:127.0.0.1:%d" % node.port, "values large and small over tcp")
    with Farnode() as node, node.node_client() as c:
        facts = c.greet()
        tap.ok(facts["incarnation"] != first, "another node is another incarnation")
        tap.is_(facts["name"], "%s-%d" % (os.uname().nodename, node.port), "its name is the host's and the port's")
    with Farnode("-c", "2") as node:
        clients = [node.node_client() for _ in range(3)]
        for c in clients[:2]:
            c.greet()
            c.get(b"used")
        tap.is_(clients[2].hello(NodeClient.layout).sentence()[0], "full", "-c: one more is refused while all are in use")
        clients[0].close()

        def admitted():
            with node.node_client() as c:
                return c.hello(NodeClient.layout).kind

        tap.is_(until(admitted, lambda kind: kind == "welcome"), "welcome", "until one has gone")
        for c in clients:
            c.close()


def test_greeting_timeout():
    with Farnode("--greeting-timeout-ms", "100", "-v") as node, node.node_client() as greeted:
        greeted.greet()
        with node.node_client() as silent, node.node_client() as slow:
            slow.send(b"\0")
            tap.is_((silent.until_close(), slow.until_close()), (b"", b""), "a connection without a greeting is closed in time")
        tap.ok(greeted.set(b"k", b"v"), "a greeted connection stays")
        stats = greeted.node_stats(b"connections")
        tap.is_(stats["end_no_greeting"], "2", "it is counted")
        tap.like(node.stderr().decode(), "without a greeting: no greeting in 100 ms", "and told")


def test_many_connections():
    with Farnode("-t", "3") as node:
        clients = [node.node_client() for _ in range(60)]
        for i, c in enumerate(clients):
            c.greet()
            c.request(2, b"key%d" % i, b"\0" * 8, b"value%d" % i)
        good = sum(c.reply()[:2] == (2, 0) for c in clients)
        tap.is_(good, 60, "sixty connections at a time")
        for i, c in enumerate(clients):
            c.request(1, b"key%d" % (59 - i))
        good = sum(c.reply()[2] == b"value%d" % (59 - i) for i, c in enumerate(clients))
        tap.is_(good, 60, "each gets its answers")
        for c in clients[:30]:
            c.reset()
        # The 61st connection is the harness's start check.
        stats = until(clients[59].node_stats, lambda stats: stats["connections_over"] == "31")
        tap.is_(stats["connections_over"], "31", "half of them are reset")
        tap.is_((stats["connections_opened"], stats["curr_items"]), ("61", "60"), "and counted")
        for c in clients[30:]:
            c.close()


# -- Ends --------------------------------------------------------------------------------------------------

def test_signals():
    for name, number, why in (("SIGTERM", signal.SIGTERM, "stopping"), ("SIGINT", signal.SIGINT, "stopping"),
                              ("SIGUSR1", signal.SIGUSR1, "draining")):
        with Farnode() as node, node.node_client() as c, node.node_client() as idle:
            c.greet()
            idle.greet()
            tap.ok(c.set(b"k", b"v"), name + ": before")
            node.signal(number)
            tap.is_(c.frame().sentence()[0], why, name + ": a goodbye says " + why)
            tap.is_(idle.frame().sentence()[0], why, name + ": to all connections")
            kind, status, _ = c.request(1, b"k").reply()
            tap.is_((kind, status), (7, 1), name + ": later requests are refused")
            c.close()
            idle.close()
            tap.is_(node.wait(), 0, name + " ends it with 0")
            tap.is_(node.stderr(), b"Gracefully stopping\n" if why == "draining" else b"", name + ": and no other word")
    with Farnode() as node, node.node_client() as stays:
        stays.greet()
        node.signal(signal.SIGTERM)
        tap.is_(node.wait(), 0, "a proxy that stays does not keep it")
        tap.is_(stays.frame().kind, "goodbye", "the message was sent before")
        tap.ok(stays.is_closed(), "and is closed")
    with Farnode() as node, node.node_client() as c:
        c.greet()
        for number in (signal.SIGHUP, signal.SIGPIPE):
            node.signal(number)
        tap.ok(c.set(b"k", b"v"), "SIGHUP and SIGPIPE change nothing")
    with Farnode("-v") as node:
        with node.node_client() as c:
            c.greet()
        said = until(node.stderr, lambda text: re.search(rb"test@test.*closed the connection", text)).decode()
        tap.like(said, r"(?m)^tcp:127\.0\.0\.1:\d+: proxy test@test:%d$" % os.getpid(), "-v logs new connections")
        tap.like(said, r"(?m)^tcp:127.*: proxy test@test:\d+: .*closed the connection", "and goes")


# -- One node per address ----------------------------------------------------------------------------------

def test_one_at_a_place():
    path = os.path.join(FOLDER, "a.sock")
    with Farnode("--shm", path) as node:
        tap.is_(oct(os.stat(path).st_mode & 0o777), "0o600", "the socket is its user's alone")
        status, _, err = run("--shm", path)
        tap.is_(status, 71, "a second node at the path is refused")
        tap.ok(path in err.decode() and str(node.pid) in err.decode(), "and the message names the other node", err.decode())
        status, _, _ = run("-d", "--shm", path)
        tap.is_(status, 71, "with -d, too")
        probe("shm:" + path, "the first serves on, over shm")
        tap.is_(node.stop(), 0, "it ends")
        tap.ok(not os.path.exists(path), "and removes its socket")
        tap.ok(os.path.exists(path + ".lock"), "but not the lock's file")
    with Farnode("--shm", path, expect_exit=-9) as node:
        node.stop(signal.SIGKILL)
        tap.ok(os.path.exists(path), "one that is killed leaves its socket")
    with Farnode("--shm", path, "--tcp", "127.0.0.1:0") as node:
        probe("shm:" + path, "its successor replaces it")
        probe("tcp:127.0.0.1:%d" % node.port, "and serves at both")
        status, _, err = run("--tcp", "127.0.0.1:%d" % node.port)
        tap.is_(status, 71, "a second node at an address is refused")
        tap.like(err.decode(), r"cannot listen at tcp:127.*in use", "by name")


def test_background():
    pid_file, ports = os.path.join(FOLDER, "pid"), os.path.join(FOLDER, "ports")
    path = os.path.join(FOLDER, "back.sock")
    status, out, err = run("-d", "-P", pid_file, "--tcp", "127.0.0.1:0", "--shm", path,
                           env={"FARNODE_PORT_FILENAME": ports})
    tap.is_((status, out, err), (0, b"", b""), "-d returns well")
    with open(pid_file) as f:
        pid = int(f.read())
    try:
        tap.ok(os.path.exists(ports) and os.path.exists(path), "when it serves")
        with open(ports) as f:
            port = int(re.search(r"TCP INET: (\d+)", f.read()).group(1))
        with NodeClient(port) as c:
            c.greet()
            tap.is_(c.node_stats()["pid"], str(pid), "-P holds its number")
        probe("shm:" + path, "shm works from the background")
        tap.is_(os.getsid(pid), pid, "it leads its own session")
        tap.is_(os.readlink("/proc/%d/cwd" % pid), "/", "it holds no folder")
        for fd in (0, 1, 2):
            tap.is_(os.readlink("/proc/%d/fd/%d" % (pid, fd)), "/dev/null", "descriptor %d is nothing" % fd)
    finally:
        os.kill(pid, signal.SIGTERM)
    tap.ok(until(lambda: gone(pid), bool), "SIGTERM ends it")
    tap.ok(not os.path.exists(pid_file) and not os.path.exists(path), "and nothing of it is left")


def test_user():
    if not ROOT:
        tap.skip("-u", "not root")
        return
    status, _, err = run("--tcp", "127.0.0.1:0", as_is=True)
    tap.is_((status, err), (64, b"must add '-u root' to start as root\n"), "root must give a user")
    tap.is_(run("--tcp", "127.0.0.1:0", "-u", "nosuchuser", as_is=True)[0], 67, "which must exist")
    nobody = pwd.getpwnam("nobody")
    path = os.path.join(FOLDER, "user.sock")
    with Farnode("--shm", path, user=["-u", "nobody"]) as node:
        with open("/proc/%d/status" % node.pid) as f:
            uid = re.search(r"Uid:\t(.*)", f.read()).group(1).split()
        tap.is_(uid, [str(nobody.pw_uid)] * 4, "-u nobody: every user id is nobody's")
        tap.is_(os.stat(path).st_uid, nobody.pw_uid, "the socket, too")
        tap.is_(os.stat(path + ".lock").st_uid, nobody.pw_uid, "and the lock")
        try:
            probe("shm:" + path, "a process of the same user may read its memory", user=nobody.pw_uid)
        except PermissionError:
            tap.skip("a proxy of that user", "it may not look into this folder")


try:
    test_options()
    test_greeting()
    test_greeting_timeout()
    test_many_connections()
    test_signals()
    test_one_at_a_place()
    test_background()
    test_user()
finally:
    shutil.rmtree(FOLDER, ignore_errors=True)
tap.done()
