# SPDX-License-Identifier: BSD-3-Clause
"""Keys of --auth-key-file (S16), over tcp and shm: the right key serves; a wrong one, none, or one at one end alone do not, and
both daemons say why. Keys change under load without a failed request, and a removed key ends its connections at once. Hostile
ends that prove nothing learn nothing, take no seat, and end at the greeting timeout. Arguments: only these channels; over RDMA
($FARCACHED_OVER) the hostile ends, too."""
import os
import re
import secrets
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from cluster import Cluster, Faults, faulty, nodes_shown  # noqa: E402
from daemon import run_binary, test_program  # noqa: E402
from farcached import Daemon, Pace, deadline, tap, until  # noqa: E402
from farnode import NodeClient, farnode_binary  # noqa: E402
from liar import WELCOME_BYTES  # noqa: E402
from raw_proxy import SHM_HELLO, SHM_HELLO_MAGIC  # noqa: E402

FRAME = struct.Struct("<IHHQ")
HELLO, WELCOME, REFUSE, CHALLENGE, PROOF = 1, 2, 3, 16, 17
NONCE_MAGIC, PROOF_MAGIC = b"facnonce", b"facproof"
KEYS = ["k%d" % i for i in range(40)]
SOCKETS = 200
QUEUE_PAIRS = 100
CHALLENGE_BYTES = FRAME.size + 40


class KeyFile:
    """A key file whose content changes; keys are made by name."""

    def __init__(self, folder, name, *lines):
        self.path = os.path.join(folder, name)
        self.write(*lines)

    def write(self, *lines):
        with open(self.path + ".new", "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
            f.write("# keys\n" + "".join(line + "\n" for line in lines))
        os.rename(self.path + ".new", self.path)

    def args(self):
        return ["--auth-key-file", self.path]


def line(role, name):
    return "%s %s %s" % (role, name, secrets.token_hex(32))


def reload(daemon):
    daemon.signal(signal.SIGHUP)


def counted(proxy, name, node="n0"):
    return int(proxy.stats("node " + node)[name])


def keys_at(proxy):
    return proxy.stats("node n0 keys")


def serves(client):
    return all(client.set(key, key * 3) == "STORED" for key in KEYS) and len(list(client.get_many(KEYS))) == len(KEYS)


def without_node(proxy):
    shown = nodes_shown(proxy)["n0"]
    return int(shown["get_local"]) + int(shown["get_onesided"])


def right_key(channel, folder):
    keys = KeyFile(folder, "right", line("proxy", "a"))
    with Cluster(channel, proxies=1, threads=2, node_args=keys.args(), proxy_args=keys.args()) as c, \
            c.proxies[0].client() as client:
        proxy = c.proxies[0]
        tap.ok(serves(client), channel + ": with the same key proxy and node serve")
        if c.nodes[0].channel != "tcp":
            until(lambda: serves(client) and without_node(proxy), lambda gets: gets > 0)
            tap.ok(without_node(proxy) > 0, channel + ": the proxy reads the node's memory")
        tap.ok(counted(proxy, "authentications") >= 2, channel + ": each connection has authenticated")
        tap.is_(keys_at(proxy), {"proxy:a": "2"}, channel + ": the node shows whose keys")
        tap.is_(nodes_shown(proxy)["n0"]["key"], "proxy key a", channel + ": the proxy shows its own")
        tap.ok(b"by its proxy key a" not in proxy.stderr(), channel + ": no more is said than asked for")


def down_reason(node_option, args):
    """Why a farcached with these arguments has no connection."""
    patience = ["-o", "node_timeout_ms=30000"]  # a guest may take longer than the default for a greeting
    with Daemon(*node_option, "-t", "1", *patience, *args) as proxy:
        shown = until(lambda: nodes_shown(proxy)["n0"], lambda s: s.get("down_reason"))
        if args:
            proof = "unproved" if "not for this moment" in shown["down_reason"] else "refused"
            tap.like(shown["key"], r"\A(proxy|reader) key \w+, %s\Z" % proof, "the key is shown as " + proof)
        return shown.get("down_reason", ""), shown["state"], proxy.client().set("k", "v")


def wrong_keys(channel, folder):
    good, secret = line("proxy", "a"), line("proxy", "a")
    node_file, same = KeyFile(folder, "node", good, line("reader", "r")), KeyFile(folder, "same", good)
    with Cluster(channel, proxies=1, threads=1, node_args=node_file.args(), proxy_args=same.args()) as c:
        option, proxy = c.nodes[0].option(), c.proxies[0]
        for words, lines in (("another key of that name", [secret]), ("an unknown name", [line("proxy", "b")]),
                             ("another role", [good.replace("proxy", "reader")])):
            why, state, said = down_reason(option, KeyFile(folder, "wrong", *lines).args())
            tap.like(why, "node n0 does not accept the key that proxy farcached names: its file has no key of this name, or "
                          "another key or role for it", "%s: %s: the reason" % (channel, words))
            tap.is_((state, said.startswith("SERVER_ERROR")), ("down", True), "%s: %s: nothing is served" % (channel, words))
        why, state, _ = down_reason(option, [])
        tap.like(why, "node n0 demands authentication, and proxy farcached has no key: set its auth_key_file", channel + ": no key")
        tap.is_(state, "down", channel + ": no key: nothing is served")
        counts = [counted(proxy, "auth_failed_" + name) > 0 for name in ("proof", "unknown", "role", "no_key")]
        tap.is_(counts, [True] * 4, channel + ": the node counts each by its reason")
        tap.ok(proxy.client().set("k", "v") == "STORED", channel + ": the other proxy is served")
    with Cluster(channel, proxies=0, threads=1) as c:
        why, state, _ = down_reason(c.nodes[0].option(), same.args())
        tap.like(why, "node n0 has no keys, and proxy farcached demands authentication: set --auth-key-file of the farnode, or "
                      "remove auth_key_file of the farcached", channel + ": a key in front of a node without one")


def reader(channel, folder):
    r, p = line("reader", "r"), line("proxy", "p")
    node_file, reads, writes = KeyFile(folder, "node", r, p), KeyFile(folder, "reads", r), KeyFile(folder, "writes", p)
    with Cluster(channel, proxies=1, threads=1, node_args=node_file.args(), proxy_args=writes.args()) as c, \
            Daemon(*c.nodes[0].option(), "-t", "1", *reads.args()) as other, c.proxies[0].client() as writer:
        until(lambda: nodes_shown(other)["n0"]["state"], lambda state: state == "up")
        with other.client() as client:
            tap.is_((writer.set("k", "v"), client.get("k")), ("STORED", b"v"), channel + ": a reader reads")
            said = [client.set("k", "w")] + [client.send(text).line().strip().decode() for text in
                                             (b"delete k\r\n", b"incr k 1\r\n", b"touch k 10\r\n", b"flush_all\r\n",
                                              b"md k\r\n")]
            tap.ok(all("ERROR" in word for word in said), channel + ": and changes nothing", said)
            large = client.set("k", "l" * 300_000)
            tap.ok("ERROR" in large, channel + ": nor by a large value", large)
            tap.is_((client.get("k"), writer.get("k")), (b"v", b"v"), channel + ": the item is as it was")
        tap.ok(b"it has no key of role proxy" in other.stderr(), channel + ": its farcached warns of that")
        tap.ok(counted(c.proxies[0], "auth_refused_requests") >= 6, channel + ": the node counts what it refused")


class Load(threading.Thread):
    """Sets and gets on one connection until it ends."""

    def __init__(self, daemon, number):
        super().__init__(daemon=True)
        self.client, self.number, self.stopping, self.rounds, self.wrong = daemon.client(), number, False, 0, []

    def run(self):
        pace = Pace()
        try:
            while not self.stopping:
                pace.rest()
                self.rounds += 1
                key, value = "l%d-%d" % (self.number, self.rounds % 50), b"v%d" % self.rounds
                said = self.client.set(key, value)
                if said != "STORED":
                    self.wrong.append(said)
                elif self.client.get(key) != value:
                    self.wrong.append("get " + key)
        except Exception as e:
            self.wrong.append(repr(e))

    def end(self):
        self.stopping = True
        self.join(deadline())


def rotation(channel, folder):
    a, b = line("proxy", "a"), line("proxy", "b")
    node_file, proxy_file = KeyFile(folder, "node", a), KeyFile(folder, "proxy", a)
    with Cluster(channel, proxies=1, threads=2, node_args=node_file.args(), proxy_args=proxy_file.args()) as c:
        proxy, node = c.proxies[0], c.nodes[0].process
        loads = [Load(proxy, number) for number in range(3)]
        for load in loads:
            load.start()
        node_file.write(a, b)
        reload(node)
        until(node.stderr, lambda said: b"reload: no option changed" in said)  # before, the node does not know the new key
        proxy_file.write(b)
        reload(proxy)
        until(lambda: keys_at(proxy), lambda shown: shown == {"proxy:b": "2"})
        tap.is_(keys_at(proxy), {"proxy:b": "2"}, channel + ": all connections have the new key")
        node_file.write(b)
        reload(node)
        seen = [load.rounds for load in loads]
        until(lambda: [load.rounds for load in loads], lambda now: all(n > s + 20 for n, s in zip(now, seen)))
        for load in loads:
            load.end()
        tap.is_([load.wrong[:3] for load in loads], [[]] * 3, channel + ": no request failed meanwhile")
        tap.is_(counted(proxy, "auth_keys_removed"), 0, channel + ": no connection had the removed key")


def removed_key(channel, folder):
    a, other = line("proxy", "a"), line("proxy", "other")
    node_file, proxy_file = KeyFile(folder, "node", a), KeyFile(folder, "proxy", a)
    with Cluster(channel, proxies=1, threads=2, node_args=node_file.args(), proxy_args=proxy_file.args()) as c:
        proxy, node = c.proxies[0], c.nodes[0].process
        load = Load(proxy, 1)
        load.start()
        until(lambda: load.rounds, lambda rounds: rounds > 10)
        node_file.write(other)
        reload(node)
        until(lambda: nodes_shown(proxy)["n0"]["links_up"], lambda up: up == "0")
        tap.is_(nodes_shown(proxy)["n0"]["links_up"], "0", channel + ": a removed key ends its connections")
        tap.ok("SERVER_ERROR" in proxy.client().set("k", "v"), channel + ": and no new one is made")
        with open(node_file.path, "w") as f:
            f.write("proxy a short\n")
        reload(node)
        until(node.stderr, lambda said: b"the former keys stay in use" in said)
        tap.ok(b"line 1: " in node.stderr(), channel + ": a file with an error is refused, with its line")
        node_file.write(other, a)
        reload(node)
        until(lambda: nodes_shown(proxy)["n0"]["links_up"], lambda up: up == "2")
        tap.is_(proxy.client().set("k", "v"), "STORED", channel + ": with the key again they serve")
        tap.ok(counted(proxy, "auth_keys_removed") >= 2, channel + ": the node counts them")
        load.end()
        tap.ok(all("ERROR" in word or word.startswith("get ") for word in load.wrong), channel + ": clients got errors alone",
               load.wrong[:3])


def spills(folder):
    """A farnode proves its key to the farnode of --spill-to, as a farcached does."""
    a, b, other = line("proxy", "a"), line("proxy", "b"), line("proxy", "other")
    keys, of_lender = KeyFile(folder, "spill", a), KeyFile(folder, "lender", a)
    with Cluster("tcp tcp", proxies=1, threads=1, node_args=["-m", "4", *keys.args()], proxy_args=keys.args(),
                 spill=["--ext_recache_rate", "0", "--no_ext_drop_unread"],
                 lender_args=["-m", "64", "--spill-share", "90", *of_lender.args()]) as c, c.proxies[0].client() as client:
        proxy, home, lender = c.proxies[0], c.nodes[0].process, c.nodes[1].process
        values = {c.key(c.nodes[0], "s%d" % i): b"%04d " % i * 500 for i in range(3000)}  # 7.5 MB

        def up(wanted):
            return until(lambda: proxy.stats("node n0")["spill_up"], lambda shown: shown == wanted)

        def wrong():
            before = counted(proxy, "spill_records_stored")
            said = [key for key, value in values.items() if client.set(key, value) != "STORED"]
            until(lambda: counted(proxy, "spill_records_stored"), lambda stored: stored > before + 20)
            return said + [key for key, value in values.items() if client.get(key) not in (None, value)]

        tap.is_((up("1"), wrong()), ("1", []), "spill: values move to a farnode of the same key, and come back")
        tap.ok(counted(proxy, "spill_reads") > 0, "spill: some were read there", proxy.stats("node n0"))

        def connections():
            """Proofs at the lender, less one for each outage of a busy machine, which the home logs."""
            return counted(proxy, "authentications", "n1") - home.stderr().count(b"is up again")

        before = connections()
        keys.write(a, "# again")
        reload(home)
        until(home.stderr, lambda said: b"reload: no option changed" in said)
        tap.is_((wrong(), until(connections, lambda now: now == before)), ([], before),
                "spill: a reload without another key keeps the connection")
        proofs = counted(proxy, "authentications", "n1")
        of_lender.write(a, b)
        reload(lender)
        until(lender.stderr, lambda said: b"reload: no option changed" in said)
        keys.write(b, a)
        reload(home)
        until(lambda: counted(proxy, "authentications", "n1"), lambda now: now > proofs)
        tap.is_((up("1"), wrong()), ("1", []), "spill: one with another key proves that")
        of_lender.write(other)
        reload(lender)
        tap.is_(up("0"), "0", "spill: a removed key ends it")
        tap.ok(all(client.get(key) in (None, value) for key, value in values.items()), "spill: and no value is wrong then")


# ---- hostile ends ---------------------------------------------------------------------------------------

def captured_hello(folder, args):
    """The hello of a farcached with these arguments."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(deadline())
        port = listener.getsockname()[1]
        with Daemon("--node", "n0=tcp:127.0.0.1:%d" % port, "-t", "1", *args):
            peer, _ = listener.accept()
            with peer:
                return frame_from(peer)


def frame_from(peer):
    """A whole frame; what came before the end, if it ends."""
    peer.settimeout(deadline())
    got = b""
    while len(got) < FRAME.size or len(got) < FRAME.size + FRAME.unpack_from(got)[0]:
        some = peer.recv(65536)
        if not some:
            break
        got += some
    return got


def kind_of(frame):
    return FRAME.unpack_from(frame)[1] if len(frame) >= FRAME.size else 0


def proof_by(name, role=2, proof=None):
    body = PROOF_MAGIC + struct.pack("<IHH", role, len(name), 0) + name + (proof or secrets.token_bytes(32))
    return FRAME.pack(len(body), PROOF, 0, 0) + body


def after_hello(port, hello, more):
    """(the answer to the hello, everything after `more` up to the end)."""
    with socket.create_connection(("127.0.0.1", port), deadline()) as peer:
        peer.sendall(hello)
        first = frame_from(peer)
        peer.sendall(more)
        rest = b""
        try:
            while some := peer.recv(65536):
                rest += some
        except ConnectionResetError:
            rest += b""
        return first, rest


def hostile(folder):
    keys = KeyFile(folder, "keys", line("proxy", "known"))
    args = [*keys.args(), "-c", "3", "--greeting-timeout-ms", "2000"]
    with Cluster("tcp", proxies=1, threads=2, node_args=args, proxy_args=keys.args()) as c, c.proxies[0].client() as client:
        proxy, port = c.proxies[0], c.nodes[0].port
        hello = captured_hello(folder, keys.args())
        tap.ok(NONCE_MAGIC in hello, "a proxy with a key sends a nonce")
        first, rest = after_hello(port, hello, proof_by(b"known"))
        tap.is_((kind_of(first), len(first)), (CHALLENGE, CHALLENGE_BYTES), "a hello gets a nonce and nothing else")
        tap.is_(kind_of(rest), REFUSE, "a wrong proof is refused")
        _, unknown = after_hello(port, hello, proof_by(b"strange"))
        _, operator = after_hello(port, hello, proof_by(b"known", role=3))
        tap.ok(rest == unknown == operator, "an unknown name and another role in the same words")
        second, replayed = after_hello(port, hello, proof_by(b"known"))
        tap.ok(second != first and kind_of(replayed) == REFUSE, "each challenge is new")
        with socket.create_connection(("127.0.0.1", port), deadline()) as peer:
            peer.sendall(hello)
            challenge = frame_from(peer)
            peer.sendall(proof_by(b"known", proof=challenge[-32:]))
            tap.is_(kind_of(frame_from(peer)), REFUSE, "the challenge itself is no proof")
        for words, bytes_ in (("a second hello", hello), ("requests", FRAME.pack(16, 4, 1, 1) + bytes(16)),
                              ("a ping", FRAME.pack(0, 7, 0, 1)), ("a grant", FRAME.pack(8, 18, 0, 0) + bytes(8)),
                              ("a long proof", FRAME.pack(4000, PROOF, 0, 0)),
                              ("a short proof", FRAME.pack(8, PROOF, 0, 0) + bytes(8)),
                              ("a report", FRAME.pack(16, 14, 1, 0) + bytes(16))):
            _, rest = after_hello(port, hello, bytes_)
            tap.is_(rest, b"", words + " instead of the proof ends the connection without a word")
        plain = hello.replace(hello[hello.index(NONCE_MAGIC):], b"")
        plain = FRAME.pack(len(plain) - FRAME.size, HELLO, 0, 0) + plain[FRAME.size:]
        first, _ = after_hello(port, plain, b"")
        tap.is_(kind_of(first), REFUSE, "a hello without a nonce is refused")
        older = bytearray(plain)
        older[FRAME.size + 8] = 5
        tap.is_(kind_of(after_hello(port, bytes(older), b"")[0]), REFUSE, "so is one of the version before")

        node = c.nodes[0].process
        before, began = node.memory()["Private"], time.monotonic()
        crowd = [socket.create_connection(("127.0.0.1", port), deadline()) for _ in range(SOCKETS)]
        for peer in crowd:
            peer.sendall(hello)
        got = [frame_from(peer) for peer in crowd]
        grown = node.memory()["Private"] - before
        tap.is_({kind_of(frame) for frame in got}, {CHALLENGE}, "%d that never prove are challenged" % SOCKETS)
        tap.ok(serves(client), "they take no seat: the proxy is served")
        tap.is_(nodes_shown(proxy)["n0"]["links_up"], "2", "by both its connections")
        said = []
        for peer in crowd:
            peer.settimeout(deadline())
            try:
                said.append(peer.recv(65536))
            except ConnectionResetError:
                said.append(b"")
            peer.close()
        tap.is_(set(said), {b""}, "each ends without another byte")
        numbers("tcp", SOCKETS, sum(map(len, got)), len(b"".join(said)), time.monotonic() - began, grown)
        ends = until(lambda: proxy.stats("node n0 connections"), lambda s: int(s["end_no_greeting"]) >= SOCKETS)
        tap.ok(int(ends["end_no_greeting"]) >= SOCKETS, "at the greeting timeout", ends["end_no_greeting"])
        tap.ok(int(ends["end_authentication"]) >= 5, "wrong proofs end by their reason", ends["end_authentication"])
        tap.ok(serves(client), "the proxy is served all the time")


def strangers_over_shm(folder):
    """Connections to a node's socket that prove nothing: silent ones, and ones with the transport's own greeting."""
    keys = KeyFile(folder, "keys", line("proxy", "known"))
    with Cluster("tcp", proxies=0, threads=1) as c, NodeClient(c.nodes[0].port) as open_node:
        open_node.learn_layout()
    args = [*keys.args(), "-c", "3", "--greeting-timeout-ms", "2000"]
    with Cluster("shm", proxies=1, threads=2, node_args=args, proxy_args=keys.args()) as c, c.proxies[0].client() as client:
        node, crowd = c.nodes[0], []
        before, began = node.process.memory()["Private"], time.monotonic()
        for number in range(SOCKETS):
            peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            crowd.append(peer)
            peer.settimeout(deadline())
            peer.connect(node.path)
            if number % 2:
                peer.send(SHM_HELLO.pack(SHM_HELLO_MAGIC, 1, *NodeClient.layout, 0, 0))
        given = [socket.recv_fds(peer, WELCOME_BYTES, 4) for peer in crowd[1::2]]
        tap.is_({len(fds) for _, fds, _, _ in given}, {3}, "shm: they get a ring and two wake-ups, not the node's memory")
        grown = node.process.memory()["Private"] - before
        tap.ok(grown < 64 * 1024 * SOCKETS, "shm: %d strangers cost the node %d bytes" % (SOCKETS, grown))
        for fd in (fd for one in given for fd in one[1]):
            os.close(fd)
        tap.ok(serves(client), "shm: %d strangers take no seat: the proxy is served" % SOCKETS)
        tap.is_({peer.recv(WELCOME_BYTES) for peer in crowd}, {b""}, "shm: each ends, and learns nothing more")
        numbers("shm", SOCKETS, sum(len(one[0]) for one in given), 0, time.monotonic() - began, grown)
        for peer in crowd:
            peer.close()
        ends = until(lambda: c.proxies[0].stats("node n0 connections")["end_no_greeting"], lambda n: int(n) >= SOCKETS)
        tap.is_(ends, str(SOCKETS), "shm: at the greeting timeout")
        tap.ok(serves(client), "shm: the proxy is served all the time")


def strangers_over_verbs(folder):
    """Connections over RDMA that prove nothing: silent ones, and ones with a farcached's hello (t/guest/verbs_strangers). Those
    that do not withhold their own rights WRITE a heartbeat after a while."""
    keys = KeyFile(folder, "keys", line("proxy", "known"))
    hello = captured_hello(folder, keys.args())
    args = [*keys.args(), "-c", "3", "--greeting-timeout-ms", "15000"]
    with Cluster("verbs", proxies=1, threads=2, node_args=args, proxy_args=keys.args()) as c, c.proxies[0].client() as client:
        node, proxy = c.nodes[0], c.proxies[0]
        tap.ok(serves(client), "verbs: the proxy is served")
        before = node.process.memory()["Private"]
        host, port = node.host_and_port().rsplit(":", 1)
        with subprocess.Popen([test_program("guest/verbs_strangers"), host, port, str(QUEUE_PAIRS)], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE) as strangers:
            strangers.stdin.write(hello)
            strangers.stdin.close()

            def told():
                return {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", strangers.stdout.readline().decode())}
            first = told()
            grown = node.process.memory()["Private"] - before
            tap.diag("verbs: all have connected after %d ms" % first.get("ms", 0))
            tap.is_((first.get("answered"), first.get("bytes")), (QUEUE_PAIRS // 2, QUEUE_PAIRS // 2 * CHALLENGE_BYTES),
                    "verbs: those with a hello get a nonce and nothing else")
            tap.ok(serves(client), "verbs: %d strangers take no seat: the proxy is served" % QUEUE_PAIRS)
            last = told()
            kinds = strangers.stdout.read().decode()
            tap.diag(kinds.rstrip())
            refused = sum(map(int, re.findall(r"(?m)^(\d+), .*empty WRITE at .*: remote", kinds)))
            tap.is_((last.get("ended"), last.get("bytes")), (QUEUE_PAIRS, 0), "verbs: each ends without another byte")
            tap.is_((first.get("rights"), last.get("rights")), (0, 0), "verbs: none got a key of memory, counters or container")
        tap.ok(grown < (1 << 20) * QUEUE_PAIRS, "verbs: %d strangers cost the node %d bytes" % (QUEUE_PAIRS, grown))

        def ends():
            shown = proxy.stats("node n0 connections")
            return int(shown["end_no_greeting"]), int(shown["end_transport"])
        silent, wrote = until(ends, lambda counts: sum(counts) >= QUEUE_PAIRS)
        tap.ok(silent >= QUEUE_PAIRS // 2 and silent + wrote == QUEUE_PAIRS,
               "verbs: at the greeting timeout, or by an empty WRITE, which is refused", silent, wrote)
        tap.is_(refused, wrote, "verbs: each end of the transport was such a WRITE")
        tap.ok(serves(client), "verbs: the proxy is served all the time")
        numbers("verbs", QUEUE_PAIRS, first.get("bytes"), last.get("bytes"), last.get("ms", 0) / 1000, grown)


def numbers(channel, connections, challenges, more, seconds, grown):
    """For docs/results.md."""
    tap.diag("%s: %d strangers got %s bytes of answers to their greetings and %s bytes more; the longest lived for %.2f s; the "
             "node grew by %d KiB" % (channel, connections, challenges, more, seconds, grown // 1024))


def false_nodes(folder):
    keys = KeyFile(folder, "keys", line("proxy", "known"))
    answers = (("a welcome without a challenge", lambda hello: FRAME.pack(96, WELCOME, 0, 0) + bytes(96),
                "asks for no proof of a key"),
               ("a challenge, then a welcome", lambda hello: FRAME.pack(40, CHALLENGE, 0, 0) + b"fachchal" + bytes(32)
                + FRAME.pack(140, WELCOME, 0, 0) + bytes(140), "did not prove that it holds the proxy key known"),
               ("two challenges", lambda hello: (FRAME.pack(40, CHALLENGE, 0, 0) + b"fachchal" + bytes(32)) * 2,
                "not for this moment"))
    for words, answer, reason in answers:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.settimeout(deadline())

            def serve(say=answer, at=listener):
                try:
                    while True:
                        peer, _ = at.accept()
                        with peer:
                            peer.sendall(say(frame_from(peer)))
                            while peer.recv(65536):
                                pass
                except OSError:
                    return
            threading.Thread(target=serve, daemon=True).start()
            why, state, _ = down_reason(["--node", "n0=tcp:127.0.0.1:%d" % listener.getsockname()[1]], keys.args())
            tap.like(why, reason, words + " of a false node")
            tap.is_(state, "down", words + ": the proxy does not use it")


def files(folder):
    good = KeyFile(folder, "good", line("proxy", "a"))
    operator = KeyFile(folder, "operator", line("operator", "o"))
    loose, missing, wrong = os.path.join(folder, "loose"), os.path.join(folder, "missing"), os.path.join(folder, "wrong")
    for path, text in ((loose, line("proxy", "a")), (wrong, "proxy a\n")):
        with open(path, "w") as f:
            f.write(text)
    os.chmod(loose, 0o644)
    os.chmod(wrong, 0o600)
    node = ["--node", "n0=tcp:127.0.0.1:1", "-p", "-1"]
    for binary, more in ((None, node), (farnode_binary(), ["--tcp", "127.0.0.1:0"])):
        name = "farnode" if binary else "farcached"
        for path, why in ((loose, "group or others may access it; only its owner may"), (missing, "cannot read the keys"),
                          (wrong, "line 1: the key is missing"), (folder, "it is no regular file")):
            status, _, error = run_binary(*more, "--auth-key-file", path, binary=binary)
            tap.ok(status != 0 and why.encode() in error, "%s: %s" % (name, why), status, error)
    if os.getuid() == 0:
        os.chmod(loose, 0o640)
        os.chown(loose, 11211, 11211)
        status, _, error = run_binary(*node, "--auth-key-file", loose)
        tap.ok(status != 0 and b"only its owner may" in error, "the group of another user's file may not read it", error)
        os.chown(loose, 0, 0)
        with Daemon(*node, "--auth-key-file", loose) as d:
            tap.ok(d.alive(), "the group of a file of root may read it")
    status, _, error = run_binary(*node, *operator.args())
    tap.ok(status != 0 and b"it has no key of role proxy or reader" in error, "farcached needs a key of a proxy or reader", error)
    with Daemon(*good.args()) as d:
        tap.ok(b"--auth-key-file has no effect without nodes" in d.stderr(), "without nodes it warns", d.stderr())
        tap.is_(d.client().set("k", "v"), "STORED", "and serves")


def broken(folder):
    """A check of the test: without a check of proofs, the wrong key is served."""
    a, wrong = KeyFile(folder, "a", line("proxy", "a")), KeyFile(folder, "b", line("proxy", "a"))
    with Cluster("tcp", proxies=0, threads=1, node_args=a.args(), faults=[Faults("", "S16")]) as c:
        with Daemon(*c.nodes[0].option(), "-t", "1", *wrong.args(), **faulty("farcached", Faults("", "S16_NODE"))) as d:
            up = until(lambda: nodes_shown(d)["n0"]["links_up"], lambda up: up == "1")
            tap.is_((up, d.client().set("k", "v")), ("1", "STORED"), "with both checks broken, the wrong key serves")
    hello = captured_hello(folder, [])
    with Cluster("tcp", proxies=0, threads=1, node_args=a.args(), faults=[Faults("", "S16_EARLY")]) as c:
        with socket.create_connection(("127.0.0.1", c.nodes[0].port), deadline()) as peer:
            peer.sendall(hello)
            tap.is_(kind_of(frame_from(peer)), WELCOME, "a node that welcomes without a proof is noticed")


def main():
    if b"without OpenSSL" in run_binary("--version-full")[1]:
        tap.skip_all("no OpenSSL in this program")
    with tempfile.TemporaryDirectory(prefix="farcached-auth-") as folder:
        for channel in sys.argv[1:] or ("tcp", "shm"):
            right_key(channel, folder)
            wrong_keys(channel, folder)
            reader(channel, folder)
            rotation(channel, folder)
            removed_key(channel, folder)
        if not sys.argv[1:]:
            spills(folder)
            hostile(folder)
            strangers_over_shm(folder)
            false_nodes(folder)
            files(folder)
        if "=verbs" in os.environ.get("FARCACHED_OVER", ""):
            strangers_over_verbs(folder)
        if os.path.exists(os.path.join(os.environ.get("abs_top_builddir", "."), "t/faulty/farnode")):
            broken(folder)
    tap.done()


main()
