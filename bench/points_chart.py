# SPDX-License-Identifier: BSD-3-Clause
"""Shared by the chart scripts of farbench's commands: they draw a folder's points.csv with matplotlib."""
import csv
import os
import sys


def main(usage, draw):
    """Calls draw(pyplot, rows, folder) for the folder on the command line; returns the exit status."""
    if len(sys.argv) != 2:
        sys.stderr.write(usage)
        return 64
    folder = sys.argv[1]
    try:
        import matplotlib
    except ImportError:
        sys.stderr.write("no charts: matplotlib is not here (python3-matplotlib)\n")
        return 0
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "farbench"  # the same numbers give the same file
    import matplotlib.pyplot as plt
    with open(os.path.join(folder, "points.csv"), newline="") as file:
        draw(plt, list(csv.DictReader(file)), folder)
    return 0
