#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Draws the results of farbench transport in the form of Figures 2, 3 and 4 of the paper.

    bench/transport/transport_chart.py FOLDER     (that of --csv: reads points.csv, writes figure-2.svg, -3.svg and -4.svg)

The charts compare the transports, the cost of an atomic behind each READ, and the node's CPU time: means over trials with sample
standard deviations.

Without matplotlib (python3-matplotlib) it prints a message and draws nothing.
"""
import os
import sys

sys.dont_write_bytecode = True  # leaves an installed folder unchanged
# points_chart is in the parent folder, or beside this file if installed.
sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import points_chart  # noqa: E402

STYLES = {"tcp": ("#888888", "s"), "twosided": ("#1f77b4", "^"), "onesided": ("#2ca02c", "o"), "index": ("#9467bd", "D"),
          "onesided+atomic": ("#d62728", "v")}
WORDS = {"ops_per_s": "thousand operations/s", "mean_us": "mean latency, us", "p99_us": "99th percentile, us",
         "node_cpu_us_per_op": "node CPU per operation, us"}
FIGURES = [  # file, title, transports, drawn metric
    ("figure-2.svg", "Transports", ["tcp", "twosided", "onesided", "index"], ["ops_per_s", "p99_us"]),
    ("figure-3.svg", "A metadata atomic behind each READ", ["onesided", "onesided+atomic"], ["ops_per_s", "mean_us", "p99_us"]),
    ("figure-4.svg", "CPU time of the node", list(STYLES), ["node_cpu_us_per_op"]),
]


def number(text):
    return float(text) if text else None


def series(rows, transport, mix, name):
    """(clients, means, deviations) of the known points."""
    scale = 1e-3 if name == "ops_per_s" else 1.0
    found = sorted((int(row["clients"]), scale * number(row[name]), scale * (number(row[name + "_sd"]) or 0.0))
                   for row in rows if (row["transport"], row["mix"]) == (transport, mix) and row[name])
    return [list(column) for column in zip(*found)] or [[], [], []]


def draw_panel(panel, rows, transports, name, mixes):
    ticks = set()
    for mix in mixes:
        for transport in transports:
            clients, means, deviations = series(rows, transport, mix, name)
            if not clients:
                continue
            ticks.update(clients)
            color, marker = STYLES[transport]
            panel.errorbar(clients, means, yerr=deviations, color=color, marker=marker, capsize=3,
                           linestyle="-" if mix == "get" else "--", label="%s, %s" % (transport, mix))
    panel.set_xlabel("clients")
    panel.set_ylabel(WORDS[name])
    panel.set_xscale("log", base=2)
    panel.set_xticks(sorted(ticks), [str(n) for n in sorted(ticks)])
    panel.set_ylim(bottom=0)
    panel.grid(True, color="#dddddd")


def draw(plt, rows, folder):
    mixes = [mix for mix in ("get", "95:5") if any(row["mix"] == mix for row in rows)]
    for name, title, transports, metrics in FIGURES:
        if not any(row["transport"] in transports for row in rows):
            continue
        figure, panels = plt.subplots(1, len(metrics), figsize=(5 * len(metrics), 4), squeeze=False)
        for panel, metric in zip(panels[0], metrics):
            draw_panel(panel, rows, transports, metric, mixes)
        panels[0][0].legend(fontsize=8)
        figure.suptitle(title)
        figure.tight_layout()
        figure.savefig(os.path.join(folder, name))
        plt.close(figure)


sys.exit(points_chart.main(__doc__, draw))
