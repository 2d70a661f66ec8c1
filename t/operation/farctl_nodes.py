# SPDX-License-Identifier: BSD-3-Clause
"""farctl with two proxies in front of two nodes: one row per node for all proxies, a node drained at one proxy and at both, and a
node that has ended; deletes by prefix over TCP."""
import contextlib
import json
import os
import re
import shutil
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from cluster import Cluster  # noqa: E402
from farcached import Daemon, tap, until  # noqa: E402
from farctl import FOLDER, asked, at, farctl, path_of, refused  # noqa: E402
from farnode import Farnode  # noqa: E402


def test_nodes():
    table = "/farctl-%d" % os.getpid()
    options = ("-o", "no_local_read,pointer_table.path=%s,pointer_table.entries=1024,node_timeout_ms=2000" % table)

    def proxy(name, *more):
        nodes = [w for n in ("a", "b") for w in ("--node", "%s=shm:%s" % (n, path_of(n + ".shm")))]
        return Daemon("--admin", path_of(name), *nodes, *options, *more, threads=2)
    with contextlib.ExitStack() as stack:
        nodes = [stack.enter_context(Farnode("--name", n, "--shm", path_of(n + ".shm"), "--admin", path_of(n), "-m", "16"))
                 for n in ("a", "b")]
        stack.callback(shm_unlink, table)
        first, second = [stack.enter_context(proxy(name)) for name in ("p", "q")]
        with first.client() as c:
            tap.ok(until(lambda: all(c.set("k%d" % i, "v") == "STORED" for i in range(100)), bool), "a hundred items")
            for i in range(100):
                c.get("k%d" % i)
        check_survey(nodes)
        check_route(first)
        check_plan(first)
        check_completion()
        check_drain(first, second)
        check_delete_prefix(first, second)
        nodes[1].stop()
        check_down()
        check_partial_delete(first)
        check_failover(stack.enter_context(proxy("r", "-o", "failover")))


def test_tcp():
    """A count and a delete by prefix over TCP, while another client works."""
    with Cluster("tcp tcp", proxies=1, local_read=False) as cluster:
        socket = cluster.admin(0)
        with cluster.proxies[0].client() as c:
            for i in range(1111):
                c.set("x%d" % i, "v"), c.set("y%d" % i, "v")
            asked_for, stop = [], threading.Event()

            def others():
                with cluster.proxies[0].client() as other:
                    while not stop.is_set():
                        asked_for.append(other.get("y%d" % (len(asked_for) % 1111)))
            thread = threading.Thread(target=others)
            thread.start()
            try:
                for words, text in ((["x", "--dry-run"], '1111 items beginning with "x" on 2 of 2 nodes; nothing is deleted'),
                                    (["x"], 'deleted 1111 items beginning with "x" on 2 of 2 nodes'),
                                    (["x", "--dry-run"], '0 items beginning with "x" on 2 of 2 nodes; nothing is deleted')):
                    tap.is_(farctl("delete-prefix", *words, "--socket=" + socket), (0, "%s: %s\n" % (socket, text), ""),
                            "over TCP: delete-prefix " + " ".join(words))
            finally:
                stop.set()
                thread.join()
            tap.ok(asked_for and set(asked_for) == {b"v"}, "other requests are answered meanwhile", len(asked_for))


def shm_unlink(name):
    with contextlib.suppress(FileNotFoundError):
        os.unlink("/dev/shm" + name)


def up(*names):
    """{name: node}, once all proxies are connected to them."""
    def look():
        return {n["name"]: n for n in asked("status", *at(*names))["nodes"]}
    return until(look, lambda found: all(s["links_up"] == s["links"] for n in found.values() for s in n["seen_by"]))


def check_survey(nodes):
    found = up("p", "q")
    tap.is_(sorted(found), ["a", "b"], "two proxies, two nodes: each is one row")
    tap.is_([len(found[n]["seen_by"]) for n in ("a", "b")], [2, 2], "seen by both")
    tap.is_(sum(n["items"] for n in found.values()), 100, "the nodes' own numbers through the proxies")
    tap.is_([found[n]["stats"]["pid"] for n in ("a", "b")], [n.pid for n in nodes], "of the right nodes")
    tap.is_(found["a"]["address"], "shm:" + path_of("a.shm"), "its address")
    own = asked("status", *at("a"))["nodes"][0]
    tap.is_(found["a"]["incarnation"], own["incarnation"], "its incarnation, from either side")
    both = asked("status", *at("a", "p"))["nodes"]
    tap.is_(sorted(n["name"] for n in both), ["a", "b"], "a node seen by both proxies is one row, too")
    tap.is_(asked("stats", "a", "leases", *at("p"))[0]["stats"]["lease_term_ms"], 256000, "a group of a node, by a proxy")
    refused(["stats", "c", *at("p")], "no node c; nodes: a, b", "a node that there is not")
    tap.is_(sorted(n["node"] for n in asked("leases", *at("p"))), ["a", "b"], "leases of both")
    members = asked("members", *at("p"))
    tap.is_([(one["name"], one["state"], one["epoch"]) for one in members["nodes"]], [("a", "up", None), ("b", "up", None)],
            "members: a static list has no epoch")
    tap.is_([(one["name"], one["nodes"], one["behind"]) for one in members["proxies"]], [("farcached", ["a", "b"], False)] * 2,
            "the proxies, by process")
    tap.is_(asked("stats", "-", "members", *at("p"))[0]["stats"]["source"], "static", "stats members")
    tables = asked("pointers", *at("p", "q"))
    tap.is_([t["socket"] for t in tables], [path_of("p"), path_of("q")], "pointers")
    tap.is_([t["table"]["entries"] for t in tables], [1024, 1024], "of the one table")
    code, out, _ = farctl("pointers", *at("p"))
    tap.ok(code == 0 and re.search(r"^entries +1024$", out, re.M) and "LEASE LEFT" in out, "as text", out)
    ways = asked("status", *at("p"))["proxies"][0]["answered"]
    tap.is_(ways["get_local"], 0, "no_local_read: none was local")
    tap.ok(ways["get_onesided"] + ways["get_twosided"] >= 100, "and each was answered one way or the other", ways)


def check_route(first):
    """100 items, each set and read."""
    with first.client() as c:
        routes = [c.stats("route k%d" % i) for i in range(100)]
        held = {n["name"]: n["items"] for n in asked("status", *at("p"))["nodes"]}
        tap.is_({n: sum(r["node"] == r["asked"] == n for r in routes) for n in ("a", "b")}, held,
                "stats route: the node that each item is in")
        tap.is_({(r["distribution"], r["hash"], r["failover"], r["state"], r["drained"], r["ways"]) for r in routes},
                {("ketama", "auto", "off", "up", "no", "one_sided, two_sided")}, "and how it is reached")
        tap.ok(all(r["next_1"] == ("b up" if r["node"] == "a" else "a up") for r in routes), "the next on the ring")
        in_order = [(int(r["place"], 16), int(r["point"], 16)) for r in routes]
        tap.ok(sum(place <= point for place, point in in_order) >= 90, "the point is not before the place, but round the end",
               in_order)
        known = [r for r in routes if r["pointer"] == "valid"]
        tap.ok(known and all(0 < int(r["pointer_lease_left_ms"]) <= 256000 and r["pointer_from"] == "this process"
                             for r in known), "remote pointers that the reads brought", routes[0])
        tap.is_(c.stats("route nosuch")["pointer"], "none", "and no missing one")
        tap.is_([c.ask(line)[:12] for line in ("stats route", "stats route a b", "stats route " + "x" * 251)],
                ["CLIENT_ERROR"] * 3, "a key is one word of at most 250 bytes")
    both = asked("route", "k1", *at("p", "q"))
    tap.is_([(one["socket"], one["stats"]["node"]) for one in both], [(path_of(n), routes[1]["node"]) for n in ("p", "q")],
            "farctl route")
    code, out, _ = farctl("route", "k1", *at("p"))
    tap.ok(code == 0 and re.search(r"^node +%s$" % routes[1]["node"], out, re.M), "as text", out)
    refused(["route", "k1", *at("a")], "keys are routed by farcached; name one's socket with --socket", "at a node")


def states(*names):
    return {n["name"]: n["state"] for n in asked("status", *at(*names))["nodes"]}


def check_drain(first, second):
    tap.is_(asked("drain", "a", *at("p")), [{"socket": path_of("p"), "node": "a", "drained": True}], "drain at one")
    tap.is_(states("p"), {"a": "drained", "b": "up"}, "there it is drained")
    found = {n["name"]: n for n in asked("status", *at("p"))["nodes"]}
    tap.ok(found["a"]["items"] and found["a"]["items"] + found["b"]["items"] == 100, "and its numbers are shown", str(found))
    with first.client() as c:
        routes = [c.stats("route k%d" % i) for i in range(100)]
    tap.is_({(r["asked"], r["why"]) for r in routes if r["node"] == "a"},
            {("none", "a is drained, and failover is off: its keys are unavailable")}, "stats route shows it")
    stats = first.stats()
    tap.is_((stats["curr_items"], stats["nodes_unavailable"]), ("100", "0"), "stats sums them")
    tap.is_(states("p", "q"), {"a": "mixed", "b": "up"}, "and at the other not")
    _, out, _ = farctl("status", *at("p", "q"))
    tap.ok(re.search(r"^a: drained for %s, " % path_of("p"), out, re.M), "the text shows it", out)
    with first.client() as c, second.client() as other:
        served = [c.set("k%d" % i, "w") == "STORED" for i in range(100)]
        tap.ok(any(served) and not all(served), "its keys are not served through the first")
        tap.is_(c.ask("flush_all"), "OK", "flush_all is carried out there, too")
        tap.is_(other.get_many("k%d" % i for i in range(100)), [], "so that it returns no old value later")
        tap.ok(all(other.set("k%d" % i, "w") == "STORED" for i in range(100)), "and are through the second")
        code, out, err = farctl("drain", "a", *at("p", "q"))
        tap.is_((code, out, err), (0, "%s: a is drained\n%s: a is drained\n" % (path_of("p"), path_of("q")), ""),
                "both; twice is once")
        tap.is_(asked("undrain", "a", *at("p", "q"))[1]["drained"], False, "undrain at both")
        tap.is_(until(lambda: states("p", "q"), lambda s: s["a"] == "up"), {"a": "up", "b": "up"}, "it is up again")
        tap.ok(until(lambda: all(c.set("k%d" % i, "x") == "STORED" for i in range(100)), bool), "and serves")
    refused(["drain", "c", *at("p")], path_of("p") + ": no node of this name; nodes: a, b", "drain another")


def check_delete_prefix(first, second):
    with first.client() as c, second.client() as other:
        for i in range(100):
            c.set("user:%d" % i, "v")
            c.set("user.%d" % i, "w")
        for client in (c, other):  # both hold pointers then
            for _ in range(3):
                client.get_many("user%s%d" % (dot, i) for dot in ":." for i in range(100))
        result = {"socket": path_of("p"), "prefix": "user:", "deleted": True, "items": 100, "nodes": 2, "nodes_done": 2}
        tap.is_(asked("delete-prefix", "--dry-run", "user:", *at("p")), [{**result, "deleted": False}], "delete-prefix --dry-run")
        tap.is_(len(c.get_many("user:%d" % i for i in range(100))), 100, "deletes nothing")
        tap.is_(asked("delete-prefix", "user:", *at("p")), [result], "delete-prefix")
        for client, which in ((c, "there"), (other, "through the other proxy, which held pointers")):
            tap.is_(client.get_many("user:%d" % i for i in range(100)), [], "nothing begins so %s" % which)
            tap.is_(len(client.get_many("user.%d" % i for i in range(100))), 100, "and all else is there")
        tap.is_(c.set("user:1", "new"), "STORED", "a key that begins so")
        tap.is_(other.get("user:1"), b"new", "is there again when it is stored again")
        def told():
            return [asked("stats", n, *at("p"))[0]["stats"] for n in ("a", "b")]
        swept = until(told, lambda nodes: all(n["prefixes_pending"] == 0 for n in nodes))
        tap.is_([(n["prefixes_pending"], n["prefix_deletes"]) for n in swept], [(0, 1)] * 2, "and the nodes sweep")
        tap.is_(sum(n["prefix_items"] for n in swept), 100, "a hundred items")
    code, out, _ = farctl("delete-prefix", "user.", *at("p", "q"))
    tap.is_((code, out), (0, '%s: deleted 100 items beginning with "user." on 2 of 2 nodes\n'
                          '%s: deleted 0 items beginning with "user." on 2 of 2 nodes\n' % (path_of("p"), path_of("q"))), "as text")
    tap.is_(farctl("delete-prefix", "a" * 250, *at("p")), (0, '%s: deleted all items beginning with "%s"; their number is not '
            'known\n' % (path_of("p"), "a" * 250), ""), "one that is too long to count")
    refused(["delete-prefix", "a b", *at("p")], "keys, prefixes, and names of nodes and groups contain no blanks; "
            "see farctl --help", "two words", status=64)
    refused(["delete-prefix", "a" * 251, *at("p")], path_of("p") + ": usage: delete_prefix PREFIX, which is one word of at "
            "most 250 bytes", "longer than a key")
    refused(["delete-prefix", "a", *at("a")], "keys are deleted by farcached, in all of its nodes; name one's socket with "
            "--socket", "at a node")


def check_partial_delete(proxy):
    """b is down: a deletes its part."""
    with proxy.client() as c:
        kept = sum(c.set("x%d" % i, "v") == "STORED" for i in range(100))
    tap.ok(0 < kept < 100, "the items of one node", kept)
    at_a = farctl("delete-prefix", "x", "--dry-run", *at("p"))
    tap.is_(at_a, (1, '%s: %d items beginning with "x" on 1 of 2 nodes; nothing is deleted\n' % (path_of("p"), kept),
                   "farctl: %s: 1 of 2 nodes did not count: down, too old, or busy\n" % path_of("p")),
                       "a dry run while a node is down")
    tap.is_(farctl("delete-prefix", "x", *at("p")),
            (1, '%s: deleted %d items beginning with "x" on 1 of 2 nodes\n' % (path_of("p"), kept),
             "farctl: %s: not every node has confirmed: one is down, too old, or has too many prefixes to sweep; "
             "see farctl status, "
             "and try again\n" % path_of("p")), "delete-prefix while a node is down")


def check_plan(first):
    """The ring of b alone, and one with c, against the items that are there."""
    names = [n["name"] for n in asked("status", *at("p"))["nodes"]]
    held = {n["name"]: n["items"] for n in asked("status", *at("p"))["nodes"]}
    tap.is_((sorted(names), sum(held.values())), (["a", "b"], 100), "a hundred items in two nodes")

    def plan(*nodes):
        with open(path_of("new.toml"), "w", encoding="utf-8") as file:
            for name in nodes:
                file.write('[[node]]\nname = "%s"\naddress = "shm:%s"\n' % (name, path_of(name + ".shm")))
        return asked("route", "--plan=" + path_of("new.toml"), *at("p"))[0]
    same = plan("a", "b")
    tap.is_((same["items"], same["sampled"], same["moving"]), (100, 100, 0), "the same list moves nothing")
    tap.is_(plan("b", "a")["moving"], 0, "nor does its order")
    alone = plan("b")
    tap.is_((alone["moving"], {n["node"]: n["moving"] for n in alone["nodes"]}), (held["a"], {"a": {"b": held["a"]}, "b": {}}),
            "without a, its keys move to b")
    more = plan("a", "b", "c")
    moves = {n["node"]: n["moving"] for n in more["nodes"]}
    tap.ok(0 < more["moving"] < 100 and all(set(to) == {"c"} for to in moves.values()), "a third node takes keys from both", more)
    with Daemon("--admin", path_of("three"), *[w for n in ("a", "b", "c") for
                                               w in ("--node", "%s=shm:%s" % (n, path_of(n + ".shm")))]) as d:
        with d.client() as c:
            to_c = sum(c.stats("route k%d" % i)["node"] == "c" for i in range(100))
    tap.is_(more["moving"], to_c, "and as many as a farcached with that list sends there")
    code, out, _ = farctl("route", "--plan=" + path_of("new.toml"), *at("p"))
    tap.ok(code == 0 and "%d of 100 keys in use would move, %d.0%%; all 100 keys were looked at\n" % (to_c, to_c) in out,
           "as text", out)
    with first.client() as c:
        c.set(b"key\xff", "v")
        out = farctl("route", "--plan=" + path_of("new.toml"), *at("p"))[1]
        tap.ok("; 100 of 101 keys were looked at\n" in out, "a key that is not printable is not looked at", out)
        c.ask(b"delete key\xff\r\n")
    refused(["route", "--plan=" + path_of("absent.toml"), *at("p")], "%s: cannot be opened: No such file or directory" %
            path_of("absent.toml"),
            "without the file")
    refused(["route", "k", "--plan=x", *at("p")], "usage: farctl route --plan=<file>; see farctl --help", "with a key", status=64)
    tap.is_(first.stats()["curr_items"], "100", "a plan changes nothing")


def check_completion():
    tap.is_(farctl("--print-arguments", "drain", *at("p"))[1].split(), ["a", "b"], "completion: names of nodes")
    tap.is_(farctl("--print-arguments", "stats", *at("p"))[1].split(), ["a", "b", "-"], "or -")
    tap.ok({"general", "leases"} <= set(farctl("--print-arguments", "stats", "a", *at("p"))[1].split()), "groups of a node")
    tap.ok({"settings", "nodes"} <= set(farctl("--print-arguments", "stats", "-", *at("p"))[1].split()), "groups of the daemon")
    tap.ok({"status", "drain"} <= set(farctl("--print-arguments", *at("p"))[1].split()), "commands")
    tap.is_(farctl("--print-arguments", "drain", *at("absent")), (0, "", ""), "nothing without a daemon")
    code, out, _ = farctl("doctor", "--json", *at("p", "a"))
    found = {one["subject"]: one["verdict"] for one in json.loads(out)}
    tap.is_((found["nodes"], found["versions"], found["daemons"]), ("ok", "ok", "ok"), "doctor: of two nodes, one asked itself")
    tap.is_(code, int("wrong" in found.values()), "and its status")


def check_down():
    tap.is_(until(lambda: states_of_all("p"), lambda s: s["b"] == "down").get("b"), "down", "a node that has ended is down")
    _, out, _ = farctl("status", *at("p"))
    tap.ok(re.search(r"^b: down for \S+, 0 of 2 connections up", out, re.M), "the text shows it with the reason", out)
    status, _, err = farctl("stats", "b", *at("p"))
    tap.ok(status == 1 and "unavailable" in err, "and it shows no numbers", err)


def check_failover(daemon):
    with daemon.client() as c:
        def seen():
            return {"k%d" % i: c.stats("route k%d" % i) for i in range(20)}
        routes = until(seen, lambda found: {r["asked"] for r in found.values()} == {"a"})
        why = {r["why"] for r in routes.values() if r["node"] == "b"}
        tap.is_(why, {"b is down, and a is the next on the ring that is up"}, "route: failover uses the next")
        tap.is_({r["failover"] for r in routes.values()}, {"on"}, "because it is on")
        tap.is_({c.set(key, "f") for key in routes}, {"STORED"}, "and so they are served")


def states_of_all(*names):
    """{name: state}, also while a node that just ended cannot report."""
    return {n["name"]: n["state"] for n in json.loads(farctl("--json", "status", *at(*names))[1])["nodes"]}


def main():
    try:
        test_nodes()
        test_tcp()
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)
    tap.done()


main()
