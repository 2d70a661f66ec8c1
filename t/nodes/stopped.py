# SPDX-License-Identifier: BSD-3-Clause
"""Nodes and proxies that are stopped (SIGSTOP) and continued: values that waited, bounded memory, expired leases.

Memory that is read late, or sent late, must have its original contents (S12, S4). Every value contains its key and a number, so a
foreign byte is detected. Times are printed, not checked.
"""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from cluster import Cluster, Faults, nodes_shown  # noqa: E402
from connections import Sender, unsent  # noqa: E402
from farcached import deadline, is_sanitized, tap, until  # noqa: E402

MB = 1 << 20
UNAVAILABLE = "SERVER_ERROR unavailable"


def value_of(key, number, size):
    """A value whose every 16 bytes identify its key and number."""
    word = b"%s#%d;" % (key.encode(), number)
    return (word * (size // len(word) + 1))[:size]


def number_of(key, value):
    """The number in a value of this key; None if it is invalid."""
    number = value[len(key) + 1:value.find(b";")] if value.startswith(key.encode() + b"#") else b""
    return int(number) if number.isdigit() and value == value_of(key, int(number), len(value)) else None


def total(proxy, name):
    return sum(int(s[name]) for s in nodes_shown(proxy).values())


def ask_all(clients, requests):
    """Sends each client's requests in a thread of its own."""
    return [Sender(c, b"".join(r)) for c, r in zip(clients, requests)]


def set_request(key, number, size):
    return b"set %s 0 0 %d\r\n%s\r\n" % (key.encode(), size, value_of(key, number, size))


# -- Waiting values ----------------------------------------------------------------------------------------

def values_that_wait(channel):
    """More and larger values than are sent ahead: the values that wait in the proxy stay those of the clients, however much has
    gone through its buffers since."""
    title = channel + ", values that wait for a node: "
    with Cluster(channel + " shm", proxies=1, threads=1, options=["node_timeout_ms=60000"],
                 node_args=["-m", "256"]) as c:
        slow, other = c.nodes
        keys = [c.key(slow, "large%d" % i) for i in range(24)]
        passing = [c.key(other, "passing%d" % i) for i in range(4)]
        clients, busy = [c.proxies[0].client() for _ in keys], c.proxies[0].client()
        with slow.process.stopped():
            senders = [Sender(client, set_request(key, 1, 700_000)) for client, key in zip(clients, keys)]
            for sender in senders:
                sender.join(deadline())
            until(lambda: sum(unsent(client) for client in clients), lambda n: n == 0)
            wrong = [busy.set(key, value_of(key, n, 900_000)) for n in range(8) for key in passing]
            tap.is_(set(wrong), {"STORED"}, title + "the other node's are stored meanwhile")
        answers = [client.line() for client in clients]
        tap.is_(set(answers), {b"STORED\r\n"}, title + "then all are stored")
        tap.is_([number_of(k, busy.get(k) or b"") for k in keys], [1] * len(keys), title + "as they were sent")


# -- A node that stands still past the time-out ------------------------------------------------------------

def late_sets(channel):
    """S12: sets time out, and the proxy uses their memory for others; then the node continues with the requests that it got. Any
    value that it stores then is one of its clients' values, whole."""
    title = channel + ", sets that timed out: "
    with Cluster(channel + " shm", proxies=1, threads=1, options=["node_timeout_ms=200"],
                 node_args=["-m", "256", "-t", "1"]) as c:
        slow, other = c.nodes
        proxy = c.proxies[0]
        keys = [c.key(slow, "late%d" % i) for i in range(60)]
        others = [c.key(other, "other%d" % i) for i in range(60)]
        with proxy.client() as client:
            for key in keys:
                client.set(key, value_of(key, 1, 300))
        size = {key: (100, 3000, 70_000, 400_000)[i % 4] for i, key in enumerate(keys)}
        clients = [proxy.client() for _ in keys]
        with slow.process.stopped():
            ask_all(clients, [[set_request(k, 2, size[k])] for k in keys])
            answers = [client.line().decode().rstrip() for client in clients]
            tap.is_(set(answers), {UNAVAILABLE}, title + "each is answered as unavailable")
            ask_all(clients, [[set_request(k, n, size[l]) for n in range(3)] for k, l in zip(others, keys)])
            answers = [client.line().decode().rstrip() for client in clients for n in range(3)]
            tap.ok("STORED" in answers and set(answers) <= {"STORED", UNAVAILABLE}, title + "the other node's are answered",
                   set(answers))
            tap.diag("%d of %d were stored" % (answers.count("STORED"), len(answers)))
        c.until_up()
        with proxy.client() as client:
            values = [client.get(key) for key in keys]
        numbers = [number_of(k, v) if v is not None else "a miss" for k, v in zip(keys, values)]
        tap.diag("old values %d, new %d, misses %d" % (numbers.count(1), numbers.count(2), numbers.count("a miss")))
        tap.ok(set(numbers) <= {1, 2, "a miss"}, title + "every byte belongs to its key", numbers)


def back_pressure(channel):
    """Many clients write to a stopped node: the proxy's memory is bounded, and other nodes' keys are served."""
    title = channel + ", many write to a node that stands still: "
    count, size = 100, 100_000
    with Cluster(channel + " shm", proxies=1, options=["node_timeout_ms=60000"], node_args=["-m", "256"]) as c:
        slow, other = c.nodes
        proxy = c.proxies[0]
        clients = [proxy.client() for _ in range(count)]
        key, busy = c.key(slow, "k"), proxy.client()
        with busy:
            busy.set(c.key(other, "k"), b"v" * 1000)
            before = proxy.memory()["Private"]
            with slow.process.stopped():
                senders = ask_all(clients, [[set_request("%s-%d-%d" % (key, i, n), 1, size) for n in range(10)]
                                            for i in range(count)])
                served, largest, slowest = 0, before, 0.0
                while served < 3000:
                    began = time.monotonic()
                    served += busy.get(c.key(other, "k")) == b"v" * 1000
                    slowest = max(slowest, time.monotonic() - began)
                    if served % 100 == 0:
                        largest = max(largest, proxy.memory()["Private"])
            for sender in senders:
                sender.join(deadline())
            answers = [client.line().decode().rstrip() for client in clients for _ in range(10)]
        tap.diag("the other node's: %d gets, the slowest in %.1f ms; private memory %d MB before, %d MB most, of %d MB sent" % (
            served, slowest * 1000, before / MB, largest / MB, count * size * 10 / MB))
        tap.ok(served >= 3000, title + "the other node's keys are served")
        if not is_sanitized():
            tap.ok(largest - before < 64 * MB, title + "the proxy's memory is bounded", (largest - before) / MB)
        tap.ok(set(answers) <= {"STORED", UNAVAILABLE}, title + "each is answered", set(answers))
        tap.diag("stored %d, unavailable %d" % (answers.count("STORED"), answers.count(UNAVAILABLE)))


# -- Expired leases ----------------------------------------------------------------------------------------

def holds_pointer(proxy, key, value):
    """Reads the key through this proxy until one-sided reads answer."""
    with proxy.client() as client:
        for _ in range(20):
            before = total(proxy, "get_onesided")
            if client.get(key) != value:
                return False
            if total(proxy, "get_onesided") > before:
                return True
    return False


def stopped_node():
    """A node is stopped for longer than its leases: leased items are read until their leases expire. Then the node's keys are
    misses, until it continues."""
    title = "a node that stands still: "
    with Cluster("shm", local_read=False, options=["node_timeout_ms=200"], node_args=["--lease-ms", "1000"]) as c:
        a, b = c.proxies
        key = c.key(c.nodes[0], "k")
        with a.client() as client, b.client() as other:
            client.set(key, "old")
            tap.ok(holds_pointer(a, key, b"old"), title + "a pointer is held")
            with c.nodes[0].process.stopped():
                seen = []
                while seen[-1:] != [None] and len(seen) < 1_000_000:
                    seen.append(client.get(key))
                tap.is_(set(seen), {b"old", None}, title + "leased items are read (%d times), then missed" % (len(seen) - 1))
            c.until_up()
            tap.is_(until(lambda: other.set(key, "new"), lambda r: r == "STORED"), "STORED", title + "it continues")
            tap.is_(client.get(key), b"new", title + "and the other proxy's value is seen")


def stopped_proxy(local_read):
    """A proxy is stopped in the middle of reads for longer than lease and grace. Meanwhile the other proxy overwrites its keys
    again and again, with other keys' bytes in their memory. Requests that wait are answered with the new values."""
    title = "a proxy that stands still, local_read %s: " % ("on" if local_read else "off")
    keys = ["key%d" % i for i in range(100)]
    with Cluster("shm shm", local_read=local_read, threads=1, node_args=["--lease-ms", "200", "-m", "8"]) as c:
        a, b = c.proxies
        leases = b.stats("leases")
        over_ms = int(leases["n0:lease_term_ms"]) + int(leases["n0:lease_grace_ms"]) + 1
        with a.client() as client, a.client() as late, b.client() as other:
            old_after = foreign = news = olds = 0
            for turn in range(4):
                for key in keys:
                    other.set(key, value_of(key, turn * 10, 2000))
                client.get_many(keys)
                client.get_many(keys)
                reading = Sender(client, b"".join(b"get %s\r\n" % k.encode() for k in keys * 20))
                with a.stopped():
                    for n in range(1, 10):
                        for key in keys:
                            other.set(key, value_of(key, turn * 10 + n, 2000))
                    until_ns = time.monotonic_ns() + over_ms * 1_000_000
                    press(other, until_ns)
                    late.send(b"get " + b" ".join(k.encode() for k in keys) + b"\r\n")
                for _ in range(len(keys) * 20):
                    for key, _, value, _ in read_reply(client):
                        number = number_of(key.decode(), value)
                        foreign += number is None
                        news += number == turn * 10 + 9
                        olds += number != turn * 10 + 9
                for key, _, value, _ in read_reply(late):
                    old_after += number_of(key.decode(), value) != turn * 10 + 9
                reading.join(deadline())
            tap.is_(old_after, 0, title + "a GET behind the change returns the new value")
            tap.is_(foreign, 0, title + "no byte of another key")
            tap.diag("%d reads under way when it stopped had the old value, %d the new; read_late %d, read_invalid_lease %d, "
                     "read_invalid_generation %d, read_invalid_dead %d" % (
                         olds, news, total(a, "read_late"), total(a, "read_invalid_lease"),
                         total(a, "read_invalid_generation"), total(a, "read_invalid_dead")))


def late_read():
    """A proxy is stopped during a READ, begun while its lease ran, until lease and grace are over. The READ has copied the old
    value and is too late: it is counted and discarded, and the get goes to the node."""
    title = "a READ that is under way when its proxy stops: "
    faults = Faults("tear_read=1,delay_read=1,delay_ms_min=400,delay_ms=500")
    with Cluster("shm", local_read=False, threads=1, options=["node_timeout_ms=60000"],
                 node_args=["--lease-ms", "3000"], faults=faults) as c:
        a, b = c.proxies
        leases = b.stats("leases")
        over_ms = int(leases["n0:lease_term_ms"]) + int(leases["n0:lease_grace_ms"]) + 1
        with a.client() as client, b.client() as other:
            client.set("k", "old")
            client.get("k")
            names = ("get_onesided", "get_twosided", "read_invalid_lease")
            before, hits = {name: total(a, name) for name in names}, total(a, "pointer_hits")
            client.send(b"get k\r\n")
            until(lambda: total(a, "pointer_hits"), lambda n: n > hits)
            with a.stopped():
                tap.is_(other.set("k", "new"), "STORED", title + "set through the other")
                press(other, time.monotonic_ns() + over_ms * 1_000_000)
            tap.is_([value for _, _, value, _ in read_reply(client)], [b"new"], title + "the new value is the answer")
            moved = {name: total(a, name) - n for name, n in before.items()}
        tap.is_(moved, {"get_onesided": 0, "get_twosided": 1, "read_invalid_lease": 1},
                title + "the READ's lease was over, and the GET goes to the node")


def press(client, until_ns):
    """Fills freed memory with other keys' values, until this time."""
    turn = 0
    while time.monotonic_ns() < until_ns:
        turn += 1
        for i in range(200):
            client.set("filler%d" % i, value_of("filler%d" % i, turn, 2000))


def read_reply(client):
    """The values of one get's pending reply."""
    found = []
    while True:
        words = client.line().split()
        if words == [b"END"]:
            return found
        found.append((words[1], int(words[2]), client.read(int(words[3]) + 2)[:-2], None))


def main():
    for channel in ("tcp", "shm"):
        values_that_wait(channel)
        late_sets(channel)
        back_pressure(channel)
    stopped_node()
    stopped_proxy(True)
    stopped_proxy(False)
    late_read()
    tap.done()


if __name__ == "__main__":
    main()
