# SPDX-License-Identifier: BSD-3-Clause
"""What an operator does to a fleet in etcd while clients use it, without copies and with them (replicas = 2): all nodes are
restarted one after the other, all farcached, and etcd with its data and without; a node stands still for longer than its ttl;
another one is killed; weights change, also to 0. t/fleet/rolling_mapped.py has some of it with reads in mapped memory.

A load checks every reply. Beside it there is a fixed set of keys that the load does not touch: no value of it is ever old. With
copies none is lost; without, only those of the restarted node.
"""
import contextlib
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import etcd as etcd_servers  # noqa: E402
from cluster import all_up, nodes_shown  # noqa: E402
from etcd import Etcd  # noqa: E402
from etcd_fleet import IS_MAPPED, KEYS, Fleet, burst  # noqa: E402
from farcached import tap, until  # noqa: E402

etcd_servers.skip_without()


def nodes_restart(fleet):
    title = fleet.title + ", nodes restart one after the other"
    run = fleet.load(5)
    stayed, lost, lacking = [], [], []
    for turn, name in enumerate("abc" * 20):
        if turn >= 3 and not run.running():
            break
        homes = fleet.homes()
        lacking.append(fleet.until_copied())
        fleet.nodes[name].stop()
        stayed += [name] * (name in fleet.registered())
        lost += fleet.wrong(KEYS)  # a miss may be: one farcached has the new list, another one has not
        if turn % 2 == 0 and fleet.copies == 2:  # others get copies before it is back, or after that
            del fleet.nodes[name]
            fleet.until_list(sorted(fleet.nodes))
            lost += fleet.wrong()
            lacking.append(fleet.until_copied())
        fleet.nodes[name] = fleet.node(name)
        lost += fleet.wrong(KEYS)
        fleet.until_list("abc")
        lost += fleet.wrong([key for key in KEYS if homes[key] == name] if fleet.copies == 1 else [])
        if fleet.copies == 1:
            fleet.store("restart %d" % turn)
    tap.diag("%d restarts" % turn)
    tap.is_(stayed, [], title + ": each leaves the list at once")
    if fleet.copies == 2:
        lacking.append(fleet.until_copied())
        tap.is_([found for found in lacking if found], [], title + ": both copies of each item are there before the next one")
    tap.is_(lost, [], title + (": no item is lost, and none is old" if fleet.copies == 2 else ": only its own items are lost"))
    fleet.end(run, title)


def proxies_restart(fleet):
    title = fleet.title + ", farcached restart one after the other"
    for name, other, number in (("one", "two", signal.SIGTERM), ("two", "one", signal.SIGUSR1)):
        run = fleet.load(1, [other])
        found, lost, answered = [], [], []
        while not answered or run.running():
            wrong, count = burst(fleet, name, number)
            found, answered = found + wrong, answered + [count]
            fleet.daemons[name] = fleet.daemon()
            fleet.until_list("abc")
            lost += fleet.wrong()
        tap.diag("answers before each stop: %s" % answered)
        tap.is_(found, [], "%s: no change is lost that %s acknowledged" % (title, name))
        tap.is_(lost, [], "%s: no item is lost, and none is old" % title)
        fleet.end(run, "%s, a load of %s" % (title, other))


def until_state(fleet, state):
    seen = {until(lambda d=daemon: d.stats("discovery")["state"], lambda seen: seen == state) for daemon in fleet.daemons.values()}
    assert seen == {state}, seen


def etcd_restarts(fleet):
    title = fleet.title + ", etcd restarts with its data"
    etcd, nodes = fleet.etcd, fleet.nodes
    run = fleet.load(7)
    names, changes = set(nodes), [daemon.stats("discovery")["changes"] for daemon in fleet.daemons.values()]
    etcd.kill()
    until_state(fleet, "down")
    rights = until(lambda: {name: fleet.daemons["one"].stats("node " + name)["right_left_ms"] for name in nodes},
                   lambda rights: set(rights.values()) == {"0"})
    tap.is_(set(rights.values()), {"0"}, fleet.title + ", etcd is away: the rights of all nodes end")
    tap.is_(fleet.wrong(), [], "and no item is lost")
    fleet.store("changed while etcd was away")
    tap.is_((fleet.wrong(), fleet.until_copied()), ([], {}), "nodes serve: all items can be changed, and have their copies")
    etcd.start()
    until_state(fleet, "up")
    tap.is_(set(until(fleet.registered, lambda found: set(found) == names)), names, title + ": all nodes are registered")
    fleet.until_list("abc")
    tap.is_((fleet.wrong(), fleet.until_copied()), ([], {}), title + ": no item is lost, and none is old")

    title = fleet.title + ", etcd restarts without its data"
    leases = {name: lease for name, (_, lease) in fleet.registered().items()}
    before = {name: int(daemon.stats("discovery")["revision"]) for name, daemon in fleet.daemons.items()}
    etcd.kill()
    etcd.forget()
    etcd.start()
    found = until(fleet.registered, lambda found: set(found) == names)
    tap.is_(set(found), names, title + ": all nodes register again")
    tap.is_([name for name in found if found[name][1] in (0, leases[name])], [], title + ": under new leases")
    until_state(fleet, "up")
    fleet.until_list("abc")
    tap.is_([daemon.stats("discovery")["changes"] for daemon in fleet.daemons.values()], changes,
            title + ": no farcached lost a node")
    tap.is_((fleet.wrong(), fleet.until_copied()), ([], {}), title + ": no item is lost, and none is old")
    its_own = [key for key, home in fleet.homes().items() if home == "b"] if fleet.copies == 1 else []
    fleet.nodes["b"].stop()
    fleet.nodes["b"] = fleet.node("b")
    fleet.until_list("abc")
    after = {name: int(daemon.stats("discovery")["revision_in_use"]) for name, daemon in fleet.daemons.items()}
    tap.ok(all(after[name] > before[name] for name in after), title + ": the revision of the lists goes on from the last one",
           before, after)
    tap.is_((fleet.wrong(its_own), fleet.until_copied() if fleet.copies == 2 else {}), ([], {}),
            title + ": a node restarts then, and " + ("no item is lost" if fleet.copies == 2 else "only its own items are lost"))
    fleet.end(run, title)


def weights_change(fleet):
    """Without copies an item may be missing if its node had the key just before, too (docs/fleet.md)."""
    title = fleet.title + ", weights change"
    run = fleet.load(7)
    moved, wrong, lacking = 0, [], []
    weights = {name: 1 for name in fleet.nodes}
    for turn, (name, weight) in enumerate((("a", 0), ("b", 3), ("a", 2), ("b", 0), ("c", 0), ("b", 1), ("c", 1), ("a", 1)) * 6):
        if turn >= 8 and not run.running():
            break
        if weight == 0 and sum(weights[other] != 0 for other in weights if other != name) < fleet.copies:
            continue
        homes = fleet.homes()
        if fleet.copies == 2:
            lacking.append(fleet.until_copied())
        fleet.weighs(name, weight)
        weights[name] = weight
        gone = {key for key, home in fleet.homes().items() if home != homes[key]}
        moved += len(gone)
        wrong += fleet.wrong(KEYS if fleet.copies == 1 else [])
        fleet.store("turn %d" % turn)
        wrong += fleet.wrong()
    for name in fleet.nodes:
        fleet.weighs(name, 1)
    tap.diag("%d changes, %d keys of %d moved, %s fetched" % (
        turn, moved, len(KEYS), sum(int(daemon.stats("proxy")["moved_hits"]) for daemon in fleet.daemons.values())))
    tap.is_([found for found in lacking if found], [], title + ": both copies of each item are there before the next change")
    tap.ok(moved > 0 and not wrong, title + (": no item is lost or old" if fleet.copies == 2 else ": no item is old"), wrong)
    fleet.end(run, title)


def stands_still(fleet):
    title = fleet.title + ", a node stands still for longer than its ttl"
    run = fleet.load(5)
    lacking = fleet.until_copied()
    node, homes = fleet.nodes.pop("b"), fleet.homes()
    with node.stopped():
        until(fleet.registered, lambda found: "b" not in found)
        fleet.until_list("ac")
        lost = fleet.wrong([key for key in KEYS if homes[key] == "b"] if fleet.copies == 1 else [])
        fleet.store("second")
        tap.is_((lacking, lost, fleet.wrong(), fleet.until_copied()), ({}, [], [], {}),
                title + (": no item is lost" if fleet.copies == 2 else ": only its own items are lost") + ", all can be changed")
    fleet.nodes["b"] = node
    old = []

    def back():
        """A miss may be, as above."""
        old.extend(fleet.wrong(KEYS))
        return all(all_up(shown) and set(shown) == set("abc") for shown in map(nodes_shown, fleet.daemons.values()))
    until(back, bool)
    fleet.until_list("abc")
    tap.is_(old, [], title + ": while it comes back, no value is old")
    moved = [key for key, home in fleet.homes().items() if home == "b"] if fleet.copies == 1 else []
    lost = fleet.wrong(moved)
    tap.is_((lost, fleet.until_copied() if fleet.copies == 2 else {}), ([], {}),
            title + (": it is back, no item is lost, and all have copies" if fleet.copies == 2 else
                     ": it is back without its items, and the others are there"))
    fleet.end(run, title)


def dies(fleet):
    title = fleet.title + ", a node is killed"
    run = fleet.load(5)
    lacking = fleet.until_copied()
    node, homes = fleet.nodes.pop("b"), fleet.homes()
    its_own = [key for key in KEYS if homes[key] == "b"] if fleet.copies == 1 else []
    node.expect_exit = -signal.SIGKILL
    node.stop(signal.SIGKILL)
    lost = fleet.wrong(its_own)
    until(fleet.registered, lambda found: "b" not in found)
    fleet.until_list("ac")
    lost += fleet.wrong(its_own)
    fleet.store("second")
    tap.is_((lacking, lost, fleet.wrong(), fleet.until_copied()), ({}, [], [], {}),
            title + (": no item is lost" if fleet.copies == 2 else ": only its own items are lost") + ", all can be changed")
    fleet.nodes["b"] = fleet.node("b")
    fleet.until_list("abc")
    tap.is_((fleet.wrong(), fleet.until_copied() if fleet.copies == 2 else {}), ([], {}),
            title + ": it starts again, no item is lost, and none is old")
    fleet.end(run, title)


EVENTS = [nodes_restart, weights_change, stands_still, etcd_restarts]
if not IS_MAPPED:
    EVENTS[1:1] = [proxies_restart, dies]
with Etcd() as server:
    for number_of_copies in (1, 2):
        with contextlib.ExitStack() as running:
            one_fleet = Fleet(running, server, number_of_copies)
            for happens in EVENTS:
                happens(one_fleet)
tap.done()
