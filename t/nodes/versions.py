# SPDX-License-Identifier: BSD-3-Clause
"""One side is updated first: farcached and farnode of two versions work together, over shm and tcp, in either mix. A farcached of
the older version reads nothing one-sided and sends a request for every key. It does not know that items are written in place (S18).
Values are right, no connection ends, and both daemons log the remedy. With one version on both sides reads are one-sided again.

The older version is a fault of t/'s own build (t/faulty/faulty.cc). It greets, answers and reads memory as the program did when
that version was the newest."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from cluster import Cluster, Faults, nodes_shown  # noqa: E402
from farcached import tap, until  # noqa: E402

OLD = Faults("speaks=3")
WITHOUT_SPILLED = Faults("speaks=4")  # reads one-sided, as the newest does
KEYS = ["k%d" % i for i in range(60)]
BY_ONE_SIDE = ("get_local", "get_onesided", "get_index", "lease_granted", "accesses_sent", "reports_sent")
TROUBLE = ("node_timeouts", "node_failures")
OPTIONS = ["access_tracking=report", "report_interval_ms=100", "node_timeout_ms=30000"]
OLDER_NODE = ("node %s is of an older version (it speaks protocol version 3, this farcached 13): every GET is an RPC until "
              "its farnode is updated")
OLDER_PROXY = ("is of an older version (it speaks protocol version 3, this farnode 13): every GET is an RPC "
               "until its farcached")


def value_of(key, turn):
    return ("%s of turn %d, " % (key, turn) * (1 + 7 * turn)).encode()


def of_all(proxy, names):
    """Sums over nodes."""
    return {name: sum(int(shown[name]) for shown in nodes_shown(proxy).values()) for name in names}


def wrong_values(writer, reader, turn):
    """Keys whose value differs at the reader from the writer's, after enough gets to earn pointers."""
    wrong = []
    for key in KEYS:
        if writer.set(key, value_of(key, turn)) != "STORED":
            wrong.append("set " + key)
    for _ in range(4):
        found = {name.decode(): value for name, _, value, _ in reader.get_many(KEYS)}
        wrong += [key for key in KEYS if found.get(key) != value_of(key, turn)]
    return wrong


def commands(client, other):
    """Commands of every kind through one farcached, and their effects at the other one."""
    large = b"l" * 700000
    said = [client.set("large", large), client.set("n", b"40"), client.send(b"incr n 2\r\n").line().strip().decode(),
            client.send(b"append n 0 0 1\r\n!\r\n").line().strip().decode(), other.get("n"),
            client.send(b"touch n 100\r\n").line().strip().decode(), client.send(b"ma number N0 J5\r\n").line().strip().decode(),
            client.send(b"ma number\r\n").line().strip().decode(), other.get("number"), other.get("large") == large,
            client.send(b"delete n\r\n").line().strip().decode(), other.get("n"),
            client.send(b"flush_all\r\n").line().strip().decode(), other.get("large"), other.get("number")]
    return [word.decode() if isinstance(word, bytes) else word for word in said]


DONE = ["STORED", "STORED", "42", "STORED", "42!", "TOUCHED", "HD", "HD", "6", True, "DELETED", None, "OK", None, None]


def no_trouble(title, c, proxy, reconnects=0):
    shown = nodes_shown(proxy)
    trouble = {name: count for name, count in of_all(proxy, TROUBLE).items() if count}
    if not reconnects:
        trouble.update({"%s:%s" % (node, name): value for node, of_node in shown.items() for name, value in of_node.items()
                        if name.startswith(("frame_", "down_reason")) and name != "frame_none" and value != "0"})
    tap.is_(trouble, {}, title + "farcached had no trouble")
    tap.is_(of_all(proxy, ["node_reconnects"])["node_reconnects"], reconnects, title + "and reconnected %d times" % reconnects)
    for node in c.nodes:
        ends = proxy.stats("node %s connections" % node.name)
        bad = {name: value for name, value in ends.items() if name.startswith("frame_") or name == "end_bad_frame"}
        tap.is_({name: value for name, value in bad.items() if value != "0"}, {}, title + "nor had " + node.name)


def served_two_sided(title, proxy):
    shown = nodes_shown(proxy)
    tap.is_({of_node["protocol_version"] for of_node in shown.values()}, {"3"}, title + "the older version is spoken")
    tap.is_(of_all(proxy, BY_ONE_SIDE), dict.fromkeys(BY_ONE_SIDE, 0), title + "nothing is read one-sided, leased or reported")
    tap.ok(of_all(proxy, ["get_twosided"])["get_twosided"] >= 4 * len(KEYS), title + "every key is a request to a node")


def reads(c, proxy, client):
    """Waits until the proxy reads from the shm node without a request."""
    name = "get_local" if all(c.local_read) else "get_onesided"
    return until(lambda: client.get_many(KEYS) and int(nodes_shown(proxy)["n0"][name]), bool)


def mix(words, faults, local_read, node_says):
    """Both nodes and the first farcached have one version, the second farcached has another."""
    title = "%s, %s: " % (words, "mapped memory" if local_read else "remote pointers")
    with Cluster("shm tcp", proxies=2, threads=1, local_read=local_read, options=OPTIONS, faults=faults,
                 node_args=["-t", "1", "-m", "64"]) as c, c.proxies[0].client() as same, c.proxies[1].client() as other:
        tap.is_(wrong_values(other, other, 1), [], title + "values are right")
        tap.is_(wrong_values(same, other, 2), [], title + "those of another farcached, too")
        tap.is_(wrong_values(other, same, 3), [], title + "and for that one")
        tap.is_(commands(other, same), DONE, title + "commands work")
        tap.is_(commands(same, other), DONE, title + "from either side")
        wrong_values(same, other, 4)
        tap.ok(reads(c, c.proxies[0], same), title + "the farcached of the nodes' own version reads one-sided")
        served_two_sided(title, c.proxies[1])
        no_trouble(title, c, c.proxies[1])
        said = [node.process.stderr() if node_says else c.proxies[1].stderr() for node in c.nodes]
        line = [OLDER_PROXY if node_says else OLDER_NODE % node.name for node in c.nodes]
        tap.is_([text.decode().count(want) for text, want in zip(said, line)], [1, 1], title + "the newer side logs it, once")
        for node in c.nodes:
            c.restart(node)
        tap.is_(wrong_values(other, other, 5), [], title + "reconnected, values are right")
        served_two_sided(title + "reconnected, ", c.proxies[1])
        no_trouble(title + "reconnected, ", c, c.proxies[1], reconnects=2)
        if node_says:
            return
        for node in c.nodes:
            node.faults = None
            c.restart(node)
        tap.is_(wrong_values(other, other, 6), [], title + "nodes are updated: values are right")
        tap.is_({of_node["protocol_version"] for of_node in nodes_shown(c.proxies[1]).values()}, {"13"},
                title + "nodes are updated: the newest version is spoken")
        tap.ok(reads(c, c.proxies[1], other), title + "nodes are updated: reads are one-sided")


def without_spilled(words, faults, local_read):
    """The version before spilled items differs in nothing else."""
    title = "%s, %s: " % (words, "mapped memory" if local_read else "remote pointers")
    with Cluster("shm tcp", proxies=2, threads=1, local_read=local_read, options=OPTIONS, faults=faults,
                 node_args=["-t", "1", "-m", "64"]) as c, c.proxies[0].client() as same, c.proxies[1].client() as other:
        tap.is_(wrong_values(other, same, 1) + wrong_values(same, other, 2), [], title + "values are right")
        tap.is_(commands(other, same), DONE, title + "commands work")
        wrong_values(same, other, 3)
        tap.ok(reads(c, c.proxies[1], other), title + "reads are one-sided")
        spoken = {of_node["protocol_version"] for of_node in nodes_shown(c.proxies[1]).values()}
        tap.is_(spoken, {"4"}, title + "version 4 is spoken")
        no_trouble(title, c, c.proxies[1])


def broken():
    """A check of the test: a node that lets every version read."""
    with Cluster("shm", proxies=2, threads=1, local_read=False, options=OPTIONS, faults=[Faults("", "S18"), OLD],
                 node_args=["-t", "1"]) as c, c.proxies[1].client() as other:
        wrong_values(other, other, 1)
        tap.ok(reads(c, c.proxies[1], other), "S18 broken: a farcached of an older version reads one-sided, which is seen")


def main():
    for local_read in (True, False):
        mix("farcached of before", [None, OLD], local_read, node_says=True)
        mix("nodes of before", [OLD, None], local_read, node_says=False)
        without_spilled("farcached without spilled items", [None, WITHOUT_SPILLED], local_read)
        without_spilled("nodes without spilled items", [WITHOUT_SPILLED, None], local_read)
    broken()
    tap.done()


if __name__ == "__main__":
    main()
