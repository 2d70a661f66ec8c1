# SPDX-License-Identifier: BSD-3-Clause
"""farnode and farcached with an etcd that wants TLS and a password, whose tokens expire, that drops its history, and that loses its
quorum; and nodes at another address than the one where they listen. t/fleet/discover_etcd.py has the source of the list alone."""
import contextlib
import json
import os
import re
import sys
import tempfile
import urllib.error

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import certificates  # noqa: E402
import etcd as etcd_servers  # noqa: E402
from cluster import all_up, nodes_shown  # noqa: E402
from daemon import is_sanitized  # noqa: E402
from etcd import Etcd, Relay, running_cluster  # noqa: E402
from farcached import Daemon, tap, until  # noqa: E402
from farnode import Farnode  # noqa: E402
from ports import HeldPort  # noqa: E402

etcd_servers.skip_without()
TTL = 5 if is_sanitized() else 3  # seconds
PASSWORD = "secret word"
KEYS = ["key-%d" % i for i in range(20)]


def node(source, name, *args, at=("--tcp", "127.0.0.1:0")):
    ttl = [] if "--member-ttl" in args else ["--member-ttl", TTL]
    return Farnode(*at, "-m", "16", "-t", "1", "--name", name, "--discover", source, *ttl, *args)


def daemon(source, *args):
    return Daemon("--discover", source, "-o", "node_timeout_ms=30000", *args, threads=1)


def until_nodes(proxy, names):
    def accept(shown):
        return set(shown) == set(names) and all_up(shown)
    return accept(until(lambda: nodes_shown(proxy), accept))


def until_state(proxy, state):
    return until(lambda: proxy.stats("discovery")["state"], lambda seen: seen == state) == state


def stored(client, value):
    """Perhaps not at once: a node registers, or a connection begins."""
    return {until(lambda k=key: client.set(k, value), lambda said: said == "STORED") for key in KEYS} == {"STORED"}


def values(client):
    return {client.get(key) for key in KEYS}


def password_file(folder):
    path = os.path.join(folder, "password")
    with open(path, "w") as file:
        file.write(PASSWORD + "\n")
    os.chmod(path, 0o600)
    return path


def encrypted_with_password(folder):
    """farnode may write, farcached only read."""
    if not certificates.is_available():
        return tap.skip("https with a password", "openssl is not installed")
    authority = certificates.Authority("etcd-authority")
    server = authority.issue("etcd-server")
    with Etcd(tls=(server.chain, server.key), authority=authority) as etcd, contextlib.ExitStack() as stack:
        etcd.enable_auth(PASSWORD)

        def access(user):
            return "--discover-ca", authority.chain, "--discover-user", user, "--discover-password-file", password_file(folder)
        nodes = {name: stack.enter_context(node(etcd.source(), name, *access("far"))) for name in "ab"}
        proxy = stack.enter_context(daemon(etcd.source(), *access("reader")))
        client = stack.enter_context(proxy.client())
        tap.ok(until_nodes(proxy, "ab"), "https, a user and a password: nodes register, and farcached finds them",
               proxy.stats("discovery"))
        tap.ok(stored(client, "value") and values(client) == {b"value"}, "and uses them")
        changes = proxy.stats("discovery")["changes"]
        etcd.kill()
        tap.ok(until_state(proxy, "down"), "etcd is away")
        etcd.start()
        tap.ok(until_state(proxy, "up"), "and forgets all tokens: farcached gets another one")
        tap.is_((proxy.stats("discovery")["changes"], set(nodes_shown(proxy))), (changes, set("ab")), "no node is lost")
        nodes["b"].stop()
        tap.ok(until_nodes(proxy, "a"), "a node that stops leaves by another token, too")
        with node(etcd.source(), "c", *access("reader")) as reader:
            log = until(reader.stderr, lambda text: b"permission denied" in text).decode()
            tap.like(log, r"cannot keep its registration.*permission denied", "a node whose user may not write names the reason")
        tap.is_(set(nodes_shown(proxy)), {"a"}, "and is not in the list")


def expired_tokens(folder):
    """The node asks etcd less often than a token lives."""
    with Etcd("--auth-token-ttl", "1") as etcd, Relay(etcd.port) as relay:
        etcd.enable_auth(PASSWORD)
        access = "--discover-user", "far", "--discover-password-file", password_file(folder), "--member-ttl", "6"

        def asked(path):
            return relay.requests.count(b"POST /v3/" + path)

        def lease():
            etcd.authenticate("far", PASSWORD)
            return etcd.keys()["a"][1]
        with node("etcd://127.0.0.1:%d/far" % relay.port, "a", *access) as a:
            until(a.stderr, lambda log: b"registered as a " in log)
            first, tokens, kept = lease(), asked(b"auth/authenticate"), asked(b"lease/keepalive")
            seen = until(lambda: asked(b"auth/authenticate"), lambda seen: seen >= tokens + 2)
            tap.ok(seen >= tokens + 2 and asked(b"lease/keepalive") > kept, "a node whose token has expired gets another one", seen)
            tap.is_(lease(), first, "and keeps its registration")
            log = a.stderr().decode()
            failed = re.search("cannot keep|no longer has|does not answer", log)
            tap.ok(log.count("registered as a ") == 1 and failed is None, "without a failure", log)


def refused(folder):
    """etcd changes a node's password, and then changes it back."""
    ended = "etcd refuses this node, which executes no requests until etcd accepts it"
    with Etcd() as etcd, contextlib.ExitStack() as stack:
        etcd.enable_auth(PASSWORD)
        access = "--discover-user", "far", "--discover-password-file", password_file(folder)
        nodes = [stack.enter_context(node(etcd.source(), fence, *access, "--discover-fence", fence)) for fence in ("strict", "on")]
        for one in nodes:
            until(one.stderr, lambda log: b"registered as " in log)
        etcd.authenticate("root", PASSWORD)
        etcd.change_password("far", "another")
        for one, fence in zip(nodes, ("strict", "on")):
            log = until(one.stderr, lambda log: ended.encode() in log).decode()
            tap.ok(ended in log, "etcd refuses a node, which logs it: " + fence, log)
            tap.like(log, "cannot keep its registration: .*authentication of far failed", "with the reason")
        etcd.change_password("far", PASSWORD)
        accepted = r"(executes requests|registers|read one-sided) again"  # the lease may have ended
        for one in nodes:
            log = until(lambda one=one: one.stderr().decode().split(ended, 1)[-1], lambda log: re.search(accepted, log))
            tap.like(log, accepted, "and that etcd accepts it again")


def compacted(etcd):
    """Between the list and the watch, etcd drops the history that the watch asks for."""
    with Relay(etcd.port) as relay, contextlib.ExitStack() as stack:
        stack.enter_context(node(etcd.source(), "a"))
        until(etcd.keys, lambda keys: set(keys) == {"a"})
        late = []

        def change():
            late.append(stack.enter_context(node(etcd.source(), "b")))
            until(etcd.keys, lambda keys: set(keys) == {"a", "b"})
            for _ in range(2):
                etcd.put("/far/other", "value")
            etcd.compact()
        relay.before("/v3/watch", change)
        proxy = stack.enter_context(daemon("etcd://127.0.0.1:%d/far" % relay.port))
        canceled = until(lambda: bytes(relay.replies), lambda text: b'"compact_revision"' in text)
        tap.ok(b'"canceled":true' in canceled and b'"compact_revision"' in canceled, "etcd cancels a watch of dropped history")
        tap.ok(until_nodes(proxy, "ab"), "farcached asks for the list again, which has the node that it missed")
        tap.is_(proxy.stats("discovery")["failures"], "0", "which is no failure")
        late[0].stop()
        tap.ok(until_nodes(proxy, "a"), "and watches again")
        tap.ok(b"registered as b" in late[0].stderr() and b"does not answer" not in late[0].stderr(),
               "a node that is stopped does not complain of etcd", late[0].stderr())


def quorum():
    with contextlib.ExitStack() as stack:
        members = running_cluster(stack, 3)
        source = members[0].source(*members[1:])

        def registered():
            try:
                return set(members[0].keys())
            except urllib.error.HTTPError:  # no leader
                return set()
        stack.enter_context(node(source, "a"))
        proxy = stack.enter_context(daemon(source))
        client = stack.enter_context(proxy.client())
        tap.ok(until_nodes(proxy, "a") and stored(client, "first"), "a node registers in three etcd")
        changes, lease = proxy.stats("discovery")["changes"], members[0].keys()["a"][1]
        members[1].kill()
        members[2].kill()
        left = until(lambda: proxy.stats("node a")["right_left_ms"], lambda left: left == "0")
        tap.is_((left, until_state(proxy, "down")), ("0", True), "two of three are gone: the right of the node ends")
        tap.is_(values(client), {b"first"}, "the node goes on serving its items")
        tap.ok(stored(client, "second") and values(client) == {b"second"}, "and stores others")
        for member in members[1:]:
            member.launch()
        for member in members:
            member.wait()
        tap.is_(until(registered, bool), {"a"}, "a majority is back: the node keeps or regains its registration")
        is_kept = members[0].keys()["a"][1] == lease  # on a busy machine the lease may end first
        left = until(lambda: proxy.stats("node a")["right_left_ms"], lambda left: left != "0")
        tap.ok(left != "0" and until_state(proxy, "up") and until_nodes(proxy, "a"), "and its right", left)
        tap.ok(not values(client) - {b"second", None}, "no value is old")  # after the end of its lease it has dropped them
        tap.ok(stored(client, "third") and values(client) == {b"third"}, "and it stores")
        now = proxy.stats("discovery")["changes"]
        tap.ok(now == changes or not is_kept, "farcached never lost it, if its lease did not end", now, changes)


def peers(pid):
    """The addresses to which a process of this network is connected over IPv4."""
    found = set()
    with open("/proc/%d/net/tcp" % pid) as file:
        for words in (line.split() for line in list(file)[1:]):
            address, port = words[2].split(":")
            if words[3] == "01":  # established
                found.add((".".join(str(byte) for byte in reversed(bytes.fromhex(address))), int(port, 16)))
    return found


def advertised(etcd):
    """A node that listens at all addresses, and is reached by the one that it names."""
    with contextlib.ExitStack() as stack:
        port = stack.enter_context(contextlib.closing(HeldPort()))
        address = "127.0.0.2:%d" % port.number
        stack.enter_context(node(etcd.source(), "a", "--insecure", "--advertise", "tcp:" + address,
                                 at=("--tcp", "0.0.0.0:%d" % port.number)))
        until(etcd.keys, lambda keys: set(keys) == {"a"})
        tap.is_(json.loads(etcd.keys()["a"][0])["addresses"], {"tcp": address}, "--advertise: this address is registered, no other")
        with daemon(etcd.source()) as proxy, proxy.client() as client:
            tap.ok(until_nodes(proxy, "a") and stored(client, "value"), "farcached uses the node")
            tap.is_(nodes_shown(proxy)["a"]["address"], "tcp:" + address, "by this address")
            tap.is_({host for host, number in peers(proxy.pid) if number == port.number}, {"127.0.0.2"}, "its connections too")


def main():
    with tempfile.TemporaryDirectory() as folder:
        with Etcd() as etcd:
            compacted(etcd)
            advertised(etcd)
        encrypted_with_password(folder)
        expired_tokens(folder)
        refused(folder)
        quorum()
    tap.done()


main()
