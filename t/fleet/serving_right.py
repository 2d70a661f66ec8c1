# SPDX-License-Identifier: BSD-3-Clause
"""The serving right of a farnode in etcd (S17). A node that stands still, or is cut off from etcd, is still mapped by the proxies
of its host, and its RDMA device still answers READs (FARCACHED_OVER=shm=verbs), also those of another host (FARCACHED_BESIDE). No
proxy serves its values after another node has acknowledged a change.
"""
import contextlib
import os
import re
import select
import signal
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import etcd as etcd_servers  # noqa: E402
from beside import FarnodeBeside  # noqa: E402
from binary_client import BinaryClient, op  # noqa: E402
from cluster import Faults, Table, all_up, faulty, nodes_shown  # noqa: E402
from daemon import is_sanitized  # noqa: E402
from etcd import Etcd, Relay  # noqa: E402
from farcached import Daemon, tap, until  # noqa: E402
from farnode import Farnode  # noqa: E402

etcd_servers.skip_without()
OVER_VERBS = os.environ.get("FARCACHED_OVER") == "shm=verbs"
IS_BESIDE = "FARCACHED_BESIDE" in os.environ  # node a is in another guest
TTL = 5 if OVER_VERBS or is_sanitized() else 2  # seconds; a slow node must renew its right in time
KEYS = ["key-%d" % i for i in range(20)]
HELD = ["held-%d" % i for i in range(20)]  # a faulty proxy holds their copies up


def node(source, name, *args, ttl=TTL, faults=None):
    """Over RDMA the path of --shm is ignored."""
    if OVER_VERBS and "--shm" in args:
        args = [arg for arg in args if arg != "--shm" and not arg.endswith(".sock")]
        args += ["--verbs", os.environ["FARCACHED_RDMA_ADDRESS"] + ":0"]
    return Farnode("--tcp", "127.0.0.1:0", "-m", "16", "-t", "1", "--name", name, "--discover", source,
                   "--member-ttl", str(ttl), *args, **faulty("farnode", faults))


def mapper(a, table, faults=None, mode=None):
    """A proxy that reads the memory of a node, and has it in its list for ever, as `a`. mode: of -o, or its default."""
    address = "shm:" + str(a.path)
    if OVER_VERBS:
        port = next(port for kind, port in a.read_ports() if kind.startswith("VERBS"))
        address = "verbs:%s:%d" % (a.host if IS_BESIDE else os.environ["FARCACHED_RDMA_ADDRESS"], port)
    options = "node_timeout_ms=%d,pointer_miss=index,access_tracking=none,%s" % (1000 if IS_BESIDE else 300, table.options())
    options += "," + mode if mode else ""
    return Daemon("--node", "a=" + address, "-o", options, threads=1, **faulty("farcached", faults))


def until_names(proxy, names):
    return set(until(lambda: nodes_shown(proxy), lambda shown: set(shown) == names and all_up(shown))) == names


def registered(etcd, name):
    return name in until(etcd.keys, lambda keys: name in keys)


def count(proxy, *names):
    shown = proxy.stats("proxy")
    return sum(int(shown[name]) for name in names)


def one_sided(proxy):
    return count(proxy, "get_local", "get_onesided", "get_index")


def stored(client, key, value):
    """Perhaps not at once: a connection begins, or a node registers."""
    return until(lambda: client.set(key, value), lambda said: said == "STORED")


def reads_mapped(proxy, client, key, value, stores=False):
    """Does the proxy answer from the node's memory, perhaps after a get that renews the right? stores: the node may have dropped
    its items."""
    def look():
        if stores and client.set(key, value) != "STORED":
            return False
        before = one_sided(proxy)
        return client.get(key) == value and client.get(key) == value and one_sided(proxy) > before
    return until(look, lambda found: found)


def values(client, keys):
    return {client.get(key) for key in keys}


def in_binary(proxy, keys):
    with BinaryClient(proxy.client()) as b:
        for key in keys:
            b.send(op.GETKQ, key)
        return {reply.value for reply in b.until_noop()}


# Gets of several keys in one request or without a wait, by each command that reads one-sided.
KINDS = {
    "get": lambda proxy, client, keys: {value for _, _, value, _ in client.get_many(keys)},
    "gets": lambda proxy, client, keys: {value for _, _, value, _ in client.get_many(keys, "gets")},
    "mg": lambda proxy, client, keys: set(re.findall(rb"(?m)^VA \d+.*\r\n(.*)\r$", client.send(
        *(b"mg %s v q\r\n" % key.encode() for key in keys), b"mn\r\n").until(b"MN\r\n"))),
    "binary": lambda proxy, client, keys: in_binary(proxy, keys),
}


def by_kind(proxy, client, keys):
    """{kind: the values found}"""
    return {kind: look(proxy, client, keys) for kind, look in KINDS.items()}


def all_are(value):
    """Of by_kind(). None: misses."""
    return dict.fromkeys(KINDS, set() if value is None else {value})


def kinds_read_mapped(proxy, client, keys):
    """Does the proxy answer all kinds from the node's memory?"""
    def look():
        before = one_sided(proxy)
        return by_kind(proxy, client, keys) == all_are(b"old") and one_sided(proxy) - before == len(KINDS) * len(keys)
    return until(look, bool)


def follower(stack, etcd, table):
    """Starts node b, and a proxy that follows etcd."""
    stack.enter_context(node(etcd.source(), "b"))
    options = "node_timeout_ms=30000," + table.options()
    return stack.enter_context(Daemon("--discover", etcd.source(), "-o", options, threads=1))


def stands_still(etcd, a, table):
    """Node a stops for longer than its ttl. Proxy `writer` follows etcd, `reader` does not."""
    with contextlib.ExitStack() as stack:
        writer = follower(stack, etcd, table)
        reader = stack.enter_context(mapper(a, table))
        broken = stack.enter_context(mapper(a, table, Faults("", "S17")))
        pointers = stack.enter_context(mapper(a, table, mode="no_local_read"))
        w, r, x, y = (stack.enter_context(proxy.client()) for proxy in (writer, reader, broken, pointers))
        tap.ok(registered(etcd, "b") and until_names(writer, {"a", "b"}), "two nodes are registered")
        tap.ok(all(until_names(proxy, {"a"}) for proxy in (reader, broken, pointers)), "and one is connected")
        tap.is_({w.set(key, "old") for key in KEYS}, {"STORED"}, "keys are stored")
        moved = [key for key in KEYS if r.get(key) == b"old"]
        tap.ok(moved and reads_mapped(reader, r, moved[0], b"old") and reads_mapped(broken, x, moved[0], b"old"),
               "those of node a are read in its memory", *moved)
        some = moved[:3]
        tap.ok(all(kinds_read_mapped(*one, some) for one in ((reader, r), (pointers, y), (broken, x))),
               "by multi-gets, meta and binary gets, too, also without local_read")
        over = count(reader, "right_over")
        with a.stopped():
            tap.ok(until_names(writer, {"b"}), "a stands still for longer than its ttl, and its keys are at b")
            tap.is_({w.set(key, "new") for key in KEYS}, {"STORED"}, "which acknowledges new values")
            tap.is_(values(r, moved), {None}, "no old value is read in the memory of a")
            tap.is_((by_kind(reader, r, some), by_kind(pointers, y, some)), (all_are(None), all_are(None)),
                    "by multi-gets, meta and binary gets neither, also without local_read")
            tap.ok(count(reader, "right_over") > over, "because its right is over")
            tap.ok(b"old" in values(x, moved), "S17 broken: old values are read")
            tap.is_(by_kind(broken, x, some), all_are(b"old"), "by each kind of get")
        seen = set()

        def back():
            seen.update(values(r, moved))
            return "a" in etcd.keys()
        tap.ok(until(back, lambda is_back: is_back), "a goes on, and registers again")
        tap.is_(seen | values(r, moved), {None}, "meanwhile and afterwards its old values are not seen")
        tap.is_(stored(r, moved[0], "newer"), "STORED", "it stores again")
        tap.ok(reads_mapped(reader, r, moved[0], b"newer", stores=True), "and is read in its memory again")


class LateReader:
    """A proxy whose copy of a mapped item lasts until go_on()."""

    def __init__(self, stack, a, table, rule=""):
        self.proxy = stack.enter_context(mapper(a, table, Faults("held_copies=1", rule)))
        self.client = stack.enter_context(self.proxy.client())

    def begin(self, key):
        """The key is one that the node has. Perhaps not at the first get: the connection begins, or the right is over."""
        def is_held():
            self.client.send(b"mg %s v k\r\n" % key.encode())
            until(lambda: self.held() or select.select([self.client.socket], [], [], 0)[0], bool)
            if not self.held():
                self.answer()
            return self.held()
        return until(is_held, bool)

    def held(self):
        return b"a thread is held up" in self.proxy.stderr()

    def answer(self):
        line = self.client.line()
        return self.client.line().rstrip() if line.startswith(b"VA") else None

    def go_on(self):
        self.proxy.signal(signal.SIGUSR2)
        return self.answer()


def copies_last(etcd, a, table):
    """The right of node a ends while its memory is copied."""
    with contextlib.ExitStack() as stack:
        writer = follower(stack, etcd, table)
        plain = stack.enter_context(mapper(a, table))
        late, broken = LateReader(stack, a, table), LateReader(stack, a, table, "S17_LATE")
        w, r = (stack.enter_context(proxy.client()) for proxy in (writer, plain))
        tap.ok(until_names(writer, {"a", "b"}) and {w.set(key, "old") for key in HELD} == {"STORED"}, "keys are stored")
        key = next(key for key in HELD if r.get(key) == b"old")
        for reader in (late, broken):
            tap.ok(reader.begin(key), "a copy of a value of node a begins")
        with a.stopped():
            tap.ok(until_names(writer, {"b"}) and w.set(key, "new") == "STORED", "a stands still, and b has a new value")
            tap.is_(late.go_on(), None, "the copy, complete after the right, is not served")
            tap.is_(broken.go_on(), b"old", "S17 broken after the copy: it is")
        tap.ok(until_names(writer, {"a", "b"}), "a goes on, and registers again")


def is_stopped(etcd, folder, table, rule=""):
    """An orderly end of node c. Etcd has deleted its record, and the node has not seen the reply: all connections are open. Both
    readers have the list with the node, and its right."""
    with contextlib.ExitStack() as stack:
        relay = stack.enter_context(Relay(etcd.port))
        path = os.path.join(folder, "stopped%s.sock" % rule)
        c = stack.enter_context(node("etcd://127.0.0.1:%d/far" % relay.port, "c", "--shm", path, ttl=60,
                                     faults=Faults("", rule) if rule else None))
        writer = follower(stack, etcd, table)
        mapped, pointers = (stack.enter_context(mapper(c, table, mode=mode)) for mode in (None, "no_local_read"))
        w, m, p = (stack.enter_context(proxy.client()) for proxy in (writer, mapped, pointers))
        tap.ok(until_names(writer, {"b", "c"}) and all(until_names(proxy, {"a"}) for proxy in (mapped, pointers)), "a node joins")
        tap.is_({stored(w, key, "old") for key in KEYS}, {"STORED"}, "keys are stored")
        some = [key for key in KEYS if m.get(key) == b"old"][:3]
        tap.ok(some and all(kinds_read_mapped(*one, some) for one in ((mapped, m), (pointers, p))), "and read in its memory", *some)
        held = stack.enter_context(contextlib.ExitStack())
        relay.before("/v3/lease/revoke", lambda: held.enter_context(c.stopped()))
        c.signal(signal.SIGTERM)
        tap.ok(until_names(writer, {"b"}), "it is stopped, and its record is gone")
        tap.is_({w.set(key, "new") for key in KEYS}, {"STORED"}, "the other node acknowledges new values")
        seen = by_kind(mapped, m, some), by_kind(pointers, p, some)
        if rule:
            tap.is_(seen, (all_are(b"old"), all_are(b"old")), rule + " broken: old values are read")
        else:
            tap.is_(seen, (all_are(None), all_are(None)), "no old value is read in the memory of the node")
        held.close()
        tap.is_(c.wait(), 0, "it ends")


def etcd_is_away(etcd, a, table):
    with mapper(a, table) as reader, reader.client() as r:
        tap.is_(stored(r, "k", "value"), "STORED", "a key is stored")
        tap.ok(reads_mapped(reader, r, "k", b"value"), "and read in the node's memory")
        before = count(reader, "right_over")
        etcd.kill()

        def over():
            return r.get("k") == b"value" and count(reader, "right_over") > before
        tap.ok(until(over, lambda is_over: is_over), "while etcd is away, the node is asked for its values")
        shown = until(lambda: reader.stats("node a"), lambda now: now["right_left_ms"] == "0")
        tap.is_((shown["serving"], shown["right_left_ms"]), ("1", "0"), "and tells so in its statistics")
        tap.ok(until(lambda: b"its memory is not read one-sided" in a.stderr(), bool), "and in its log")
        tap.is_((stored(r, "k", "other"), r.get("k")), ("STORED", b"other"), "and stores")
        etcd.start()
        tap.ok(reads_mapped(reader, r, "k", b"other", stores=True), "when etcd is back, its memory is read again")


def without_fence(etcd, folder, table):
    path = os.path.join(folder, "c.sock")
    with node(etcd.source(), "c", "--shm", path, "--discover-fence", "off") as c, mapper(c, table) as reader, reader.client() as r:
        tap.ok(registered(etcd, "c") and stored(r, "k", "value") == "STORED", "a node without a fence is registered")
        etcd.kill()
        time.sleep(TTL + 1)  # a right, if it had one, would be over
        tap.ok(reads_mapped(reader, r, "k", b"value") and count(reader, "right_over") == 0, "its memory is read without etcd")
        etcd.start()


def registers_late(folder, table):
    """A node that served while etcd was silent drops its items, and executes nothing from then until it is registered."""
    with Etcd() as etcd, Relay(etcd.port) as relay:
        etcd.kill()
        source = "etcd://127.0.0.1:%d/far" % relay.port
        with node(source, "d", "--shm", os.path.join(folder, "d.sock")) as d, mapper(d, table) as reader, reader.client() as r:
            tap.is_(stored(r, "k", "old"), "STORED", "while etcd is silent, a new node serves")
            said = []
            relay.before("/v3/kv/txn", lambda: said.extend([r.set("late", "value"), r.get("k")]))
            etcd.start()
            tap.ok(registered(etcd, "d"), "etcd answers, and the node registers")
            tap.ok(said and said[0] != "STORED" and said[1] is None, "before that it stores nothing, and shows nothing", *said)
            tap.is_((r.get("k"), r.get("late")), (None, None), "afterwards it has no item of before")
            tap.is_(stored(r, "k", "new"), "STORED", "and stores")


def older_proxy(a, table):
    with mapper(a, table, Faults("speaks=6")) as reader, reader.client() as r:
        tap.is_((stored(r, "k", "value"), r.get("k")), ("STORED", b"value"), "an older proxy is served")
        tap.is_((one_sided(reader), count(reader, "lease_granted")), (0, 0), "and reads nothing one-sided")


def beside(table):
    with Etcd(host=os.environ["FARCACHED_RDMA_ADDRESS"]) as etcd:
        args = ("--tcp", "{address}:0", "--verbs", "{address}:0", "-m", "16", "-t", "1", "--name", "a", "--discover", etcd.source(),
                "--member-ttl", str(TTL))
        with FarnodeBeside(*args) as a:
            tap.ok(registered(etcd, "a"), "a node of another host registers")
            stands_still(etcd, a, table)


table = Table()
if IS_BESIDE:
    with contextlib.ExitStack() as at_end:
        at_end.callback(table.unlink)
        beside(table)
    tap.done()
    sys.exit()
with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as at_end, Etcd() as etcd:
    at_end.callback(table.unlink)
    path = os.path.join(folder, "a.sock")
    with node(etcd.source(), "a", "--shm", path) as a:
        tap.ok(registered(etcd, "a"), "a node registers")
        stands_still(etcd, a, table)
        if not OVER_VERBS:
            copies_last(etcd, a, table)
        older_proxy(a, table)
        etcd_is_away(etcd, a, table)
    for rule in ("", "S17_STOP"):
        is_stopped(etcd, folder, table, rule)
    without_fence(etcd, folder, table)
    registers_late(folder, table)
tap.done()
