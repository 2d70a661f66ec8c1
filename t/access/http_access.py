# SPDX-License-Identifier: BSD-3-Clause
"""The protection of --http in both daemons: tokens, TLS, --http-health; and reloads of tokens and certificate under load."""
import base64
import contextlib
import http.client
import os
import re
import shutil
import signal
import socket
import ssl
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import certificates  # noqa: E402
from farcached import Daemon, deadline, run_binary, tap, until  # noqa: E402
from farnode import Farnode, farnode_binary  # noqa: E402
from http_get import get, http_env, http_port, value  # noqa: E402

FOLDER = tempfile.mkdtemp(prefix="farcached-http-access-")
TOKEN, SECOND, WRONG = "0123456789abcdef", "second-token-0123456789", "fedcba9876543210"
KINDS = (("farcached", Daemon, ()), ("farnode", Farnode, ("--name", "a")))
CONNECTIONS_MAX = 32


def folder():
    return tempfile.mkdtemp(dir=FOLDER)


def bearer(token):
    return {"Authorization": "Bearer " + token}


def basic(token):
    return {"Authorization": "Basic " + base64.b64encode(b"anyone:" + token.encode()).decode()}


def write_tokens(path, *tokens, mode=0o640):
    with open(path + ".new", "w") as f:
        f.write("# of the test\n" + "".join(token + "\n" for token in tokens))
        os.fchmod(f.fileno(), mode)
    os.replace(path + ".new", path)


@contextlib.contextmanager
def daemons(*args):
    """For each kind: its name, the daemon, the folder of its port, and the file of its tokens."""
    stack = contextlib.ExitStack()
    with stack:
        running = []
        for name, kind, more in KINDS:
            at = folder()
            path = os.path.join(at, "tokens")
            write_tokens(path, TOKEN)
            words = [word.replace("@TOKENS@", path) for word in args]
            running.append((name, stack.enter_context(kind(*more, *words, env=http_env(at), threads=1)), at, path))
        yield running


def reloaded(d, words):
    """Reloads; waits for the line that begins with these words."""
    before = d.stderr().decode().count(words)
    d.signal(signal.SIGHUP)
    return until(lambda: d.stderr().decode(), lambda text: text.count(words) > before)


def test_refused():
    path = os.path.join(folder(), "tokens")
    for binary, more in ((None, ["-p", "0"]), (farnode_binary(), ["--tcp", "127.0.0.1:0"])):
        def says(*args):
            status, _, err = run_binary("--http", "0", *more, *args, binary=binary)
            return status, err.decode()
        write_tokens(path, TOKEN, mode=0o644)
        status, text = says("--http-token-file", path)
        tap.is_(status, 71, "a file that others may read")
        tap.like(text, "(?m)^--http-token-file .*tokens: every user of this host may open it, .*chmod o-rwx", "is refused")
        write_tokens(path, "short")
        tap.like(says("--http-token-file", path)[1], "line 2 is no token of 16 to 256 printable characters", "a short token")
        tap.like(says("--http-token-file", path + ".none")[1], "cannot be read: No such file", "a missing file")
        tap.like(says("--http-key", path)[1], "^--http-key has no effect without --http-cert", "a key alone")
    status, _, err = run_binary("-p", "0", "--http-token-file", path)
    tap.is_((status, err.startswith(b"--http-token-file and --http-cert protect --http")), (64, True), "tokens without --http")


def test_tokens():
    with daemons("--http", "0", "--http-token-file", "@TOKENS@") as running:
        for name, d, at, path in running:
            port = http_port(at)
            for page in ("/metrics", "/", "/status.json", "/history.json", "/none"):
                status, headers, body = get(port, page)
                tap.is_(status, 401, "%s: %s without a token" % (name, page))
            tap.like(body, "^this page needs a token: ", "says what to do")
            tap.like(headers["www-authenticate"], "Bearer realm.*Basic realm|Basic realm", "so that a browser asks")
            tap.is_([get(port, page)[0] for page in ("/healthz", "/readyz")], [200, 200], "probes need none")
            for headers in (bearer(TOKEN), basic(TOKEN)):
                tap.is_([get(port, page, headers=headers)[0] for page in ("/metrics", "/status.json", "/", "/none")],
                        [200, 200, 200, 404], "%s: with the token, %s" % (name, headers["Authorization"].split()[0]))
            tap.is_([get(port, "/metrics", headers=make(WRONG))[0] for make in (bearer, basic)], [401, 401], "another token")
            text = get(port, "/metrics", headers=bearer(TOKEN))[2]
            tap.is_(value(text, name + "_http_unauthorized_total"), 7, "are counted")
            said = until(lambda d=d: d.stderr().decode(), lambda text: "has no valid token" in text)
            tap.like(said, r"(?m)^http: a request of 127\.0\.0\.1 has no valid token and was refused; give its sender a line ",
                     "a wrong one is logged")
            tap.ok(WRONG not in said and TOKEN not in said, "without the token")
            write_tokens(path, SECOND)
            reloaded(d, "reload: no option changed")
            tap.is_([get(port, "/metrics", headers=bearer(token))[0] for token in (TOKEN, SECOND)], [401, 200],
                    "%s: a reload reads the tokens" % name)
            write_tokens(path, "short")
            tap.like(reloaded(d, "reload: refused"), "reload: --http-token-file .*: line 2 is no token",
                     "a damaged file is refused")
            tap.is_(get(port, "/metrics", headers=bearer(SECOND))[0], 200, "the former tokens stay")


def test_reachable():
    """--http beyond this host with tokens: served, and one warning."""
    with daemons("--http", "*:0", "--http-token-file", "@TOKENS@") as running:
        for name, d, at, _ in running:
            tap.like(d.stderr().decode(), r"(?m)^--http \*:\d+: tokens cross the network in the clear, ", name + ": a warning")
            tap.is_(get(http_port(at), "/metrics", headers=bearer(TOKEN))[0], 200, "and it is served")


def health_port(at):
    text = until(lambda: read(os.path.join(at, "http-port")), bool)
    return int(re.search(r"HEALTH INET6?: (\d+)", text).group(1))


def read(path):
    if not os.path.exists(path):
        return ""
    with open(path) as f:
        return f.read()


def test_health():
    for args in (("--http-health", "0.0.0.0:0"), ("--http-health", "*:0", "--http", "0", "--http-token-file", "@TOKENS@")):
        with daemons(*args) as running:
            for name, _, at, _ in running:
                port = health_port(at)
                tap.is_([get(port, page)[0] for page in ("/healthz", "/readyz", "/metrics", "/", "/status.json")],
                        [200, 200, 404, 404, 404], "%s: %s" % (name, " ".join(args[:3])))
                tap.is_(get(port, "/readyz", headers={"Host": "balancer.example"})[0], 200, "for any name of this host")
                tap.is_(get(port, "/readyz", method="POST")[0], 405, "GET and HEAD only")
                with contextlib.ExitStack() as stack:
                    for _ in range(CONNECTIONS_MAX):
                        stack.enter_context(socket.create_connection(("127.0.0.1", port)))
                    tap.is_(get(port, "/healthz")[0], 200, "beside silent connections")
                    if "--http" in args:
                        page = int(re.search(r"TCP INET6?: (\d+)", read(os.path.join(at, "http-port"))).group(1))
                        tap.is_(get(page, "/metrics", headers=bearer(TOKEN))[0], 200, "which take none of --http")


def fetch(port, trusted, path, headers=None):
    """(status, body, the server's certificate)"""
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=deadline(), context=trusted)
    try:
        connection.connect()
        certificate = connection.sock.getpeercert(binary_form=True)
        connection.request("GET", path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), certificate
    finally:
        connection.close()


class Load(threading.Thread):
    """Requests in a row, each over a connection of its own."""

    def __init__(self, port, trusted):
        super().__init__()
        self.port, self.trusted, self.failed, self.done, self.seen, self.ends = port, trusted, [], 0, set(), threading.Event()

    def run(self):
        while not self.ends.is_set():
            try:
                status, _, certificate = fetch(self.port, self.trusted, "/history.json", bearer(TOKEN))
                self.seen.add(certificate)
                if status != 200:
                    self.failed.append(status)
            except (OSError, http.client.HTTPException) as e:
                self.failed.append(repr(e))
            self.done += 1


def test_tls():
    authority = certificates.Authority("http-ca")
    first, second = authority.issue("http-first"), authority.issue("http-second")
    trusted = certificates.context(authority)
    used = certificates.Certificate("http-used")
    first.copy_to(used)
    status, _, err = run_binary("-p", "0", "--http", "0", "--http-cert", used.chain, "--http-key", second.key)
    tap.ok(status == 64 and b"--http-cert: Error " in err, "a key of another certificate is refused", status, err)
    with daemons("--http", "0", "--http-cert", used.chain, "--http-key", used.key, "--http-token-file", "@TOKENS@") as running:
        for name, d, at, tokens in running:
            first.copy_to(used)
            reloaded(d, "reload: no option changed")
            port = http_port(at)
            check_pages(name, port, trusted)
            check_strangers(name, port, trusted)
            load = Load(port, trusted)
            load.start()
            until(lambda load=load: load.done, lambda done: done > 3)
            for round in range(3):
                for certificate in (second, first):
                    certificate.copy_to(used)
                    write_tokens(tokens, TOKEN, SECOND + str(round))
                    reloaded(d, "reload: no option changed")
                    done = load.done
                    until(lambda load=load: load.done, lambda now, done=done: now > done + 2)
            with open(used.chain, "w") as f:
                f.write("no certificate\n")
            tap.like(reloaded(d, "reload: refused"), "reload: --http-cert: Error loading the certificate chain",
                     name + ": a damaged certificate is refused")
            done = load.done
            until(lambda load=load: load.done, lambda now, done=done: now > done + 2)
            load.ends.set()
            load.join()
            tap.ok(not load.failed, "%s: no request fails over %d reloads" % (name, 7), *load.failed[:3])
            tap.is_(len(load.seen), 2, "and clients saw both certificates")


def check_pages(name, port, trusted):
    tap.is_([fetch(port, trusted, page)[0] for page in ("/healthz", "/readyz", "/metrics")], [200, 200, 401],
            name + ": over TLS, probes need no token")
    status, text, _ = fetch(port, trusted, "/metrics", bearer(TOKEN))
    tap.ok(status == 200 and value(text, name + "_ready") == 1, "pages do", status)
    tap.is_(fetch(port, trusted, "/", basic(TOKEN))[0], 200, "also a browser's")
    old = certificates.context(certificates.Certificate("http-ca"))
    old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2
    tap.is_(fetch(port, old, "/healthz")[0], 200, "TLS 1.2")


def check_strangers(name, port, trusted):
    with socket.create_connection(("127.0.0.1", port), timeout=deadline()) as c:
        c.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        received = b""
        with contextlib.suppress(ConnectionError):
            received = c.recv(100)
        tap.ok(b"200" not in received, name + ": without TLS there is no answer", received)
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=deadline()))
                  for _ in range(2 * CONNECTIONS_MAX)]
        for c in silent[::2]:
            c.sendall(b"\x16\x03\x01\x02\x00\x01")  # the begin of a handshake
        tap.is_(fetch(port, trusted, "/healthz")[0], 200, "unfinished handshakes keep no client out")
        for c in silent:
            with contextlib.suppress(ConnectionError):
                while c.recv(100):
                    pass
        tap.ok(True, "and all of them end")


def main():
    try:
        test_refused()
        test_tokens()
        test_reachable()
        test_health()
        if b"without OpenSSL" in run_binary("--version-full")[1]:
            status, _, err = run_binary("-p", "0", "--http", "0", "--http-cert", "x")
            tap.ok(status == 64 and b"built without OpenSSL" in err, "--http-cert is refused without OpenSSL", err)
        elif certificates.is_available():
            test_tls()
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)
    tap.done()


main()
