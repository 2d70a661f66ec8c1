# SPDX-License-Identifier: BSD-3-Clause
"""Debian's promtool and Prometheus with contrib's rules and dashboard."""
import json
import os
import subprocess
import sys
import urllib.parse

from expressions import contrib_expressions
from farcached import deadline, tap, until
from http_get import get
from ports import HeldPort
from status_page import loaded_cluster

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OPEN = "application/openmetrics-text;version=1.0.0"


# -- Prometheus -----------------------------------------------------------------------------------------

def check_exposition(port, what):
    text = get(port, "/metrics")[2]
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=deadline())
    tap.ok(done.returncode == 0 and not done.stdout and not done.stderr, "promtool has nothing to say of %s's metrics" % what,
           done.stdout, done.stderr)


class Prometheus:
    def __init__(self, folder, targets):
        """targets: {job: port}."""
        self.folder = folder
        config = {"global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                  "rule_files": [os.path.join(TOP, "contrib", "prometheus", "farcached.rules.yml")],
                  "scrape_configs": [{"job_name": job, "static_configs": [{"targets": ["127.0.0.1:%d" % port]}]}
                                     for job, port in targets.items()]}
        with open(os.path.join(folder, "prometheus.yml"), "w") as f:
            json.dump(config, f)  # JSON is valid YAML
        self.held = HeldPort()
        self.port = self.held.number

    def __enter__(self):
        with open(os.path.join(self.folder, "log"), "wb") as log:
            self.process = subprocess.Popen(
                ["prometheus", "--config.file=" + os.path.join(self.folder, "prometheus.yml"),
                 "--storage.tsdb.path=" + os.path.join(self.folder, "data"), "--web.listen-address=127.0.0.1:%d" % self.port],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        until(self.ready, bool)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(deadline())
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.held.close()

    def ready(self):
        try:
            return get(self.port, "/-/ready")[0] == 200
        except OSError:
            return False

    def api(self, path, **query):
        status, _, body = get(self.port, "/api/v1/" + path + ("?" + urllib.parse.urlencode(query) if query else ""))
        return status, json.loads(body)

    def result(self, expression):
        return self.api("query", query=expression)[1].get("data", {}).get("result", [])


def check_scrape(prometheus):
    healthy = lambda: [(one["labels"]["job"], one["health"], one["lastError"])  # noqa: E731
                       for one in prometheus.api("targets")[1]["data"]["activeTargets"]]
    tap.is_(sorted(until(healthy, lambda all_of: all_of and all(one[1] == "up" for one in all_of))),
            [("farcached", "up", ""), ("farnode", "up", "")], "Prometheus scrapes both")
    for metric in ("farcached_get_cmds_total", "farcached_request_duration_seconds_count", "farcached_node_items",
                   "farnode_cmd_set_total"):
        found = until(lambda m=metric: prometheus.result(m + " > 0"), bool)
        tap.ok(found, "and has %s" % metric, str(found))
    quantile = "histogram_quantile(0.99, sum by (le) (rate(farcached_request_duration_seconds_bucket[10s])))"
    found = until(lambda: [r for r in prometheus.result(quantile) if r["value"][1] != "NaN"], bool)
    tap.ok(found and 0 < float(found[0]["value"][1]) < 60, "it can tell a 99th percentile", str(found))


def check_rules(prometheus):
    rules = lambda: [rule for group in prometheus.api("rules")[1]["data"]["groups"] for rule in group["rules"]]  # noqa: E731
    found = until(rules, lambda all_of: all_of and all(rule["health"] == "ok" for rule in all_of))
    tap.is_([rule["name"] for rule in found if rule["health"] != "ok"], [], "every alert rule is evaluated")
    board, from_file = contrib_expressions(TOP)
    tap.is_(sorted(rule["name"] for rule in found), sorted(name for name, _ in from_file), "all of them")
    for where, expression in board:
        if where.startswith("variable "):
            continue
        expression = expression.replace("$__rate_interval", "10s").replace("$instance", ".*")
        status, answer = prometheus.api("query", query=expression)
        tap.ok(status == 200 and answer["status"] == "success", "dashboard, %s: is understood" % where, str(answer))
    firing = lambda: {rule["name"] for rule in rules() if rule["state"] != "inactive"}  # noqa: E731
    return firing


def prometheus(work):
    done = subprocess.run(["promtool", "check", "rules", os.path.join(TOP, "contrib", "prometheus", "farcached.rules.yml")],
                          capture_output=True, text=True, timeout=deadline())
    tap.ok(done.returncode == 0, "promtool: the alert rules are good", done.stdout, done.stderr)
    done = subprocess.run(["promtool", "check", "config", os.path.join(TOP, "contrib", "prometheus", "prometheus.yml")],
                          capture_output=True, text=True, timeout=deadline())
    tap.ok(done.returncode == 0, "promtool: so is the example of a configuration", done.stdout, done.stderr)
    with loaded_cluster(work, "prometheus", "tcp") as (cluster, port, node_port):
        check_exposition(port, "farcached")
        check_exposition(node_port, "farnode")
        with Prometheus(work.at("prometheus"), {"farcached": port, "farnode": node_port}) as server:
            check_scrape(server)
            firing = check_rules(server)
            tap.is_(firing() & {"FarcachedGone", "FarcachedNodeDown", "FarcachedNotReady", "FarcachedRestarted"}, set(),
                    "all is well: no alert")
            cluster.kill(cluster.nodes[0])
            wanted = {"FarcachedGone", "FarcachedNodeDown", "FarcachedNotReady"}
            tap.ok(wanted <= until(firing, lambda names: wanted <= names), "without the node there are alerts", str(firing()))


if __name__ == "__main__":
    sys.exit("t/clients/run --only prometheus")
