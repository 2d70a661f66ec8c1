#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Draws the results of farbench reports in the form of Figure 10 of the paper.

    bench/reports/reports_chart.py FOLDER     (that of --csv: reads points.csv, writes figure-10.svg)

The chart shows the time of a report to a node by WRITE and by SEND, by the length of the report: means over trials with sample
standard deviations.

Without matplotlib (python3-matplotlib) it prints a message and draws nothing.
"""
import os
import sys

sys.dont_write_bytecode = True  # leaves an installed folder unchanged
# points_chart is in the parent folder, or beside this file if installed.
sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import points_chart  # noqa: E402

STYLES = {"tcp": ("#888888", "s"), "shm-send": ("#aec7e8", "^"), "shm-write": ("#98df8a", "o"), "verbs-send": ("#1f77b4", "^"),
          "verbs-write": ("#2ca02c", "o")}
PANELS = [("mean_us", "from telling to the answer, less the node's own time, us"), ("node_cpu_us", "node CPU per report, us")]


def draw_panel(panel, rows, metric, words):
    for way in dict.fromkeys(row["way"] for row in rows):
        found = sorted((int(row["bytes"]), float(row[metric]), float(row[metric + "_sd"] or 0))
                       for row in rows if row["way"] == way and row[metric])
        if not found:
            continue
        lengths, means, deviations = zip(*found)
        color, marker = STYLES[way]
        panel.errorbar(lengths, means, yerr=deviations, color=color, marker=marker, capsize=3, label=way)
    panel.set_xlabel("bytes of a report")
    panel.set_ylabel(words)
    panel.set_xticks(sorted({int(row["bytes"]) for row in rows}))
    panel.set_ylim(bottom=0)
    panel.grid(True, color="#dddddd")


def draw(plt, rows, folder):
    figure, panels = plt.subplots(1, len(PANELS), figsize=(5 * len(PANELS), 4), squeeze=False)
    for panel, (metric, words) in zip(panels[0], PANELS):
        draw_panel(panel, rows, metric, words)
    panels[0][0].legend(fontsize=8)
    figure.suptitle("Reports of accesses")
    figure.tight_layout()
    figure.savefig(os.path.join(folder, "figure-10.svg"))
    plt.close(figure)


sys.exit(points_chart.main(__doc__, draw))
