# SPDX-License-Identifier: BSD-3-Clause
"""A node that sends false frames to a farcached with two honest nodes. Its connection is closed for a reason that is counted and
logged. Its keys are misses or SERVER_ERROR meanwhile. The honest nodes' keys are served, and no client gets a wrong byte.

A node's well-formed reply about its own items is believed, because no other source exists. Its claims about memory are checked: a
pointer is read only inside of the region, and the bytes there must hold the requested key.
"""
import itertools
import os
import random
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from cluster import Cluster, nodes_shown, until_up  # noqa: E402
from farcached import slow_factor, tap, until  # noqa: E402
from farnode import FRAME  # noqa: E402
from liar import Last, Liar  # noqa: E402

WELCOME, REPLIES, CHUNK = 2, 5, 6
REPLY_AT = FRAME.size + 8           # behind the node's clock
META_AT, GRANT_AT = REPLY_AT + 16, REPLY_AT + 48
GRANTED = 1 << 1                    # one of a reply's flags
LARGE = b"l" * 300_000
FRESH = itertools.count()
UNAVAILABLE = b"SERVER_ERROR unavailable\r\n"
SEEDS = 100 if os.environ.get("FARCACHED_TEST_LONG") else 8


def kind_of(frame):
    return struct.unpack_from("<H", frame, 4)[0]


def patched(frame, at, form, value):
    size = struct.calcsize(form)
    return frame[:at] + struct.pack(form, value) + frame[at + size:]


def only(kind, change):
    """A lie that changes frames of that kind alone."""
    return lambda frame: change(frame) if kind_of(frame) == kind else frame


def field(kind, at, form, value):
    return only(kind, lambda frame: patched(frame, at, form, value))


def shortened(frame):
    return patched(frame[:-1], 0, "<I", len(frame) - 1 - FRAME.size)


def lengthened(frame):
    return patched(frame + b"x", 0, "<I", len(frame) + 1 - FRAME.size)


def renumbered(frame):
    return frame + patched(frame, 8, "<Q", struct.unpack_from("<Q", frame, 8)[0] + 1000)


# Lies in the reply to a get: title, lie, the counter of `stats proxy` that moves.
ANSWERS = [
    ("a wrong tag", field(REPLIES, REPLY_AT + 12, "<I", 77), "frame_reply_stranger"),
    ("a reply without a request behind the right one", only(REPLIES, renumbered), "frame_reply_stranger"),
    ("the right reply twice", only(REPLIES, lambda frame: frame + frame), "frame_reply_stranger"),
    ("a frame cut short", only(REPLIES, shortened), "frame_entry_truncated"),
    ("a byte behind the last reply", only(REPLIES, lengthened), "frame_body_excess"),
    ("a frame longer than agreed", field(REPLIES, 0, "<I", 1 << 31), "frame_frame_too_long"),
    ("a frame of no known kind", field(REPLIES, 4, "<H", 77), "frame_kind_unknown"),
    ("a frame of a proxy's", field(REPLIES, 4, "<H", 4), "frame_kind_unexpected"),
    ("a second welcome", field(REPLIES, 4, "<H", WELCOME), "frame_kind_unexpected"),
    ("more replies than there are", field(REPLIES, 6, "<H", 9), "frame_entry_truncated"),
    ("a reply of no known kind", field(REPLIES, REPLY_AT, "<B", 99), "frame_op_unknown"),
    ("a reply to another question", field(REPLIES, REPLY_AT, "<B", 5), "frame_"),
    ("a value longer than any", field(REPLIES, REPLY_AT + 8, "<I", 1 << 30), "frame_value_too_long"),
    ("a value shorter than its item", field(REPLIES, META_AT + 24, "<I", 3), "frame_value_mismatch"),
    ("an impossible item", field(REPLIES, META_AT + 28, "<B", 255), "frame_meta_invalid"),
    ("a clock that is a second ahead of itself", field(REPLIES, FRAME.size + 4, "<I", 1_000_000), "frame_clock_invalid"),
    ("nothing that is a frame", only(REPLIES, lambda frame: b"\xff" * 64), "frame_kind_unknown"),
    ("silence in the middle of a frame", only(REPLIES, lambda frame: Last(frame[:30])), "down_silent"),
]
PIECES = [
    ("a piece out of order", field(CHUNK, FRAME.size + 8, "<Q", 50_000), "frame_chunk_order"),
    ("a piece twice", only(CHUNK, lambda frame: frame + frame), "frame_chunk_order"),
    ("a piece of another value", field(CHUNK, FRAME.size, "<I", 55), "frame_chunk_stranger"),
]
GREETINGS = [
    ("frames of a gigabyte", field(WELCOME, FRAME.size + 68, "<I", 1 << 30), "frame_facts_invalid"),
    ("larger frames than were wanted", field(WELCOME, FRAME.size + 68, "<I", 1 << 20), "down_refused"),
    ("frames of nothing", field(WELCOME, FRAME.size + 68, "<I", 0), "frame_facts_invalid"),
    ("no credit", field(WELCOME, FRAME.size + 72, "<I", 0), "frame_facts_invalid"),
    ("items of any size", field(WELCOME, FRAME.size + 56, "<Q", 1 << 60), "frame_facts_invalid"),
    ("60000 regions", field(WELCOME, FRAME.size + 90, "<H", 60_000), "frame_facts_invalid"),
    ("a clock that is a second ahead of itself", field(WELCOME, FRAME.size + 92, "<I", 1_000_000), "frame_facts_invalid"),
    ("no name", field(WELCOME, FRAME.size + 88, "<H", 0), "frame_name_invalid"),
    ("another magic", field(WELCOME, FRAME.size, "<Q", 7), "frame_magic_wrong"),
    ("another layout", field(WELCOME, FRAME.size + 16, "<Q", 7), "down_mismatch"),
    ("replies before it", only(WELCOME, lambda frame: FRAME.pack(8, REPLIES, 0, 1) + bytes(8) + frame), "frame_"),
]
# Possible and harmless: title, lie.
HARMLESS = [
    ("the clock of the last second there is", field(REPLIES, FRAME.size, "<I", 0xffffffff)),
    ("the clock of the first one", field(REPLIES, FRAME.size, "<I", 0)),
]


def in_grant(form, at, value):
    """Changes the pointer in a reply to one get, if it has one."""
    def lie(frame):
        if kind_of(frame) != REPLIES or len(frame) < GRANT_AT + 32 or frame[REPLY_AT] != 1:
            return frame
        flags, = struct.unpack_from("<I", frame, REPLY_AT + 4)
        term, = struct.unpack_from("<I", frame, GRANT_AT + 24)
        return patched(frame, GRANT_AT + at, form, value) if flags & GRANTED and term else frame
    return lie


# Lies about a pointer over shm: title, lie, the counter; does it end the connection?
POINTERS = [
    ("a pointer out of the region", in_grant("<Q", 0, 1 << 40), "lease_unusable", False),
    ("a pointer into another region", in_grant("<I", 16, 9), "lease_unusable", False),
    ("a pointer between two slots", in_grant("<Q", 0, 12345), "frame_grant_invalid", True),
    ("a pointer to more than the item", in_grant("<I", 20, 1 << 20), "frame_grant_invalid", True),
    ("a lease of fifty days", in_grant("<I", 24, 0xffffffff), "frame_grant_invalid", True),
    ("a pointer to a later generation", in_grant("<Q", 8, 1 << 61), "read_invalid_generation", False),
]


def region_bytes(change):
    return lambda welcome, fds: (patched(welcome, 24, "<Q", change(struct.unpack_from("<Q", welcome, 24)[0])), fds)


def another_file(_welcome, fds):
    return _welcome, fds[:3] + [os.memfd_create("no-region", os.MFD_CLOEXEC)]


# Lies about the record and the descriptors of the greeting over shm: title, lie.
REGIONS = [
    ("a region with twice its size", region_bytes(lambda n: n * 2)),
    ("a region with half its size", region_bytes(lambda n: n // 2)),
    ("a region with size 0", region_bytes(lambda n: 0)),
    ("a region of another incarnation", lambda w, fds: (patched(w, 32, "<Q", 1), fds)),
    ("a region that others may write", another_file),
    ("no region although one is announced", lambda w, fds: (w, fds[:3])),
    ("rings of another size", lambda w, fds: (patched(w, 16, "<I", 1 << 20), fds)),
    ("rings of no possible size", lambda w, fds: (patched(w, 16, "<I", 12345), fds)),
    ("another shm version", lambda w, fds: (patched(w, 8, "<I", 9), fds)),
    ("half a greeting", lambda w, fds: (w[:100], fds)),
]


class Stage:
    """A cluster with a liar in front of its last node. Each lie gets a new farcached, so none waits for a retry."""

    def __init__(self, cluster, liar, node):
        self.cluster, self.liar, self.node, self.name = cluster, liar, node, node.channel + ", "
        self.honest = [n for n in cluster.nodes if n is not node]

    def fill(self):
        proxy = self.cluster.start_proxy()
        self.cluster.proxies.append(proxy)  # to find each key's node
        self.key = self.cluster.key(self.node, "k")
        self.twin = self.cluster.key(self.node, "twin")
        self.large = self.cluster.key(self.node, "large")
        self.others = {self.cluster.key(n, "k%d" % i): b"honest %d" % i for n in self.honest for i in range(3)}
        with proxy.client() as c:
            for key, value in [(self.key, b"value"), (self.twin, b"other"), (self.large, LARGE), *self.others.items()]:
                tap.is_(c.set(key, value), "STORED", self.name + "stored before")
        self.cluster.proxies.remove(proxy)
        self.cluster.end_proxy(proxy)

    def served(self, client):
        """Are the honest nodes' keys served?"""
        return all(client.get(key) == value for key, value in self.others.items())

    def show(self, title, wanted, work, ends=True, shm_lie=None):
        """Starts a farcached, which gets the lie while work(client) runs, and then the true frames again."""
        title = self.name + title
        proxy = self.cluster.start_proxy()
        try:
            with proxy.client() as client, proxy.client() as other:
                right = work(client)
                honest = self.served(other)
                stats = until(lambda: proxy.stats("proxy"), lambda s: moved(s, wanted))
                tap.ok(moved(stats, wanted), "%s is counted as %s" % (title, wanted), *counted(stats))
                tap.ok(right, title + ": no wrong byte")
                tap.ok(honest and self.served(other), title + ": other nodes' keys are served")
                if ends:
                    tap.ok(nodes_shown(proxy)[self.node.name].get("down_reason"), title + ": the reason is shown")
                self.liar.lie = self.liar.shm_lie = None
                if wanted == "down_mismatch":  # there is no early retry
                    return
                if not ends:
                    self.liar.hang_up()
                until_up(proxy)
                tap.is_(client.get(self.key), b"value", title + ": with true frames it is used again")
        finally:
            self.liar.lie = self.liar.shm_lie = None
            self.cluster.end_proxy(proxy)

    def get_under(self, lie, key, value):
        """A get under the lie returns the value, or a miss."""
        def work(client):
            self.liar.lie = lie
            return client.get(key) in (value, None)
        return work

    def set_under(self, lie):
        def work(client):
            self.liar.lie = lie
            return client.send("set %s 0 0 5\r\nvalue\r\n" % self.key).line() in (UNAVAILABLE, b"STORED\r\n")
        return work

    def greet_under(self, lie=None, shm_lie=None):
        def work(client):
            self.liar.lie, self.liar.shm_lie = lie, shm_lie
            self.liar.hang_up()
            until(lambda: client.send("set %s 0 0 5\r\nvalue\r\n" % self.key).line(), lambda line: line == UNAVAILABLE)
            return client.get(self.key) is None
        return work


def moved(stats, name):
    if not name.endswith("_"):
        return stats[name] != "0"
    return any(value != "0" for key, value in stats.items() if key.startswith(name) and key != "frame_none")


def counted(stats):
    return ["%s %s" % pair for pair in stats.items() if pair[1] != "0"]


def fresh(stage, client, value):
    """A key for which no pointer exists."""
    key = stage.cluster.key(stage.node, "fresh%d" % next(FRESH))
    client.set(key, value)
    return key


def held_under(stage, lie):
    """Gets until each could be by a pointer, under the lie."""
    def work(client):
        key = fresh(stage, client, b"value")
        stage.liar.lie = lie
        return all(client.get(key) in (b"value", None) for _ in range(8))
    return work


def to_the_twin(stage):
    """Every reply about one key has a pointer to the other key's item, which has the same size."""
    grants = {}

    def lie(frame):
        if in_grant("<B", 0, 1)(frame) == frame:
            return frame
        value = frame[-5:]
        grants[value] = frame[GRANT_AT:GRANT_AT + 32]
        if value != b"value" or b"other" not in grants:
            return frame
        return frame[:GRANT_AT] + grants[b"other"] + frame[GRANT_AT + 32:]

    def work(client):
        keys = [(fresh(stage, client, value), value) for value in (b"other", b"value")]
        stage.liar.lie = lie
        return all(client.get(key) == value for key, value in keys for _ in range(8))
    return work


def corrupt_ring(stage):
    def work(client):
        for end in stage.liar.ends():
            end.publish(end.outgoing[0], 1 << 50)
        return client.get(stage.key) is None
    return work


def answers(stage):
    for title, lie, counter in ANSWERS:
        stage.show(title, counter, stage.get_under(lie, stage.key, b"value"))
    for title, lie, counter in PIECES:
        stage.show(title, counter, stage.get_under(lie, stage.large, LARGE))
    stage.show("a reply to a set without a request", "frame_reply_stranger",
               stage.set_under(field(REPLIES, REPLY_AT + 12, "<I", 77)))
    for title, lie in HARMLESS:
        stage.show(title, "get_twosided", stage.get_under(lie, stage.key, b"value"), ends=False)


def greetings(stage):
    for title, lie, counter in GREETINGS:
        stage.show("a welcome with " + title, counter, stage.greet_under(lie))


def memory(stage):
    for title, lie, counter, ends in POINTERS:
        stage.show(title, counter, held_under(stage, lie), ends=ends)
    stage.show("a pointer to another key", "read_invalid_key", to_the_twin(stage), ends=False)
    for title, lie in REGIONS:
        stage.show(title, "channel_end_handshake", stage.greet_under(shm_lie=lie))
    stage.show("a ring with an impossible position", "channel_end_corrupt", corrupt_ring(stage))


def noise(stage):
    """A random bit of any frame may change. The lying node's own keys may have any result."""
    good = True
    for seed in range(SEEDS):
        chance = random.Random(seed)

        def lie(frame):
            at = chance.randrange(len(frame))
            return frame[:at] + bytes([frame[at] ^ 1 << chance.randrange(8)]) + frame[at + 1:]

        proxy = stage.cluster.start_proxy("-o", "node_timeout_ms=%d" % (500 * slow_factor()))
        with proxy.client() as client, proxy.client() as other:
            stage.liar.lie = lie
            for verb in ("get", "gets", "mg"):
                client.send("%s %s%s\r\n" % (verb, stage.key, " v h l t f s" if verb == "mg" else ""))
            client.send("stats\r\nincr %s 1\r\ntouch %s 0\r\nset %s 0 0 1\r\nx\r\nmn\r\n" % ((stage.twin,) * 3))
            good = good and stage.served(other)
            client.until("MN\r\n")
            stage.liar.lie = None
        stage.cluster.end_proxy(proxy)
    tap.ok(good, "%s%d times noise: other nodes' keys are served, and everything is answered" % (stage.name, SEEDS))


def main():
    timeout_ms = int(1000 * slow_factor())
    for channels, acts in (("shm tcp tcp", (answers, greetings, noise)), ("tcp shm shm", (memory, noise))):
        with Cluster(channels, proxies=0, threads=1, local_read=False, node_args=["--lease-ms", "60000"],
                     options=["node_timeout_ms=%d" % timeout_ms]) as cluster:
            node = cluster.nodes[-1]
            with Liar(node) as liar:
                node.address = liar.address
                stage = Stage(cluster, liar, node)
                stage.fill()
                for act in acts:
                    act(stage)
    tap.done()


main()
