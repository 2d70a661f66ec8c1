# SPDX-License-Identifier: BSD-3-Clause
"""The results of `farbench compare` as a table, JSON, CSV and drawings."""
import csv
import json
import math
import os

import compare_chart as chart
import compare_verbs as verbs
from compare_chart import Drawing
from compare_contest import ALIKE, FLOOR, METRICS, OLD, PEER, RATIOS, Spread


def baselines(row):
    """The baselines of ours: memcached and the floor, or the best proxy (None); then the old build."""
    alike = any(getattr(c, "alike", None) in row.labels for c in row.contestants)
    there = [ALIKE] if alike else [label for label in (PEER, FLOOR) if label in row.labels]
    old = [OLD] if any(label.startswith(OLD) for label in row.labels) else []
    return (there or ([None] if any(not c.ours for c in row.contestants) else [])) + old


def name_of(to):
    return "the old build" if to == OLD else to or "the best peer"


def table(contest):
    lines = []
    for row in contest.measured:
        if not row.rounds:
            continue
        w = row.workload
        lines += ["", "%s: %s, set:get %s, %d connections%s; medians of %d rounds, CPU in us per key" % (
            row.name, w.data.name, w.ratio, w.connections or contest.options.connections,
            ", %.0f keys/s" % w.rate if w.rate else "", len(row.rounds)),
            "  %-40s" % "" + "".join("%11s" % title for _, title, _, _ in row.metrics)]
        for label in row.labels:
            lines.append("  %-40s" % label + "".join(
                "%11s" % number(row.spread(label, key).median, decimals) for key, _, decimals, _ in row.metrics))
        for to in baselines(row):
            lines += ratio_lines(row, to)
    return "\n".join(lines)


def number(x, decimals):
    return "%.*f" % (decimals, x) if math.isfinite(x) else "-"


def ratio_lines(row, to):
    lines = []
    for key, title, _, _ in (m for m in row.metrics if m[0] in row.ratios):
        shown = [(label, row.ratio(label, key, row.peer_of(label, key, to))) for label in row.ours]
        if any(ratio.known for _, ratio in shown):
            lines.append("  ratio of %s to that of %s" % (title, name_of(to) if to else row.best_peer(key)))
            lines += ["    %-38s %11.3f  (%.3f .. %.3f)" % (label, r.median, r.low, r.high) for label, r in shown if r.known]
    return lines


def memory_table(memory):
    """memory: {measure: {label: bytes}}"""
    lines = []
    for what, taken in memory.items():
        lines += ["", "private memory, %s" % what]
        for label, size in taken.items():
            beside = "   %.3f of %s" % (size / taken[PEER], PEER) if taken.get(PEER) and label != PEER else ""
            lines.append("  %-40s %14.1f bytes%s" % (label, size, beside))
    return "\n".join(lines)


def finite(x):
    return x if x is not None and math.isfinite(x) else None


def as_json(contest, memory):
    """An object for each contestant and workload."""
    found, known = [], {m[0] for m in METRICS}
    for row in contest.measured:
        for label in row.labels if row.rounds else []:
            def median(metric):
                return finite(row.spread(label, metric).median)
            one = {"contestant": label, "workload": row.name, "ops_per_s": median("keys_per_s"), "p50_us": median("p50_us"),
                   "p99_us": median("p99_us"), "p999_us": median("p999_us"),
                   "cpu_front_s_per_mop": median("front_cpu_s_per_million"),
                   "cpu_back_s_per_mop": median("back_cpu_s_per_million"),
                   "generator": row.generator.name, "rounds": len(row.rounds)}
            for to in baselines(row):
                beside = {key: row.peer_of(label, key, to) for key in row.ratios}
                if any(beside.values()):
                    one["ratios to " + name_of(to)] = {
                        key: row.ratio(label, key, beside[key]).as_json() for key in row.ratios if beside[key]}
            one.update({key: median(key) for key, _, _, _ in row.metrics if key not in known})
            one.update(verbs.more_for_json(row, label) if row.name in verbs.NAMES else {})
            for what, taken in memory.items():
                if label in taken:
                    one["bytes, " + what] = taken[label]
            found.append(one)
    return found


def write_json(path, contest, memory):
    with open(path, "w") as file:
        json.dump(as_json(contest, memory), file, indent=1)
        file.write("\n")


def write_csv(path, contest):
    with open(path, "w", newline="") as file:
        rows = csv.writer(file)
        keys = list(dict.fromkeys(m[0] for columns in [METRICS] + [row.metrics for row in contest.measured] for m in columns))
        rows.writerow(["workload", "generator", "contestant", "round"] + keys)
        for row in contest.measured:
            for turn, got in enumerate(row.rounds, 1):
                for label in row.labels:
                    rows.writerow([row.workload.name, row.generator.name, label, turn] + [got[label].get(key) for key in keys])


def write_charts(folder, contest, about):
    os.makedirs(folder, exist_ok=True)
    for row in contest.measured:
        if not row.rounds:
            continue
        bars = [chart.Bar(c.label, row.spread(c.label, "front_cpu_s_per_million").median,
                          row.spread(c.label, "back_cpu_s_per_million").median, row.spread(c.label, "cpu_s_per_million"), c.ours)
                for c in row.contestants]
        name = "".join(c if c.isalnum() else "-" for c in row.name)
        while "--" in name:
            name = name.replace("--", "-")
        chart.write(os.path.join(folder, name.strip("-") + ".svg"), "CPU per million keys: %s, set:get %s" % (
            row.name, row.workload.ratio), about, bars)


# -------------------------------------------------------------------------------------------- ratios drawn

WIDTH, LEFT, RIGHT, TOP, ROW, GAP = 940, 330, 90, 70, 17, 30
BETTER, WORSE, UNSURE = "green", "red", "faint"


class Drawn:
    """A ratio with its name."""

    def __init__(self, title, ratio, more_is_better):
        self.title, self.ratio, self.more_is_better = title, ratio, more_is_better

    @property
    def color(self):
        """BETTER or WORSE only if every round agrees."""
        if self.ratio.low > 1.0:
            return BETTER if self.more_is_better else WORSE
        if self.ratio.high < 1.0:
            return WORSE if self.more_is_better else BETTER
        return UNSURE


def groups_of(contest):
    """[(workload and its baseline, [Drawn, ...]), ...]"""
    found = []
    for row in contest.measured:
        for to in baselines(row) if row.rounds else []:
            shown = []
            for label in row.ours:
                for key, title, _, more_is_better in row.metrics:
                    beside = row.peer_of(label, key, to) if key in row.ratios else None
                    ratio = row.ratio(label, key, beside) if beside else Spread([])
                    if ratio.known and ratio.low > 0:
                        shown.append(Drawn("%s, %s" % (label, title), ratio, more_is_better))
            if shown:
                found.append(("%s, to %s" % (row.name, name_of(to)), shown))
    return found


class Axis:
    """Ratios on a logarithmic scale around 1, as wide as the data."""

    def __init__(self, drawn):
        reach = max([abs(math.log2(x)) for d in drawn for x in (d.ratio.low, d.ratio.high)] + [0.5])
        self.reach = min(math.ceil(reach * 2) / 2, 4.0)

    def at(self, ratio):
        place = max(-1.0, min(1.0, math.log2(ratio) / self.reach))
        return LEFT + (WIDTH - LEFT - RIGHT) * (place + 1) / 2

    def ticks(self):
        octaves = [2.0 ** power for power in range(-4, 5)]
        return [t for t in octaves + ([0.67, 0.8, 1.25, 1.5] if self.reach <= 2 else []) if abs(math.log2(t)) <= self.reach + 1e-9]


def draw_row(drawing, d, y, axis):
    drawing.text(LEFT - 10, y + 4, d.title, "end", 11)
    drawing.line(axis.at(d.ratio.low), y, axis.at(d.ratio.high), y, d.color, 2.5)
    drawing.dot(axis.at(d.ratio.median), y, d.color, 4)
    drawing.text(WIDTH - RIGHT + 12, y + 4, "%.3f" % d.ratio.median, size=11, color=d.color)


def write_svg(path, contest, about):
    groups = groups_of(contest)
    axis = Axis([d for _, shown in groups for d in shown])
    height = TOP + sum(GAP + ROW * len(shown) for _, shown in groups) + 56
    drawing = Drawing(WIDTH, height)
    drawing.text(16, 22, "farcached's ratios to its peers", size=15, weight="bold")
    drawing.lines(16, 40, "median and range of the rounds; green: better in every round, red: worse in every round. " + about,
                  WIDTH - 32)
    for tick in axis.ticks():
        x = axis.at(tick)
        drawing.line(x, TOP, x, height - 42, "ink" if tick == 1 else "grid")
        drawing.text(x, height - 26, "%.3g" % tick, "middle", 10)
    drawing.text(axis.at(1), height - 8, "ratio, logarithmic", "middle", 10, color="faint")
    y = TOP
    for name, shown in groups:
        y += GAP
        drawing.text(16, y - 10, name, weight="bold")
        for d in shown:
            draw_row(drawing, d, y + 4, axis)
            y += ROW
    drawing.save(path)
