# SPDX-License-Identifier: BSD-3-Clause
"""--http of both daemons: paths, formats, refused requests, limits, readiness, and numbers that agree with `stats`. Latencies and
the list of slow requests."""
import contextlib
import json
import os
import re
import resource
import select
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from cluster import Cluster, until_up  # noqa: E402
from farcached import Daemon, deadline, run_binary, stat_words, tap, until  # noqa: E402
from farnode import Farnode, farnode_binary  # noqa: E402
from http_get import get, http_args, http_env, http_port, samples, value  # noqa: E402

FOLDER = tempfile.mkdtemp(prefix="farcached-http-")
OPEN = "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
CONNECTIONS_MAX = 32
HALF_REQUESTS = 91


def folder():
    return tempfile.mkdtemp(dir=FOLDER)


def test_options():
    for given, status, words in (("192.0.2.1:1", 71, "--http 192.0.2.1:1: "),
                                 ("127.0.0.1", 64, "needs a host and a port"), ("70000", 64, "--http 70000"),
                                 ("", 64, "--http"), ("[::1]", 64, "--http [::1]")):
        for binary, more in ((None, ["-p", "0"]), (farnode_binary(), ["--tcp", "127.0.0.1:0"])):
            got, _, err = run_binary("--http", given, "--insecure", *more, binary=binary)
            tap.ok(got == status and words in err.decode(), "--http '%s' is refused in words" % given, str(got), err)
    for given in ("", "a,", "a b", "[::1]", "a:80"):
        got, _, err = run_binary("--http-names", given, "-p", "0")
        tap.ok(got == 64 and b"host names with commas between them" in err, "--http-names '%s' is refused in words" % given,
               str(got), err)


def test_paths(port):
    for path, status, kind in (("/", 200, "text/html"), ("/status.json", 200, "application/json"),
                               ("/history.json", 200, "application/json"),
                               ("/metrics", 200, "text/plain; version=0.0.4"), ("/healthz", 200, "text/plain"),
                               ("/readyz", 200, "text/plain"), ("/readyz?verbose", 200, "text/plain"),
                               ("/nothing", 404, "text/plain"), ("/metrics/", 404, "text/plain")):
        got, headers, body = get(port, path)
        tap.ok(got == status and headers["content-type"].startswith(kind) and body, "%s: %d" % (path, status), str(headers))
        tap.ok("default-src 'none'" in headers["content-security-policy"] and headers["x-content-type-options"] == "nosniff",
               "  nothing in it runs or loads")
    for method, status in (("HEAD", 200), ("POST", 405), ("PUT", 405), ("DELETE", 405), ("OPTIONS", 405), ("PATCH", 405)):
        got, headers, body = get(port, "/healthz", method=method)
        tap.is_(got, status, "%s: %d" % (method, status))
        if method == "HEAD":
            tap.is_(body, "", "  without a body")
        else:
            tap.is_(headers.get("allow"), "GET, HEAD", "  and the allowed methods")


def test_page(port):
    first, second = get(port, "/"), get(port, "/")
    nonce = re.search(r"script-src 'nonce-([0-9a-f]{32})'", first[1]["content-security-policy"])
    tap.ok(nonce and first[2].count('nonce="%s"' % nonce.group(1)) == 2 and "@NONCE@" not in first[2],
           "script and style of the page have the nonce of its policy")
    tap.ok(first[1]["content-security-policy"] != second[1]["content-security-policy"], "another each time")
    outside = re.findall(r"(?:src|href)=\"(?!/|#|data:)[^\"]*\"|url\(|@import|https?://", first[2])
    tap.is_(outside, [], "it names nothing outside")


def raw(port, *parts, timeout=None):
    """The reply to these bytes, sent one part after the other."""
    with socket.create_connection(("127.0.0.1", port), timeout or deadline()) as s:
        try:
            for part in parts:
                s.sendall(part)
            got = b""
            while chunk := s.recv(65536):
                got += chunk
        except ConnectionError:
            pass
        return got


def test_head(port):
    for path in ("/healthz", "/", "/nothing"):
        request = b" %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path.encode()
        whole, head = (raw(port, method + request) for method in (b"GET", b"HEAD"))
        length = [re.findall(rb"(?i)\ncontent-length: (\d+)", answer) for answer in (whole, head)]
        tap.ok(head.endswith(b"\r\n\r\n") and head.count(b"\r\n\r\n") == 1, "HEAD %s: headers and no body" % path, head[:300])
        tap.ok(length[0] == length[1] == [b"%d" % len(whole.split(b"\r\n\r\n", 1)[1])], "  with the length of GET's body",
               str(length))


def test_host(port, names, strange):
    """Accepted names: those of --http-names and --http. All others are refused."""
    own = ["127.0.0.1", "127.0.0.1:%d" % port, "192.0.2.7", "[::1]", "[::1]:80", "localhost", "LocalHost:80", "localhost.",
           socket.gethostname(), socket.gethostname() + ":1", *names]
    foreign = ["x", "evil.example", "localhost.evil.example", "evil.example:%d" % port, "127.0.0.1.evil.example", "127.0.0.1:x",
               "127.1", "[::1", "[::1]x", "[127.0.0.1]", "localhost,localhost", "localhost@evil.example", *strange]
    for hosts, status in ((own, 200), (foreign, 403)):
        for host in hosts:
            answer = raw(port, b"GET /healthz HTTP/1.1\r\nHost: %s\r\n\r\n" % host.encode())
            tap.is_(answer.split(b" ")[1:2], [b"%d" % status], "Host: %s: %d" % (host, status))
    tap.like(get(port, "/metrics", headers={"Host": "evil.example"})[2], "^the Host header names another host; .*--http-names\n$",
             "a foreign name: the remedy, and nothing else")
    tap.ok(raw(port, b"GET /healthz HTTP/1.0\r\n\r\n").split(b" ")[1:2] == [b"200"], "HTTP/1.0 without Host is answered")


def test_start_time(port):
    """A value that moved would count as a restart."""
    started = {value(get(port, "/metrics")[2], "process_start_time_seconds") for _ in range(5)}
    tap.ok(len(started) == 1 and abs(time.time() - min(started)) < 3600, "the start of the process stays the same", started)


def open_half(port, count):
    """Connections on which half a request was sent."""
    opened = []
    for _ in range(count):
        s = socket.create_connection(("127.0.0.1", port), deadline())
        s.sendall(b"GET /healthz HTTP/1.1\r\nHo")
        opened.append(s)
    return opened


def has_ended(s):
    s.settimeout(deadline())
    try:
        return s.recv(1) == b""
    except ConnectionError:
        return True


class HalfRequests(threading.Thread):
    """Keeps this number of half requests open: opens a new one for each that the daemon closes."""

    def __init__(self, port, count):
        super().__init__(daemon=True)
        self.port, self.open, self.stopping, self.closed = port, [], threading.Event(), 0
        for _ in range(count):
            self.open_another()
        self.start()

    def run(self):
        while not self.stopping.is_set():
            for s in select.select(self.open, [], [], 0.05)[0]:
                self.open.remove(s)
                s.close()
                self.closed += 1
                self.open_another()

    def open_another(self):
        while not self.stopping.is_set():
            try:
                self.open += open_half(self.port, 1)
                return
            except ConnectionError:  # closed before its bytes were sent
                self.closed += 1

    def end(self):
        self.stopping.set()
        self.join(deadline())
        for s in self.open:
            s.close()


def test_half_requests(port):
    half = HalfRequests(port, HALF_REQUESTS)
    until(lambda: half.closed, bool)
    end, answered, cut = time.monotonic() + deadline(), 0, 0
    while answered < 20 and time.monotonic() < end:
        try:
            answered += get(port, "/healthz", timeout=2 * deadline())[0] == 200
        except ConnectionError:  # the machine paused this process for longer than a connection is kept
            cut += 1
    half.end()
    tap.is_(answered, 20, "/healthz is answered beside %d half requests" % HALF_REQUESTS)
    tap.ok(cut < answered, "and its connection is seldom cut before", cut)
    with contextlib.closing(open_half(port, 1)[0]) as alone:
        alone.sendall(b"st: localhost\r\n\r\n")
        tap.ok(alone.recv(100).startswith(b"HTTP/1.1 200"), "a request in two halves is answered")
    with contextlib.closing(open_half(port, 1)[0]) as silent:
        tap.ok(has_ended(silent), "half a request ends by itself")


def test_bounds(daemon, port):
    answer = raw(port, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 100_000 + b"\r\n\r\n")
    tap.ok(not answer.startswith(b"HTTP/1.1 200"), "100 kB of headers are refused", answer[:100])
    answer = raw(port, b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n" + b"a" * 100_000)
    tap.ok(not answer.startswith(b"HTTP/1.1 200"), "and 100 kB of a body", answer[:100])
    answer = raw(port, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n")
    tap.ok(not answer.startswith(b"HTTP/1.1 200"), "and bytes that are not HTTP", answer[:100])
    tap.is_(raw(port, b"GET /hea", b"lthz HTTP/1.1\r\nHost", b": localhost\r\n\r\n").split(b"\r\n")[0], b"HTTP/1.1 200 OK",
            "a request in pieces is answered, and the connection closed")
    silent = [socket.create_connection(("127.0.0.1", port), deadline()) for _ in range(3 * CONNECTIONS_MAX)]
    descriptors = len(os.listdir("/proc/%d/fd" % daemon.pid))
    tap.ok(descriptors < 3 * CONNECTIONS_MAX, "of many silent connections few are accepted", str(descriptors))
    tap.is_(daemon.client().ask("version")[:7], "VERSION", "clients are served meanwhile")
    for s in silent:
        s.close()
    tap.is_(get(port, "/healthz")[0], 200, "and when they have gone, others are")


def connections(*ports):
    """The daemon's connections at these ports, including those that only the client has closed."""
    listening, forgotten = "0A", "06"
    with open("/proc/net/tcp") as f:
        rows = [line.split() for line in f.readlines()[1:]]
    return sum(int(row[1].split(":")[1], 16) in ports and row[3] not in (listening, forgotten) for row in rows)


def ended_sockets(pid):
    """Descriptors of connections that both sides have closed."""
    listed = set()
    for table in ("tcp", "tcp6", "unix", "netlink"):
        with open("/proc/net/" + table) as f:
            listed.update(word for line in f.readlines()[1:] for word in line.split())
    ended = 0
    for fd in os.listdir("/proc/%d/fd" % pid):
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            link = os.readlink("/proc/%d/fd/%s" % (pid, fd))
            ended += link.startswith("socket:[") and link[8:-1] not in listed
    return ended


def test_no_descriptors(daemon, port):
    # No connection closes after this.
    until(lambda: connections(daemon.port, port) + ended_sockets(daemon.pid), lambda count: count == 0)
    before = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
    used = {int(fd) for fd in os.listdir("/proc/%d/fd" % daemon.pid)}
    lowest_free = next(fd for fd in range(len(used) + 1) if fd not in used)
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (lowest_free, before[1]))
    with socket.create_connection(("127.0.0.1", port), deadline()) as s:
        s.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        ticks = lambda: sum(int(word) for word in stat_words(daemon.pid)[11:13])  # noqa: E731
        begun = ticks()
        s.settimeout(0.5)
        try:
            tap.ok(False, "without descriptors it waits", s.recv(100))
        except TimeoutError:
            tap.ok(ticks() - begun < 25, "without descriptors it waits, and does not spin", str(ticks() - begun))
        resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, before)
        s.settimeout(deadline())
        tap.ok(s.recv(100).startswith(b"HTTP/1.1 200"), "and answers when there are some")


def test_numbers(daemon, port):
    with daemon.client() as c:
        for i in range(50):
            c.set("key%d" % i, "value")
        c.get_many(["key%d" % i for i in range(60)])
    # A worker counts latencies after it has sent the replies.
    timed = lambda text: value(text, "farcached_request_duration_seconds_count", op="get", path="local") == 60.0  # noqa: E731
    text = until(lambda: get(port, "/metrics")[2], timed)
    stats = daemon.stats()
    for name, metric in (("cmd_get", "farcached_get_cmds_total"), ("get_hits", "farcached_get_hits_total"),
                         ("get_misses", "farcached_get_misses_total"), ("cmd_set", "farcached_cmd_set_total"),
                         ("curr_items", "farcached_node_items"), ("bytes", "farcached_node_item_bytes"),
                         ("limit_maxbytes", "farcached_node_memory_limit_bytes"), ("threads", "farcached_workers"),
                         ("max_connections", "farcached_connections_limit"), ("hash_bytes", "farcached_node_index_bytes")):
        tap.is_(value(text, metric), float(stats[name]), "%s is %s" % (metric, name))
    for op, count in (("get", 60), ("set", 50)):
        tap.is_(value(text, "farcached_request_duration_seconds_count", op=op, path="local"), float(count),
                "each %s has a latency" % op)
        tap.is_(value(text, "farcached_request_duration_seconds_bucket", op=op, le="+Inf"), float(count), "  in a bucket")
        tap.ok(value(text, "farcached_request_duration_seconds_sum", op=op) > 0, "  that took some time")
        tap.is_(daemon.stats("latency")["%s_local:count" % op], str(count), "  and is in stats latency")
    opened = get(port, "/metrics", headers={"Accept": OPEN})
    tap.ok(opened[1]["content-type"].startswith("application/openmetrics-text; version=1.0.0"), "OpenMetrics on request")
    tap.ok(opened[2].endswith("\n# EOF\n") and "# TYPE farcached_get_cmds counter" in opened[2], "  in its form")
    tap.is_(sorted(samples(opened[2])), sorted(samples(get(port, "/metrics")[2])), "  the same samples")
    status = json.loads(get(port, "/status.json")[2])
    tap.is_((status["gets"], status["get_hits"], status["sets"], status["ready"]), (60, 50, 50, True), "the page's numbers")
    tap.is_([status[name] for name in ("program", "port", "pid")], ["farcached", daemon.port, daemon.pid], "its identity")
    tap.is_([(node["name"], node["gets"], node["get_hits"]) for node in status["nodes"]], [("embedded", 60, 50)], "its one node")
    tap.is_(sum(row["count"] for row in status["not_lock_free"]), 0, "keys that are not there are misses, and no fallbacks")
    history = until(lambda: json.loads(get(port, "/history.json")[2])["requests_per_s"], lambda points: any(points))
    tap.ok(len(history) <= 300 and max(history) > 0, "its history", str(history))
    tap.is_(sum(sum(row["counts"]) for row in status["latency"]), 110, "its latencies")
    with daemon.client() as c:
        c.ask("stats reset")
    tap.is_(value(get(port, "/metrics")[2], "farcached_get_cmds_total"), 60.0, "a reset of stats does not set metrics back")


def test_embedded():
    at = folder()
    with Daemon("-m", "16", *http_args(), env=http_env(at), threads=2) as d:
        port = http_port(at)
        test_numbers(d, port)
        test_paths(port)
        test_start_time(port)
        test_page(port)
        test_head(port)
        test_host(port, [], ["cache.example"])
        test_half_requests(port)
        test_bounds(d, port)
        test_no_descriptors(d, port)
    with Daemon("-m", "16", "-o", "no_latency_stats", *http_args(), env=http_env(at), threads=1) as d:
        d.client().get("x")
        tap.is_(value(get(http_port(at), "/metrics")[2], "farcached_request_duration_seconds_count"), 0.0,
                "no_latency_stats: none are measured")


def slow_lines(daemon):
    return [dict(word.split("=", 1) for word in text.split(" ")) for text in daemon.stats("slow_log").values()]


def test_slow():
    with Daemon("-m", "128", "-I", "40m", "-o", "slow_log_ms=1", threads=1) as d, d.client() as c, d.client() as watcher:
        tap.is_(watcher.ask("watch proxyreqs"), "OK", "slow requests can be watched")
        c.set("key", "v" * 20_000_000)  # copying it takes some milliseconds

        def ask():
            c.get("key")
            return slow_lines(d)

        found = until(ask, lambda lines: any(line["op"] == "get" for line in lines))
        tap.ok(found, "a request that takes a millisecond is listed")
        one = next((line for line in found if line["op"] == "get"), found[-1])
        tap.ok(int(one["took_us"]) >= 1000 and one["op"] == "get" and one["path"] == "local" and int(one["requests"]) >= 1,
               "with how long it took and its path", str(one))
        tap.like(watcher.line().decode(), r"^ts=\S+ gid=\d+ type=slow_req took_us=\d+ .* path=local .* key=\S+", "and watched")
        tap.ok(int(d.stats("proxy")["slow_requests"]) >= 1, "and counted")
    with Daemon("-m", "16", threads=1) as d:
        tap.is_(d.stats("slow_log"), {}, "without slow_log_ms there is no list")


def metrics_until(port, accept):
    return until(lambda: get(port, "/metrics")[2], accept)


def test_slow_node(cluster, at, node):
    """A request that waits for its node appears in the list with its time at the node."""
    proxy, key = cluster.proxies[0], cluster.key(node, "slow")
    with proxy.client() as c:
        with node.process.stopped():
            c.send(b"get %s\r\n" % key.encode())
            status, _, text = get(http_port(at), "/metrics")
            tap.is_((status, value(text, "farcached_node_told", node=node.name)), (200, 0.0),
                    "metrics are there while a node stands still, and say so")
        c.line()
    found = until(lambda: [one for one in slow_lines(proxy) if one["node"] == node.name], bool)
    one = found[-1] if found else {}
    tap.ok(found and int(one["answer_us"]) > int(one["took_us"]) // 2 and one["key"] == key,
           "a get that waited for its node: key, node and time", str(found))


def test_nodes():
    at = folder()
    with Cluster("tcp tcp", proxies=1, local_read=False, options=["slow_log_ms=20", "node_timeout_ms=20000"],
                 proxy_args=http_args(), node_args=[], proxy_env=http_env(at)) as cluster:
        port = http_port(at)
        first, second = cluster.nodes
        with cluster.proxies[0].client() as c:
            for i in range(20):
                c.set("k%d" % i, "value")
                c.get("k%d" % i)
        text = metrics_until(port, lambda text: value(text, "farcached_node_told") == 2)
        tap.is_(value(text, "farcached_node_items"), 20.0, "items as the nodes tell")
        tap.is_(value(text, "farcached_node_up"), 2.0, "both are up")
        tap.is_(value(text, "farcached_gets_by_path_total", path="two_sided", node=first.name) +
                value(text, "farcached_gets_by_path_total", path="two_sided", node=second.name), 20.0, "gets by path and node")
        for op in ("get", "set"):
            tap.is_(value(text, "farcached_request_duration_seconds_count", op=op, path="two_sided"), 20.0,
                    "a latency of each %s" % op)
        status = json.loads(get(port, "/status.json")[2])
        tap.is_([(node["name"], node["state"], node["memory"] is not None) for node in status["nodes"]],
                [(first.name, "up", True), (second.name, "up", True)], "nodes on the page")
        test_slow_node(cluster, at, first)
        cluster.kill(first)
        text = metrics_until(port, lambda text: value(text, "farcached_node_up", node=first.name) == 0)
        tap.is_(value(text, "farcached_node_up", node=second.name), 1.0, "a node that is down is shown as such")
        tap.is_(get(port, "/readyz")[0], 200, "one that is up will do")
        cluster.kill(second)
        status, _, body = until(lambda: get(port, "/readyz"), lambda answer: answer[0] == 503)
        tap.ok(status == 503 and first.name + " is down" in body and second.name + " is down" in body,
               "no node: not ready, and why", body)
        tap.is_(value(get(port, "/metrics")[2], "farcached_ready"), 0.0, "in metrics, too")
        cluster.restart(first, wait=False)
        tap.is_(until(lambda: get(port, "/readyz")[0], lambda status: status == 200), 200, "ready again when one is back")


def test_farnode():
    at = folder()
    with Farnode("--name", "a", "--http-names", "Cache.example.,other", *http_args(), env=http_env(at)) as node:
        port = http_port(at)
        with node.node_client() as c:
            c.greet()
            c.set(b"key", b"value")
        text = metrics_until(port, lambda text: value(text, "farnode_items") == 1)
        tap.is_((value(text, "farnode_items"), value(text, "farnode_cmd_set_total")), (1.0, 1.0), "farnode's own numbers")
        tap.is_(value(text, "farnode_info", node="a"), 1.0, "and its name")
        for path, status in (("/healthz", 200), ("/readyz", 200), ("/", 200), ("/status.json", 200), ("/history.json", 200),
                             ("/nothing", 404)):
            tap.is_(get(port, path)[0], status, "%s: %d" % (path, status))
        test_start_time(port)
        test_page(port)
        status = json.loads(get(port, "/status.json")[2])
        tap.is_([status[name] for name in ("program", "name", "port", "pid", "ready", "sets")],
                ["farnode", "a", node.port, node.pid, True, 1], "farnode's page: its identity and numbers")
        tap.is_(status["nodes"][0]["memory"]["items"], 1, "  and its memory")
        history = until(lambda: json.loads(get(port, "/history.json")[2])["requests_per_s"], bool)
        tap.ok(history and len(history) <= 300, "  and its history", str(history))
        test_host(port, ["cache.example", "Other:8080"], ["cache"])
        tap.is_(get(port, "/metrics", method="POST")[0], 405, "POST: 405")
        tap.like(get(port, "/metrics", headers={"Accept": OPEN})[2], r"\n# EOF\n$", "OpenMetrics")


def test_stopping():
    """Not ready from the beginning of a shutdown, even while a client delays the end."""
    at = folder()
    with Daemon("-m", "16", *http_args(), env=http_env(at), threads=1) as d:
        port = http_port(at)
        c = d.client()
        c.set("large", "x" * 900_000)
        c.send(b"get large\r\n" * 40)  # more than its socket takes: the daemon waits until the client reads
        until(lambda: [line for line in d.stats("conns").values() if line == "conn_mwrite"], bool)
        d.signal(signal.SIGUSR1)

        def look():
            try:
                return get(port, "/readyz")
            except OSError:
                return (0, {}, "")

        status, _, body = until(look, lambda answer: answer[0] in (0, 503))
        tap.ok((status, body) in ((503, "stopping\n"), (0, "")), "a stopping daemon is not ready", str(status), body)
        c.close()


def main():
    try:
        test_options()
        test_embedded()
        test_slow()
        test_nodes()
        test_farnode()
        test_stopping()
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)
    tap.done()


main()
