# SPDX-License-Identifier: BSD-3-Clause
"""Reports over RDMA: WRITEs with immediate data into a container of the node, which answers the same way. They renew leases without
requests to the node. Runs in a guest."""
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "lib"), os.path.dirname(HERE)]
os.environ["FARCACHED_OVER"] = "shm=verbs"
import nodes.reports as nodes_reports  # noqa: E402
from cluster import Cluster  # noqa: E402
from farcached import deadline, tap, until  # noqa: E402


def numbers(proxy):
    return {name: int(value) for name, value in proxy.stats("proxy").items() if value.isdigit()}


def by_write():
    """The RDMA traffic of reports, at a proxy whose clients only read."""
    options = ["access_tracking=report", "report_interval_ms=100", "node_timeout_ms=30000"]
    with Cluster("verbs", proxies=1, threads=1, options=options,
                 node_args=["-m", "4", "-t", "1", "--lease-ms", "256000"]) as c, c.proxies[0].client() as client:
        proxy = c.proxies[0]
        names = ["k%d" % i for i in range(200)]
        nodes_reports.store(client, names)
        until(lambda: nodes_reports.found(client, names) and numbers(proxy), lambda s: s["reports_sent"] >= 5)
        before = until(lambda: numbers(proxy), lambda s: s["report_answers_written"] == s["reports_sent"])
        looks = 0  # each look requests statistics from the node

        def look():
            nonlocal looks
            looks += 1
            return nodes_reports.found(client, names) and numbers(proxy)
        asked = until(look, lambda s: s["reports_sent"] >= before["reports_sent"] + 5)
        after = {name: asked[name] - before[name] for name in before}
        tap.is_(after["rdma_writes"], after["reports_written"], "each report is one WRITE")
        tap.is_(after["reports_written"], after["reports_sent"], "of all")
        tap.is_(after["rdma_write_bytes"], after["report_bytes"], "and of nothing else")
        tap.ok(after["report_renewed"] > 0, "their answers, written by the node, renew leases")
        tap.is_(after["get_twosided"], 0, "no request goes to the node")
        tap.ok(after["rdma_sends"] <= looks, "no other SENDs except requests for statistics", after["rdma_sends"], looks)
        tap.diag("%d reports, %d bytes in them; SENDs: %d, of %d bytes" % tuple(
            after[name] for name in ("reports_sent", "rdma_write_bytes", "rdma_sends", "rdma_send_bytes")))


def measured():
    """farbench reports: one WRITE for each report, or SENDs alone."""
    farbench = os.path.join(os.path.dirname(os.environ["FARCACHED"]), "farbench")
    with tempfile.TemporaryDirectory(prefix="farcached-reports-") as folder:
        path = os.path.join(folder, "json")
        done = subprocess.run([farbench, "reports", "--spawn", "verbs", "--quick", "--bytes", "8192", "--json", path],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=deadline() * 2)
        tap.ok(done.returncode == 0, "farbench reports runs to its end", done.returncode, *(done.stdout + done.stderr).split("\n"))
        with open(path) as file:
            points = {point["way"]: point for point in json.load(file)}
    for line in done.stdout.splitlines():
        tap.diag(line)
    writes = points["verbs-write"]["writes_per_report"], points["verbs-send"]["writes_per_report"]
    tap.is_(writes, (1, 0), "written, a report is a WRITE; sent, it is none")
    sends = points["verbs-write"]["sends_per_report"], points["verbs-send"]["sends_per_report"]
    tap.ok(sends[0] < 0.1 and 1 <= sends[1] < 1.2, "nothing is sent beside a WRITE; else there is one SEND, of the report", *sends)


def main():
    measured()
    nodes_reports.unasked(local_read=False)
    asked, read = nodes_reports.leased("report")
    tap.ok(asked <= 3 and read > 100 * asked, "report: in five leases' time a key that is read stays one-sided", (asked, read))
    by_write()
    tap.done()


main()
