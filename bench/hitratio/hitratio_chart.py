#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Draws the results of farbench hitratio in the form of Figures 5 and 6 of the paper.

    bench/hitratio/hitratio_chart.py FOLDER     (that of --csv: reads points.csv, writes figure-5.svg and figure-6.svg)

The charts show the total hit ratio and the hit ratio of remote pointers by the cache's size, with a panel for each workload and a
line for each policy. Dotted lines show perfect knowledge.

With a latency.csv of real processes it draws Figures 7 to 9 instead: latencies of GET hits and of SETs by policy, and by the report
interval. With a paths.csv it draws latencies by the path of the GETs, too.

Without matplotlib (python3-matplotlib) it prints a message and draws nothing.
"""
import csv
import os
import sys

sys.dont_write_bytecode = True  # leaves an installed folder unchanged
# points_chart is in the parent folder, or beside this file if installed.
sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import points_chart  # noqa: E402

COLORS = {"pdla": "#d62728", "pdla_paper": "#ff9896", "s3fifo": "#9467bd", "mq": "#2ca02c", "lru": "#1f77b4",
          "approx_lru": "#17becf",
          "clock": "#8c564b", "original": "#7f7f7f", "fixed_lease_128": "#ff7f0e", "fixed_lease_32": "#e377c2",
          "fixed_lease_8": "#bcbd22"}
COLUMNS = 3
FIGURES = [("figure-5.svg", "Total hit ratio", "total_hit_ratio"),
           ("figure-6.svg", "GETs answered through remote pointers", "pointer_hit_ratio")]


def unique(rows, name):
    return list(dict.fromkeys(row[name] for row in rows))


def draw_panel(panel, rows, metric):
    for policy in unique(rows, "policy"):
        points = sorted((80 * float(row["cache_ratio"]), float(row[metric])) for row in rows if row["policy"] == policy)
        if any(value for _, value in points):
            panel.plot(*zip(*points), marker="o", markersize=3, color=COLORS.get(policy), label=policy)
    if metric == "total_hit_ratio":
        bound = sorted({80 * float(row["cache_ratio"]): float(row["bound_hit_ratio"]) for row in rows}.items())
        panel.plot(*zip(*bound), color="black", linestyle=":", label="bound")
    panel.set_title(rows[0]["workload"], fontsize=10)
    panel.set_xlabel("cache, 80ths of the data")
    panel.set_ylim(0, 1)
    panel.grid(True, color="#dddddd")


def draw(plt, rows, folder):
    workloads = unique(rows, "workload")
    lines = (len(workloads) + COLUMNS - 1) // COLUMNS
    for name, title, metric in FIGURES:
        figure, panels = plt.subplots(lines, COLUMNS, figsize=(4.5 * COLUMNS, 3.5 * lines), squeeze=False)
        for i, panel in enumerate(panels.flat):
            if i < len(workloads):
                draw_panel(panel, [row for row in rows if row["workload"] == workloads[i]], metric)
            else:
                panel.set_visible(False)
        if panels[0][0].get_legend_handles_labels()[0]:
            panels[0][0].legend(fontsize=7)
        figure.suptitle(title)
        figure.tight_layout()
        figure.savefig(os.path.join(folder, name))
        plt.close(figure)


# -- latencies ----------------------------------------------------------------------------------------

REPORT_SECONDS = "10"
KINDS = {"hit": "GETs that found", "set": "SETs"}
PATH_STYLES = {"one_sided": "-", "two_sided": "--", "index": ":", "local": "-."}
INTERVALS_OF_FIGURE_9 = ("60", "16", "4", "1")
LATENCY_FIGURES = [  # file, title, (policy, report interval) of each line, label of a line, panels
    ("figure-7.svg", "Latency by policy", [(p, REPORT_SECONDS) for p in ("pdla", "s3fifo", "approx_lru", "mq")], 0, ["hit", "set"]),
    ("figure-8.svg", "Latency by lease", [(p, REPORT_SECONDS) for p in ("pdla", "fixed_lease_128", "fixed_lease_32")], 0, ["hit"]),
    ("figure-9.svg", "Latency by report interval", [("pdla", s) for s in INTERVALS_OF_FIGURE_9], 1, ["hit", "set"]),
]


def draw_paths(panel, rows, lines, named_by):
    """Each path's share of GETs as farcached measured it: a line for each policy and path."""
    for number, line in enumerate(lines):
        for path, style in PATH_STYLES.items():
            points = [(float(row["to_us"]), 100 * float(row["share"])) for row in rows
                      if (row["policy"], row["report_interval_s"]) == line and (row["op"], row["path"]) == ("get", path)]
            if points:
                panel.plot(*zip(*sorted(points)), linestyle=style, marker="o", markersize=3,
                           color=COLORS.get(line[0]) if named_by == 0 else "C%d" % number,
                           label="%s, %s" % (line[0] if named_by == 0 else "every %s s" % line[1], path))
    panel.set_xscale("log", base=2)
    panel.set_title("GETs by path, in farcached", fontsize=10)
    panel.set_xlabel("us, at most")
    panel.set_ylabel("% in an octave")
    panel.grid(True, color="#dddddd")
    panel.legend(fontsize=7)


def draw_latencies(plt, rows, paths, folder):
    for name, title, lines, named_by, kinds in LATENCY_FIGURES:
        if len({(row["policy"], row["report_interval_s"]) for row in rows} & set(lines)) < 2:
            continue
        columns = len(kinds) + bool(paths)
        figure, panels = plt.subplots(1, columns, figsize=(7 * columns, 4.5), squeeze=False)
        if paths:
            draw_paths(panels[0][-1], paths, lines, named_by)
        for panel, kind in zip(panels[0], kinds):
            for line in lines:
                points = [(float(row["from_us"]), 100 * float(row["share"])) for row in rows
                          if (row["policy"], row["report_interval_s"]) == line and row["kind"] == kind]
                if points:
                    label = line[0] if named_by == 0 else "every %s s" % line[1]
                    panel.plot(*zip(*points), drawstyle="steps-post", label=label,
                               color=COLORS.get(line[0]) if named_by == 0 else None)
            panel.set_xscale("log")
            panel.set_title(KINDS[kind], fontsize=10)
            panel.set_xlabel("us")
            panel.set_ylabel("% in an eighth of an octave")
            panel.grid(True, color="#dddddd")
            panel.legend(fontsize=8)
        figure.suptitle(title)
        figure.tight_layout()
        figure.savefig(os.path.join(folder, name))
        plt.close(figure)


def read(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def draw_all(plt, rows, folder):
    latencies = os.path.join(folder, "latency.csv")
    if not os.path.exists(latencies):
        return draw(plt, rows, folder)
    by_path = os.path.join(folder, "paths.csv")
    return draw_latencies(plt, read(latencies), read(by_path) if os.path.exists(by_path) else [], folder)


sys.exit(points_chart.main(__doc__, draw_all))
