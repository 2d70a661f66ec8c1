# SPDX-License-Identifier: BSD-3-Clause
"""-o drop_privileges of farcached and --drop-privileges of farnode: every thread is behind the filter before the daemon is ready.
All features work there: protocols, both kinds of sockets, HTTP, the admin socket, watch, reload, nodes over shm and TCP that come
back, crash reports, a clean stop. If the kernel offers no filter the start fails. t/unit/process/system_calls tests the refused
calls."""
import ctypes
import os
import signal
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from cluster import Cluster, nodes_shown, until_up  # noqa: E402
from farcached import Client, Daemon, connect, deadline, default_binary, is_sanitized, run_binary, tap, until  # noqa: E402
from farnode import Farnode, farnode_binary  # noqa: E402
from http_get import get, http_args, http_env, http_port  # noqa: E402
from restart_load import KINDS  # noqa: E402
from service import Manager, Service  # noqa: E402
from without_call import CALLS, WithoutCall  # noqa: E402

FOLDER = tempfile.TemporaryDirectory(prefix="farcached-privileges-")
FILTERED = ("2", "1")  # a filter, and no new privileges
SYSTEM = 71


def path_of(name):
    return os.path.join(FOLDER.name, name)


def marks(pid):
    """[(Seccomp, NoNewPrivs)] of all threads of the process."""
    found = []
    for task in os.listdir("/proc/%d/task" % pid):
        try:
            with open("/proc/%d/task/%s/status" % (pid, task)) as f:
                lines = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
        except (FileNotFoundError, ProcessLookupError):
            continue
        found.append((lines["Seccomp"], lines["NoNewPrivs"]))
    return found


def all_filtered(daemon, name):
    """Polls, because the port file, by which a test recognises a ready daemon, appears slightly before the last filter. The last
    thread begins after that, with the filter."""
    def complete(seen):
        return set(seen) == {FILTERED} and len(seen) > 3
    found = until(lambda: marks(daemon.pid), complete)
    tap.ok(complete(found), "%s: every thread is behind the filter" % name, found)


def all_kinds(address, name):
    for kind, ask in KINDS.items():
        with Client(connect(address, deadline())) as c:
            tap.ok(ask(c, "k-" + kind, "value"), "%s: a %s client is served" % (name, kind))


# -- The start ---------------------------------------------------------------------------------------------

def not_asked_for():
    for args in ((), ("-o", "no_drop_privileges"), ("-o", "drop_privileges,no_drop_privileges")):
        with Daemon("-t", "1", *args) as d:
            tap.is_({seccomp for seccomp, _ in marks(d.pid)}, set(own_marks()), "%s: there is no filter" % (args,))


def own_marks():
    return {seccomp for seccomp, _ in marks(os.getpid())}


def refused(binary, args, words, name):
    for more in ((), ("-d",)):
        status, out, err = run_binary(*args, *more, binary=binary)
        tap.is_((status, out), (SYSTEM, b""), "%s%s: it does not start" % (name, " in the background" if more else ""))
        tap.ok(words in err.decode() and "every" in err.decode() and "leave the option out" in err.decode(),
               "and the message has reason, consequence and remedy", err)


def refused_by_both(words, name, wrapped):
    for program, args in ((default_binary(), ("-p", "0", "-s", path_of("refused"), "-o", "drop_privileges")),
                          (farnode_binary(), ("--tcp", "127.0.0.1:0", "--drop-privileges"))):
        with wrapped(program) as binary:
            refused(binary, args, words, "%s, %s" % (name, os.path.basename(program)))


class AsItIs:
    def __init__(self, program):
        self.program = program

    def __enter__(self):
        return self.program

    def __exit__(self, *_):
        pass


# -- Without nodes -----------------------------------------------------------------------------------------

def reloaded(daemon, path, text):
    """Sends SIGHUP; returns the result of the reload."""
    with open(path + ".new", "w") as f:
        f.write(text)
    os.rename(path + ".new", path)
    before = daemon.stats("config")
    tried = int(before["config_reloads"]) + int(before["config_reload_failures"])
    daemon.signal(signal.SIGHUP)
    after = until(lambda: daemon.stats("config"),
                  lambda s: int(s["config_reloads"]) + int(s["config_reload_failures"]) > tried)
    return after["config_last_result"]


def operators(d, folder):
    with Client(folder + "/admin") as c:
        tap.is_(c.ask("delete_prefix k-"), "OK", "the operator's socket: delete_prefix")
        for line in ("count_prefix deleted k-", "count_prefix mine k-", "sample_keys"):
            c.send(line.encode() + b"\r\n")
            tap.ok(c.until(b"END\r\n").startswith(b"STAT (embedded):"), "the operator's socket: " + line)
    port = http_port(folder)
    for page, words in (("/metrics", "farcached"), ("/healthz", ""), ("/", "html"), ("/status.json", "{")):
        status, _, body = get(port, page)
        tap.ok(status == 200 and words in body, "HTTP: " + page, status)
    tap.is_(get(port, "/healthz", headers={"Host": "elsewhere.invalid"})[0], 403, "HTTP: a foreign name")
    with d.client() as watcher, d.client() as c:
        tap.is_(watcher.ask("watch mutations"), "OK", "watch")
        c.set("watched", "v")
        tap.like(watcher.line().decode(), "key=watched", "and its lines")
        tap.is_(c.ask("lru_crawler crawl all"), "OK", "the crawler")
        large = os.urandom(900000)
        tap.is_((c.set("large", large), c.get("large") == large), ("STORED", True), "a large value")
        tap.is_(c.ask("cache_memlimit 128"), "OK", "more memory")
        tap.is_(c.ask("flush_all"), "OK", "flush_all")


def embedded(io):
    folder = tempfile.mkdtemp(dir=FOLDER.name)
    config = folder + "/far.toml"
    with open(config, "w") as f:
        f.write("conn_limit = 100\n")
    with Daemon("-t", "2", "-v", "--config", config, "--admin", folder + "/admin", *http_args(), "-P", folder + "/pid",
                "-o", "drop_privileges,io=" + io, env=http_env(folder)) as d:
        served_by = d.stats()["farcached_io"]
        name = "io=" + served_by
        all_filtered(d, name)
        tap.like(until(d.stderr, lambda said: b"drop_privileges" in said).decode(),
                 r"(?m)^drop_privileges: \d+ system calls are allowed; any other fails with EPERM", name + ": stderr reports it")
        all_kinds(("127.0.0.1", d.port), name)
        operators(d, folder)
        tap.is_(reloaded(d, config, "conn_limit = 200\n"), "ok", name + ": a reload")
        tap.is_(d.stats("settings")["maxconns"], "200", "with its effect")
        all_filtered(d, name + " after all that")
        tap.is_(d.stop(), 0, name + ": SIGTERM ends it well")
        tap.ok(not os.path.exists(folder + "/pid") and not os.path.exists(folder + "/admin"), "and its files are gone")
    with Daemon("-t", "2", "-s", folder + "/sock", "-A", "-o", "drop_privileges,io=" + io) as d:
        all_filtered(d, name + " at a Unix socket")
        all_kinds(folder + "/sock", name + " at a Unix socket")
        with d.client() as c:
            c.send(b"shutdown\r\n")
            tap.is_(d.wait(), 0, "the command shutdown ends it well")
    return served_by


def last_words():
    """The crash report is complete, and the process still ends by the signal."""
    with Daemon("-t", "1", "-o", "drop_privileges", expect_exit=-signal.SIGABRT) as d:
        all_filtered(d, "before a crash")
        # To the main thread: the process's signal may meet a thread that has just begun, and has no recorder yet.
        ctypes.CDLL(None).tgkill(d.pid, d.pid, signal.SIGABRT)
        d.wait()
        d.stop()
        tap.like(d.stderr_at_end.decode(), r"(?s)farcached: crash: SIGABRT.*backtrace:\n.*at hand: ", "a crash is reported")


def under_a_manager():
    for program, args in (("farcached", ("-t", "2", "-o", "drop_privileges")),
                          ("farnode", ("-t", "2", "--tcp", "127.0.0.1:0", "--drop-privileges"))):
        with Manager() as manager, Service(manager, *args, watchdog_us=2_000_000, program=program) as d:
            tap.ok(manager.until("READY=1"), program + ": the service manager learns that it is ready")
            tap.is_(set(marks(d.pid)), {FILTERED}, "when every thread is behind the filter, and no earlier")
            tap.ok(manager.until("WATCHDOG=1"), "the watchdog is fed")
            d.signal(signal.SIGHUP)
            tap.ok(manager.until("RELOADING=1") and manager.until("READY=1"), "a reload is reported to the service manager")
            d.signal(signal.SIGTERM)
            tap.ok(manager.until("STOPPING=1"), "and the stop")
            tap.is_(d.wait(), 0, "which ends well")


# -- With nodes --------------------------------------------------------------------------------------------

def in_front_of(channels, local_read):
    name = "%s, %s" % (channels, "local_read" if local_read else "no_local_read")
    with Cluster(channels, proxies=2, local_read=local_read, options=["drop_privileges"], node_args=["--drop-privileges"]) as c:
        for proxy in c.proxies:
            all_filtered(proxy, name + ": farcached")
            all_kinds(("127.0.0.1", proxy.port), name)
        for node in c.nodes:
            all_filtered(node.process, name + ": farnode " + node.name)
        one, other = c.proxies
        with one.client() as a, other.client() as b:
            keys = ["key%d" % i for i in range(100)]
            tap.is_({a.set(key, key * 3) for key in keys}, {"STORED"}, name + ": one stores")
            for _ in range(3):
                found = {k: v for k, _, v, _ in b.get_many(keys)}
            tap.is_(len(found), len(keys), name + ": the other reads")
            large = os.urandom(700000)
            tap.is_((a.set("large", large), b.get("large") == large), ("STORED", True), name + ": a large value")
        stats = other.stats("proxy")
        if not channels.startswith("tcp"):
            tap.ok(int(stats["get_local"]) + int(stats["get_onesided"]) > 0, name + ": without asking a node")
        c.restart(c.nodes[0])
        with one.client() as a:
            tap.is_((a.set("again", "v"), a.get("again")), ("STORED", b"v"), name + ": a node that comes back is connected")
        for daemon in [*c.proxies, *(node.process for node in c.nodes)]:
            all_filtered(daemon, name + ": at the end")


def nodes_by_reload():
    """A reload resolves names, opens connections, and reports a node that the existing filter cannot allow."""
    config = path_of("nodes.toml")
    with Farnode("--drop-privileges") as first, Farnode("--drop-privileges") as second:
        entry = '[[node]]\nname = "%s"\naddress = "%s"\n'
        text = entry % ("a", "tcp:localhost:%d" % first.port)
        with open(config, "w") as f:
            f.write(text)
        with Daemon("-t", "1", "--config", config, "-o", "drop_privileges") as d:
            until_up(d)
            all_filtered(d, "nodes by a file")
            tap.is_(reloaded(d, config, text + entry % ("b", "tcp:localhost:%d" % second.port)), "ok", "a node by a reload")
            until_up(d)
            tap.is_(sorted(nodes_shown(d)), ["a", "b"], "is reached, by its name")
            result = reloaded(d, config, text + entry % ("v", "verbs:127.0.0.1:1"))
            why = d.stats("config")["config_last_error"]
            tap.ok(result == "failed" and "with drop_privileges" in why, "the first node behind verbs is refused", result, why)
            tap.is_(sorted(nodes_shown(d)), ["a", "b"], "and nothing changes")


def in_the_background():
    pid_file, ports = path_of("pid"), path_of("ports")
    status, _, _ = run_binary("-d", "-P", pid_file, "--tcp", "127.0.0.1:0", "--drop-privileges", binary=farnode_binary(),
                              env={"FARNODE_PORT_FILENAME": ports})
    tap.is_(status, 0, "farnode -d returns well")
    with open(pid_file) as f:
        pid = int(f.read())
    tap.is_(set(marks(pid)), {FILTERED}, "when every thread is behind the filter")
    os.kill(pid, signal.SIGTERM)
    tap.ok(until(lambda: not os.path.exists(pid_file), bool), "it ends and removes its file")


def main():
    _, versions, _ = run_binary("--version-full", as_is=True)
    not_asked_for()
    if b"without libseccomp" in versions:
        refused_by_both("built without libseccomp", "a build without it", AsItIs)
        tap.done()
        return
    if CALLS["seccomp"]:
        refused_by_both("no seccomp filter", "a sandbox", lambda program: WithoutCall("seccomp", program))
    else:
        tap.skip("a sandbox refuses it", "the call's number on this machine is not known here")
    if not os.path.exists("/proc/sys/kernel/seccomp/actions_avail"):
        tap.skip("behind the filter", "this kernel has none")
        tap.done()
        return
    if is_sanitized():
        tap.skip("behind the filter", "a sanitizer makes calls of its own")
        tap.done()
        return
    if embedded("libevent") and embedded("uring") != "uring":
        tap.skip("io=uring", "this kernel has none")
    last_words()
    under_a_manager()
    in_front_of("shm shm", True)
    in_front_of("shm tcp", False)
    in_front_of("tcp tcp", False)
    nodes_by_reload()
    in_the_background()
    tap.done()


main()
