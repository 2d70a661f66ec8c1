# SPDX-License-Identifier: BSD-3-Clause
"""Reports over RDMA: WRITEs into a container of the node, which answers likewise; leases are renewed by them, and nobody is
asked. Runs in a guest."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "lib"), os.path.dirname(HERE)]
os.environ["FARCACHED_OVER"] = "shm=verbs"
import nodes_reports  # noqa: E402
from cluster import Cluster  # noqa: E402
from farcached import tap, until  # noqa: E402


def numbers(proxy):
    return {name: int(value) for name, value in proxy.stats("proxy").items() if value.isdigit()}


def by_write():
    """What goes over RDMA for reports, at a proxy that does nothing but read."""
    options = ["access_tracking=report", "report_interval_ms=100", "node_timeout_ms=30000"]
    with Cluster("verbs", proxies=1, threads=1, options=options,
                 node_args=["-m", "4", "-t", "1", "--lease-ms", "256000"]) as c, c.proxies[0].client() as client:
        proxy = c.proxies[0]
        names = ["k%d" % i for i in range(200)]
        nodes_reports.store(client, names)
        until(lambda: nodes_reports.found(client, names) and numbers(proxy), lambda s: s["reports_sent"] >= 5)
        before = until(lambda: numbers(proxy), lambda s: s["report_answers_written"] == s["reports_sent"])
        asked = until(lambda: nodes_reports.found(client, names) and numbers(proxy),
                      lambda s: s["reports_sent"] >= before["reports_sent"] + 5)
        after = {name: asked[name] - before[name] for name in before}
        tap.is_(after["rdma_writes"], after["reports_written"], "each report is one WRITE")
        tap.is_(after["reports_written"], after["reports_sent"], "of all")
        tap.is_(after["rdma_write_bytes"], after["report_bytes"], "and of nothing else")
        tap.ok(after["report_renewed"] > 0, "their answers, written by the node, renew leases")
        tap.is_(after["get_twosided"], 0, "the node is not asked")
        tap.ok(after["rdma_send_bytes"] < after["report_bytes"] / 10, "what is sent beside is small")
        tap.diag("%d reports, %d bytes in them; SENDs: %d, of %d bytes" % tuple(
            after[name] for name in ("reports_sent", "rdma_write_bytes", "rdma_sends", "rdma_send_bytes")))


def main():
    nodes_reports.unasked(local_read=False)
    asked, read = nodes_reports.leased("report")
    tap.ok(asked <= 3 and read > 100 * asked, "report: in five leases' time a key that is read stays one-sided", (asked, read))
    by_write()
    tap.done()


main()
