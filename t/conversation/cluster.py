# SPDX-License-Identifier: BSD-3-Clause
"""The list of the cluster for clients with the auto-discovery of ElastiCache (--advertise, --cluster-members): by `config get
cluster`, by binary opcode 0x60, and by a get of AmazonElastiCache:cluster; over TCP and UDP, in front of a node, with permissions
and with -Y; after reloads and a restart. Without a list the answers are memcached's."""
import os
import re
import signal
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from binary_client import BinaryClient, op, status  # noqa: E402
from cluster import Cluster  # noqa: E402
from farcached import Daemon, run_binary, tap, until  # noqa: E402
from udp_client import UdpClient  # noqa: E402

CONFIG_GET, KEY = 0x60, b"AmazonElastiCache:cluster"
ASK = b"config get cluster\r\n"
TWO = 'cluster_members = ["10.0.0.1:11211", "[2001:db8::2]:11212"]\n'
TWO_SHOWN = b"10.0.0.1|10.0.0.1|11211 2001:db8::2|2001:db8::2|11212"


def replies(c, request):
    """All bytes before the reply to a `version` behind the request."""
    c.send(request, b"version\r\n")
    seen = b""
    while not seen.endswith(b"VERSION 1.6.45\r\n"):
        seen += c.line()
    return seen[:-len(b"VERSION 1.6.45\r\n")]


def listed(c):
    """(version, members) of `config get cluster`, whose form is checked to the byte."""
    got = replies(c, ASK)
    form = re.fullmatch(rb"CONFIG cluster 0 (\d+)\r\n((\d+)\n([^\n]*)\n)\r\nEND\r\n", got)
    if form is None or int(form[1]) != len(form[2]):
        return got
    return int(form[3]), form[4]


def no_list():
    with Daemon() as d, d.client() as c:
        tap.is_(replies(c, ASK + b"config\r\nconfig set cluster 0 1\r\nconfig get cluster noreply\r\n"), b"ERROR\r\n" * 3,
                "without a list config is an unknown command")
        tap.is_(replies(c, b"get %s\r\nset %s 0 0 1\r\nx\r\nget %s\r\n" % (KEY, KEY, KEY)),
                b"END\r\nSTORED\r\nVALUE %s 0 1\r\nx\r\nEND\r\n" % KEY, "and the key is an item's")
        with d.client() as raw:
            reply = BinaryClient(raw).ask(CONFIG_GET, b"cluster")
            tap.is_((reply.status, reply.value), (status.UNKNOWN, b"Unknown command"), "opcode 0x60 is unknown")


def alone():
    """--advertise without a port, of a daemon whose port the kernel has chosen."""
    before = int(time.time())
    with Daemon("--advertise", "127.0.0.1") as d, d.client() as c:
        version, members = listed(c)
        tap.is_(members, b"127.0.0.1|127.0.0.1|%d" % d.port, "--advertise alone lists this farcached, at its port")
        tap.ok(before <= version <= time.time(), "the version is the time of day", version)
    with Daemon("--advertise", "127.0.0.1:7") as d, d.client() as c:
        tap.is_(listed(c)[1], b"127.0.0.1|127.0.0.1|7", "or at the port that it names")
    for name, text in (("advertise", "a|b"), ("advertise", "a,b"), ("cluster-members", "a"), ("cluster-members", "a:1,a:1"),
                       ("cluster-members", "a:0")):
        got, _, err = run_binary("--" + name, text, "-p", "0")
        tap.ok(got == 64 and name.encode() in err and b"HOST" in err, "--%s %s is refused in words" % (name, text), got, err)
    got, _, err = run_binary("--advertise", "a", "-p", "0")
    tap.ok(got == 64 and b"needs a port" in err, "--advertise without a port needs one of TCP", got, err)


def by_binary(d, version):
    value = b"%d\n%s\n" % (version, TWO_SHOWN)
    with d.client() as raw:
        b = BinaryClient(raw)
        reply = b.ask(CONFIG_GET, b"cluster", opaque=5)
        tap.is_((reply.status, reply.opaque, reply.extras, reply.key, reply.value), (status.OK, 5, bytes(4), b"", value),
                "binary 0x60 has the same list")
        tap.is_(b.ask(CONFIG_GET, b"other").status, status.NOT_FOUND, "not another one")
        tap.is_(b.ask(CONFIG_GET, b"cluster", value=b"v").status, status.UNKNOWN, "with a value it is unknown")
        reply = b.ask(op.GETK, KEY)
        tap.is_((reply.status, reply.key, reply.value), (status.OK, KEY, value), "a binary get of the key has it, too")
        tap.is_(b.ask(op.NOOP).status, status.OK, "the connection stays in frame")


def asked(folder):
    path = os.path.join(folder, "asked.toml")
    with open(path, "w") as f:
        f.write(TWO)
    with Daemon("--config", path, "-U", "-1") as d, d.client() as c:
        version, members = listed(c)
        tap.is_(members, TWO_SHOWN, "the members of the file, in its order")
        value = b"%d\n%s\n" % (version, TWO_SHOWN)
        line = b"VALUE %s 0 %d\r\n%s\r\n" % (KEY, len(value), value)
        tap.is_(replies(c, b"get %s\r\nget a %s a\r\n" % (KEY, KEY)), (line + b"END\r\n") * 2, "the key of older clients")
        tap.is_(replies(c, b"gets %s\r\n" % KEY), line.replace(b"\r\n", b" %d\r\n" % version, 1) + b"END\r\n", "gets")
        tap.is_(replies(c, b"config get other\r\nconfig set cluster 0 1\r\nconfig get\r\n"), b"END\r\nERROR\r\nERROR\r\n",
                "there is no other list, and no change of it")
        by_binary(d, version)
        with UdpClient(dict(d.ports)["UDP INET"]) as u:
            tap.is_(u.ask(ASK), b"CONFIG cluster 0 %d\r\n%s\r\nEND\r\n" % (len(value), value), "over UDP")
        stats, own = c.stats(), c.stats("proxy")
        tap.is_(own["cmd_config_get"], "3", "cmd_config_get counts the lists that config get sent")
        tap.is_((stats["cmd_get"], stats["get_hits"], stats["get_misses"]), ("6", "4", "2"), "gets of the key are hits")


def reload(d):
    def tries():
        with d.client() as c:
            shown = c.stats("config")
        return int(shown["config_reloads"]) + int(shown["config_reload_failures"])
    before = tries()
    d.signal(signal.SIGHUP)
    until(tries, lambda now: now > before)


def changed(folder):
    path = os.path.join(folder, "changed.toml")

    def write(text):
        with open(path + ".new", "w") as f:
            f.write(text)
        os.replace(path + ".new", path)

    write(TWO)
    with Daemon("--config", path) as d, d.client() as c:
        first, _ = listed(c)
        write(TWO + "hotkeys_sample = 7\n")
        reload(d)
        tap.is_(listed(c), (first, TWO_SHOWN), "a reload with the same list keeps the version")
        write('cluster_members = ["10.0.0.1:11211"]\n')
        reload(d)
        second, members = listed(c)
        tap.is_(members, b"10.0.0.1|10.0.0.1|11211", "a reload takes the new list to connected clients")
        tap.ok(second > first, "with a higher version", first, second)
        write("")
        reload(d)
        tap.is_(replies(c, ASK), b"ERROR\r\n", "without a list config is unknown again")
        write('advertise = "127.0.0.1"\n')
        reload(d)
        third, members = listed(c)
        tap.is_(members, b"127.0.0.1|127.0.0.1|%d" % d.port, "advertise by a reload")
        tap.ok(third > second, "with a higher version again", second, third)
    with Daemon("--config", path) as d, d.client() as c:
        tap.ok(listed(c)[0] >= first, "a restart does not go back to a version of the run before")


def guarded(folder):
    path = os.path.join(folder, "guarded.toml")
    for classes, want in (('"read"', True), ('"write", "stats", "admin"', False)):
        with open(path, "w") as f:
            f.write(TWO + "[permissions]\nanonymous = [%s]\n" % classes)
        with Daemon("--config", path) as d, d.client() as c, d.client() as raw:
            got = replies(c, ASK)
            tap.ok(got.startswith(b"CONFIG cluster 0 ") if want else got == b"CLIENT_ERROR permission denied\r\n",
                   "permissions: %s" % classes, got)
            tap.is_(BinaryClient(raw).ask(CONFIG_GET, b"cluster").status, status.OK if want else 0x24, "in binary, too")
    passwords = os.path.join(folder, "passwords")
    with open(passwords, "w") as f:
        f.write("ann:secret\n")
    with Daemon("-Y", passwords, "--advertise", "10.0.0.1") as d, d.client() as c:
        tap.is_(c.ask("config get cluster"), "CLIENT_ERROR unauthenticated", "-Y: not before the password")
        c.send(b"set x 0 0 10\r\nann secret\r\n")
        tap.is_(c.line(), b"STORED\r\n", "which is sent")
        tap.is_(listed(c)[1], b"10.0.0.1|10.0.0.1|%d" % d.port, "but after it")


def behind():
    """The list comes in the order of the requests whose replies wait for a node."""
    with Cluster("tcp", proxies=1, proxy_args=["--cluster-members", "10.0.0.1:11211"]) as cluster, cluster.proxies[0].client() as c:
        tap.is_(c.set("a", "1"), "STORED", "a node has the items")
        got = replies(c, b"get a\r\nconfig get cluster\r\nget b %s a\r\nget a\r\n" % KEY)
        value = re.search(rb"\d+\n10.0.0.1\|10.0.0.1\|11211\n", got)[0]
        a = b"VALUE a 0 1\r\n1\r\n"
        tap.is_(got, a + b"END\r\nCONFIG cluster 0 %d\r\n%s\r\nEND\r\nVALUE %s 0 %d\r\n%s\r\n" % (
            len(value), value, KEY, len(value), value) + a + b"END\r\n" + a + b"END\r\n", "in front of a node, in a pipeline")


with tempfile.TemporaryDirectory(prefix="farcached-cluster-") as at:
    no_list()
    alone()
    asked(at)
    changed(at)
    guarded(at)
    behind()
tap.done()
