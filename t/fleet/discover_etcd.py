# SPDX-License-Identifier: BSD-3-Clause
"""Nodes that register in etcd (--discover), and proxies that find them there; with real etcd servers.

Nodes join, leave, die and stand still; etcd restarts with its data and without; etcd refuses, cuts, compacts and loses its quorum.
"""
import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.error
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import certificates  # noqa: E402
import etcd as etcd_servers  # noqa: E402
from cluster import Table, all_up, nodes_shown  # noqa: E402
from daemon import deadline, is_sanitized, run_binary, test_program  # noqa: E402
from etcd import Etcd, Relay, running_cluster, write_weight  # noqa: E402
from farcached import Daemon, tap, until  # noqa: E402
from farctl import FOLDER, asked, at, farctl, path_of  # noqa: E402
from farnode import Farnode, farnode_binary  # noqa: E402
from http_get import get, http_args, http_env, http_port, value  # noqa: E402

etcd_servers.skip_without()
# A sanitizer makes system calls of its own.
DROPS = [] if b"without libseccomp" in run_binary("--version-full")[1] or is_sanitized() else ["--drop-privileges"]
KEYS = ["key-%d" % i for i in range(100)]


def record(name, **fields):
    """At an address that no other name has."""
    return json.dumps({"name": name, "addresses": {"tcp": "127.0.0.1:%d" % (1 + zlib.crc32(name.encode()) % 65000)}, **fields})


class Lister:
    """The lists of a source, as t/fleet/list_nodes prints them."""

    def __init__(self, source, *more):
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen([test_program("fleet/list_nodes"), source, *more], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.log)
        os.set_blocking(self.process.stdout.fileno(), False)
        self.nodes, self.lists, self.revision, self.text, self.states = None, 0, 0, "", []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        tap.is_(self.process.wait(deadline()), 0, "the source ends at once")
        self.log.close()

    def said(self, words):
        self.log.seek(0)
        return self.log.read().decode().count(words)

    def take(self):
        self.text += (self.process.stdout.read() or b"").decode()
        *lines, self.text = self.text.split("\n")
        for line in lines:
            words = line.split(" ")
            if words[0] == "list":
                self.lists, self.revision = self.lists + 1, int(words[1])
                self.nodes = dict(word.split("=", 1) for word in words[2:])
            else:
                self.states.append(line)
        return self.nodes

    def until(self, names):
        """Waits for a list of exactly these nodes; whether it came."""
        return set(until(self.take, lambda nodes: nodes is not None and set(nodes) == set(names)) or ()) == set(names)

    def state(self):
        """(up, answers, failures, changes, last error)"""
        count = len(self.states)
        self.process.stdin.write(b"state\n")
        self.process.stdin.flush()
        until(self.take, lambda _: len(self.states) > count)
        word, answers, failures, changes, error = self.states[-1].split(" ", 5)[1:]
        return word == "up", int(answers), int(failures), int(changes), error

    def until_state(self, accept):
        return accept(until(self.state, accept))


# -- A fleet -----------------------------------------------------------------------------------------------

def node(etcd, name, *args):
    ttl = [] if "--member-ttl" in args else ["--member-ttl", "2"]
    return Farnode("--tcp", "127.0.0.1:0", "-m", "16", "-t", "1", "--name", name, "--discover", etcd.source(), *ttl, *args)


def until_keys(etcd, names):
    return sorted(until(etcd.keys, lambda keys: set(keys) == set(names))) == sorted(names)


def until_nodes(proxy, names):
    def accept(shown):
        return set(shown) == set(names) and all_up(shown)
    return accept(until(lambda: nodes_shown(proxy), accept))


def starts_later(etcd):
    """The list at the start has no node that may have keys."""
    etcd.put("/later/nodes/later", record("later", weight=0))
    proxy = Daemon("--discover", etcd.source(prefix="/later"))
    waits = proxy._wait_until_listening

    def mend(command):
        log = until(proxy.stderr, lambda text: b"there is no other list yet" in text)
        tap.like(log, r"the new list of 1 node cannot be used \(every node has weight 0",
                 "a start waits for a list that can be used, and logs what is wrong")
        etcd.put("/later/nodes/later", record("later", weight=1))
        waits(command)

    proxy._wait_until_listening = mend
    with proxy:
        tap.is_(set(nodes_shown(proxy)), {"later"}, "then it starts")


def fleet(etcd, table):
    options = ",".join(["node_timeout_ms=30000", table.options()] + ["drop_privileges"] * bool(DROPS))
    with node(etcd, "n0", "--weight", "3", "--zone", "east", *DROPS) as n0:
        tap.ok(until_keys(etcd, ["n0"]), "a node registers")
        value, lease = etcd.keys()["n0"]
        shown = json.loads(value)
        tap.is_((shown["addresses"], shown["weight"], shown["zone"], shown["ttl"]),
                ({"tcp": "127.0.0.1:%d" % n0.port}, 3, "east", 2), "with its address, weight, zone and ttl")
        tap.ok(lease != 0 and shown["incarnation"].isdigit() and shown["version"], "under a lease, with incarnation and version")
        source = etcd.source().replace("127.0.0.1", "localhost")
        daemon = Daemon("--discover", source, "-o", options, "--admin", path_of("p"), *http_args(), env=http_env(FOLDER), threads=2)
        starts_later(etcd)
        with daemon as proxy, proxy.client() as client:
            tap.ok(until_nodes(proxy, ["n0"]), "a proxy finds it", nodes_shown(proxy))
            n1, n2 = node(etcd, "n1").start(), node(etcd, "n2").start()
            tap.ok(until_nodes(proxy, ["n0", "n1", "n2"]), "nodes join", nodes_shown(proxy))
            tap.is_({client.set(key, key) for key in KEYS}, {"STORED"}, "keys are stored")
            n1.__exit__(None, None, None)
            tap.ok("n1" not in etcd.keys(), "a node that ends is gone at once")
            tap.ok(until_nodes(proxy, ["n0", "n2"]), "and the proxy knows", nodes_shown(proxy))
            n2.expect_exit = -signal.SIGKILL
            n2.stop(signal.SIGKILL)
            tap.ok("n2" in etcd.keys(), "one that is killed stays")
            n2.__exit__(None, None, None)
            tap.ok(until_keys(etcd, ["n0"]), "until its ttl ends")
            seen = until(lambda: set(nodes_shown(proxy)), lambda names: names == {"n0"})
            tap.is_(seen, {"n0"}, "then the proxy knows")
            unknown_host(etcd, proxy, client)
            stands_still(etcd, n0, proxy, client)
            deleted(etcd, n0, client)
            etcd_is_away(etcd, n0, proxy, client)
            etcd_forgets(etcd, n0, proxy, client)
            etcd.put("/far/nodes/no", "JSON")
            skipped = until(lambda: proxy.stats("discovery")["skipped"], lambda count: count != "0")
            tap.ok(skipped != "0", "stats count records that are no nodes", skipped)
            etcd.delete("/far/nodes/no")
        if DROPS:
            tap.ok(b"system calls are allowed" in n0.stderr(), "with drop_privileges, too")
    tap.is_(etcd.keys(), {}, "at the end no node is registered")


def unknown_host(etcd, proxy, client):
    """A record whose host nobody knows holds up no other node, neither in a running farcached nor in one that starts."""
    def states(wanted):
        found = until(lambda: {name: node["state"] for name, node in nodes_shown(proxy).items()}, lambda found: found == wanted)
        return found == wanted

    def homes():
        return {key: proxy.stats("route " + key)["node"] for key in KEYS}

    etcd.put("/far/nodes/unknown", record("unknown", addresses={"tcp": "unknown.test.invalid:1"}))
    tap.ok(states({"n0": "up", "unknown": "down"}), "a node whose host is not known is down", nodes_shown(proxy))
    log = until(proxy.stderr, lambda text: b"node unknown is down" in text).decode()
    tap.like(log, r"node unknown is down: the host unknown\.test\.invalid is not known \(.+\); it is looked up again",
             "and the log has the reason")
    former = homes()
    with node(etcd, "n3"):
        tap.ok(states({"n0": "up", "n3": "up", "unknown": "down"}), "the next node joins", nodes_shown(proxy))
        present = homes()
        others = [key for key in KEYS if "unknown" not in (former[key], present[key])]
        said = {until(lambda key=key: client.set(key, key), lambda said: said == "STORED") for key in others}
        tap.ok(others and said == {"STORED"}, "keys that were never its own are stored", said)
        with Daemon("--discover", etcd.source()) as other, other.client() as reader:
            up = until(lambda: {name for name, node in nodes_shown(other).items() if node["links"] == node["links_up"]},
                       lambda up: up == {"n0", "n3"})
            assert up == {"n0", "n3"}, up
            tap.is_([key for key in others if reader.get(key) != key.encode()], [], "a farcached that starts then reads them")
        etcd.delete("/far/nodes/unknown")
        tap.ok(states({"n0": "up", "n3": "up"}), "it is gone with its record", nodes_shown(proxy))
        said = {until(lambda key=key: client.set(key, key), lambda said: said == "STORED") for key in KEYS}
        tap.is_(said, {"STORED"}, "then all keys are stored")
    tap.ok(states({"n0": "up"}), "and the node that joined leaves", nodes_shown(proxy))


def stands_still(etcd, n0, proxy, client):
    client.set("old", "value")
    with n0.stopped():
        tap.ok(until_keys(etcd, []), "a node that stands still longer than its ttl is gone")
        down = until(lambda: proxy.stats("discovery")["state"], lambda state: state == "down")
        tap.is_((down, set(nodes_shown(proxy))), ("down", {"n0"}), "without any node the last list stays, and stats say so")
    tap.ok(until_keys(etcd, ["n0"]), "it registers again when it goes on")
    tap.like(n0.stderr().decode(), "etcd no longer has the lease of this process", "and logs it")
    tap.is_(until(lambda: proxy.stats("discovery")["state"], lambda state: state == "up"), "up", "the list is known again")
    tap.is_(client.get("old"), None, "and its old items are gone")


def deleted(etcd, n0, client):
    client.set("old", "value")
    etcd.delete("/far/nodes/n0")
    seen = until(n0.stderr, lambda log: b"was deleted in etcd" in log)
    tap.ok(b"was deleted in etcd" in seen and until_keys(etcd, ["n0"]), "a node whose record is deleted registers again")
    tap.is_(client.get("old"), None, "without its items, too")


def etcd_is_away(etcd, n0, proxy, client):
    until(lambda: client.set("kept", "value"), lambda said: said == "STORED")  # once its farcached knows of the registration
    etcd.kill()
    away = until(lambda: proxy.stats("discovery")["state"], lambda state: state == "down")
    tap.is_((away, client.get("kept"), set(nodes_shown(proxy))), ("down", b"value", {"n0"}),
            "while etcd is away the last list stays in use, and stats say so")
    check_down(proxy)
    until(n0.stderr, lambda log: b"cannot keep its registration" in log)
    etcd.start()
    back = until(lambda: proxy.stats("discovery")["state"], lambda state: state == "up")
    tap.is_((back, client.get("kept")), ("up", b"value"), "etcd comes back with its data")
    tap.ok(until_keys(etcd, ["n0"]), "and the node is registered")
    check_up()


def up_metric():
    return value(get(http_port(FOLDER), "/metrics")[2], "farcached_discovery_up")


def finding(name):
    """The text of what farctl doctor finds of the registration, or of the list of nodes."""
    return {one["subject"]: one["text"] for one in json.loads(farctl("doctor", "--json", *at(name))[1])}.get("discovery", "")


def check_down(proxy):
    """What shows that etcd does not answer."""
    tap.is_(up_metric(), 0, "the metric is 0")
    source = proxy.stats("discovery")["source"]
    line = r"(?m)^%s: discovery is down: no list of nodes from %s for \d+s \(.+\); the last list, of 1 node, stays in use$" % (
        re.escape(path_of("p")), re.escape(source))
    tap.like(farctl("status", *at("p"))[1], line, "farctl status has a line of it")
    shown = asked("status", *at("p"))["proxies"][0]["discovery"]
    tap.ok(shown["state"] == "down" and shown["source"] == source and shown["last_error"] and shown["answer_age_s"] >= 0,
           "as JSON, too", shown)
    code, out, _ = until(lambda: farctl("doctor", *at("p")), lambda told: "not read one-sided" in told[1])
    tap.like(out, line.replace("(?m)^", r"(?m)^WRONG  discovery        ").replace("use$", "use, without later joins and leaves$") +
             r"\n       remedy: check etcd, and ", "farctl doctor has a finding")
    tap.like(out, r"(?m)^WRONG  discovery        n0: etcd does not answer it, so its memory is not read one-sided",
             "and one for the node")
    tap.is_(code, 1, "so its status is 1")
    page = json.loads(get(http_port(FOLDER), "/status.json")[2])["discovery"]
    tap.is_((page["source"], page["up"], bool(page["last_error"])), (source, False, True), "the status page has it, too")


def check_up():
    tap.is_(until(up_metric, lambda up: up == 1), 1, "the metric is 1 again")
    tap.ok("discovery" not in farctl("status", *at("p"))[1], "farctl status has no such line")
    tap.is_(until(lambda: finding("p"), lambda text: text.startswith("each")), "each source answers, and nodes are registered",
            "farctl doctor finds nothing wrong")


def etcd_forgets(etcd, n0, proxy, client):
    revision = int(proxy.stats("discovery")["revision"])
    lease = etcd.keys()["n0"][1]
    changes = proxy.stats("discovery")["changes"]
    etcd.kill()
    etcd.forget()
    etcd.start()
    tap.ok(until_keys(etcd, ["n0"]), "etcd comes back without its data: the node registers again")
    tap.ok(etcd.keys()["n0"][1] not in (0, lease), "under a new lease")  # the log is limited, and may leave a line out
    until(lambda: proxy.stats("discovery")["state"], lambda state: state == "up")
    tap.ok(etcd.revision() < revision, "the revision went back")
    tap.is_((set(nodes_shown(proxy)), client.get("kept"), proxy.stats("discovery")["changes"]), ({"n0"}, b"value", changes),
            "and the proxy never lost it")


def one_name(etcd):
    with node(etcd, "same") as first:
        tap.ok(until_keys(etcd, ["same"]), "a name is taken")
        with node(etcd, "same", "--admin", path_of("n")) as second:
            until(second.stderr, lambda log: b"another process is registered as same" in log)
            tap.is_(finding("n"), "same: it is not registered in etcd, and refuses requests for keys: gets miss, changes fail",
                    "farctl doctor finds a node that is not registered")
            tap.ok("\nsame: it is not registered in etcd, " in farctl("status", *at("n"))[1], "as does farctl status")
            tap.is_(json.loads(etcd.keys()["same"][0])["addresses"]["tcp"], "127.0.0.1:%d" % first.port,
                    "another node does not take it")
            first.stop()
            found = until(lambda: [json.loads(v)["addresses"]["tcp"] for v, _ in etcd.keys().values()],
                          lambda places: places == ["127.0.0.1:%d" % second.port])
            tap.is_(found, ["127.0.0.1:%d" % second.port], "before it is free")


def warm(etcd, folder):
    """A node with -e keeps its items over a restart if its record is there all the time."""
    args = ["-v", "-e", os.path.join(folder, "items"), "--advertise", "tcp:127.0.0.1:9", "--member-ttl", "60"]
    with node(etcd, "warm", *args) as first:
        until_keys(etcd, ["warm"])
        with Daemon("--node", "warm=tcp:127.0.0.1:%d" % first.port, "-o", "node_timeout_ms=30000", threads=1) as proxy:
            until(lambda: nodes_shown(proxy), all_up)
            with proxy.client() as client:
                tap.is_(client.set("kept", "value"), "STORED", "a node with -e has an item")
    tap.is_(list(etcd.keys()), ["warm"], "its record stays at a stop")
    for is_there in (True, False):
        if not is_there:
            etcd.delete("/far/nodes/warm")
        with node(etcd, "warm", *args) as again:
            log = until(again.stderr, lambda text: b"registered as warm" in text)
            tap.is_((b"1 item (0 MB)" in log, b"it drops all items" in log), (True, not is_there),
                    "a restart keeps the item if its record was there" if is_there else "without its record it drops the item")
            again.stop(signal.SIGUSR1 if not is_there else signal.SIGTERM)
    tap.is_(etcd.keys(), {}, "SIGUSR1 ends the registration at once")


# -- The list of the cluster -------------------------------------------------------------------------------

def listed(proxy):
    """(version, ports) of `config get cluster`."""
    with proxy.client() as c:
        c.send(b"config get cluster\r\nmn\r\n")
        text = b""
        while not text.endswith(b"MN\r\n"):
            text += c.line()
    found = re.match(rb"CONFIG cluster 0 \d+\r\n(\d+)\n(.*)\n\r\nEND\r\n", text)
    if found is None:
        return 0, []
    return int(found[1]), [int(one.split(b"|")[2]) for one in found[2].split()]


def until_listed(proxies, ports):
    """All have them, in one order and with one version."""
    def accept(seen):
        return seen.count(seen[0]) == len(seen) and sorted(seen[0][1]) == sorted(ports)
    seen = until(lambda: [listed(one) for one in proxies], accept)
    return accept(seen), seen[0][0], seen


def announced():
    """farcached register, and list each other, through a restart of etcd and one of a farcached."""
    def start(*more, **also):
        options = ",".join(["member_ttl=2"] + ["drop_privileges"] * bool(DROPS))
        return Daemon("--discover", etcd.source(), "--advertise", "127.0.0.1", "-o", options, *more, threads=1, **also)
    with Etcd() as etcd, node(etcd, "n0"), start() as a:
        ok, first, seen = until_listed([a], [a.port])
        tap.ok(ok, "a farcached that registered lists itself", seen)
        with start() as b:
            ok, both, seen = until_listed([a, b], [a.port, b.port])
            tap.ok(ok and both > first, "another one starts: both have one list, with one version, which is higher", seen)
            names = ["127.0.0.1-%d" % one.port for one in (a, b)]
            tap.is_(sorted(etcd.keys("/far/proxies/")), sorted(names), "their records are below PREFIX/proxies")
            etcd.kill()
            until(lambda: a.stats("discovery")["state"], lambda state: state == "down")
            tap.is_([listed(a), listed(b)], [seen[0], seen[0]], "while etcd is away the list stays")
            etcd.start()
            until(lambda: a.stats("discovery")["state"], lambda state: state == "up")
            ok, back, seen = until_listed([a, b], [a.port, b.port])
            tap.ok(ok and back >= both, "after its restart the list is the same, and the version does not fall", seen)
        tap.is_(list(etcd.keys("/far/proxies/")), names[:1], "SIGTERM ends the registration at once")
        ok, left, seen = until_listed([a], [a.port])
        tap.ok(ok and left > back, "so the list is shorter, with a higher version", seen)
        with start("--cluster-members", "10.0.0.1:7", expect_exit=-signal.SIGKILL) as c:
            ok, joined, seen = until_listed([a], [a.port, c.port])
            tap.ok(ok and joined > left, "a farcached with cluster_members is listed by others", seen)
            tap.is_(listed(c)[1], [7], "and answers with its own list")
            c.signal(signal.SIGKILL)
        ok, last, seen = until_listed([a], [a.port])
        tap.ok(ok and last > joined, "kill -9: it leaves after its ttl", seen)


# -- Traps -------------------------------------------------------------------------------------------------

def malformed(etcd):
    good = {"good": record("good"), "weighty": record("weighty", weight=65535)}
    bad = {"words": "no JSON", "list": "[]", "other": record("another"), "heavy": record("heavy", weight=10**30),
           "light": record("light", weight=-1), "typed": record("typed", weight="x"), "zone": record("zone", zone=[1]),
           "address": json.dumps({"name": "address", "addresses": {"tcp": 5}}), "n" * 64: record("n" * 64), "a/b": record("a/b"),
           "deep": "[" * 15000, "bytes": b"\xff\x00" * 100, "empty": "", "large": b"x" * (10 << 20)}
    for name, value in {**bad, **good}.items():
        etcd.put("/far/nodes/" + name, value)
    with Lister(etcd.source()) as lister:
        tap.ok(lister.until(good), "records that are no members are skipped, one of 10 MB too", lister.nodes)
        tap.ok(2 < lister.said("; it is skipped") <= 10, "and logged, with a limit", lister.said("; it is skipped"))
        etcd.put("/far/nodes/good", "no JSON")
        tap.ok(lister.until(["weighty"]), "a member that becomes one leaves", lister.nodes)
        etcd.put("/far/nodes/good", record("good", weight=2))
        tap.ok(lister.until(good) and "/2/" in lister.nodes["good"], "and comes back", lister.nodes)
        tap.is_(lister.revision, etcd.revision(), "lists have etcd's revision")
        etcd.put("/far/nodes/renamed", json.dumps({**json.loads(record("good")), "name": "renamed"}))
        tap.ok(lister.until(["renamed", "weighty"]), "a node that was restarted under another name replaces its former record",
               lister.nodes)
        etcd.delete("/far/nodes/renamed")
        tap.ok(lister.until(good), "until the later record is gone", lister.nodes)
        for name in {**bad, **good}:
            etcd.delete("/far/nodes/" + name)
        etcd.put("/far/nodes/last", record("last"))
        tap.ok(lister.until(["last"]), "members are deleted", lister.nodes)
        etcd.delete("/far/nodes/last")


def cuts(etcd):
    """The server is gone in the middle of a chunk of the watch."""
    etcd.put("/far/nodes/a", record("a"))
    with Relay(etcd.port) as relay, Lister("etcd://127.0.0.1:%d/far" % relay.port) as lister:
        tap.ok(lister.until(["a"]), "a list through a relay")
        for after in (10, 150, 300):
            name = "cut%d" % after
            before = relay.cuts
            relay.cut(after)
            etcd.put("/far/nodes/" + name, record(name, version="v" * 60))
            until(lambda n=before: relay.cuts > n, bool)
            tap.ok(until(lister.take, lambda nodes, n=name: n in nodes) and name in lister.nodes,
                   "cut after %d bytes: the change arrives all the same" % after, lister.nodes)
        tap.ok(relay.cuts >= 3, "the relay cut the stream")
        for name in list(lister.nodes):
            etcd.delete("/far/nodes/" + name)


def cuts_of_a_node(etcd, folder):
    """The server is gone in the middle of a chunk of an answer to a node, whose change it may have made."""
    weight = 1
    config = write_weight(folder, "cut", weight)
    with Relay(etcd.port) as relay:
        def cut(path, after):
            before = relay.cuts
            relay.before("/v3/" + path, lambda: relay.cut(after))
            return lambda: until(lambda: relay.cuts > before, bool)

        def asked():
            return relay.requests.count(b"POST /v3/lease/keepalive")

        def is_registered():
            """Once, by this lease, which is renewed."""
            held = until(etcd.keys, lambda keys: [json.loads(value)["weight"] for value, _ in keys.values()] == [weight])
            count = asked()
            until(asked, lambda now: now >= count + 3)
            return list(held) == ["cut"] and held == etcd.keys() and "/%d/" % weight in lister.take()["cut"]

        granted = cut("lease/grant", 200)
        source = "etcd://127.0.0.1:%d/far" % relay.port
        with Farnode("--config", config, "--tcp", "127.0.0.1:0", "-m", "16", "-t", "1", "--name", "cut", "--discover", source,
                     "--member-ttl", "5") as n0, Lister(etcd.source()) as lister:
            tap.ok(granted() and lister.until(["cut"]) and is_registered(), "the answer to a node's grant is cut: it registers")
            for path, after in itertools.product(("kv/txn", "lease/keepalive", "kv/range"), (10, 180, 240)):
                is_cut = cut(path, after)
                if path == "kv/txn":
                    weight += 1
                    write_weight(folder, "cut", weight)
                    n0.signal(signal.SIGHUP)
                tap.ok(is_cut() and is_registered(), "cut after %d bytes of the answer to %s: it is registered" % (after, path))
            is_cut = cut("kv/txn", 180)
            etcd.delete("/far/nodes/cut")
            tap.ok(is_cut() and is_registered(), "its record is deleted, and the answer to the next one is cut: the same")
    tap.is_(etcd.keys(), {}, "at its end it is not")


def compacted(etcd):
    """Between range and watch, etcd drops the history that the watch asks for."""
    etcd.put("/far/nodes/a", record("a"))

    def change():
        etcd.put("/far/nodes/b", record("b"))
        etcd.delete("/far/nodes/a")
        etcd.put("/far/nodes/c", record("c"))
        etcd.compact()

    with Relay(etcd.port) as relay:
        relay.before("/v3/watch", change)
        with Lister("etcd://127.0.0.1:%d/far" % relay.port) as lister:
            tap.ok(lister.until(["b", "c"]), "a watch below the compacted revision: range again", lister.nodes)
    for name in "bc":
        etcd.delete("/far/nodes/" + name)


def put_again(member, name):
    """Puts a record, again until a leader is elected."""
    def put():
        try:
            return member.put("/far/nodes/" + name, record(name))
        except urllib.error.HTTPError:
            return 0
    until(put, bool)


def quorum():
    with contextlib.ExitStack() as stack:
        members = running_cluster(stack, 3)
        members[0].put("/far/nodes/a", record("a"))
        with Lister(members[0].source(*members[1:])) as lister:
            tap.ok(lister.until(["a"]), "a list of three etcd")
            members[0].kill()
            put_again(members[1], "b")
            tap.ok(lister.until(["a", "b"]), "one of three is gone: the others tell changes", lister.nodes)
            members[1].kill()
            tap.ok(lister.until_state(lambda state: not state[0]), "two of three are gone: the state says so", lister.state())
            tap.is_(set(lister.nodes), {"a", "b"}, "and the last list stays")
            members[1].launch()
            members[1].wait()
            put_again(members[1], "c")
            tap.ok(lister.until(["a", "b", "c"]) and lister.until_state(lambda state: state[0]), "then it goes on", lister.state())


def tokens(folder):
    """The token is used less often than it lives, so etcd refuses each one later."""
    path = os.path.join(folder, "password")
    with open(path, "w") as file:
        file.write("secret word\n")
    with Etcd("--auth-token-ttl", "1") as etcd:
        etcd.enable_auth("secret word")
        status, _, err = run_binary("--discover", etcd.source(), "--tcp", "127.0.0.1:0", "--discover-user", "far",
                                    "--discover-password-file", path, binary=farnode_binary())
        tap.ok(status != 0 and b"only its owner may (chmod 600), or" in err, "a password that others can read is refused", err)
        os.chmod(path, 0o600)
        access = ["--discover-user", "far", "--discover-password-file", path]
        with node(etcd, "n0", *access) as n0, contextlib.ExitStack() as stack:
            until(n0.stderr, lambda log: b"registered as n0" in log)
            lister = stack.enter_context(Lister(etcd.source(), "", "far", path))
            tap.ok(lister.until(["n0"]), "with a user and a password")
            answers = lister.state()[1]
            tap.ok(lister.until_state(lambda state: state[1] > answers + 1), "expired tokens are replaced", lister.state())
            tap.is_(lister.state()[2:], (0, 0, ""), "without a failure")
            etcd.authenticate("far", "secret word")
            etcd.revoke(etcd.keys()["n0"][1])
            seen = until(n0.stderr, lambda log: log.count(b"registered as n0") == 2)
            tap.is_(seen.count(b"registered as n0"), 2, "a node whose lease was revoked registers again")
        with open(path, "w") as file:
            file.write("wrong\n")
        with Lister(etcd.source(), "", "far", path) as lister:
            tap.ok(lister.until_state(lambda state: "authentication of far failed" in state[4]), "a wrong password is named",
                   lister.state())


def encrypted():
    if not certificates.is_available():
        return tap.skip("https", "openssl is not installed")
    authority = certificates.Authority("etcd-authority")
    server = authority.issue("etcd-server")
    with Etcd(tls=(server.chain, server.key)) as etcd:
        with Lister(etcd.source()) as lister:
            tap.ok(lister.until_state(lambda state: "certificate" in state[4].lower()), "https: an unknown issuer is refused",
                   lister.state())
        with node(etcd, "n0", "--discover-ca", authority.chain), Lister(etcd.source(), authority.chain) as lister:
            tap.ok(lister.until(["n0"]), "with --discover-ca a node registers, and is found")


def refusals():
    etcd = "etcd://127.0.0.1:1/far"
    for title, args, words in (
            ("a wildcard without --advertise", ["--tcp", "0.0.0.0:1", "--insecure", "--discover", etcd], "--advertise tcp:"),
            ("only --shm", ["--shm", "/nowhere/x", "--discover", etcd], "no address that it can announce"),
            ("no prefix", ["--tcp", "127.0.0.1:0", "--discover", "etcd://127.0.0.1:1"], "a prefix of keys must follow"),
            ("a password in the URL", ["--tcp", "127.0.0.1:0", "--discover", "etcd://u:p@h:1/far"], "no user and no password"),
            ("a user without a password", ["--tcp", "127.0.0.1:0", "--discover", etcd, "--discover-user", "u"], "one is missing"),
            ("--advertise alone", ["--tcp", "127.0.0.1:0", "--advertise", "tcp:h:1"], "give --discover"),
            ("a wildcard in --advertise",
             ["--tcp", "127.0.0.1:0", "--discover", etcd, "--advertise", "tcp:*:1"], "a proxy needs one"),
            ("a short ttl", ["--tcp", "127.0.0.1:0", "--discover", etcd, "--member-ttl", "1"], "2 to 300")):
        status, _, err = run_binary(*args, binary=farnode_binary())
        tap.ok(status != 0 and re.search(re.escape(words), err.decode()), "refused: " + title, err)


def main():
    refusals()
    table = Table()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        stack.callback(table.unlink)
        stack.callback(shutil.rmtree, FOLDER, ignore_errors=True)
        with Etcd("--max-request-bytes", str(16 << 20)) as etcd:
            malformed(etcd)  # an etcd with a value that large cannot restart
        with Etcd() as etcd:
            cuts(etcd)
            cuts_of_a_node(etcd, folder)
            compacted(etcd)
            one_name(etcd)
            fleet(etcd, table)
            warm(etcd, folder)
        announced()
        quorum()
        tokens(folder)
        encrypted()
    tap.done()


main()
