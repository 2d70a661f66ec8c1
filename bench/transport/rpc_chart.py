#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Draws the results of farbench transport --rpc in the form of Figures 4 to 10 of RFP.

    bench/transport/rpc_chart.py FOLDER     (that of --csv: reads rpc.csv, writes rpc-figure-4.svg to rpc-figure-10.svg)

Each chart has the rates that the paper states and those of its NIC by the model, the RDMA operations of both ends, and what was
measured. Figure 5 has mean latencies. Lines of dashes are the paper's numbers, which stand at its peaks.
"""
import os
import sys

sys.dont_write_bytecode = True  # leaves an installed folder unchanged
# chart is in the parent folder, or beside this file if installed.
sys.path.append(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
import chart  # noqa: E402

PAPER = "to be compared with Figure %d of Su et al., RFP; a device made in software has no NIC's rates: see the model"
COLORS = {"send": "blue", "write": "orange", "rfp": "green", "auto": "purple"}
CLIENTS, GETS, BYTES = ("clients", "clients, number"), ("get_percent", "GETs, %"), ("value_bytes", "length of values, bytes")
RATES = [  # words of the y axis, unit divided by, (column, label) of measured or modelled numbers, of the paper's
    ("a NIC, million operations/s", 1, ("model_mops", "%s, model"), ("paper_mops", "%s, RFP")),
    ("measured here, thousand operations/s", 1e3, ("ops_per_s", "%s, measured"), None),
    ("RDMA operations for one operation", 1, ("round_trips", "%s, measured"), ("paper_round_trips", "%s, RFP")),
]
LATENCIES = [("mean latency measured here, us", 1, ("mean_us", "%s, measured"), None),
             ("mean latency in RFP, us", 1, None, ("paper_mean_us", "%s, RFP"))]
FIGURES = [  # number, that of its points, title, x, panels
    (4, 4, "Rate by the number of clients", CLIENTS, RATES),
    (5, 4, "Mean latency by the number of clients", CLIENTS, LATENCIES),
    (6, 6, "Rate by the share of GETs", GETS, RATES),
    (7, 7, "Rate by the length of values", BYTES, RATES),
    (8, 8, "Rate by the length of values, READs that hold 128 bytes", BYTES, RATES),
    (9, 9, "Rate by the share of GETs, keys by Zipf 0.99", GETS, RATES),
    (10, 10, "Rate by the share of GETs, lengths as in the trace", GETS, RATES),
]


def number(row, column):
    """None: it is not known."""
    if column == "round_trips":
        parts = [row["operations_in_per_op"], row["operations_out_per_op"]]
        return sum(map(float, parts)) if all(parts) else None
    return float(row[column]) if row[column] else None


def line_of(rows, rpc, x, unit, series, dashes):
    column, label = series
    points = sorted((float(row[x]), number(row, column) / unit, float(row.get(column + "_sd") or 0) / unit)
                    for row in rows if row["rpc"] == rpc and number(row, column) is not None)
    return chart.Line(label % rpc, points, COLORS[rpc], dashes)


def axis(words):
    def made(numbers):
        ticks = sorted(set(numbers))
        return chart.Axis(words, ticks[0], ticks[-1], log=ticks[0] > 0 and ticks[-1] >= 8 * ticks[0], ticks=ticks)
    return made


def panel_of(rows, x, words, unit, ours, paper):
    lines = [line_of(rows, rpc, x[0], unit, series, dashes) for rpc in dict.fromkeys(row["rpc"] for row in rows)
             for series, dashes in ((ours, ""), (paper, "2 4")) if series]
    return chart.Panel("", lines, axis(x[1]), words)


def draw(rows, folder):
    for number_of, points, title, x, panels in FIGURES:
        some = [row for row in rows if int(row["figure"]) == points]
        if some:
            chart.figure(os.path.join(folder, "rpc-figure-%d.svg" % number_of), title, PAPER % number_of,
                         [panel_of(some, x, *panel) for panel in panels], columns=3)


if __name__ == "__main__":
    sys.exit(chart.main(__doc__, draw, "rpc.csv"))
