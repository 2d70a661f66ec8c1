# SPDX-License-Identifier: BSD-3-Clause
"""Hosts of a network for tests: network namespaces with a router between them, which is the test itself. It can drop all packets
between two hosts.

    with Network("etcd", "a", "p") as network:
        subprocess.Popen(network.on("a") + ["farnode", "--tcp", network.address("a") + ":0"])
        network.cut("a", "etcd")
        network.mend("a", "etcd")

Needs root and the commands ip, unshare and nsenter.
"""
import ctypes
import shutil
import subprocess

from daemon import _die_with_parent

NEW_NETWORK = 0x40000000
FORWARD = "/proc/sys/net/ipv4/ip_forward"


def is_possible():
    if not all(shutil.which(command) for command in ("ip", "unshare", "nsenter")):
        return False
    tried = "ip rule add from 10.77.1.2 to 10.77.2.2 blackhole && ip link add v type veth peer name w && echo 1 >%s" % FORWARD
    return subprocess.run(["unshare", "-n", "sh", "-c", tried], capture_output=True, check=False).returncode == 0


class Network:
    """From its first one on, the test's process is in a network of its own."""

    def __init__(self, *hosts):
        self.numbers = {name: number for number, name in enumerate(hosts, 1)}
        self.holders = {}  # a process for each namespace, which exists as long as that

    def __enter__(self):
        try:
            if ctypes.CDLL(None).unshare(NEW_NETWORK) != 0:
                raise AssertionError("no network namespace")
            self._run([], "ip link set lo up && echo 1 >" + FORWARD)
            for name, number in self.numbers.items():
                self.holders[name] = subprocess.Popen(["unshare", "-n", "sh", "-c", "echo && exec sleep infinity"],
                                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                                      preexec_fn=_die_with_parent)
                self.holders[name].stdout.readline()
                self._connect(name, number)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for holder in self.holders.values():
            holder.kill()
            holder.wait()
            holder.stdout.close()

    def _connect(self, name, number):
        router = {"number": number, "pid": self.holders[name].pid}
        self._run([], "ip link add v%(number)d type veth peer name e netns %(pid)d && "
                  "ip addr add 10.77.%(number)d.1/24 dev v%(number)d && ip link set v%(number)d up" % router)
        self._run(self.on(name), "ip link set lo up && ip addr add 10.77.%(number)d.2/24 dev e && ip link set e up && "
                  "ip route add default via 10.77.%(number)d.1" % router)

    @staticmethod
    def _run(on, script):
        done = subprocess.run([*on, "sh", "-c", script], capture_output=True, check=False)
        if done.returncode != 0:
            raise AssertionError("%s: %s" % (script, done.stderr.decode()))

    def on(self, name):
        """The beginning of a command that runs on that host. Its files and Unix sockets are those of the test."""
        return ["nsenter", "--net=/proc/%d/ns/net" % self.holders[name].pid, "--"]

    def address(self, name):
        return "10.77.%d.2" % self.numbers[name]

    def cut(self, one, other):
        """From now on all packets between them are lost."""
        self._rules("add", one, other)

    def mend(self, one, other):
        self._rules("del", one, other)

    def _rules(self, verb, one, other):
        for pair in ((one, other), (other, one)):
            self._run([], "ip rule %s from %s to %s blackhole" % (verb, *(self.address(name) for name in pair)))
