# SPDX-License-Identifier: BSD-3-Clause
"""A farcached READs items of one node, their home, in another node's memory. A liar in front of the home grants the pointers that a
home with spilled items would grant. Values are right, and come from the home, once the other node's item dies, and while either
connection or either node fails."""
import os
import signal
import struct
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from cluster import Cluster, nodes_shown, until_up  # noqa: E402
from farcached import Pace, tap, until  # noqa: E402
from farnode import CLOCK, FRAME, META_BYTES, REPLY, Farnode, NodeClient  # noqa: E402
from liar import Liar  # noqa: E402
from raw_proxy import GRANT, GRANTED, WANT_GRANT, ShmProxy  # noqa: E402

REPLIES, GET, STORE, SPILLED, ELSEWHERE = 5, 1, 2, 1 << 20, 1 << 4
VERSION_WITH_SPILLED, INCARNATION_AT = 5, 24
HOME_ID, TERM_MS = 77, 200
NAMES = 20


def value_of(key):
    return (b"value of %s, " % key) * 9


class Other:
    """The other node, with a copy of some of the home's items."""

    def __init__(self, node, layout):
        self.proxy = ShmProxy(node.path, layout)
        self.incarnation, = struct.unpack_from("<Q", self.proxy.hello(layout, version=VERSION_WITH_SPILLED).body, INCARNATION_AT)
        self.names, self.grants = {}, {}

    def name(self, key):
        return struct.pack("<BQQ", 1, HOME_ID, self.names.setdefault(key, len(self.names)))

    def spill(self, key):
        reply = self.proxy.request(STORE, self.name(key), struct.pack("<II", 0, 0), key + value_of(key), flags=SPILLED).reply()
        if reply[:2] != (STORE, 0):
            raise AssertionError("not stored: %s" % (reply,))
        self.grants[key] = until(lambda: self.granted(key), bool)

    def granted(self, key):
        """The GrantRecord of a lease, cut to TERM_MS, with the incarnation."""
        body = self.proxy.request(GET, self.name(key), flags=WANT_GRANT).frame().body
        if not REPLY.unpack_from(body, CLOCK.size)[4] & GRANTED:
            return None
        offset, generation, region, length, term, capacity = GRANT.unpack_from(body, CLOCK.size + REPLY.size + META_BYTES)
        if term == 0:
            return None
        return GRANT.pack(offset, generation, region, length, TERM_MS, capacity) + struct.pack("<Q", self.incarnation)

    def kill(self, key):
        if not self.proxy.delete(self.name(key)):
            raise AssertionError("%s is not there" % key)


def granting(other):
    """Replaces the grant in each reply to a get of a spilled item, as its home would."""
    def lie(frame):
        _, kind, count, _ = FRAME.unpack_from(frame)
        if kind != REPLIES:
            return frame
        at, said = FRAME.size + CLOCK.size, frame[:FRAME.size + CLOCK.size]
        for _ in range(count):
            of, status, _, _, flags, size, _ = REPLY.unpack_from(frame, at)
            if of != GET or status != 0:
                return frame  # the test's own requests are gets that hit, and stores
            grant_at = at + REPLY.size + META_BYTES
            value_at = grant_at + (GRANT.size if flags & GRANTED else 0)
            value = frame[value_at:value_at + size]
            grant = next((grant for key, grant in other.grants.items() if value == value_of(key)), None)
            if grant is None:
                said += frame[at:value_at + size]
            else:
                head = bytearray(frame[at:grant_at])
                struct.pack_into("<I", head, 4, flags | GRANTED | ELSEWHERE)
                head[3] = 0  # no denial
                said += bytes(head) + grant + value
            at = value_at + size
        return struct.pack("<I", len(said) - FRAME.size) + said[4:]
    return lie


class Stage:
    def __init__(self, cluster, liar, other):
        self.cluster, self.liar, self.other = cluster, liar, other
        self.proxy = cluster.proxies[0]
        self.keys = [cluster.key(cluster.nodes[0], "k%d" % i).encode() for i in range(NAMES)]

    def of(self, node, name):
        return int(nodes_shown(self.proxy)[node][name])

    def wrong(self, client):
        """Keys without their value."""
        found = {name: value for name, _, value, _ in client.get_many(self.keys)}
        return [key for key in self.keys if found.get(key) != value_of(key)]

    def reads(self, client):
        """Gets each key twice: the second get follows the grant at once. Are all answered, by READs of the other node too?"""
        before = self.of("n0", "get_onesided_spilled")
        wrong = [key for key in self.keys for _ in range(2) if [v for _, _, v, _ in client.get_many([key])] != [value_of(key)]]
        return not wrong and self.of("n0", "get_onesided_spilled") - before >= NAMES / 2


def hits(stage, client):
    tap.ok(until(lambda: stage.reads(client), bool), "all keys of the home are READ from the other node, with their values")
    tap.ok(stage.of("n0", "lease_granted_spilled") >= NAMES, "by pointers that the home granted")
    tap.is_([stage.of("n1", name) for name in ("get_onesided", "get_twosided")], [0, 0], "the other node is asked for none")
    tap.ok(stage.of("n1", "reads_completed") >= NAMES, "its link counts the READs")


def deaths(stage, client):
    until(lambda: stage.reads(client), bool)
    for key in stage.keys:
        stage.other.kill(key)  # its grant goes on, or the home's own pointer would be used from now on
    tap.is_(stage.wrong(client), [], "their items die at the other node: the home answers")
    tap.ok(stage.of("n1", "read_invalid_dead") + stage.of("n0", "pointer_misses") > 0, "after READs of dead slots")
    for key in stage.keys:
        stage.other.spill(key)
    tap.ok(until(lambda: stage.reads(client), bool), "spilled again, they are READ again")


def failures(stage, client):
    """Clients read on while connections and nodes end and return. A miss proves nothing; a value is right."""
    over, wrong, answers = threading.Event(), [], []

    def read_on():
        pace = Pace()
        with stage.proxy.client() as reader:
            while not over.is_set():
                pace.rest()
                found = reader.get_many(stage.keys)
                wrong.extend(name for name, _, value, _ in found if value != value_of(name))
                answers.append(len(found))

    readers = [threading.Thread(target=read_on) for _ in range(3)]
    for reader in readers:
        reader.start()
    for _ in range(5):
        until(lambda: stage.reads(client), bool)
        stage.liar.hang_up()
        until_up(stage.proxy)
    tap.ok(until(lambda: not stage.wrong(client), bool), "after ends of the home's connection all keys are there")
    other = stage.cluster.nodes[1]
    other.process.signal(signal.SIGSTOP)
    tap.ok(until(lambda: not stage.wrong(client), bool), "while the other node is stopped, too")
    other.process.signal(signal.SIGCONT)
    until(lambda: stage.reads(client), bool)
    stage.cluster.kill(other)
    tap.ok(until(lambda: not stage.wrong(client), bool), "and when it is dead")
    stage.cluster.restart(other)
    tap.ok(until(lambda: not stage.wrong(client), bool), "another run of it is not read by old pointers")
    over.set()
    for reader in readers:
        reader.join()
    tap.is_(wrong, [], "no reader got another value")
    tap.ok(sum(answers) > 0, "readers were answered", len(answers))


def main():
    threads = 1 if os.environ.get("FARCACHED_LINKS") else 2  # with borrowed links a worker may lack one of the two
    with Cluster("shm shm", proxies=0, threads=threads, local_read=False, options=["node_timeout_ms=10000"]) as cluster:
        home, other_node = cluster.nodes
        with Farnode("--name", "n1") as plain, plain.node_client() as c:
            c.learn_layout()
        layout = NodeClient.layout
        with Liar(home) as liar:
            home.address = liar.address
            cluster.proxies.append(cluster.start_proxy())
            other = Other(other_node, layout)
            stage = Stage(cluster, liar, other)
            liar.lie = granting(other)
            with stage.proxy.client() as client:
                for key in stage.keys:
                    client.set(key, value_of(key))
                    other.spill(key)
                hits(stage, client)
                deaths(stage, client)
                failures(stage, client)
    tap.done()


if __name__ == "__main__":
    main()
