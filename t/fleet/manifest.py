# SPDX-License-Identifier: BSD-3-Clause
"""The processes of contrib/kubernetes/fleet.yaml with the arguments and the file that are written there, on this host. Names and
addresses of the cluster are replaced by addresses of loopback, and nothing else."""
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import etcd as etcd_servers  # noqa: E402
from cluster import all_up, nodes_shown  # noqa: E402
from daemon import _die_with_parent  # noqa: E402
from farcached import Daemon, tap, until  # noqa: E402
from farnode import Farnode  # noqa: E402
from ports import HeldPort  # noqa: E402

TOP = os.environ.get("abs_top_srcdir") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MEMBERS = range(3)
KEYS = ["key-%d" % i for i in range(60)]

etcd_servers.skip_without()
with open(os.path.join(TOP, "contrib", "kubernetes", "fleet.yaml"), encoding="utf-8") as manifest:
    MANIFEST = manifest.read()


def words_of(container):
    command, args = re.search(r"(?s)- name: %s\n +image: .*?command: \[(\w+)\]\n +args: \[(.*?)\]\n" % container, MANIFEST).groups()
    assert command == container
    return [quoted or plain for quoted, plain in re.findall(r'"([^"]*)"|([^\s,"][^,"]*)', args)]


def file_of(name):
    lines = re.search(r"(?m)^  %s: \|\n((?:    .*\n)+)" % re.escape(name), MANIFEST).group(1)
    return re.sub("(?m)^    ", "", lines)


class Ports(contextlib.ExitStack):
    def __enter__(self):
        self.clients, self.peers, self.nodes = ([self.enter_context(contextlib.closing(HeldPort())).number for _ in MEMBERS]
                                                for _ in range(3))
        return self

    def here(self, text, number=0):
        """For the pod with this number."""
        text = re.sub(r"etcd-(\d)\.etcd:2379", lambda at: "127.0.0.1:%d" % self.clients[int(at.group(1))], text)
        text = re.sub(r"etcd-(\d)\.etcd:2380", lambda at: "127.0.0.1:%d" % self.peers[int(at.group(1))], text)
        for there, port in (("0.0.0.0:2379", self.clients[number]), ("0.0.0.0:2380", self.peers[number]),
                            ("*:11300", self.nodes[number]), ("$(POD_IP):11300", self.nodes[number]), ("*:9151", 0), ("*:9150", 0)):
            text = text.replace(there, "127.0.0.1:%d" % port)
        return text

    def words(self, container, number):
        name = "%s-%d" % (container, number)
        return [self.here(word.replace("$(POD_NAME)", name), number) for word in words_of(container)]


@contextlib.contextmanager
def etcd_member(ports, number, folder):
    words = [word.replace("/data/", folder + "/%d-" % number) for word in ports.words("etcd", number)]
    with open(os.path.join(folder, "log-%d" % number), "wb") as log:
        process = subprocess.Popen(["etcd", *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=_die_with_parent)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def node(ports, number):
    words = [part for word in ports.words("farnode", number) for part in word.split("=", 1)]
    return Farnode(*words)


def main():
    with tempfile.TemporaryDirectory(prefix="farcached-test-") as folder, Ports() as ports, contextlib.ExitStack() as stack:
        for number in MEMBERS:
            stack.enter_context(etcd_member(ports, number, folder))
        nodes = [stack.enter_context(node(ports, number)) for number in MEMBERS]
        tap.is_([one.port for one in nodes], ports.nodes, "the nodes listen")
        path = os.path.join(folder, "far.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(ports.here(re.sub(r'(?m)^(listen|port) = .*\n', "", file_of("far.toml"))))
        daemon = stack.enter_context(Daemon("--config", path))
        shown = until(lambda: nodes_shown(daemon), lambda shown: len(shown) == 3 and all_up(shown))
        tap.is_({name: one["address"] for name, one in shown.items()},
                {"farnode-%d" % number: "tcp:127.0.0.1:%d" % ports.nodes[number] for number in MEMBERS}, "farcached finds them")
        with daemon.client() as client:
            said = {until(lambda key=key: client.set(key, key), lambda said: said == "STORED") for key in KEYS}
            tap.is_(said, {"STORED"}, "keys are stored")
            copies = daemon.until_stat("replica_copies", lambda count: int(count) >= len(KEYS), "proxy")
            tap.ok(int(copies) >= len(KEYS), "with copies", copies)
            nodes[0].expect_exit = -signal.SIGKILL
            nodes[0].stop(signal.SIGKILL)
            read = until(lambda: {client.get(key) == key.encode() for key in KEYS}, lambda read: read == {True})
            tap.is_(read, {True}, "all of them are read when a node is killed")
    tap.done()


main()
