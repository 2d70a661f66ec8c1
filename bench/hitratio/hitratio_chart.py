#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Draws the results of farbench hitratio in the form of Figures 5 and 6 of the C-Hint paper.

    bench/hitratio/hitratio_chart.py FOLDER     (that of --csv: reads points.csv, writes figure-5.svg and figure-6.svg)

The charts show the total hit ratio and the hit ratio of remote pointers by the cache's size, with a panel for each workload and a
line for each policy. Dotted lines show perfect knowledge.

With a latency.csv of real processes it draws Figures 7 to 9 instead: latencies of GET hits and of SETs by policy, and by the report
interval. With a paths.csv it draws latencies by the path of the GETs, too.
"""
import os
import sys

sys.dont_write_bytecode = True  # leaves an installed folder unchanged
# chart is in the parent folder, or beside this file if installed.
sys.path.append(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
import chart  # noqa: E402

PAPER = "to be compared with Figure %d of C-Hint (Wang et al.), which is pdla_paper here"
COLORS = {"pdla": "red", "pdla_paper": "pale_red", "s3fifo": "purple", "mq": "green", "lru": "blue", "approx_lru": "cyan",
          "clock": "brown", "original": "gray", "fixed_lease_128": "orange", "fixed_lease_32": "pink", "fixed_lease_8": "olive"}
FIGURES = [(5, "Total hit ratio", "total_hit_ratio"), (6, "GETs answered through remote pointers", "pointer_hit_ratio")]


def unique(rows, name):
    return list(dict.fromkeys(row[name] for row in rows))


def axis_of_sizes(numbers):
    return chart.Axis("cache, 80ths of the data", 0, max(numbers))


def panel_of(rows, metric):
    lines = []
    for policy in unique(rows, "policy"):
        points = sorted((80 * float(row["cache_ratio"]), float(row[metric])) for row in rows if row["policy"] == policy)
        if any(value for _, value in points):
            lines.append(chart.Line(policy, points, COLORS[policy]))
    if metric == "total_hit_ratio":
        bound = sorted({80 * float(row["cache_ratio"]): float(row["bound_hit_ratio"]) for row in rows}.items())
        lines.append(chart.Line("bound", bound, "ink", "2 3", dots=False))
    return chart.Panel(rows[0]["workload"], lines, axis_of_sizes, "share of GETs", high=1)


def draw(rows, folder):
    for number, title, metric in FIGURES:
        panels = [panel_of([row for row in rows if row["workload"] == workload], metric) for workload in unique(rows, "workload")]
        chart.figure(os.path.join(folder, "figure-%d.svg" % number), title, PAPER % number, panels, columns=3)


# -- latencies ----------------------------------------------------------------------------------------

REPORT_SECONDS = "10"
KINDS = {"hit": "GETs that hit", "set": "SETs"}
PATH_DASHES = {"one_sided": "", "two_sided": "6 3", "index": "2 3", "local": "6 3 2 3"}
INTERVAL_COLORS = {"60": "blue", "16": "orange", "4": "green", "1": "red"}
LATENCY_FIGURES = [  # number, title, (policy, report interval) of each line, panels
    (7, "Latency by policy", [(p, REPORT_SECONDS) for p in ("pdla_paper", "pdla", "s3fifo", "approx_lru", "mq")], ["hit", "set"]),
    (8, "Latency by lease", [(p, REPORT_SECONDS) for p in ("pdla_paper", "fixed_lease_128", "fixed_lease_32")], ["hit"]),
    (9, "Latency by report interval", [("pdla_paper", seconds) for seconds in INTERVAL_COLORS], ["hit", "set"]),
]


def label_of(run, number):
    """(label, color) of a line: of its policy, or in Figure 9 of its interval."""
    return ("every %s s" % run[1], INTERVAL_COLORS[run[1]]) if number == 9 else (run[0], COLORS[run[0]])


def axis_of_us(numbers):
    return chart.Axis("latency, us", min(numbers), max(max(numbers), min(numbers) * 2), log=True)


def kind_panel(rows, runs, number, kind):
    lines = []
    for run in runs:
        points = [(float(row["from_us"]), 100 * float(row["share"])) for row in rows
                  if (row["policy"], row["report_interval_s"]) == run and row["kind"] == kind and float(row["from_us"]) > 0]
        lines.append(chart.Line(label_of(run, number)[0], points, label_of(run, number)[1], dots=False, steps=True))
    return chart.Panel(KINDS[kind], lines, axis_of_us, "% of them in an eighth of an octave")


def path_panel(rows, runs, number):
    """Each path's share of GETs as farcached measured it: a line for each run and path."""
    lines = []
    for run in runs:
        label, color = label_of(run, number)
        for path, dashes in PATH_DASHES.items():
            points = sorted((float(row["to_us"]), 100 * float(row["share"])) for row in rows
                            if (row["policy"], row["report_interval_s"]) == run and (row["op"], row["path"]) == ("get", path))
            lines.append(chart.Line("%s, %s" % (label, path), points, color, dashes))
    return chart.Panel("GETs by path, in farcached", lines, axis_of_us, "% of GETs in an octave")


def draw_latencies(rows, paths, folder):
    for number, title, runs, kinds in LATENCY_FIGURES:
        if len({(row["policy"], row["report_interval_s"]) for row in rows} & set(runs)) < 2:
            continue
        panels = [kind_panel(rows, runs, number, kind) for kind in kinds] + ([path_panel(paths, runs, number)] if paths else [])
        chart.figure(os.path.join(folder, "figure-%d.svg" % number), title, PAPER % number, panels, columns=3)


def draw_all(rows, folder):
    latencies, by_path = (os.path.join(folder, name) for name in ("latency.csv", "paths.csv"))
    if not os.path.exists(latencies):
        return draw(rows, folder)
    return draw_latencies(chart.read(latencies), chart.read(by_path) if os.path.exists(by_path) else [], folder)


sys.exit(chart.main(__doc__, draw_all))
