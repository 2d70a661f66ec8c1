#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Draws the results of farbench buffer in the form of Figures 11, 12 and 14 of "One Buffer Manager to Rule Them All".

    bench/buffer/buffer_chart.py FOLDER     (that of --csv: reads points.csv and calls.csv, writes buffer-figure-11.svg to -14.svg)

Figures 11 and 12 have the calls in their order, and as dashes the medians of the paper's Table 3. A point is the median of ten
calls; the areas lie between extremes. Figure 14 has each call.
"""
import itertools
import os
import statistics
import sys

sys.dont_write_bytecode = True  # leaves an installed folder unchanged
# chart is in the parent folder, or beside this file if installed.
sys.path.append(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
import chart  # noqa: E402

PAPER = "Figure %d of One Buffer Manager to Rule Them All; %s"
FILES = [(11, "FReadF: a value is read from the file"), (12, "FPrintF: values are written to the file")]
PAGES = (14, "Fix and unfix of all pages, before and after a restart")
COLORS = {"shm": "blue", "tcp": "brown", "verbs": "purple", "shm, new": "cyan", "tcp, new": "olive", "verbs, new": "pink",
          "fix": "blue", "unfix": "orange"}
PAPER_COLORS = {"local": "pale_green", "remote": "red"}
STEP = 10  # calls of a point


def color_of(row):
    if row["transport"]:
        return COLORS[row["transport"] + (", new" if "new link" in row["how"] else "")]
    return "orange" if "flush" in row["how"] else "green"


def line_of_files(row, calls):
    some = [calls[i:i + STEP] for i in range(0, len(calls), STEP)]
    points = [(part[0][0], statistics.median(us for _, us in part)) for part in some]
    band = [(part[0][0], min(us for _, us in part), max(us for _, us in part)) for part in some]
    words = ", ".join(part for part in (row["place"], row["how"], row["transport"]) if part)
    return chart.Line(words, points, color_of(row), dots=False, band=band)


def lines_of_paper(rows, last):
    lines = {}
    for row in rows:
        median, low, high = (float(row["paper_%s_us" % name]) for name in ("median", "min", "max"))
        lines[row["place"]] = chart.Line("%s, the paper" % row["place"], [(1, median), (last, median)],
                                         PAPER_COLORS[row["place"]], "6 4", dots=False, band=[(1, low, high), (last, low, high)])
    return list(lines.values())


def calls_of(calls, *rows):
    """[(number, us)] of these rows, in order."""
    keys = ("figure", "operation", "place", "transport", "how")
    wanted = {tuple(row[key] for key in keys) for row in rows}
    return sorted((int(call["call"]), float(call["us"])) for call in calls if tuple(call[key] for key in keys) in wanted)


def axis(numbers):
    return chart.Axis("call, number", 0, max(numbers))


def draw(rows, folder):
    calls = chart.read(os.path.join(folder, "calls.csv"))
    for figure, title in FILES:
        some = [row for row in rows if int(row["figure"]) == figure]
        if not some:
            continue
        lines = [line_of_files(row, calls_of(calls, row)) for row in some]
        lines += lines_of_paper(some, max(point[0] for line in lines for point in line.points))
        chart.figure(os.path.join(folder, "buffer-figure-%d.svg" % figure), title,
                     PAPER % (figure, "dashes: medians and extremes of its Table 3"),
                     [chart.Panel("", lines, axis, "us", log=True)], columns=1)
    figure, title = PAGES
    some = sorted((row for row in rows if int(row["figure"]) == figure), key=lambda row: row["transport"])
    panels = []
    for transport, of_it in itertools.groupby(some, key=lambda row: row["transport"]):
        of_it = list(of_it)
        lines = [chart.Line(operation, calls_of(calls, *[row for row in of_it if row["operation"] == operation]),
                            COLORS[operation], dots=False) for operation in ("fix", "unfix")]
        panels.append(chart.Panel("remote node over %s" % transport, lines, axis, "us", log=True))
    if panels:
        chart.figure(os.path.join(folder, "buffer-figure-%d.svg" % figure), title,
                     PAPER % (figure, "of each 60 pages 30 are at home and 30 remote; restart after call 300"), panels, columns=2)


if __name__ == "__main__":
    sys.exit(chart.main(__doc__, draw))
