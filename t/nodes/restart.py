# SPDX-License-Identifier: BSD-3-Clause
"""kill -9 of nodes that come back empty at their address while proxies hold mappings and pointers, of nodes under load, and of a
proxy. A dead node's memory is never read again (S9); other nodes' keys are not affected."""
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from cluster import Cluster, nodes_shown, until_up  # noqa: E402
from farcached import Pace, deadline, slow_factor, tap, until  # noqa: E402

UNAVAILABLE = "SERVER_ERROR unavailable"
KEYS = 200


def total(proxy, name):
    return sum(int(s[name]) for s in nodes_shown(proxy).values())


# -- The old mapping ---------------------------------------------------------------------------------------

def read_again(proxy, client, names, value, counter):
    """Reads the keys until the proxy sends no request for them; returns the number of such reads."""
    for _ in range(20):
        before = total(proxy, counter)
        found = client.get_many(names)
        if [v for _, _, v, _ in found] != [value] * len(names):
            return 0
        if total(proxy, counter) - before == len(names):
            return len(names)
    return total(proxy, counter) - before


def old_mapping(local_read, stands_still):
    """SET through B, GET through A, after the node was killed and started again. A reads the dead node's memory or holds pointers
    into it, and must not return the old value. A either notices the death first, or is stopped until the end and has that GET as
    its first event."""
    title = "local_read %s, A %s: " % ("on" if local_read else "off", "stands still" if stands_still else "runs")
    with Cluster("shm", local_read=local_read, threads=1, node_args=["--lease-ms", "100000"]) as c:
        a, b = c.proxies
        node, names = c.nodes[0], ["k%d" % i for i in range(KEYS)]
        before = {p: nodes_shown(p)[node.name]["incarnation"] for p in c.proxies}
        with a.client() as through_a, b.client() as through_b:
            for name in names:
                through_a.set(name, "old")
            reads = read_again(a, through_a, names, b"old", c.unasked_by())
            tap.is_(reads, KEYS, title + "A reads without asking")
            if stands_still:
                with a.stopped():
                    c.restart(node, wait=False)
                    until_up(b)
                    stored = {through_b.set(name, "new") for name in names}
                    through_a.send(b"get " + b" ".join(n.encode() for n in names) + b"\r\n")
                reply = through_a.until(b"END\r\n")
            else:
                c.restart(node, wait=False)
                until_up(b)
                stored = {through_b.set(name, "new") for name in names}
                through_a.send(b"get " + b" ".join(n.encode() for n in names) + b"\r\n")
                reply = through_a.until(b"END\r\n")
            tap.is_(stored, {"STORED"}, title + "set through B")
            tap.is_(reply.count(b"old"), 0, title + "A never answers with the old value")
            tap.diag("%d new, %d misses" % (reply.count(b"new"), KEYS - reply.count(b"VALUE")))
            c.until_up()
            found = through_a.get_many(names)
            tap.is_([v for _, _, v, _ in found], [b"new"] * KEYS, title + "and soon with the new one")
        after = {p: nodes_shown(p)[node.name]["incarnation"] for p in c.proxies}
        tap.ok(all(after[p] != before[p] for p in c.proxies) and after[a] == after[b],
               title + "both know the new incarnation")


def uniques():
    """A dead node's cas unique is invalid at its successor, which issues none of them again."""
    with Cluster("shm tcp", proxies=1) as c, c.proxies[0].client() as client:
        for node in c.nodes:
            key = c.key(node, "k")
            for _ in range(300):
                client.set(key, "old")
            old = client.get_many([key], "gets")[0][3]
            c.restart(node)
            client.set(key, "new")
            new = client.get_many([key], "gets")[0][3]
            tap.ok(new > old, "%s: uniques continue after those of the dead node" % node.channel, "%d, %d" % (old, new))


# -- A node dies under load --------------------------------------------------------------------------------

class Asker(threading.Thread):
    """One connection that sets and gets its key all the time; records replies and the longest times by phase."""

    def __init__(self, proxy, key):
        super().__init__(daemon=True)
        self.client, self.key = proxy.client(), key
        self.stopping, self.phase, self.failed = False, "before", None
        self.told, self.times = {}, {}

    def run(self):
        number, pace = 0, Pace()
        try:
            while not self.stopping:
                pace.rest()
                phase, number = self.phase, number + 1
                value = b"%s %d" % (self.key.encode(), number)
                began = time.monotonic()
                stored = self.client.set(self.key, value)
                got = self.client.get(self.key)
                spent = (time.monotonic() - began) / 2
                found = "miss" if got is None else "own" if got == value else "older" if got.startswith(
                    self.key.encode() + b" ") and stored != "STORED" else "wrong"
                self.times.setdefault(phase, []).append(spent)
                counts = self.told.setdefault(phase, {})
                counts[stored, found] = counts.get((stored, found), 0) + 1
        except Exception as e:  # a lost connection, too
            self.failed = repr(e)

    def end(self):
        self.stopping = True
        self.join(deadline())
        self.client.close()


def told(askers, phase):
    counts = {}
    for asker in askers:
        for what, n in asker.told.get(phase, {}).items():
            counts[what] = counts.get(what, 0) + n
    return counts


def latency(askers, phase):
    times = sorted(t for a in askers for t in a.times.get(phase, []))
    return "%d, median %.3f ms, 99 %% %.3f ms, slowest %.1f ms" % (
        len(times), times[len(times) // 2] * 1000, times[len(times) * 99 // 100] * 1000, times[-1] * 1000) if times else "none"


def so_many_more(askers, phase, count):
    """Waits until every asker has this number of replies in the phase, or has failed."""
    def least():
        return min(len(a.times.get(phase, [])) if a.failed is None else count for a in askers)
    return until(least, lambda n: n >= count)


def dies_under_load(channels, requests=200):
    """requests: of each client in each phase, at least; half as many more while the node is down."""
    title = channels + ", a node is killed under load: "
    # A busy machine may stop a living node for half a second; a dead one is noticed by the end of its connection.
    with Cluster(channels, options=["node_timeout_ms=%d" % (3000 * slow_factor())]) as c:
        dead = c.nodes[0]
        askers = [Asker(proxy, c.key(node, "asker%d-%d" % (i, n))) for node in c.nodes
                  for n, proxy in enumerate(c.proxies) for i in range(2)]
        of_dead = [a for a in askers if a.key.startswith(c.key(dead, ""))]
        of_others = [a for a in askers if a not in of_dead]
        for asker in askers:
            asker.start()
        so_many_more(askers, "before", requests)
        incarnation = nodes_shown(c.proxies[0])[dead.name]["incarnation"]
        for asker in askers:
            asker.phase = "down"
        c.kill(dead)
        so_many_more(askers, "down", requests * 3 // 2)
        for asker in askers:
            asker.phase = "returning"
        c.restart(dead)
        for asker in askers:
            asker.phase = "after"
        so_many_more(askers, "after", requests)
        for asker in askers:
            asker.end()
        tap.is_([a.failed for a in askers if a.failed], [], title + "no client's connection is lost")
        for phase in ("before", "down", "returning", "after"):
            tap.is_(set(told(of_others, phase)), {("STORED", "own")}, title + "%s: others' keys are answered" % phase)
            tap.diag("%s: others' keys: %s; its keys: %s" % (phase, latency(of_others, phase), latency(of_dead, phase)))
        down = told(of_dead, "down")
        tap.ok((UNAVAILABLE, "miss") in down, title + "its keys are misses, sets SERVER_ERROR", down)
        tap.ok(set(down) <= {(UNAVAILABLE, "miss"), (UNAVAILABLE, "older"), ("STORED", "own"), ("STORED", "miss")},
               title + "and there is no other reply", down)
        # A request in progress at the end of a phase may get the next phase's reply.
        tap.ok(told(of_dead, "before").get(("STORED", "own"), 0) > 0, title + "before, they were there")
        after = told(of_dead, "after")
        tap.ok(after.get(("STORED", "own"), 0) > 0 and set(after) <= {("STORED", "own"), (UNAVAILABLE, "miss")},
               title + "after, they are again", after)
        tap.ok(nodes_shown(c.proxies[0])[dead.name]["incarnation"] != incarnation, title + "as another incarnation")


def stands_in():
    """With failover another node serves the keys of one that is down. The node comes back empty. If it goes down again, its keys
    miss: the proxy has deleted the other node's older values."""
    title = "failover: "
    with Cluster("shm tcp shm", options=["failover", "node_timeout_ms=%d" % (1000 * slow_factor())]) as c:
        away = c.nodes[0]
        names = [c.key(away, "k%d" % i) for i in range(50)]
        with c.proxies[0].client() as a, c.proxies[1].client() as b:
            tap.is_({a.set(n, n + " one") for n in names}, {"STORED"}, title + "set")
            c.kill(away)
            c.until_seen_down(away)
            tap.is_({n: b.get(n) for n in names}, dict.fromkeys(names), title + "the node is killed: misses")
            tap.is_({a.set(n, n + " two") for n in names}, {"STORED"}, title + "but sets are stored, elsewhere")
            tap.is_([b.get(n) for n in names], [b"%s two" % n.encode() for n in names], title + "and seen through both proxies")
            c.restart(away)
            tap.is_({b.set(n, n + " three") for n in names}, {"STORED"}, title + "it is back")
            tap.is_([a.get(n) for n in names], [b"%s three" % n.encode() for n in names], title + "and serves its keys")
            c.kill(away)
            c.until_seen_down(away)
            found = [a.get(n) for n in names]
            tap.is_(found.count(None), len(names), title + "gone again: misses, and no old value")


# -- A proxy dies -------------------------------------------------------------------------------------------

def proxy_dies():
    title = "a proxy is killed: "
    with Cluster("shm shm", local_read=False, threads=1, node_args=["--lease-ms", "100000"]) as c:
        a, b = c.proxies
        names = ["k%d" % i for i in range(50)]
        with a.client() as client, b.client() as other:
            for name in names:
                client.set(name, "value")
            tap.is_(read_again(a, client, names, b"value", "get_onesided"), 50, title + "it holds pointers")
            c.end_proxy(a, 9)
            found = other.get_many(names)
            tap.is_([v for _, _, v, _ in found], [b"value"] * 50, title + "the other proxy is served")
            shown = [total(b, n) for n in ("get_onesided", "get_twosided", "pointer_shared_hits")]
            tap.is_(shown, [50, 0, 50], title + "with the pointers that it left")
            tap.is_({other.set(name, "other") for name in names}, {"STORED"}, title + "items leased to it can be changed")
            tap.is_([v for _, _, v, _ in other.get_many(names)], [b"other"] * 50, title + "and is seen")
        c.proxies[0] = c.start_proxy()
        with c.proxies[0].client() as client:
            tap.is_([v for _, _, v, _ in client.get_many(names)], [b"other"] * 50, title + "its successor starts with the table")
        tap.ok(c.table.exists(), title + "which it found")


def main():
    for reads in (True, False):
        for still in (False, True):
            old_mapping(reads, still)
    uniques()
    dies_under_load("shm shm tcp")
    dies_under_load("tcp shm shm")
    stands_in()
    proxy_dies()
    tap.done()


if __name__ == "__main__":
    main()
