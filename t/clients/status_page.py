#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The status page of both daemons in a browser: without nodes, with two, one dead, all dead, and the daemon gone.

    t/clients/run --only status-page                         # the test; --work FOLDER keeps the screenshots
    t/clients/status_page.py docs/status-page.png [MINUTES]  # the picture of README.md, after ten minutes of light load

The picture needs chromium and pngquant, and $FARCACHED as for a test.
"""
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "lib")]
import dns_server  # noqa: E402
from browser import Browser  # noqa: E402
from cluster import Cluster  # noqa: E402
from daemon import run_binary  # noqa: E402
from farcached import Daemon, tap, until  # noqa: E402
from farnode import Farnode  # noqa: E402
from http_get import get, http_args, http_env, http_port  # noqa: E402

RATIO_AA = 4.5  # WCAG 2.1, 1.4.3: text to background
LOOKS = (("light", {}), ("dark", {"dark": True}), ("phone", {"width": 390, "height": 844, "phone": True}),
         ("phone-dark", {"width": 390, "height": 844, "phone": True, "dark": True}))
PICTURE_BYTES_MAX = 120_000


@contextlib.contextmanager
def loaded(daemon):
    """A client under load."""
    over = threading.Event()

    def load():
        with daemon.client() as c:
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
        yield
    finally:
        over.set()
        thread.join()


@contextlib.contextmanager
def cluster_pages(work, name, channels, **more):
    """Nodes and a farcached in front of them, with --http: (cluster, port of the proxy's pages, port of the last node's)."""
    here, there = work.at(name, "proxy"), work.at(name, "node")
    os.makedirs(here)
    os.makedirs(there)
    with Cluster(channels, proxies=1, local_read=False, options=["slow_log_ms=1000"], proxy_args=http_args(),
                 proxy_env=http_env(here), node_args=[*http_args(), *more.pop("node_args", [])], node_env=http_env(there),
                 **more) as cluster:
        yield cluster, http_port(here), http_port(there)


@contextlib.contextmanager
def loaded_cluster(work, name, channels):
    with cluster_pages(work, name, channels) as all_of, loaded(all_of[0].proxies[0]):
        yield all_of


# -- What holds for every look of the page -----------------------------------------------------------------

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
  for (const e of document.querySelectorAll("h1, h2, h3, p, span, small, dt, dd, th, td, caption, a, button, footer, text")) {
    if (!e.textContent.trim()) continue;
    const style = getComputedStyle(e);
    const [a, b] = [light(parse(e.tagName === "text" ? style.fill : style.color)), light(ground(e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < worst.ratio) Object.assign(worst, { ratio, text: e.textContent.slice(0, 40) });
  }
  return worst;
})()"""
NUMBERS = "[...document.querySelectorAll('dd, td, text')].map((e) => e.textContent)"
# Elements beyond the window or their box.
CUT = """[...document.querySelectorAll("main *, header *")].filter((e) => {
  const box = e.getBoundingClientRect(), way = getComputedStyle(e).display;
  return box.width && (box.right > innerWidth + 1 || box.left < -1 ||
    (way !== "inline" && !(e instanceof SVGElement) && e.tagName !== "PROGRESS" && e.clientWidth &&
     e.scrollWidth > e.clientWidth + 1));
}).map((e) => e.tagName + ": " + e.textContent.slice(0, 40))"""
# Rows of tiles and cards that end before their container.
HOLES = """[...document.querySelectorAll(".tiles, .cards")].flatMap((box) => {
  const ends = {};
  for (const e of box.children) {
    const at = e.getBoundingClientRect();
    if (at.width) ends[at.top] = Math.max(ends[at.top] || 0, at.right);
  }
  return Object.values(ends).filter((end) => end < box.getBoundingClientRect().right - 1);
})"""
PATHS = "[...document.querySelectorAll('#paths th')].map((e) => e.textContent)"
STATE = "document.getElementById('state').textContent"
LINE = "[...document.querySelectorAll('#c-requests .stroke')].reduce((n, e) => n + e.getAttribute('d').split('L').length, 0)"


def check_look(page, name, dark, state="ready"):
    tap.ok(page.until("document.body.dataset.looks > 2"), "%s: it fetches numbers again and again" % name)
    texts = page.value(NUMBERS)
    tap.ok(len(texts) > 25 and not any(re.search(r"NaN|undefined|Infinity|null|object", text) for text in texts),
           "%s: all cells hold numbers or words" % name, ascii(texts))
    tap.ok(page.until("%s.startsWith(%s)" % (STATE, json.dumps(state))), "%s: it shows the state" % name, page.value(STATE))
    worst = page.value(CONTRAST)
    tap.ok(worst["ratio"] >= RATIO_AA, "%s: text contrasts with its background" % name, str(worst))
    ground = page.value("getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).map(Number)")
    tap.ok((sum(ground) < 200) == dark, "%s: %s" % (name, "dark" if dark else "light"), str(ground))
    tap.is_(page.value(CUT), [], "%s: nothing is cut off" % name)
    tap.is_(page.value(HOLES), [], "%s: tiles and cards leave no holes" % name)
    tap.is_(page.complaints(), [], "%s: no errors, and nothing against the page's policy" % name)
    origin = re.match(r"http://[^/]+/", page.url).group(0)
    tap.is_([url for url in page.requested() if not url.startswith((origin, "data:"))], [], "%s: all requests go there" % name)


def check_looks(browser, work, url, name, state="ready"):
    pages = [(look, browser.page(url, **settings)) for look, settings in LOOKS]
    for look, page in pages:
        check_look(page, "%s, %s" % (name, look), "dark" in look, state)
        page.screenshot(work.at("status-page", "%s-%s.png" % (name, look)))
    return page


def check_identity(page, status, name):
    words = [status["program"], "%s:%d" % (status["host"], status["port"]), str(status["pid"])]
    head = page.value("document.querySelector('header').textContent")
    title = page.value("document.title")
    tap.ok(all(word in head and word in title for word in words), "%s: head and title name host, port and pid" % name,
           ascii(head), ascii(title))


def check_charts(browser, url, port, charts, name):
    """A new page shows what the daemon has kept."""
    until(lambda: json.loads(get(port, "/history.json")[2])["requests_per_s"], lambda points: len(points) >= 5)
    page = browser.page(url)
    page.until("document.body.dataset.looks > 0")
    tap.ok(page.value(LINE) >= 5, "%s: the chart begins with the daemon's history" % name, page.value(LINE))
    axis = page.value("[...document.querySelectorAll('#c-requests text')].map((e) => e.textContent)")
    tap.ok("0/s" in axis and "−10 min" in axis and "now" in axis, "%s: its axes have units" % name, ascii(axis))
    tap.is_(page.value("[...document.querySelectorAll('.charts > div')].filter((e) => !e.hidden)"
                       ".map((e) => e.firstChild.textContent)"), charts, "%s: the other charts" % name)


# -- Keyboard and accessibility ----------------------------------------------------------------------------

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
    for _ in range(5):
        page.press("Tab", "Tab")
        visited.append(focused())
    tap.ok({"/status.json", "/history.json", "/metrics", "/readyz"} <= set(visited), "links are reached", str(visited))
    tap.is_(page.value("document.body.dataset.looks"), looks, "paused, it fetches nothing")
    page.value("document.getElementById('pause').focus()")
    page.press(" ", "Space")
    tap.ok(page.until("document.body.dataset.looks > %s" % looks), "and the space bar resumes it")


def check_names(page):
    """The browser builds its tree behind the page, so parts of it may be missing for a moment."""
    roles = (("button", 1), ("table", 4), ("region", 5), ("progressbar", 5), ("image", 4), ("heading", 6))

    def names_of(told, role):
        return [name for kind, name in told if kind == role]

    def is_whole(told):
        return all(len(names_of(told, role)) >= least and all(names_of(told, role)) for role, least in roles)

    told = until(page.accessible, is_whole)
    for role, least in roles:
        names = names_of(told, role)
        tap.ok(len(names) >= least and all(names), "accessible: every %s has a name" % role, str(names))
    tap.is_(len(names_of(told, "main")), 1, "accessible: one main part")


# -- The scenes ---------------------------------------------------------------------------------------------

def embedded_page(work, browser):
    here = work.at("status-page", "embedded")
    os.makedirs(here)
    with Daemon("-m", "16", *http_args(), env=http_env(here)) as d:
        port = http_port(here)
        url = "http://127.0.0.1:%d/" % port
        with loaded(d):
            page = check_looks(browser, work, url, "embedded")
            tap.is_(page.value(PATHS), ["GET", "SET"], "embedded: no rows of paths that need nodes")
            tap.ok(page.value("Number(document.querySelector('dd').firstChild.textContent.replace(/[^0-9.]/g, ''))") > 0,
                   "embedded: requests are seen")
            tap.is_(page.value("[...document.querySelectorAll('#tiles dt')].map((e) => e.textContent)"),
                    ["Requests/s", "Hit ratio", "p99", "Memory", "Evictions/s"], "embedded: what matters first")
            check_identity(page, json.loads(get(port, "/status.json")[2]), "embedded")
            check_charts(browser, url, port, ["Hit ratio", "99th percentile of latency"], "embedded")
            page = browser.page(url)
            page.until("document.body.dataset.looks > 2")
        d.expect_exit = -signal.SIGKILL
        d.stop(signal.SIGKILL)
        check_gone(page, work)


def check_gone(page, work):
    tap.ok(page.until(STATE + ".startsWith('no answer since ')"), "gone: the page shows since when")
    tap.like(page.value(STATE), r"^no answer since \d\d:\d\d:\d\d$", "gone: by the clock")
    tap.like(page.value("document.title"), r"^no answer since .* - farcached ", "gone: in the title, too")
    soft = page.value("getComputedStyle(document.querySelector('caption')).color")
    colors = set(page.value("[...document.querySelectorAll('dd, td')].map((e) => getComputedStyle(e).color)"))
    tap.is_(colors, {soft}, "gone: the numbers are grey")
    worst = page.value(CONTRAST)
    tap.ok(worst["ratio"] >= RATIO_AA, "gone: and can be read", str(worst))
    page.screenshot(work.at("status-page", "gone.png"))


def check_nodes(page, port):
    status = json.loads(get(port, "/status.json")[2])
    rows = page.value("[...document.querySelectorAll('#nodes tr')].map((row) => Object.fromEntries([...row.cells].slice(1)"
                      ".map((cell) => [cell.dataset.label, cell.textContent])))")
    tap.is_([sorted(row) for row in rows],
            2 * [sorted(["State", "Requests/s", "Hits", "One-sided", "Memory", "Items", "Evictions/s", "Leased", "Up"])],
            "two nodes: a row of each")
    tap.ok(all(re.match(r"^[\d.]+( k)?$", row["Requests/s"]) and re.match(r"^[\d.]+ %$", row["Hits"]) and
               re.match(r"^\d+ s$", row["Up"]) for row in rows), "with its rate, hits and uptime", ascii(rows))
    tap.is_([node["ways"] for node in status["nodes"]], ["one_sided, two_sided", "two_sided"], "and the ways of its GETs")


def nodes_page(work, browser):
    with cluster_pages(work, "status-page", "shm tcp") as (cluster, port, node_port):
        url = "http://127.0.0.1:%d/" % port
        proxy = cluster.proxies[0]
        with loaded(proxy):
            page = check_looks(browser, work, url, "two nodes")
            tap.is_(page.value(PATHS), ["GET one-sided", "GET two-sided", "SET"], "two nodes: the paths that these can have")
            check_identity(page, json.loads(get(port, "/status.json")[2]), "two nodes")
            check_nodes(page, port)
            check_charts(browser, url, port, ["Hit ratio", "GETs one-sided", "99th percentile of latency"], "two nodes")
            page = browser.page(url)
            page.until("document.body.dataset.looks > 1")
            check_names(page)
            check_keyboard(page)
            check_looks(browser, work, "http://127.0.0.1:%d/" % node_port, "farnode")
            cluster.kill(cluster.nodes[1])
            check_one_dead(browser, work, url, cluster.nodes[1].name)
            cluster.kill(cluster.nodes[0])
            check_looks(browser, work, url, "all dead", "down: no node is available")


def check_one_dead(browser, work, url, name):
    page = browser.page(url)
    tap.ok(page.until("/%% of requests unanswered/.test(%s)" % STATE), "one dead: the share of unanswered requests")
    tap.like(page.value(STATE), r"^degraded: node %s is down .*; [\d.]+ %% of requests unanswered$" % name, "and which node")
    tap.ok(page.until("[...document.querySelectorAll('#nodes .bad')].some((e) => e.textContent === 'down')"),
           "one dead: in its row, too")
    check_looks(browser, work, url, "one dead", "degraded")


def farnode_page(work, browser):
    """A node's own page; it knows no latencies, and GETs only if it was asked for them or told of them."""
    with cluster_pages(work, "status-page/farnode", "tcp") as (cluster, _, port), loaded(cluster.proxies[0]):
        url = "http://127.0.0.1:%d/" % port
        page = browser.page(url)
        page.until("document.body.dataset.looks > 2")
        tap.is_(page.value(PATHS), ["GET one-sided", "GET two-sided", "SET"], "farnode: its paths")
        tap.is_(page.value("document.querySelectorAll('#paths-head th').length"), 3, "farnode: without latencies")
        check_identity(page, json.loads(get(port, "/status.json")[2]), "farnode")
        tap.ok(cluster.nodes[0].name in page.value("document.title"), "farnode: and its name")
        check_charts(browser, url, port, ["Hit ratio", "GETs one-sided"], "farnode")


def membership_page(work, browser):
    """A node whose etcd does not answer, and a farcached whose DNS server is gone."""
    here, there = work.at("status-page", "found"), work.at("status-page", "member")
    os.makedirs(here)
    os.makedirs(there)
    silent = Farnode("--tcp", "127.0.0.1:0", "-m", "16", "--name", "a", "--discover", "etcd://127.0.0.1:1/far", *http_args(),
                     env=http_env(there))
    with silent as node, dns_server.DnsServer() as dns:
        page = browser.page("http://127.0.0.1:%d/" % http_port(there))
        tap.ok(page.until(STATE + " === 'degraded: etcd does not answer, memory is not read one-sided'"),
               "a node whose etcd is silent", page.value(STATE))
        dns.serve(addresses={"nodes.test": ["127.0.0.1"]})
        source = "dns+nodes.test:%d" % node.port
        with Daemon("--discover", source, "-o", "discover_dns_server=" + dns.address(), *http_args(), env=http_env(here)):
            page = browser.page("http://127.0.0.1:%d/" % http_port(here))
            tap.ok(page.until(STATE + " === 'ready'"), "found by DNS", page.value(STATE))
            dns.stop()
            tap.ok(page.until(STATE + ".includes('discovery')"), "the DNS server ends", page.value(STATE))
            tap.like(page.value(STATE), r"^degraded: discovery is down, no list of nodes from %s for \d+ s \(.+\), "
                     r"the last list stays in use$" % re.escape(source), "the page has the reason")


def status_page(work):
    os.makedirs(work.at("status-page"))
    with Browser(work.at("status-page")) as browser:
        embedded_page(work, browser)
        nodes_page(work, browser)
        farnode_page(work, browser)
        if dns_server.program() is None or any(b"without " + name in run_binary("--version-full")[1]
                                               for name in (b"c-ares", b"libcurl")):
            tap.skip("pages of discovery", "dnsmasq is not installed, or the program does not know DNS or etcd")
        else:
            membership_page(work, browser)


# -- The picture of README.md --------------------------------------------------------------------------------

class Folder:
    def __init__(self, folder):
        self.folder = folder

    def at(self, *names):
        return os.path.join(self.folder, *names)


def light_load(daemon, seconds):
    """Gets of popular keys in pipelines, about two thousand a second, and stores of what was missed."""
    end = time.monotonic() + seconds
    chance = random.Random(7)
    with daemon.client() as c:
        while time.monotonic() < end:
            begun = time.monotonic()
            keys = ["user:%d" % min(int(chance.paretovariate(0.35)), 9000) for _ in range(20)]
            c.send("".join("mg %s k v q\r\n" % key for key in keys).encode() + b"mn\r\n")
            found = set()
            while (words := c.line().split()) != [b"MN"]:
                c.read(int(words[1]) + 2)
                found.add(words[2][1:].decode())
            for key in sorted(set(keys) - found):
                c.set(key, "v" * chance.randrange(2000, 8000))
            c.set(chance.choice(keys), "w" * 3000)
            wave = 0.010 + 0.004 * abs(1 - (begun % 300) / 150)
            time.sleep(max(0, wave * chance.uniform(0.8, 1.2) - (time.monotonic() - begun)))


def take_picture(path, minutes):
    with tempfile.TemporaryDirectory(prefix="farcached-picture-") as folder:
        work = Folder(folder)
        with cluster_pages(work, "picture", "shm shm", node_args=["-m", "32"]) as (cluster, port, _), Browser(folder) as browser:
            loading = threading.Thread(target=light_load, args=(cluster.proxies[0], minutes * 60))
            loading.start()
            loading.join(minutes * 60 - 15)
            page = browser.page("http://127.0.0.1:%d/" % port)
            page.until("document.body.dataset.looks > 6")
            page.screenshot(path)
            loading.join()
    subprocess.run(["pngquant", "--force", "--strip", "--speed", "1", "--output", path, "48", path], check=True)
    size = os.path.getsize(path)
    print("%s: %d bytes" % (path, size))
    return size <= PICTURE_BYTES_MAX


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    done = take_picture(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 10.2)
    tap.finished = True
    sys.exit(0 if done else 1)
