# SPDX-License-Identifier: BSD-3-Clause
"""The results of bench/compare as a table, JSON, CSV and a drawing.

A ratio is the first server's number by the second's, taken within a round, since what disturbs a machine
disturbs neighbours in time alike; shown are its median over the rounds, its least and its greatest.
"""
import csv
import json
import math
import statistics
from xml.sax.saxutils import escape

# key, title, unit, decimals, is more better?
METRICS = [
    ("keys_per_s", "throughput", "keys/s", 0, True),
    ("p50_us", "p50 latency", "us", 0, False),
    ("p99_us", "p99 latency", "us", 0, False),
    ("p999_us", "p99.9 latency", "us", 0, False),
    ("cpu_s_per_million", "server CPU", "s per million keys", 3, False),
]


class Comparison:
    """All that one metric of one workload (or the memory of one data set) comes to."""

    def __init__(self, metric, first, second):
        self.key, self.title, self.unit, self.decimals, self.more_is_better = metric
        self.first, self.second = first, second
        self.medians = statistics.median(first), statistics.median(second)
        ratios = [a / b for a, b in zip(first, second) if b > 0]
        self.ratio = statistics.median(ratios) if ratios else math.nan
        self.low, self.high = (min(ratios), max(ratios)) if ratios else (math.nan, math.nan)

    def as_json(self):
        ratios = [x if math.isfinite(x) else None for x in (self.ratio, self.low, self.high)]
        return {"metric": self.key, "unit": self.unit, "more_is_better": self.more_is_better,
                "rounds": [self.first, self.second], "medians": list(self.medians), "ratio": ratios[0],
                "ratio_min": ratios[1], "ratio_max": ratios[2]}


def compare_rounds(rounds):
    """rounds: [(measurement of the first, of the second), ...]"""
    return [Comparison(metric, [a[metric[0]] for a, _ in rounds], [b[metric[0]] for _, b in rounds])
            for metric in METRICS]


def compare_memory(first, second):
    return Comparison(("memory", "memory", "bytes of RSS per item", 1, False), [first], [second])


def table(groups, labels):
    """groups: [(title, [Comparison, ...]), ...]"""
    lines = ["%-34s %14s %14s %8s   %s" % ("", labels[0], labels[1], "ratio", "over the rounds")]
    for title, comparisons in groups:
        lines += ["", title]
        for c in comparisons:
            number = "%%14.%df" % c.decimals
            lines.append("  %-32s %s %s %8.3f   %.3f .. %.3f" % (
                "%s, %s" % (c.title, c.unit), number % c.medians[0], number % c.medians[1], c.ratio, c.low, c.high))
    return "\n".join(lines)


def write_json(path, about, groups):
    about = dict(about, results=[{"name": title, "metrics": [c.as_json() for c in comparisons]}
                                 for title, comparisons in groups])
    with open(path, "w") as file:
        json.dump(about, file, indent=1)
        file.write("\n")


def write_csv(path, groups, labels):
    with open(path, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["workload", "metric", "unit"] + list(labels) + ["ratio", "ratio_min", "ratio_max"])
        for title, comparisons in groups:
            for c in comparisons:
                rows.writerow([title, c.key, c.unit, *c.medians, c.ratio, c.low, c.high])


# -------------------------------------------------------------------------------------------- drawing

WIDTH, LEFT, RIGHT, TOP, ROW, GAP = 860, 250, 90, 56, 17, 30
BETTER, WORSE, UNSURE = "#1b7f3b", "#b3261e", "#666666"


class Axis:
    """Ratios on a logarithmic scale around 1, as wide as what there is to show."""

    def __init__(self, comparisons):
        shown = [x for c in comparisons for x in (c.low, c.high) if x > 0 and math.isfinite(x)]
        reach = max([abs(math.log2(x)) for x in shown] + [0.5])
        self.reach = min(math.ceil(reach * 2) / 2, 4.0)

    def at(self, ratio):
        place = max(-1.0, min(1.0, math.log2(ratio) / self.reach))
        return LEFT + (WIDTH - LEFT - RIGHT) * (place + 1) / 2

    def ticks(self):
        return [t for t in (1 / 16, 1 / 8, 0.25, 0.5, 0.67, 0.8, 1, 1.25, 1.5, 2, 4, 8, 16)
                if abs(math.log2(t)) <= self.reach + 1e-9]


def text(x, y, words, anchor="start", size=12, weight="normal", color="#222222"):
    return '<text x="%.1f" y="%.1f" text-anchor="%s" font-size="%d" font-weight="%s" fill="%s">%s</text>' % (
        x, y, anchor, size, weight, color, escape(words))


def line(x1, y1, x2, y2, color, width=1.0):
    return '<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="%.1f"/>' % (
        x1, y1, x2, y2, color, width)


def judge(c):
    """Better or worse only if every round says so."""
    if c.low > 1.0:
        return BETTER if c.more_is_better else WORSE
    if c.high < 1.0:
        return WORSE if c.more_is_better else BETTER
    return UNSURE


def draw_row(c, y, axis):
    color = judge(c)
    parts = [text(LEFT - 10, y + 4, c.title, "end", 11)]
    if math.isfinite(c.ratio) and c.low > 0:
        parts += [line(axis.at(c.low), y, axis.at(c.high), y, color, 2.5),
                  '<circle cx="%.1f" cy="%.1f" r="4" fill="%s"/>' % (axis.at(c.ratio), y, color),
                  text(WIDTH - RIGHT + 12, y + 4, "%.3f" % c.ratio, size=11, color=color)]
    return parts


def write_svg(path, title, groups, labels):
    axis = Axis([c for _, comparisons in groups for c in comparisons])
    height = TOP + sum(GAP + ROW * len(comparisons) for _, comparisons in groups) + 40
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" '
             'font-family="sans-serif">' % (WIDTH, height, WIDTH, height),
             '<rect width="100%" height="100%" fill="white"/>',
             text(16, 22, title, size=15, weight="bold"),
             text(16, 40, "ratio %s / %s: median and range of the rounds; green: better in every round, "
                  "red: worse in every round" % tuple(labels), size=11, color="#555555")]
    for tick in axis.ticks():
        x = axis.at(tick)
        parts += [line(x, TOP, x, height - 26, "#222222" if tick == 1 else "#dddddd"),
                  text(x, height - 10, "%.3g" % tick, "middle", 10)]
    y = TOP
    for name, comparisons in groups:
        y += GAP
        parts.append(text(16, y - 10, name, size=12, weight="bold"))
        for c in comparisons:
            parts += draw_row(c, y + 4, axis)
            y += ROW
    with open(path, "w") as file:
        file.write("\n".join(parts + ["</svg>", ""]))
