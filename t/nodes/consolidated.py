# SPDX-License-Identifier: BSD-3-Clause
"""Reports of all farcached of a host: one of them reports to a node the reads of all, each item once. Another takes over when it is
killed or stopped. No access is reported twice. Any bytes written into the shared memory between them do not end the reports."""
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from cluster import Cluster, nodes_shown  # noqa: E402
from farcached import tap, test_program, until  # noqa: E402

KEYS = ["key%d" % i for i in range(30)]
VALUE = b"v" * 100
INTERVAL_MS, LEASE_MS = 100, 2000


def of(proxy, name):
    """A counter of a proxy; `stats nodes` sends no request to a node."""
    return int(nodes_shown(proxy)["n0"][name])


class Host:
    """A node, and farcached that share a table and read by remote pointers, or from mapped memory. Each has a client."""

    def __init__(self, proxies, local_read=False):
        options = ["access_tracking=report", "report_interval_ms=%d" % INTERVAL_MS, "node_timeout_ms=30000"]
        self.cluster = Cluster("shm", proxies=proxies, threads=2, local_read=local_read, options=options,
                               node_args=["-t", "1", "--lease-ms", LEASE_MS])
        self.clients = []

    def __enter__(self):
        self.cluster.__enter__()
        try:
            self.proxies = self.cluster.proxies
            self.clients = [proxy.client() for proxy in self.proxies]
            self.store()
        except BaseException:
            self.cluster.end()
            raise
        return self

    def store(self):
        self.clients[0].send(*(b"set %s 0 0 %d noreply\r\n%s\r\n" % (key.encode(), len(VALUE), VALUE) for key in KEYS))
        if not self.clients[0].is_idle():
            raise AssertionError("a key was not stored")

    def __exit__(self, *_):
        for client in self.clients:
            client.close()
        return self.cluster.__exit__()

    def read(self, *numbers):
        """Reads all keys once, through each of these proxies."""
        for number in numbers:
            found = self.clients[number].get_many(KEYS)
            if sum(value == VALUE for _, _, value, _ in found) != len(KEYS):
                raise AssertionError("the keys are there")

    def everybody(self):
        return range(len(self.proxies))

    def sum(self, name, numbers=None):
        return sum(of(self.proxies[n], name) for n in (self.everybody() if numbers is None else numbers))

    def reads(self, number):
        """The one-sided reads of a process, from mapped memory or by remote pointers."""
        return int(self.proxies[number].stats("proxy")["get_local"]) + of(self.proxies[number], "get_onesided")

    def reporters(self, numbers=None):
        return [n for n in (self.everybody() if numbers is None else numbers) if of(self.proxies[n], "reporter")]

    def node(self, name, by):
        return int(self.proxies[by].stats("node n0")[name])

    def settled(self):
        """Is every one-sided read reported or dropped, and every shared access taken?"""
        shared, taken, sent, dropped = (self.sum(name) for name in (
            "accesses_shared", "accesses_taken", "accesses_sent", "accesses_dropped"))
        read = sum(map(self.reads, self.everybody()))
        return read == sent + dropped and shared == taken > 0


def one_reports(host, numbers):
    """The one proxy that reports while these read."""
    def reporter():
        host.read(*numbers)
        found = host.reporters(numbers)
        return found[0] if len(found) == 1 else None

    return until(reporter, lambda r: r is not None)


def grows(host, numbers, what, by):
    """Does what() grow by this number while these read?"""
    goal = what() + by
    return until(lambda: host.read(*numbers) or what(), lambda n: n >= goal) >= goal


def together(host):
    """All proxies read the same keys."""
    until(lambda: host.read(0, 1, 2) or min(map(host.reads, host.everybody())), lambda n: n >= 20 * len(KEYS))
    tap.ok(until(host.settled, bool), "all reads are reported in the end, each access once")
    read = sum(map(host.reads, host.everybody()))
    dropped, records = host.sum("accesses_dropped"), host.node("report_records", 0)
    tap.ok(dropped <= read // 20, "few are dropped", dropped)
    tap.ok(host.sum("report_merged") > 0, "reads of one item by several proxies are merged")
    tap.ok(records <= host.sum("report_items") < read - dropped, "in fewer records than accesses", (records, read))
    tap.diag("%d one-sided reads, %d records in %d reports, %d merged; elected %d, taken over %d" % (
        read, records, host.sum("reports_sent"), host.sum("report_merged"), host.sum("report_elected"),
        host.sum("report_takeovers")))
    tap.is_(until(host.reporters, lambda r: not r), [], "without accesses no proxy reports")


def killed(host):
    first = one_reports(host, (0, 1, 2))
    tap.ok(first is not None, "one of three proxies reports")
    others = [n for n in host.everybody() if n != first]
    host.clients[first].close()
    host.cluster.end_proxy(host.proxies[first], signal.SIGKILL)
    second = one_reports(host, others)
    tap.ok(second is not None, "when it is killed another one reports")
    asked = host.sum("get_twosided", others)
    leases_3 = 3 * LEASE_MS // INTERVAL_MS
    tap.ok(grows(host, others, lambda: host.sum("reports_sent", others), leases_3), "and keeps reporting")
    asked = host.sum("get_twosided", others) - asked
    tap.ok(asked <= len(KEYS), "leases are renewed: in three leases' time hardly a request goes to the node", asked)
    tap.ok(host.sum("report_renewed", others) > 0, "because reports renew them")


def stopped(host):
    first = one_reports(host, (0, 1))
    tap.ok(first is not None, "one of two proxies reports")
    other = 1 - first
    host.proxies[first].signal(signal.SIGSTOP)
    tap.ok(grows(host, (other,), lambda: of(host.proxies[other], "report_takeovers"), 1), "when it stands still the other does")
    tap.ok(grows(host, (other,), lambda: of(host.proxies[other], "reports_sent"), 3), "and keeps reporting")
    host.proxies[first].signal(signal.SIGCONT)
    tap.ok(one_reports(host, (0, 1)) is not None, "when it continues one of them reports")
    tap.ok(until(host.settled, bool), "and each access is reported once",
           [(name, host.sum(name)) for name in ("get_onesided", "accesses_shared", "accesses_taken", "accesses_sent")])


def spoiled(host):
    noise = [test_program("faulty/pointer_vandal"), host.cluster.table.name, "boards"]
    with subprocess.Popen(noise, stdin=subprocess.PIPE) as vandal:
        tap.ok(grows(host, (0, 1), lambda: host.sum("get_onesided"), 200 * len(KEYS)), "noise on the boards: reads continue")
        tap.ok(grows(host, (0, 1), lambda: host.sum("reports_sent"), 5), "so do reports")
        vandal.stdin.close()
        tap.is_(vandal.wait(), 0, "the noise ends")
    tap.is_(sum(int(proxy.stats("proxy")["down_bad_frame"]) for proxy in host.proxies), 0, "reported accesses are possible ones")
    tap.ok(grows(host, (0, 1), lambda: host.sum("accesses_taken"), 20 * len(KEYS)), "and they report together again")


def main():
    with Host(3) as host:
        together(host)
        killed(host)
    with Host(3, local_read=True) as host:
        together(host)
        tap.is_(host.sum("get_onesided"), 0, "where the memory is mapped, too")
    with Host(2) as host:
        stopped(host)
        spoiled(host)
    tap.done()


if __name__ == "__main__":
    main()
