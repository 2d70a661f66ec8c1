#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Draws the results of farbench reports in the form of Figure 10 of the C-Hint paper.

    bench/reports/reports_chart.py FOLDER     (that of --csv: reads points.csv, writes figure-10.svg)

The chart shows the time of a report to a node by WRITE and by SEND, by the length of the report: means over trials with sample
standard deviations.
"""
import os
import sys

sys.dont_write_bytecode = True  # leaves an installed folder unchanged
# chart is in the parent folder, or beside this file if installed.
sys.path.append(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
import chart  # noqa: E402

COLORS = {"tcp": "gray", "shm-send": "pale_blue", "shm-write": "pale_green", "verbs-send": "blue", "verbs-write": "green"}
PANELS = [("mean_us", "from report to reply, less the node's own time, us"), ("node_cpu_us", "node CPU per report, us")]


def line_of(rows, way, metric):
    points = sorted((int(row["bytes"]), float(row[metric]), float(row[metric + "_sd"] or 0))
                    for row in rows if row["way"] == way and row[metric])
    return chart.Line(way, points, COLORS[way])


def axis_of_bytes(numbers):
    ticks = sorted(set(numbers))
    return chart.Axis("length of a report, bytes", 0, ticks[-1], ticks=ticks)


def draw(rows, folder):
    ways = list(dict.fromkeys(row["way"] for row in rows))
    panels = [chart.Panel("", [line_of(rows, way, metric) for way in ways], axis_of_bytes, words) for metric, words in PANELS]
    chart.figure(os.path.join(folder, "figure-10.svg"), "Reports of accesses",
                 "to be compared with Figure 10 of C-Hint (Wang et al.)", panels, columns=2)


sys.exit(chart.main(__doc__, draw))
