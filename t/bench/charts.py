# SPDX-License-Identifier: BSD-3-Clause
"""farbench's charts: drawn by Python's standard library alone, with axes, units and the paper's name, legible in light and dark."""
import ast
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BENCH = os.path.join(TOP, "bench")
sys.path.insert(0, os.path.join(TOP, "t", "lib"))
sys.path.insert(1, BENCH)
from farcached import tap  # noqa: E402
import chart  # noqa: E402

POINTS = {
    "transport": "transport,mix,clients,ops_per_s,ops_per_s_sd,mean_us,mean_us_sd,p99_us,p99_us_sd,node_cpu_us_per_op,"
                 "node_cpu_us_per_op_sd\n" + "".join("%s,%s,%d,%d,,%d,1.5,40,,3,\n" % (transport, mix, n, 20000 * n, 8 + n)
                                                     for transport in ("tcp", "twosided", "onesided", "onesided+atomic")
                                                     for mix in ("get", "95:5") for n in (1, 2, 8)),
    "rpc": "figure,rpc,get_percent,value_bytes,clients,model_mops,paper_mops,paper_round_trips,paper_mean_us,ops_per_s,"
           "ops_per_s_sd,mean_us,operations_in_per_op,operations_out_per_op\n" + "".join(
               "%d,%s,%d,%s,%d,2.11,%s,2.0,%s,3000,100,300,1,%s\n" % (
                   figure, rpc, gets, size, n, "2.1" if n == 2 else "", "12" if n == 2 else "", "" if rpc == "send" else "1")
               for figure, gets, size, n in ((4, 95, "32", 1), (4, 95, "32", 2), (6, 95, "32", 2), (6, 50, "32", 2),
                                             (7, 95, "32", 2), (7, 95, "1024", 2), (10, 50, "trace", 2))
               for rpc in ("send", "rfp")),
    "reports": "way,bytes,trials,mean_us,mean_us_sd,node_cpu_us,node_cpu_us_sd\n" + "".join(
        "%s,%d,3,%d,0.5,,\n" % (way, size, size / 100) for way in ("tcp", "verbs-send", "verbs-write") for size in (1024, 8192)),
    "capacity": "device,rpc,nodes,workers,pages,proxies,queue_pairs,mops,mops_low,mops_high,limit\n" + "".join(
        "/etc/mine.toml,%s,20,4,4k,%d,%d,%d,%d,%d,CPU\n" % (rpc, n, 4 * n, n, n / 2, 2 * n) for rpc in ("send", "rfp")
        for n in (1, 50, 100)),
    "buffer": "figure,operation,place,transport,how,calls,paper_min_us,paper_median_us,paper_max_us\n" + "".join(
        '%d,%s,"%s",%s,%s,40,%s\n' % row for row in (
            (11, "FReadF", "local", "", "get", "21,22,47"), (11, "FReadF", "remote", "shm", "get", "459,668,922"),
            (12, "FPrintF", "local", "", "put and flush", "70,106,198"),
            (12, "FPrintF", "remote", "tcp", "set", "27192,38531,55404"),
            (14, "fix", "home, new", "shm", "", ",,"), (14, "fix", "remote, new", "tcp", "", ",,"))),
    "hitratio": "workload,cache_ratio,policy,total_hit_ratio,bound_hit_ratio,pointer_hit_ratio\n" + "".join(
        "%s,%g,%s,%g,0.9,0\n" % (workload, ratio, policy, ratio) for workload in ("scan", "zipf-95:5", "one-hit", "shifting")
        for ratio in (0.0125, 0.625) for policy in ("lru", "pdla_paper")),
}
LATENCIES = "workload,cache_ratio,policy,report_interval_s,kind,from_us,to_us,count,share\n" + "".join(
    "zipf-95:5,0.25,%s,%d,%s,%g,%g,5,0.5\n" % (policy, seconds, kind, low, 1.25 * low)
    for policy, seconds in (("pdla_paper", 10), ("mq", 10), ("fixed_lease_32", 10), ("pdla_paper", 1), ("pdla_paper", 60))
    for kind in ("hit", "set") for low in (14, 300))
CALLS = "figure,operation,place,transport,how,call,us\n" + "".join(
    ",".join(row.split(",")[:-4]) + ",%d,%g\n" % (call, 0.4 * call)
    for row in POINTS["buffer"].split("\n")[1:-1] for call in range(1, 41))
PATHS = "policy,report_interval_s,op,path,from_us,to_us,count,share\npdla_paper,10,get,one_sided,8,16,4,0.5\n"


def scripts():
    """Every Python file below bench/."""
    for folder, _, names in os.walk(BENCH):
        for name in sorted(names):
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                first = file.readline()
            if name.endswith(".py") or first.startswith(b"#!") and b"python3" in first:
                yield path


def check_imports():
    paths = list(scripts())
    library = os.path.join(os.path.dirname(BENCH), "t", "lib")
    own = {os.path.splitext(os.path.basename(path))[0] for path in (*paths, *os.listdir(library))}
    foreign = set()
    for path in paths:
        with open(path) as file:
            for node in ast.walk(ast.parse(file.read())):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else \
                    [node.module] if isinstance(node, ast.ImportFrom) else []
                foreign |= {"%s: %s" % (path, name) for name in names
                            if name.split(".")[0] not in sys.stdlib_module_names and name not in own}
    tap.ok(len(paths) > 15, "the scripts of bench/", *paths)
    tap.is_(sorted(foreign), [], "import the standard library and the project's modules alone")


def luminance(color):
    parts = [int(color[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def check_colors():
    for theme, name in ((chart.LIGHT, "light"), (chart.DARK, "dark")):
        weak = [color for color, value in chart.COLORS.items() if contrast(value, theme["paper"]) < 3]
        tap.is_(weak, [], "each colour has a contrast of three on the %s background" % name)
        tap.ok(min(contrast(theme[words], theme["paper"]) for words in ("ink", "faint")) >= 4.5, "and words one of 4.5")


def check_axis():
    ticks = chart.Axis("", 0, 0.97).ticks
    tap.is_(["%g" % tick for tick in ticks], ["0", "0.2", "0.4", "0.6", "0.8"], "round ticks up to the end")
    tap.is_(chart.Axis("", 3, 2000, log=True).ticks, [10, 100, 1000], "powers of ten on a logarithmic axis")
    tap.is_([round(chart.Axis("", 1, 8, log=True, ticks=[]).at(n), 6) for n in (1, 2, 8)], [0, 0.333333, 1], "and even octaves")
    panel = chart.Panel("", [chart.Line("", [(1, 0.5), (2, 300)], "blue", band=[(1, 0.2, 4)])], lambda _: None, "us", log=True)
    tap.is_(panel.y.ticks, [1, 10, 100], "a logarithmic y axis")
    tap.ok(0 < panel.y.at(0.2) < 0.1 and 0.9 < panel.y.at(300) < 1, "  holds all points and bands")
    tap.is_(chart.Axis("", 5, 5).at(5), 0, "an axis of one number")


def started(*words):
    return subprocess.run([sys.executable, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)


def drawn(command, folder, script=None, points="points", **more):
    for name, text in {points: POINTS[script or command], **more}.items():
        with open(os.path.join(folder, name + ".csv"), "w") as file:
            file.write(text)
    script = os.path.join(BENCH, command, (script or command) + "_chart.py")
    done = started("-I", script, folder)
    tap.is_((done.returncode, done.stdout, done.stderr), (0, "", ""), "%s draws without a word" % os.path.basename(script))
    figures = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".svg"):
            figures[name[:-4]] = xml.etree.ElementTree.parse(os.path.join(folder, name)).getroot()
    return figures


def words_of(figure):
    return [element.text or "" for element in figure.iter() if element.tag.endswith("}text")]


def check_figures(figures, numbers, paper, *wanted, name="figure-%d"):
    tap.is_(sorted(figures), sorted(name % number for number in numbers), "figures %s" % (numbers,))
    for number in numbers:
        words = words_of(figures[name % number])
        tap.ok(any("Figure %d of %s" % (number, paper) in one for one in words), "figure %d names its paper" % number, *words)
    words = [one for figure in figures.values() for one in words_of(figure)]
    tap.is_([one for one in wanted if one not in words], [], "  axes with units, and lines by name")
    named = {name for figure in figures.values() for element in figure.iter() for name in element.get("class", "").split()}
    styled = re.findall(r"\.([fs]-\w+){", next(iter(figures.values()))[0].text)
    tap.is_(sorted(named - set(styled)), [], "  every colour is known")
    inside = all(-1 <= float(number) <= 2000 for figure in figures.values() for line in figure.iter()
                 for number in re.split("[ ,]", line.get("points", "0")))
    tap.ok(inside, "  and all of it lies on the page")


def check_scripts():
    with tempfile.TemporaryDirectory(prefix="farbench-charts-") as folder:
        check_figures(drawn("transport", folder), (2, 3, 4), "McGuinness", "throughput, thousand operations/s", "clients, number",
                      "mean latency, us", "node CPU per operation, us", "onesided+atomic, 95:5", "8")
    with tempfile.TemporaryDirectory(prefix="farbench-charts-") as folder:
        check_figures(drawn("transport", folder, "rpc", "rpc"), (4, 5, 6, 7, 10), "Su et al., RFP", "clients, number", "GETs, %",
                      "length of values, bytes", "a NIC, million operations/s", "send, model", "rfp, RFP", "send, measured",
                      "1024", name="rpc-figure-%d")
    with tempfile.TemporaryDirectory(prefix="farbench-charts-") as folder:
        check_figures(drawn("reports", folder), (10,), "C-Hint", "length of a report, bytes", "node CPU per report, us",
                      "verbs-write", "8192")
    with tempfile.TemporaryDirectory(prefix="farbench-charts-") as folder:
        check_figures(drawn("buffer", folder, calls=CALLS), (11, 12, 14), "One Buffer Manager", "call, number", "us", "fix",
                      "local, put and flush", "remote, set, tcp", "remote, the paper", "remote node over shm", "10000", "10",
                      name="buffer-figure-%d")
    with tempfile.TemporaryDirectory(prefix="farbench-charts-") as folder:
        check_figures(drawn("hitratio", folder), (5, 6), "C-Hint", "cache, 80ths of the data", "share of GETs", "pdla_paper",
                      "bound", "shifting")
    with tempfile.TemporaryDirectory(prefix="farbench-charts-") as folder:
        check_figures(drawn("hitratio", folder, latency=LATENCIES, paths=PATHS), (7, 8, 9), "C-Hint", "latency, us", "every 60 s",
                      "% of GETs in an octave", "pdla_paper, one_sided", "fixed_lease_32", "100")


def check_bands():
    with tempfile.TemporaryDirectory(prefix="farbench-charts-") as folder:
        figure = drawn("capacity", folder)["throughput"]
        words = words_of(figure)
        wanted = ("send", "rfp", "proxies, number", "limit of the fleet, million requests/s", "100")
        tap.is_([one for one in wanted if one not in words], [], "lines by name, axes with units")
        tap.ok(any("device mine.toml" in one for one in words), "the device", *words)
        tap.is_(sum(element.tag.endswith("}polygon") for element in figure.iter()), 2, "a band for each line")


def check_misuse():
    script = os.path.join(BENCH, "transport", "transport_chart.py")
    for words, status in ((["--help"], 0), ([], 64), (["/nonexistent"], 1)):
        done = started(script, *words)
        tap.is_(done.returncode, status, "a chart script with %s" % (words or "no folder"))
        tap.ok("FOLDER" in done.stdout + done.stderr or "No such file" in done.stderr, "prints its use, or the cause")


check_imports()
check_colors()
check_axis()
check_scripts()
check_bands()
check_misuse()
tap.done()
