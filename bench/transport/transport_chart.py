#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Draws the results of farbench transport in the form of Figures 2, 3 and 4 of McGuinness' paper.

    bench/transport/transport_chart.py FOLDER     (that of --csv: reads points.csv, writes figure-2.svg, -3.svg and -4.svg)

The charts compare the transports, the cost of an atomic behind each READ, and the node's CPU time: means over trials with sample
standard deviations.
"""
import os
import sys

sys.dont_write_bytecode = True  # leaves an installed folder unchanged
# chart is in the parent folder, or beside this file if installed.
sys.path.append(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
import chart  # noqa: E402

PAPER = "to be compared with Figure %d of McGuinness, Evaluating RDMA for Distributed Cache Reads and Metadata Updates"
COLORS = {"tcp": "gray", "twosided": "blue", "onesided": "green", "index": "purple", "onesided+atomic": "red"}
WORDS = {"ops_per_s": "throughput, thousand operations/s", "mean_us": "mean latency, us",
         "p99_us": "99th percentile of latency, us", "node_cpu_us_per_op": "node CPU per operation, us"}
FIGURES = [  # number, title, transports, drawn metrics
    (2, "Transports", ["tcp", "twosided", "onesided", "index"], ["ops_per_s", "p99_us"]),
    (3, "A metadata atomic behind each READ", ["onesided", "onesided+atomic"], ["ops_per_s", "mean_us", "p99_us"]),
    (4, "CPU time of the node", list(COLORS), ["node_cpu_us_per_op"]),
]


def line_of(rows, transport, mix, metric):
    """The known means and deviations by clients."""
    scale = 1e-3 if metric == "ops_per_s" else 1.0
    points = sorted((int(row["clients"]), scale * float(row[metric]), scale * float(row[metric + "_sd"] or 0))
                    for row in rows if (row["transport"], row["mix"]) == (transport, mix) and row[metric])
    return chart.Line("%s, %s" % (transport, mix), points, COLORS[transport], "" if mix == "get" else "5 3")


def axis_of_clients(numbers):
    ticks = sorted(set(numbers))
    return chart.Axis("clients, number", ticks[0], ticks[-1], log=True, ticks=ticks)


def draw(rows, folder):
    mixes = [mix for mix in ("get", "95:5") if any(row["mix"] == mix for row in rows)]
    for number, title, transports, metrics in FIGURES:
        panels = [chart.Panel("", [line_of(rows, transport, mix, metric) for mix in mixes for transport in transports],
                              axis_of_clients, WORDS[metric]) for metric in metrics]
        if any(panel.lines for panel in panels):
            chart.figure(os.path.join(folder, "figure-%d.svg" % number), title, PAPER % number, panels, columns=3)


sys.exit(chart.main(__doc__, draw))
