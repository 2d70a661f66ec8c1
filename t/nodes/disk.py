# SPDX-License-Identifier: BSD-3-Clause
"""Nodes with a disk (farnode --ext_path) behind farcached: the right bytes through every channel, whether values are in memory, on
the disk, or on their way. What stands in memory for a value on the disk is never taken for a value by who reads that memory.
"""
import os
import signal
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from binary_client import BinaryClient, op, touch_extras  # noqa: E402
from cluster import AWRY, Cluster, nodes_shown  # noqa: E402
from disk import get_all_at_once, hit, store_and_read, to_disk, value  # noqa: E402
from farcached import Closed, tap, until  # noqa: E402

FAR = 100_000  # seconds
STAYS = {"recache_rate": 0}  # no value returns to memory
PATIENT = "node_timeout_ms=30000"
LOST = ("evictions", "extstore_objects_evicted", "extstore_dropped_no_buffer")
WITHOUT_NODE = ("get_local", "get_onesided", "get_index")


# The second farcached reads mapped memory. It needs no leases, which would keep items in memory, so values are stored through it.
def cluster(channels, local_read, *options, memory=4, disk=None, **more):
    return Cluster(channels, local_read=[local_read, True], options=[PATIENT, *options], disk=STAYS if disk is None else disk,
                   node_args=["-m", memory, "-I", "512k", "-t", "2", "--lease-ms", "400"], **more)


def of_nodes(c, name):
    return sum(int(c.proxies[0].stats("node " + node.name)[name]) for node in c.nodes)


def of_proxies(c, names):
    shown = [nodes_shown(p)[n.name] for p in c.proxies for n in c.nodes]
    return {name: sum(int(s[name]) for s in shown) for name in names}


def differing(client, requests, replies):
    """Sends all at once; the place of the first difference, or None."""
    sender = threading.Thread(target=client.send, args=requests)
    sender.start()
    wanted = b"".join(replies)
    got = client.upto(wanted)
    sender.join()
    if got == wanted:
        return None
    at = next((i for i, (a, b) in enumerate(zip(got, wanted)) if a != b), len(got))
    return at, got[max(0, at - 60):at + 60], wanted[max(0, at - 60):at + 60]


def by_every_protocol(c, title, v):
    """Several times: what stands for a value must not get a pointer, and no get may be answered without the node."""
    before, reads = of_proxies(c, WITHOUT_NODE), of_nodes(c, "extstore_objects_read")
    wrong, rounds = [], 3
    for proxy in c.proxies:
        with proxy.client() as client, proxy.client() as raw:
            b = BinaryClient(raw)
            for _ in range(rounds):
                for key, one in v.items():
                    k, size = key.encode(), len(one)
                    cas = int(client.ask("mg %s c" % key).split("c")[-1])
                    wrong += [differing(client, [b"gets %s\r\n" % k, b"get none %s\r\n" % k, b"gat %d %s\r\n" % (FAR, k),
                                                 b"mg %s v s k\r\n" % k, b"mg %s s f\r\n" % k, b"mg %s v T0 t\r\n" % k],
                                        [hit(key, one, cas=cas) + b"END\r\n", *[hit(key, one) + b"END\r\n"] * 2,
                                         b"VA %d s%d k%s\r\n%s\r\n" % (size, size, k, one), b"HD s%d f5\r\n" % size,
                                         b"VA %d t-1\r\n%s\r\n" % (size, one)])]
                    got = [b.ask(op.GET, key), b.ask(op.GETK, key), b.ask(op.GAT, key, extras=touch_extras(0))]
                    wrong += [r for r in got if (r.value, r.cas) != (one, cas)]
    tap.is_([w for w in wrong if w], [], "%s: values on the disk by every protocol" % title)
    tap.is_(of_nodes(c, "extstore_objects_read") - reads, 8 * rounds * len(v) * len(c.proxies),
            "%s: the disk had all of them" % title)
    tap.is_(of_proxies(c, WITHOUT_NODE), before, "%s: no get was answered without the node" % title)


def one_key(c, title):
    """get, mutation, get of one key in a pipeline."""
    changes = {"set": (b"set %s 5 0 3\r\nnew\r\n", b"STORED\r\n", b"new"),
               "replace": (b"replace %s 5 0 3\r\nnew\r\n", b"STORED\r\n", b"new"),
               "delete": (b"delete %s\r\n", b"DELETED\r\n", None),
               "append": (b"append %s 5 0 3\r\nnew\r\n", b"NOT_STORED\r\n", ""),
               "add": (b"add %s 5 0 3\r\nnew\r\n", b"NOT_STORED\r\n", ""),
               "touch": (b"touch %s 90\r\n", b"TOUCHED\r\n", ""),
               "incr": (b"incr %s 1\r\n", b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n", ""),
               "md": (b"md %s\r\n", b"HD\r\n", None)}
    with c.proxies[-1].client() as storing, c.proxies[0].client() as client:
        v = to_disk(storing, {name + str(i): 1500 for name in changes for i in range(6)})
        requests, replies = [], []
        for name, (request, reply, after) in changes.items():
            for i in range(6):
                key = name + str(i)
                k, one = key.encode(), v[key]
                then = one if after == "" else after
                requests += [b"get %s\r\n" % k, request % k, b"get %s\r\nmg %s s\r\n" % (k, k)]
                replies += [hit(key, one) + b"END\r\n", reply, b"END\r\nEN\r\n" if then is None else
                            hit(key, then) + b"END\r\nHD s%d\r\n" % len(then)]
        tap.is_(differing(client, requests, replies), None, "%s: get, mutation, get of one key" % title)
        kept = to_disk(storing, {"gone%d" % i: 1500 for i in range(3)})
        told = client.ask("flush_all"), client.get_many(list(kept))
        tap.is_(told, ("OK", []), "%s: flush_all" % title)


def while_items_move(c, title):
    """Items in memory are read without the node, or with it, while others move to the disk; none is wrong."""
    hot = {"hot%d" % i: value("hot%d" % i, 700) for i in range(20)}
    wrong = []
    with c.proxies[0].client() as reader, c.proxies[-1].client() as writer:
        store_and_read(writer, hot)
        for turn in range(25):
            store_and_read(writer, {"pass%d-%d" % (turn, i): value("pass%d-%d" % (turn, i), 900) for i in range(200)})
            for _ in range(10):
                wrong += [(k, got[:30]) for k, _, got, _ in reader.get_many(list(hot)) if got != hot[k.decode()]]
            old = ["pass%d-%d" % (t, i) for t in range(turn) for i in range(0, 200, 20)]
            wrong += [(k, got[:30]) for k, _, got, _ in reader.get_many(old) if got != value(k.decode(), 900)] if old else []
        tap.is_(wrong, [], "%s: values while items move to the disk" % title)
    shown = of_proxies(c, AWRY)
    tap.ok(not any(shown.values()) or "index" in title, "%s: no pointer led elsewhere" % title, str(shown))
    tap.ok(of_nodes(c, "extstore_objects_written") > 200, "%s: many moved" % title)


def small_values():
    for title, channel, local_read, options in (("shm", "shm", True, ()), ("shm by pointers", "shm", False, ()),
                                                ("shm by index", "shm", False, ("pointer_miss=index",)), ("tcp", "tcp", False, ())):
        with cluster(channel, local_read, *options) as c:
            with c.proxies[-1].client() as storing:
                v = to_disk(storing, {"k%d-%d" % (size, i): size for size in (600, 3000) for i in range(3)})
            by_every_protocol(c, title, v)
            one_key(c, title)
            while_items_move(c, title)


def large_values(channel):
    """Values that are larger than a frame."""
    with cluster(channel, True, memory=8) as c, c.proxies[0].client() as client:
        v = {"large%d" % i: value("large%d" % i, 20_000 + 37_000 * (i % 10)) for i in range(60)}
        for turn in range(40):  # a large value moves if a slot for its stub is free
            for key, one in v.items():
                store_and_read(client, {key: one})
            if turn > 0 and of_nodes(c, "extstore_objects_used") > 0:
                break
        reads = of_nodes(c, "extstore_objects_read")
        wrong, hits = get_all_at_once(client, list(v) * 3, v)
        tap.is_(wrong, [], "%s: values larger than a frame" % channel)
        tap.ok(hits and of_nodes(c, "extstore_objects_read") > reads, "%s: the disk had some of them" % channel, hits)


def ends(channel):
    """A node that is stopped, ended or killed while it reads its disk."""
    with cluster(channel, True, kept=True, threads=1) as c:
        with c.proxies[0].client() as client:
            v = to_disk(client, {"e%d" % i: 4000 for i in range(60)}, leave_room=True)
        node = c.nodes[0]
        requests = [b"get %s\r\n" % key.encode() for key in v] * 5
        replies = [hit(key, one) + b"END\r\n" for key, one in v.items()] * 5
        clients = [c.proxies[0].client() for _ in range(6)]
        with node.process.stopped():
            senders = [threading.Thread(target=client.send, args=requests) for client in clients]
            for sender in senders:
                sender.start()
            for sender in senders:
                sender.join()
        wrong = [client.upto(b"".join(replies)) != b"".join(replies) for client in clients]
        tap.is_(wrong, [False] * 6, "%s: a node that was stopped sends all values" % channel)
        for end in (signal.SIGTERM, signal.SIGKILL):
            for client in clients:
                client.send(*requests, b"mn\r\n")
            node.end(end)
            told = [whole_hits(client, v) for client in clients]
            tap.ok(all(told), "%s, %s: each get that was under way has its value, or none" % (channel, end.name), told)
            node.start()
            c.until_up()
            with c.proxies[0].client() as client:
                found = {k.decode(): got for k, _, got, _ in client.get_many(list(v))}
                tap.ok(all(found[k] == v[k] for k in found), "%s, %s: no wrong value after the restart" % (channel, end.name))
                if end == signal.SIGTERM:
                    tap.ok(len(found) == len(v), "%s, %s: all are back" % (channel, end.name), sorted(set(v) - set(found)),
                           {name: of_nodes(c, name) for name in LOST})
        tap.ok(c.proxies[0].alive(), "%s: the proxy lives" % channel)
        for client in clients:
            client.close()


def whole_hits(client, v):
    """Reads replies to gets up to that of mn: each is a hit with its value, a miss, or an error."""
    try:
        while True:
            line = client.line()
            if line == b"MN\r\n":
                return True
            if line.startswith(b"VALUE"):
                key = line.split()[1].decode()
                if line + client.read(len(v[key]) + 2) != hit(key, v[key]):
                    return False
            elif line != b"END\r\n" and not line.startswith(b"SERVER_ERROR"):
                return False
    except Closed:
        return False


def statistics():
    with cluster("tcp", False, proxies=1) as c, c.proxies[0].client() as client:
        v = to_disk(client, {"s%d" % i: 1000 for i in range(20)})
        before = c.proxies[0].stats("node n0")
        client.get_many(list(v))
        after = until(lambda: c.proxies[0].stats("node n0"), lambda s: s["extstore_io_queue"] == "0")
        tap.is_(int(after["extstore_objects_read"]) - int(before["extstore_objects_read"]), 20, "a node's statistics")
        tap.is_((after["extstore_page_count"], after["get_value_lost"]), ("64", "0"), "its disk's size, and no loss")


PARTS = {"small_values": small_values, "large tcp": lambda: large_values("tcp"), "large shm": lambda: large_values("shm"),
         "ends tcp": lambda: ends("tcp"), "ends shm": lambda: ends("shm"), "statistics": statistics}
for name, part in PARTS.items():
    if name in sys.argv[1:] or not sys.argv[1:]:
        part()
tap.done()
