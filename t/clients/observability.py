# SPDX-License-Identifier: BSD-3-Clause
"""HTTP users of a farcached: Debian's promtool and Prometheus with contrib's rules and dashboard, and a browser."""
import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import threading
import urllib.parse

from browser import Browser
from cluster import Cluster
from expressions import contrib_expressions
from farcached import deadline, tap, until
from http_get import get, http_args, http_env, http_port

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OPEN = "application/openmetrics-text;version=1.0.0"
RATIO_AA = 4.5  # WCAG 2.1, 1.4.3: text to background


@contextlib.contextmanager
def loaded_cluster(work, name, channels):
    """Nodes, a farcached in front of them with --http, and a client under load: (cluster, port of the proxy, port of a node)."""
    here, there = work.at(name, "proxy"), work.at(name, "node")
    os.makedirs(here)
    os.makedirs(there)
    with Cluster(channels, proxies=1, local_read=False, options=["slow_log_ms=1000"], proxy_args=http_args(),
                 proxy_env=http_env(here), node_args=http_args(), node_env=http_env(there)) as cluster:
        over = threading.Event()

        def load():
            with cluster.proxies[0].client() as c:
                number = 0
                while not over.is_set():
                    number += 1
                    c.set("key%d" % (number % 500), "v" * 300)
                    for i in range(5):
                        c.get("key%d" % (number * i % 50))
                    c.get("missing")

        thread = threading.Thread(target=load)
        thread.start()
        try:
            yield cluster, http_port(here), http_port(there)
        finally:
            over.set()
            thread.join()


# -- Prometheus -----------------------------------------------------------------------------------------

def check_exposition(port, what):
    text = get(port, "/metrics")[2]
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=deadline())
    tap.ok(done.returncode == 0 and not done.stdout and not done.stderr, "promtool has nothing to say of %s's metrics" % what,
           done.stdout, done.stderr)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


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
        self.port = free_port()

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
            tap.is_(firing() & {"FarcachedGone", "FarcachedNodeDown", "FarcachedNotReady"}, set(), "all is well: no alert")
            cluster.kill(cluster.nodes[0])
            wanted = {"FarcachedGone", "FarcachedNodeDown", "FarcachedNotReady"}
            tap.ok(wanted <= until(firing, lambda names: wanted <= names), "without the node there are alerts", str(firing()))


# -- The status page ------------------------------------------------------------------------------------

CONTRAST = """(() => {
  const parse = (text) => text.match(/[0-9.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255).map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const color = parse(getComputedStyle(e).backgroundColor);
      if (color.length < 4 || color[3] > 0) return color;
    }
    return [255, 255, 255];
  };
  const worst = { ratio: 99 };
  for (const e of document.querySelectorAll("h1, h2, span, dt, dd, th, td, caption, a, button, footer")) {
    if (!e.textContent.trim()) continue;
    const [a, b] = [light(parse(getComputedStyle(e).color)), light(ground(e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < worst.ratio) Object.assign(worst, { ratio, text: e.textContent.slice(0, 40) });
  }
  return worst;
})()"""
NUMBERS = "[...document.querySelectorAll('dd, td')].map((e) => e.textContent)"


def check_look(page, name, dark):
    """Checks that apply to all viewports of the page."""
    tap.ok(page.until("document.body.dataset.looks > 2"), "%s: it fetches numbers again and again" % name)
    texts = page.value(NUMBERS)
    tap.ok(len(texts) > 30 and not any(re.search(r"NaN|undefined|Infinity|null", text) for text in texts),
           "%s: all cells hold numbers or words" % name, str(texts))
    tap.is_(page.value("document.getElementById('state').textContent"), "ready", "%s: it shows the state" % name)
    tap.ok(page.value("Number(document.querySelector('dd').textContent.replace(/[^0-9.]/g, ''))") > 0,
           "%s: requests are seen" % name)
    worst = page.value(CONTRAST)
    tap.ok(worst["ratio"] >= RATIO_AA, "%s: text contrasts with its background" % name, str(worst))
    ground = page.value("getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).map(Number)")
    tap.ok((sum(ground) < 200) == dark, "%s: %s" % (name, "dark" if dark else "light"), str(ground))
    tap.ok(page.value("document.documentElement.scrollWidth <= window.innerWidth"), "%s: nothing is cut off at the side" % name)
    tap.is_(page.complaints(), [], "%s: no errors, and nothing against the page's policy" % name)
    origin = re.match(r"http://[^/]+/", page.url).group(0)
    tap.is_([url for url in page.requested() if not url.startswith((origin, "data:"))], [], "%s: all requests go there" % name)


def check_keyboard(page):
    focused = lambda: page.value("document.activeElement.id || document.activeElement.className "  # noqa: E731
                                 "|| document.activeElement.getAttribute('href') || document.activeElement.tagName")
    page.press("Tab", "Tab")
    tap.is_(focused(), "skip", "keyboard: the first stop is the link past the header")
    page.press("Tab", "Tab")
    tap.is_(focused(), "pause", "then the button")
    page.press("Enter", "Enter")
    tap.is_(page.value("document.getElementById('pause').getAttribute('aria-pressed')"), "true", "which works by Enter")
    looks = page.value("document.body.dataset.looks")
    visited = []
    for _ in range(12):
        page.press("Tab", "Tab")
        visited.append(focused())
    tap.ok(visited.count("scroll") >= 4 and "/status.json" in visited, "tables that can be scrolled, and links, are reached",
           str(visited))
    tap.is_(page.value("document.body.dataset.looks"), looks, "paused, it fetches nothing")
    page.value("document.getElementById('pause').focus()")
    page.press(" ", "Space")
    tap.ok(page.until("document.body.dataset.looks > %s" % looks), "and the space bar resumes it")


def check_names(page):
    told = page.accessible()
    for role, least in (("button", 1), ("table", 4), ("region", 4), ("progressbar", 2), ("image", 1), ("heading", 6), ("main", 0)):
        names = [name for kind, name in told if kind == role]
        if role == "main":
            tap.is_(len(names), 1, "accessible: one main part")
            continue
        tap.ok(len(names) >= least and all(names), "accessible: every %s has a name" % role, str(names))


def status_page(work):
    with loaded_cluster(work, "status-page", "shm tcp") as (cluster, port, _), Browser(work.at("status-page")) as browser:
        url = "http://127.0.0.1:%d/" % port
        for name, looks in (("light", {}), ("dark", {"dark": True}),
                            ("phone", {"width": 390, "height": 844, "phone": True}),
                            ("phone-dark", {"width": 360, "height": 640, "phone": True, "dark": True})):
            page = browser.page(url, **looks)
            check_look(page, "page, " + name, "dark" in name)
            if "phone" in name:
                tap.ok(page.value("[...document.querySelectorAll('.scroll:has(#latency, #paths)')]"
                                  ".every((e) => e.scrollWidth <= e.clientWidth)"), "page, %s: latencies and ways fit" % name)
            page.screenshot(work.at("status-page", name + ".png"))
            if name == "light":
                check_names(page)
                check_keyboard(page)
        page = browser.page(url)
        page.until("document.body.dataset.looks > 1")
        cluster.kill(cluster.nodes[0])
        tap.ok(page.until("[...document.querySelectorAll('#nodes .bad')].some((e) => e.textContent === 'down')"),
               "page: a node that goes down is seen")
        cluster.kill(cluster.nodes[1])
        tap.ok(page.until("document.getElementById('state').textContent.startsWith('not ready: no node is available')"),
               "page: and the page shows it")
        page.screenshot(work.at("status-page", "not-ready.png"))


if __name__ == "__main__":
    sys.exit("t/clients/run --only prometheus --only status-page")
