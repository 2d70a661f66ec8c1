# SPDX-License-Identifier: BSD-3-Clause
"""links_per_node: the workers of a farcached share links to a node. The node's connections are counted; values of all sizes arrive;
nodes are killed and stopped; reloads change the number under load; a farcached that stops under load answers what it received."""
import os
import signal
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from cluster import Cluster, Nodes, all_up, nodes_shown  # noqa: E402
from farcached import Closed, Daemon, Pace, deadline, tap, until  # noqa: E402

WORKERS = 4
CLIENTS = 8  # two at each worker
RELOADS = 30
PATIENT = "node_timeout_ms=30000"


def welcomed(proxy, node):
    return int(proxy.stats("node %s" % node)["connections_welcomed"])


def total(proxy, name):
    return sum(int(s[name]) for s in nodes_shown(proxy).values())


# ---- values ------------------------------------------------------------------------------------------------

def connections_and_values(links):
    title = "%d of %d links: " % (links, WORKERS)
    wanted = links or WORKERS
    with Cluster("tcp tcp", proxies=1, threads=WORKERS, options=["links_per_node=%d" % links, PATIENT],
                 node_args=["-m", "64"]) as c:
        proxy = c.proxies[0]
        tap.is_({s["links"] for s in nodes_shown(proxy).values()}, {str(wanted)}, title + "so many are shown")
        tap.is_([welcomed(proxy, n.name) for n in c.nodes], [wanted, wanted], title + "each node has so many connections")
        clients = [proxy.client() for _ in range(CLIENTS)]
        wrong = []
        for i, client in enumerate(clients):
            for size in (0, 1, 100, 5000, 300_000, 900_000):
                key, value = "k%d-%d" % (i, size), (b"%d." % i) * (size // 2)
                if client.set(key, value) != "STORED" or any(other.get(key) != value for other in (client, clients[i - 1])):
                    wrong.append(key)
            names = ["k%d-%d" % (j, size) for j in range(i + 1) for size in (0, 100, 5000)] + ["none"]
            if len(client.get_many(names)) != len(names) - 1:
                wrong.append("all of %d" % i)
        tap.is_(wrong, [], title + "every client gets what any client set")
        for client in clients:
            client.send(b"".join(b"incr n 1\r\nadd n 0 0 1\r\n1\r\n" for _ in range(50)))
        replies = [int(line) for client in clients for line in [client.line().strip() for _ in range(100)] if line.isdigit()]
        tap.is_(len(set(replies)), len(replies), title + "no two increments return the same number")
        tap.ok(clients[0].get("n") == b"%d" % max(replies), title + "and the last one is there")
        tap.is_(clients[1].ask("flush_all"), "OK", title + "flush_all")
        tap.is_([client.get("k0-1") for client in clients], [None] * CLIENTS, title + "no client gets a flushed item")
        tap.ok((total(proxy, "requests_borrowed") > 0) == (wanted < WORKERS), title + "requests are counted as borrowed")


# ---- nodes that end and stop -------------------------------------------------------------------------------

def nodes_end():
    with Cluster("tcp tcp", proxies=1, threads=WORKERS, options=["links_per_node=1", "node_timeout_ms=300"]) as c:
        proxy, (gone, stays) = c.proxies[0], c.nodes
        clients = [proxy.client() for _ in range(CLIENTS)]
        there, here = c.key(gone, "a"), c.key(stays, "b")
        for client in clients:
            client.set(there, "1")
            client.set(here, "1")
        c.kill(gone)
        until(lambda: nodes_shown(proxy)[gone.name]["state"], lambda state: state == "down")
        tap.ok(all(client.set(there, "2").startswith("SERVER_ERROR unavailable") for client in clients),
               "a node that was killed is unavailable to every worker")
        tap.is_([client.get(here) for client in clients], [b"1"] * CLIENTS, "the other one serves all")
        c.restart(gone)
        tap.is_([client.set(there, "3") for client in clients], ["STORED"] * CLIENTS, "when it is back it serves all")
        with gone.process.stopped():
            for client in clients:
                client.send("set %s 0 0 1\r\n4\r\n" % there)
            tap.is_([client.get(here) for client in (proxy.client() for _ in range(CLIENTS))], [b"1"] * CLIENTS,
                    "while a node is stopped the other one serves all")
            replies = [client.line() for client in clients]
        tap.ok(all(reply.startswith(b"SERVER_ERROR unavailable") for reply in replies), "its own requests time out", replies)
        until(lambda: nodes_shown(proxy), all_up)
        tap.is_(until(lambda: {client.set(there, "5") for client in clients}, lambda s: s == {"STORED"}), {"STORED"},
                "it goes on")


# ---- load --------------------------------------------------------------------------------------------------

class Writer(threading.Thread):
    """Sets its keys to ever higher numbers, 20 at once, and gets them."""

    def __init__(self, proxy, number):
        super().__init__(daemon=True)
        self.client, self.number = proxy.client(), number
        self.stopping, self.ended, self.wrong, self.rounds = False, False, [], 0
        self.stored = {}

    def keys(self):
        return ["w%d-%d" % (self.number, i) for i in range(20)]

    def run(self):
        pace = Pace()
        try:
            while not self.stopping and not self.wrong:
                pace.rest()
                self.round()
        except (Closed, OSError):
            self.ended = True
        except Exception as e:
            self.wrong.append(repr(e))

    def round(self):
        self.rounds += 1
        keys, value = self.keys(), b"%d" % self.rounds
        self.client.send(b"".join(b"set %s 0 0 %d\r\n%s\r\n" % (key.encode(), len(value), value) for key in keys))
        for key in keys:
            reply = self.client.line().strip()
            if reply != b"STORED":
                self.wrong.append("set %s: %r" % (key, reply))
            self.stored[key] = self.rounds
        for key, _, found, _ in self.client.get_many(keys):
            name = key if isinstance(key, str) else key.decode()
            if found != value:
                self.wrong.append("get %s: %r instead of %r" % (name, found, value))


def reloads():
    nodes = Nodes(["tcp", "tcp"], ["-m", "64"])
    path = os.path.join(nodes.folder, "farcached.toml")

    def write(links):
        with open(path + ".new", "w") as f:
            f.write('node_timeout_ms = "30s"\nlinks_per_node = %d\n' % links)
            for node in nodes.all:
                f.write('[[node]]\nname = "%s"\naddress = "%s"\n' % (node.name, node.address()))
        os.rename(path + ".new", path)

    try:
        nodes.start()
        write(0)
        with Daemon("--config", path, threads=WORKERS) as proxy:
            until(lambda: nodes_shown(proxy), all_up)
            writers = [Writer(proxy, i) for i in range(CLIENTS)]
            for writer in writers:
                writer.start()
            shown = []
            for number in range(1, RELOADS + 1):
                links = (1, 2, 0, 3, 1, 4)[number % 6]
                write(links)
                proxy.signal(signal.SIGHUP)
                until(lambda: int(proxy.stats("config")["config_reloads"]), lambda count: count >= number)
                want = {str(links or WORKERS)}
                shown.append(until(lambda: {s["links_up"] for s in nodes_shown(proxy).values()}, lambda s: s == want) == want)
            for writer in writers:
                writer.stopping = True
            for writer in writers:
                writer.join(deadline())
            tap.ok(all(shown), "%d reloads under load change the number of links" % RELOADS, shown)
            tap.is_(sum((writer.wrong for writer in writers), []), [], "no request fails, and no get returns an older value")
            tap.ok(all(writer.rounds > 1 for writer in writers), "every client is served", [w.rounds for w in writers])
            tap.is_(proxy.stats("config")["config_reload_failures"], "0", "no reload is refused")
    finally:
        nodes.end()


def stops(links):
    title = "SIGTERM under load, links_per_node=%d: " % links
    with Cluster("tcp tcp", proxies=2, threads=WORKERS, options=["links_per_node=%d" % links, PATIENT],
                 node_args=["-m", "64"]) as c:
        ends, stays = c.proxies
        writers = [Writer(ends, i) for i in range(CLIENTS)]
        for writer in writers:
            writer.start()
        until(lambda: min(writer.rounds for writer in writers), lambda rounds: rounds > 5)
        ends.stop()
        for writer in writers:
            writer.join(deadline())
        tap.is_(ends.status, 0, title + "it ends")
        tap.ok(all(writer.ended for writer in writers), title + "every client's connection ends")
        tap.is_(sum((writer.wrong for writer in writers), []), [], title + "no answer before is a failure")
        with stays.client() as client:
            lost = []
            for writer in writers:
                for key, number in writer.stored.items():
                    value = client.get(key)
                    if value is None or int(value) < number:
                        lost.append((key, number, value))
        tap.is_(lost, [], title + "no acknowledged set is lost")


def main():
    for links in (0, 1, 2):
        connections_and_values(links)
    nodes_end()
    reloads()
    stops(1)
    stops(2)
    tap.done()


if __name__ == "__main__":
    main()
