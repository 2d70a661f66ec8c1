#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Draws the results of farbench capacity: the throughput of a fleet by the number of its proxies.

    bench/capacity/capacity_chart.py FOLDER     (that of --csv: reads points.csv, writes throughput.svg)

A line for each way of two-sided requests, with a band for the range that the assumed figures of the device leave.
"""
import os
import sys

sys.dont_write_bytecode = True  # leaves an installed folder unchanged
# chart is in the parent folder, or beside this file if installed.
sys.path.append(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
import chart  # noqa: E402

COLORS = {"send": "blue", "write": "orange", "rfp": "green"}
DASHES = {"send": "", "write": "7 4", "rfp": "2 4"}  # lines may lie upon each other


def line_of(rows, rpc):
    points = sorted((int(row["proxies"]), float(row["mops"]), float(row["mops_low"]), float(row["mops_high"]))
                    for row in rows if row["rpc"] == rpc)
    return chart.Line(rpc, [point[:2] for point in points], COLORS[rpc], DASHES[rpc], dots=False,
                      band=[(x, low, high) for x, _, low, high in points])


def axis_of_proxies(numbers):
    return chart.Axis("proxies, number", 0, max(numbers))


def draw(rows, folder):
    first = rows[0]
    words = "a model: %s nodes, %s workers in a proxy, pages of %s, device %s; bands: what is assumed of the device" % (
        first["nodes"], first["workers"], first["pages"], os.path.basename(first["device"]))
    lines = [line_of(rows, rpc) for rpc in dict.fromkeys(row["rpc"] for row in rows)]
    panel = chart.Panel("", lines, axis_of_proxies, "limit of the fleet, million requests/s")
    chart.figure(os.path.join(folder, "throughput.svg"), "Throughput by the number of proxies", words, [panel], columns=1)


sys.exit(chart.main(__doc__, draw))
