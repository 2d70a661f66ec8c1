# SPDX-License-Identifier: BSD-3-Clause
"""The chart of one workload of `farbench compare`: a bar for each contestant, made of the CPU time of front end and back end.

The bar shows the medians of front end and back end. The thin line spans the extremes of their sum over the rounds.
"""
import os
import sys

# chart is in the parent folder, or beside this file if installed.
sys.path.append(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
from chart import Drawing, step_of  # noqa: E402

WIDTH, LEFT, RIGHT, TOP, ROW, BAR, BOTTOM = 860, 310, 70, 100, 34, 18, 40
TICKS_MAX = 8
COLORS = {True: ("blue", "cyan"), False: ("faint", "gray")}  # is it ours?: colours of front end and back end


class Bar:
    """label; seconds of front end and back end; sum: the Spread of their sum; ours: drawn in colour."""

    def __init__(self, label, front, back, total, ours):
        self.label, self.front, self.back, self.total, self.ours = label, front, back, total, ours

    def draw(self, drawing, y, scale):
        front, back = COLORS[self.ours]
        middle = y + BAR / 2
        end = LEFT + scale * max(self.front + self.back, self.total.high)
        drawing.text(LEFT - 10, middle + 4, self.label, "end")
        drawing.rectangle(LEFT, y, scale * self.front, BAR, front)
        drawing.rectangle(LEFT + scale * self.front, y, scale * self.back, BAR, back)
        drawing.line(LEFT + scale * self.total.low, middle, LEFT + scale * self.total.high, middle, "ink", 1.5)
        drawing.text(end + 8, middle + 4, "%.2f" % self.total.median, weight="bold")


def legend(drawing):
    for x, words, color in ((LEFT, "front", COLORS[True][0]), (LEFT + 150, "back, behind a proxy", COLORS[True][1])):
        drawing.rectangle(x, TOP - 36, BAR, BAR, color)
        drawing.text(x + BAR + 6, TOP - 23, words, size=11)
    drawing.line(LEFT + 310, TOP - 27, LEFT + 340, TOP - 27, "ink", 1.5)
    drawing.text(LEFT + 346, TOP - 23, "their sum in the rounds", size=11)


def write(path, title, below, bars):
    most = max(max(bar.front + bar.back, bar.total.high) for bar in bars)
    step = step_of(most, TICKS_MAX)
    scale = (WIDTH - LEFT - RIGHT) / (most or 1)
    height = TOP + ROW * len(bars) + BOTTOM
    drawing = Drawing(WIDTH, height)
    drawing.text(16, 24, title, size=15, weight="bold")
    drawing.lines(16, 42, below, WIDTH - 32)
    legend(drawing)
    for number in range(int(most / step + 1e-9) + 1):
        x = LEFT + scale * step * number
        drawing.line(x, TOP - 6, x, height - BOTTOM + 4, "grid")
        drawing.text(x, height - BOTTOM + 18, "%.3g" % (step * number), "middle", 10)
    for number, bar in enumerate(bars):
        bar.draw(drawing, TOP + ROW * number, scale)
    drawing.text(LEFT, height - 6, "CPU seconds per million keys, user and system", size=10, color="faint")
    drawing.save(path)
