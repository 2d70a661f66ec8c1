# SPDX-License-Identifier: BSD-3-Clause
"""The running process: ports and port file, sockets, daemon mode, another user, signals, shutdown, limits, and `stats settings` for
the command line."""
import os
import pwd
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from farcached import (Client, Daemon, connect, deadline, default_binary, gone, is_sanitized, run_binary,  # noqa: E402
                       tap, until, user_args)

ROOT = os.geteuid() == 0
FOLDER = tempfile.mkdtemp(prefix="farcached-process-")
os.chmod(FOLDER, 0o777)


def works(client, name):
    tap.is_((client.set("k", "v"), client.get("k")), ("STORED", b"v"), name)


def has_ipv6():
    try:
        connect(("::1", 1), 1).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return True


# -- Ports and addresses -----------------------------------------------------------------------------

def test_ports():
    with Daemon("-l", "127.0.0.1", "-p", "-1") as d:
        works(d.client(), "-p -1 listens on the port in the port file")
        tap.is_(d.ports, [("TCP INET", d.port)], "one address, one line")
        tap.ok(not os.path.exists(d.port_file + ".lck"), "nothing is left beside the port file")
        tap.is_(d.stats("settings").get("tcpport"), "-1", "stats settings: tcpport as given")
    with Daemon("-l", "127.0.0.1,127.0.0.2:0", "-l", "proto[ascii]:127.0.0.3:0", "-p", "-1") as d:
        tap.is_([kind for kind, _ in d.ports], ["TCP INET"] * 3, "-l three times: three lines")
        for (_, port), host in zip(d.ports, ("127.0.0.1", "127.0.0.2", "127.0.0.3")):
            with Client(port, host=host) as c:
                works(c, host + " answers")
        tap.is_(d.stats("settings").get("inter"), "127.0.0.1,127.0.0.2:0,proto[ascii]:127.0.0.3:0",
                "stats settings: inter has the given addresses, joined")
    with Daemon("-l", "localhost", "-p", "-1") as d:
        works(d.client(), "-l with a name")
    if not has_ipv6():
        tap.skip("IPv6", "this machine has none")
        return
    with Daemon("-l", "[::1]", "-p", "-1") as d:
        tap.is_([kind for kind, _ in d.ports], ["TCP INET6"], "[::1] is IPv6")
        works(d.client(), "[::1] answers")
    with Daemon("-l", "[::1]:0,127.0.0.1:0", "-p", "-1") as d:
        tap.is_(sorted(kind for kind, _ in d.ports), ["TCP INET", "TCP INET6"], "both kinds")
    with Daemon("-p", "-1") as d:
        tap.ok("TCP INET" in {kind for kind, _ in d.ports}, "without -l: IPv4 at least", d.ports)


def test_fixed_port():
    """A port that the kernel once chose is free after the daemon's end, and can be chosen by number."""
    with Daemon("-l", "127.0.0.1", "-p", "-1") as d:
        port = d.port
        works(d.client(), "a connection that will be in TIME_WAIT")
    with Daemon("-l", "127.0.0.1", "-p", port) as d:
        tap.is_(d.port, port, "-p takes a number, at once after a restart")
        tap.is_(d.stats("settings").get("tcpport"), str(port), "stats settings: tcpport")
    with Daemon("-l", "127.0.0.1:%d" % port) as d:
        tap.is_(d.port, port, "-l host:port beats -p")


def test_port_file_fails():
    command = [default_binary()] + user_args() + ["-l", "127.0.0.1", "-p", "-1"]
    process = subprocess.Popen(command, env={**os.environ, "MEMCACHED_PORT_FILENAME": "/nonexist/ports"},
                               stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        tap.is_(process.stderr.readline(), b'Failed to open "/nonexist/ports.lck": No such file or directory\n',
                "a port file that cannot be written is reported")
        tap.ok(process.poll() is None, "and is no reason to end")
    finally:
        process.terminate()
        tap.is_(process.wait(deadline()), 0, "and it ends as usual")
        process.stderr.close()


# -- Unix sockets --------------------------------------------------------------------------------------

def pid_that_answers(d):
    """The pid of the daemon that listens at its socket now; None without one."""
    try:
        with d.client() as c:
            return c.stats()["pid"]
    except OSError:
        return None


def test_unix_socket():
    path = os.path.join(FOLDER, "socket")
    with Daemon("-s", path) as d:
        works(d.client(), "a Unix socket answers")
        tap.is_(oct(os.stat(path).st_mode & 0o777), oct(0o700), "its mode is 700 by default")
        settings = d.stats("settings")
        tap.is_((settings.get("domain_socket"), settings.get("umask")), (path, "700"), "stats settings")
        tap.ok(not os.path.exists(d.port_file), "and no network")
    with Daemon("-s", path, "-a", "0755") as d:
        tap.is_(oct(os.stat(path).st_mode & 0o777), oct(0o755), "-a 0755")
        tap.ok(stat.S_ISSOCK(os.stat(path).st_mode), "an old socket was replaced")
        works(d.client(), "and answers")
        with Daemon("-s", path) as successor:
            until(lambda: pid_that_answers(successor), lambda pid: pid == str(successor.pid))
            tap.is_(successor.stderr().decode(), "replacing the Unix socket %s, in use by farcached, process %d: new clients "
                    "connect to this process\n" % (path, d.pid), "a socket in use is replaced, with a warning")
            d.stop()
            works(successor.client(), "a daemon that stops leaves its successor's socket alone")
    tap.ok(not os.path.exists(path), "and removes its own")
    if not ROOT:
        tap.skip("the socket belongs to -u", "not root")
        return
    nobody = pwd.getpwnam("nobody")
    with Daemon("-s", path, user=["-u", "nobody"]) as d:
        tap.is_(os.stat(path).st_uid, nobody.pw_uid, "the socket belongs to -u")
        works(d.client(), "and answers")


# -- Users ---------------------------------------------------------------------------------------------

def ids_of(pid):
    with open("/proc/%d/status" % pid) as f:
        lines = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
    return lines["Uid"].split(), lines["Gid"].split(), lines["Groups"].split()


def test_user():
    if not ROOT:
        with Daemon("-l", "127.0.0.1", "-p", "-1", user=["-u", "nosuchuser"]) as d:
            works(d.client(), "-u is for root: others' values are ignored")
        return
    nobody = pwd.getpwnam("nobody")
    # The port file is in root's folder: it is written before the change of user, or by a user with the right to.
    with Daemon("-s", os.path.join(FOLDER, "user"), user=["-u", "nobody"]) as d:
        works(d.client(), "-u nobody works")
        uid, gid, groups = ids_of(d.pid)
        tap.is_(uid, [str(nobody.pw_uid)] * 4, "every user id is nobody's")
        tap.is_(gid, [str(nobody.pw_gid)] * 4, "every group id is nobody's")
        tap.is_(groups, [], "and there is no other group")
        every = {tuple(ids_of(int(t))[0]) for t in os.listdir("/proc/%d/task" % d.pid)}
        tap.is_(every, {tuple(uid)}, "of every thread")


# -- The background ------------------------------------------------------------------------------------

def test_background():
    ports, pid_file = os.path.join(FOLDER, "ports"), os.path.join(FOLDER, "pid")
    status, out, err = run_binary("-d", "-P", pid_file, "-l", "127.0.0.1", "-p", "-1",
                                  env={"MEMCACHED_PORT_FILENAME": ports})
    tap.is_((status, out, err), (0, b"", b""), "-d returns at once")
    until(lambda: os.path.exists(pid_file) and os.path.exists(ports), bool)
    with open(pid_file) as f:
        text = f.read()
    tap.like(text, r"\A\d+\n\Z", "-P holds a number")
    pid = int(text)
    try:
        with open(ports) as f:
            port = int(f.read().split(": ")[1])
        with Client(port) as c:
            tap.is_(c.stats().get("pid"), str(pid), "which is the daemon's own")
        tap.is_(os.getsid(pid), pid, "it leads its own session")
        tap.is_(os.readlink("/proc/%d/cwd" % pid), "/", "it holds no folder")
        for fd in (0, 1, 2):
            tap.is_(os.readlink("/proc/%d/fd/%d" % (pid, fd)), "/dev/null", "descriptor %d is nothing" % fd)
        os.kill(pid, signal.SIGHUP)
        with Client(port) as c:
            works(c, "SIGHUP changes nothing")
    finally:
        os.kill(pid, signal.SIGTERM)
    tap.ok(until(lambda: gone(pid), bool), "SIGTERM ends it")
    tap.ok(not os.path.exists(pid_file), "and the pid file is removed")


def test_pid_file():
    pid_file = os.path.join(FOLDER, "pid2")
    with open(pid_file, "w") as f:
        f.write("%d\n" % os.getpid())
    with Daemon("-P", pid_file, "-l", "127.0.0.1", "-p", "-1") as d:
        tap.is_(until(lambda: open(pid_file).read(), lambda text: text == "%d\n" % d.pid), "%d\n" % d.pid,
                "-P in the foreground too, as memcached does")
        tap.like(d.stderr(), r"WARNING: The pid file contained the following \(running\) pid: %d\n" % os.getpid(),
                 "a running predecessor is reported")
    with Daemon("-P", "/nonexist/pid", "-l", "127.0.0.1", "-p", "-1") as d:
        works(d.client(), "a pid file that cannot be written is no reason to end")
        tap.like(d.stderr(), r"Could not open the pid file /nonexist/pid", "but is reported")


# -- Signals and the end ---------------------------------------------------------------------------------

def test_signals():
    for name, number in (("SIGTERM", signal.SIGTERM), ("SIGINT", signal.SIGINT)):
        with Daemon() as d:
            idle, busy = d.client(), d.client()
            works(busy, name + ": before")
            tap.is_(d.stop(number), 0, name + " ends it with 0")
            tap.is_(d.stderr(), b"", name + ": silently")
            tap.ok(idle.is_closed(), name + ": connections are closed")
            busy.close()
            idle.close()
    with Daemon() as d:
        d.signal(signal.SIGUSR1)
        tap.is_(d.wait(), 0, "SIGUSR1 ends it with 0")
        tap.is_(d.stderr(), b"Gracefully stopping\n", "SIGUSR1 is logged")
        d.stop()
    with Daemon() as d:
        for number in (signal.SIGHUP, signal.SIGPIPE, signal.SIGHUP):
            d.signal(number)
            works(d.client(), "alive after signal %d" % number)
    with Daemon("-v") as d:
        d.stop()
        tap.like(d.stderr(), r"Exiting normally\n\Z", "-v: the end is logged")


def test_last_reply():
    """A request sent before the signal is answered before the process ends."""
    with Daemon() as d:
        c = d.client()
        works(c, "a connection that the server knows")
        value = b"x" * 500000
        c.set("big", value)
        c.send(b"get big\r\n" * 8)
        c.read(len(value))
        d.signal(signal.SIGTERM)
        got = len(value)
        try:
            got += len(c.until_close())
        except ConnectionError:
            pass
        tap.ok(got >= len(value), "replies under way do not hold up the end")
        tap.is_(d.wait(), 0, "which is 0")
        d.stop()


def test_shutdown():
    with Daemon("-A") as d:
        c = d.client()
        c.send(b"shutdown\r\n")
        tap.ok(c.is_closed(), "shutdown closes")
        tap.is_(d.wait(), 0, "shutdown ends it with 0")
        d.stop()
    with Daemon("-A") as d:
        c = d.client()
        c.send(b"shutdown graceful\r\n")
        tap.ok(c.is_closed(), "shutdown graceful closes")
        tap.is_(d.wait(), 0, "shutdown graceful ends it with 0")
        tap.is_(d.stderr(), b"Gracefully stopping\n", "shutdown graceful is logged")
        d.stop()
    with Daemon() as d:
        tap.is_(d.client().ask("shutdown"), "SERVER_ERROR: shutdown not enabled", "without -A it is refused")


# -- Limits ----------------------------------------------------------------------------------------------

def limits_of(pid):
    found = {}
    with open("/proc/%d/limits" % pid) as f:
        for line in f:
            found[line[:25].strip()] = line[25:].split()[:2]
    return found


def test_limits():
    command = ["-l", "127.0.0.1", "-p", "-1"]
    with Daemon("-c", "8", *command) as d:
        works(d.client(), "-c 8 starts")
        tap.is_(d.stats().get("max_connections"), "8", "and agrees with stats")
    with Daemon("-c", "3000", *command) as d:
        soft = int(limits_of(d.pid)["Max open files"][0])
        tap.ok(soft >= 3000, "-c 3000: room for 3000 files", soft)
    with Daemon("-r", *command) as d:
        soft, hard = limits_of(d.pid)["Max core file size"]
        tap.is_(soft, hard, "-r: core files as large as allowed")
    with Daemon("-k", "-m", "8", *command) as d:
        works(d.client(), "-k starts, locked or with a warning")
        told = b"warning: -k invalid, mlockall() failed" in d.stderr()
        locked = [int(line.split()[1]) for line in open("/proc/%d/status" % d.pid) if line.startswith("VmLck")]
        if is_sanitized():
            tap.skip("-k locks, or prints that it cannot", "sanitizers make mlockall do nothing")
        else:
            tap.ok(told or locked[0] > 0, "-k locks, or prints that it cannot", d.stderr())
    with Daemon("-N", "2") as d:
        tap.is_(d.stats("settings").get("num_napi_ids"), "2", "-N is reported back")
    with Daemon("-L", *command) as d:
        works(d.client(), "-L starts, with huge pages or without")


def test_hard_limit():
    """Runs last, because a lowered hard limit cannot be raised again."""
    command = ["-l", "127.0.0.1", "-p", "-1"]
    if ROOT:
        tap.skip("the hard limit on files", "root may raise it")
        return
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 1024))
    status, _, err = run_binary("-c", "5000", *command)
    tap.is_(status, 71, "-c above the hard limit is refused")
    tap.like(err, "failed to set rlimit for open files", "and logged")
    with Daemon("-c", "1024", *command) as d:
        works(d.client(), "-c as large as the hard limit is not")
        tap.is_(limits_of(d.pid)["Max open files"][0], "1024", "and has the available number")


# -- Settings --------------------------------------------------------------------------------------------

def worker_cpus(d):
    """For each worker, the CPUs that it may run on."""
    found = {}
    for thread in os.listdir("/proc/%d/task" % d.pid):
        with open("/proc/%d/task/%s/status" % (d.pid, thread)) as f:
            shown = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
        if shown["Name"].startswith("worker "):
            found[int(shown["Name"][len("worker "):])] = shown["Cpus_allowed_list"]
    return found


def test_worker_cpus():
    there = sorted(os.sched_getaffinity(0))
    named = ["%d" % there[0], "%d" % there[-1]]
    with Daemon("-t", "5", "--worker-cpus", ",".join(named)) as d:
        tap.is_(until(lambda: worker_cpus(d), lambda found: len(found) == 5 and set(found.values()) == set(named)),
                {i: named[i % 2] for i in range(5)}, "--worker-cpus: each worker on a CPU, from the beginning again")
        works(d.client(), "and they serve")
    with Daemon("-t", "2") as d:
        tap.is_(len(set(until(lambda: worker_cpus(d), lambda found: len(found) == 2).values()) & set(named)), int(len(there) == 1),
                "without it on any")
    for bad in ("", "x", "3-", "3-1", "1,,2", "1,", "-1", "1024", "0-1024", "1 2"):
        status, _, said = run_binary("-p", "-1", "--worker-cpus=" + bad)
        tap.is_((status, b"0-3,8" in said), (64, True), "--worker-cpus=%s is refused, with an example" % bad)
    nowhere = next(cpu for cpu in range(1023, 0, -1) if cpu not in there)
    status, _, said = run_binary("-p", "-1", "--worker-cpus=%d,%d" % (there[0], nowhere))
    tap.is_(status, 64, "a CPU that is not there is refused")
    tap.like(said.decode(), r"--worker-cpus: CPU %d is not among the CPUs that this process may use \([\d,-]+\)" % nowhere,
             "and is named")


def test_settings():
    with Daemon() as d:
        settings = d.stats("settings")
        tap.is_(len(settings), 78, "stats settings: 77 lines, and ours")
        tap.is_(list(settings)[:4], ["maxbytes", "maxconns", "tcpport", "udpport"], "in memcached's order")
    args = ("-m 100 -c 2000 -M -f 1.5 -n 64 -t 2 -D | -R 7 -C -b 8675 -I 2m -F -X -A -U 0 "
            "-o no_maxconns_fast,hashpower=20,no_lru_crawler,idle_timeout=77,track_sizes,temporary_ttl=20,"
            "ext_item_size=99,slab_automove=2,relaxed_privileges").split()
    wanted = {"maxbytes": "104857600", "maxconns": "2000", "evictions": "off", "growth_factor": "1.50",
              "chunk_size": "64", "num_threads": "2", "stat_key_prefix": "|", "detail_enabled": "yes",
              "reqs_per_event": "7", "cas_enabled": "no", "tcp_backlog": "8675", "item_size_max": "2097152",
              "flush_enabled": "no", "dump_enabled": "no", "shutdown_command": "yes", "maxconns_fast": "no",
              "hashpower_init": "20", "lru_crawler": "no", "idle_timeout": "77", "track_sizes": "yes",
              "temp_lru": "yes", "temporary_ttl": "20", "ext_item_size": "99", "slab_automove": "2"}
    with Daemon(*args) as d:
        settings = d.stats("settings")
        tap.is_({name: settings.get(name) for name in wanted}, wanted, "the given value is shown")
        stats = d.stats()
        tap.is_((stats.get("limit_maxbytes"), stats.get("max_connections"), stats.get("threads")),
                ("104857600", "2000", "2"), "and agrees with stats")
    with Daemon("-B", "ascii") as d:
        tap.is_(d.stats("settings").get("binding_protocol"), "ascii", "-B ascii")
        c = d.client()
        c.send(b"\x80" + b"\0" * 23 + b"\r\n")
        tap.is_(c.line(), b"ERROR\r\n", "-B ascii does not speak binary")
    with Daemon("-B", "binary") as d:
        c = d.client()
        c.send(b"\x80\x0b" + b"\0" * 22)
        tap.like(c.read(30), r"(?s)\A\x81\x0b.*1\.6\.45\Z", "-B binary serves binary")
        text = d.client()
        text.send(b"version\r\n" * 4)
        tap.ok(text.is_closed(), "-B binary closes on text")
    with Daemon("-vv") as d:
        c = d.client()
        works(c, "-vv starts")
        tap.is_(d.stats("settings").get("verbosity"), "2", "stats settings: verbosity")
        c.send(b"set k\x01 0 0 3\r\nabc\r\nget k\x01 none\r\n").until(b"END\r\n")
        with d.client() as b:
            b.send(b"\x80\x0a" + b"\0" * 22).read(24)
        until(d.stderr, lambda text: b"connection closed." in text)
        shown = d.stderr().decode()
        for line in (r"<\d+ new auto-negotiating client connection", r"<\d+ set k\\x01 0 0 3", r">\d+ STORED",
                     r"<\d+ get k\\x01 none", r">\d+ VALUE k\\x01 0 3", r"<\d+ binary opcode 0x0a, body of 0 bytes",
                     r">\d+ binary opcode 0x0a, body of 0 bytes, status 0x0000", r"<\d+ connection closed\."):
            tap.ok(re.search("(?m)^" + line + "$", shown), "-vv shows " + line)
        c.ask("verbosity 1")
        before = len(d.stderr())
        c.ask("version")
        tap.is_(len(d.stderr()), before, "verbosity 1 ends it")


try:
    test_ports()
    test_fixed_port()
    test_port_file_fails()
    test_unix_socket()
    test_user()
    test_background()
    test_pid_file()
    test_signals()
    test_last_reply()
    test_shutdown()
    test_limits()
    test_settings()
    test_worker_cpus()
    test_hard_limit()
finally:
    shutil.rmtree(FOLDER, ignore_errors=True)
tap.done()
